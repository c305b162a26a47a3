"""Small runs, worked out by hand and compared as whole lists; a token takes a second, verdicts are free.

The schedules follow Fu et al. 2025, Algorithm 1 and Appendix B, and the authors' released code where a rule says so.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from refusals import refused
from sim_worlds import replayed, scripted, seconds_per_token

from sim.algorithms import PAPER, Rules, autoregressive, lookahead_async, lookahead_sync
from sim.answers.traces import DraftTrace, StepTrace
from sim.operations import Algorithm, Generate, Step, prompt
from sim.trial import run_answer
from sim.virtual_clock import Answer, Session, VirtualClock


def run(make: Callable[[Step], Algorithm], answer: Answer, judge_s: float = 0.0) -> Session:
    return run_answer(make, answer, seconds_per_token(judge_s=judge_s))


def generations(session: Session) -> list[str]:
    return [
        f"{op.role} {op.prefix.depth + 1}{f'.{op.branch}' if op.branch else ''}: "
        f"{op.started:g}-{op.finished:g} {op.outcome}"
        for op in session.operations
        if isinstance(op, Generate)
    ]


def commits(session: Session) -> list[str]:
    return [f"{s.role} {s.depth} at {t:g}" for s, t in zip(session.committed, session.commit_times, strict=True)]


def siblings(first: int, second: int, accepted: bool, final: bool) -> StepTrace:
    """Two drafts of so many tokens, of which the second is accepted."""
    other = DraftTrace(tokens=second, accepted=True, final=final)
    return StepTrace(
        draft_tokens=first, target_tokens=10, accepted=accepted, draft_final=final, target_final=final, others=(other,)
    )


@pytest.mark.parametrize(("slot", "start"), [("commit", 20), ("oldest-target", 17), ("any-target", 7)])
def test_when_a_slot_is_free_again(slot: Any, start: float) -> None:
    """Verdicts take 3 s: step 0 is generated at 17 and committed at 20; step 1 is generated at 7."""
    answer = scripted("+++", [2, 2, 2], [17, 5, 5]).answer(0)
    session = run(partial(lookahead_async, k1=2, rules=Rules(slot=slot)), answer, judge_s=3.0)
    assert generations(session)[4] == f"target 2: {start:g}-{start + 5:g} reference"


@pytest.mark.parametrize(("winner", "branch"), [("first-verdict", 1), ("first-branch", 0)])
def test_which_of_two_accepted_drafts_is_followed(winner: Any, branch: int) -> None:
    """The second draft is written and accepted first."""
    answer = replayed(siblings(12, 3, True, final=True)).answer(0)
    session = run(partial(lookahead_async, k1=2, width=2, rules=Rules(winner=winner)), answer)
    drafts = session.operations[1:3]
    assert [op.outcome == "accepted" for op in drafts] == [branch == 0, branch == 1]
    assert commits(session) == [f"draft 0 at {10 if branch else 12}"]


def test_sync_without_barrier_ends_the_cycle_at_the_first_rejection() -> None:
    answer = scripted("-++", [2, 2, 2], [4, 10, 3]).answer(0)
    session = run(partial(lookahead_sync, k1=3, rules=Rules(barrier=False)), answer)
    assert generations(session)[:5] == [
        "draft 0: 0-2 rejected",
        "draft 1: 2-4 discarded",
        "target 0: 4-8 committed",
        "target 1: 4-8 discarded",
        "target 2: 4-7 discarded",
    ]
    assert commits(session)[0] == "target 0 at 8"
    assert commits(run(partial(lookahead_sync, k1=3), answer))[0] == "target 0 at 14"


def test_sync_width_two() -> None:
    answer = replayed(siblings(2, 3, False, final=False), siblings(2, 3, False, final=True)).answer(0)
    session = run(partial(lookahead_sync, k1=2, width=2), answer)
    assert generations(session) == [
        "draft 0: 0-2 rejected",
        "draft 0.1: 0-3 accepted",
        "target 0: 3-13 reference",
        "target 1: 3-13 discarded",
        "target 1: 3-13 committed",
    ]
    assert commits(session) == ["draft 0 at 13", "target 1 at 13"]


@pytest.mark.parametrize(("rules", "end"), [(PAPER, 10), (Rules(cancel_at_end=False), 12)])
def test_speculation_past_the_end(rules: Rules, end: float) -> None:
    answer = replayed(StepTrace(draft_tokens=2, target_tokens=10, accepted=False, target_final=True)).answer(0)
    clock = VirtualClock(seconds_per_token())
    session = clock.launch(lookahead_async(answer.root, k1=2, rules=rules), answer)
    clock.run(session)
    clock.env.run()
    assert generations(session) == [
        "target 0: 0-10 committed",
        "draft 0: 0-2 rejected",
        f"target 1: 2-{end} discarded",
        "draft 1: 2-4 discarded",
    ]
    assert commits(session) == ["target 0 at 10"]


@pytest.mark.parametrize("make", [autoregressive, partial(lookahead_async, k1=2), partial(lookahead_sync, k1=2)])
def test_a_finished_prompt_needs_no_work(make: Callable[[Step], Algorithm]) -> None:
    answer = scripted("+", [1]).answer(0)
    answer.root = Step(None, "user", 3, final=True)
    session = run(make, answer)
    assert (session.operations, session.committed, session.finished) == ([], [], 0.0)


test_bad_counts_and_rules_are_refused = refused(
    lambda call: call(),
    *(
        (partial(lambda make, *at: next(make(prompt(), k1=at[0], width=at[1])), make, k1, width), message)
        for make in (lookahead_async, lookahead_sync)
        for k1, width, message in ((0, 1, "k1=0"), (True, 1, "k1=True"), (2, 0, "width=0"))
    ),
    *(
        (partial(Rules, **{name: "never"}), f"^{name}='never' must be one of")
        for name in ("late_draft", "restart", "slot", "winner", "fallback")
    ),
    (partial(Rules, extra_in_flight=-1), "extra_in_flight"),
)
