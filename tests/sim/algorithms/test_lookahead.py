"""Small runs, worked out by hand and compared as whole lists; a token takes a second, verdicts are free.

The schedules follow Fu et al. 2025, Algorithm 1 and Appendix B, and the authors' released code where a rule says so.
"""

import pytest
from sim_worlds import replayed, scripted, seconds_per_token

from sim.algorithms import PAPER, Rules, autoregressive, lookahead_async, lookahead_sync
from sim.answers.traces import StepTrace
from sim.operations import Algorithm, Generate, Step, Verdict, Verify, prompt
from sim.virtual_clock import Answer, Session, VirtualClock
from theory.errors import ParameterError


def trace_answer(accepted: str, draft: list[int], target: int | list[int] = 10) -> Answer:
    return scripted(accepted, draft, target).answer(0)


def run(algorithm: Algorithm, answer: Answer) -> Session:
    clock = VirtualClock(seconds_per_token())
    session = clock.launch(algorithm, answer)
    clock.run(session)
    return session


def generations(session: Session) -> list[str]:
    return [
        f"{op.role} {op.prefix.depth + 1}{f'.{op.branch}' if op.branch else ''}: "
        f"{op.started:g}-{op.finished:g} {op.outcome}"
        for op in session.operations
        if isinstance(op, Generate)
    ]


def commits(session: Session) -> list[str]:
    return [f"{s.role} {s.depth} at {t:g}" for s, t in zip(session.committed, session.commit_times, strict=True)]


@pytest.mark.parametrize(("slot", "start"), [("commit", 20), ("oldest-target", 17), ("any-target", 7)])
def test_when_a_slot_is_free_again(slot: str, start: float) -> None:
    """Verdicts take 3 s: step 0 is generated at 17 and committed at 20; step 1 is generated at 7."""
    answer = trace_answer("+++", [2, 2, 2], [17, 5, 5])
    slow = VirtualClock(seconds_per_token(judge_s=3.0))
    session = slow.launch(lookahead_async(answer.root, k1=2, rules=Rules(slot=slot)), answer)  # type: ignore[arg-type]
    slow.run(session)
    assert generations(session)[4] == f"target 2: {start:g}-{start + 5:g} reference"


@pytest.mark.parametrize(("winner", "branch"), [("first-verdict", 1), ("first-branch", 0)])
def test_which_of_two_accepted_drafts_is_followed(winner: str, branch: int) -> None:
    """The second draft is written and accepted first."""
    answer = Siblings(1, (12, 3), {(0, 0), (0, 1)})
    session = run(lookahead_async(answer.root, k1=2, width=2, rules=Rules(winner=winner)), answer)  # type: ignore[arg-type]
    drafts = session.operations[1:3]
    assert [op.outcome == "accepted" for op in drafts] == [branch == 0, branch == 1]
    assert commits(session) == [f"draft 0 at {10 if branch else 12}"]


def test_sync_without_barrier_ends_the_cycle_at_the_first_rejection() -> None:
    answer = trace_answer("-++", [2, 2, 2], [4, 10, 3])
    session = run(lookahead_sync(answer.root, k1=3, rules=Rules(barrier=False)), answer)
    assert generations(session)[:5] == [
        "draft 0: 0-2 rejected",
        "draft 1: 2-4 discarded",
        "target 0: 4-8 committed",
        "target 1: 4-8 discarded",
        "target 2: 4-7 discarded",
    ]
    assert commits(session)[0] == "target 0 at 8"
    with_barrier = run(lookahead_sync(answer.root, k1=3), answer)
    assert commits(with_barrier)[0] == "target 0 at 14"


class Siblings:
    """Two drafts per position: lengths by branch, verdicts by (depth, branch)."""

    def __init__(self, n_steps: int, draft: tuple[int, ...], accepted: set[tuple[int, int]]) -> None:
        self.n_steps, self.draft, self.accepted = n_steps, draft, accepted
        self.root = prompt(0)

    def generate(self, operation: Generate) -> Step:
        depth = operation.prefix.depth + 1
        n_tokens = 10 if operation.role == "target" else self.draft[operation.branch]
        return Step(operation.prefix, operation.role, n_tokens, final=depth == self.n_steps - 1)

    def verify(self, operation: Verify) -> Verdict:
        return Verdict((operation.candidate.depth, operation.branch) in self.accepted)

    def judge_tokens(self, operation: Verify) -> int:
        return 0


def test_sync_width_two() -> None:
    answer = Siblings(2, (2, 3), {(0, 1)})
    session = run(lookahead_sync(answer.root, k1=2, width=2), answer)
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
    steps = (StepTrace(draft_tokens=2, target_tokens=10, accepted=False, target_final=True),)
    answer = replayed(*steps).answer(0)
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


def test_a_finished_prompt_needs_no_work() -> None:
    root = Step(None, "user", 3, final=True)
    for make in (autoregressive, lambda r: lookahead_async(r, k1=2), lambda r: lookahead_sync(r, k1=2)):
        session = run(make(root), trace_answer("+", [1]))
        assert (session.operations, session.committed, session.finished) == ([], [], 0.0)


@pytest.mark.parametrize("make", [lookahead_async, lookahead_sync])
@pytest.mark.parametrize(("k1", "width", "message"), [(0, 1, "k1=0"), (True, 1, "k1=True"), (2, 0, "width=0")])
def test_bad_counts_are_refused(make: object, k1: int, width: int, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        next(make(prompt(0), k1=k1, width=width))  # type: ignore[operator]


def test_bad_rules() -> None:
    for name in ("late_draft", "restart", "slot", "winner", "fallback"):
        with pytest.raises(ParameterError, match=f"^{name}='never' must be one of"):
            Rules(**{name: "never"})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="extra_in_flight"):
        Rules(extra_in_flight=-1)
