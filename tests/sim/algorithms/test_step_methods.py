"""SpecReason, RSD, SpecCoT and ConfSpec: small runs by hand, the closed forms exactly and by chance, and accuracy."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sim_worlds import drawn_answers, replayed, seconds_per_step

from sim.algorithms.checks import CASCADE, Check
from sim.algorithms.confspec import confspec
from sim.algorithms.graded import best_of_drafts, graded_drafts
from sim.algorithms.lookahead_async import lookahead_async
from sim.algorithms.lookahead_sync import lookahead_sync
from sim.algorithms.paired import paired_trajectory
from sim.algorithms.rules import Fallback
from sim.answers.drawn import SyntheticBehaviour, TraceBehaviour
from sim.answers.facts import Quality
from sim.answers.traces import AnswerTrace, DraftTrace, StepTrace
from sim.catalogue import method
from sim.engines.protocol import Engine
from sim.operations import Algorithm, Generate, Outcome, Score, Step, Verify
from sim.roles import CHOOSER, EMBEDDING, EXACT, GATE, JUDGE, REWARD, SCORER
from sim.timeline import Counts
from sim.trial import Trial, run_answer, run_trial, simulate, with_plain
from sim.virtual_clock import Session
from theory.errors import ParameterError
from theory.step_methods import best_of_speedup, confspec_pipeline_speedup, confspec_speedup, graded_speedup

C1, SCORE, GATE_S, JUDGE_S = 0.25, 0.05, 0.01, 0.06
FALLBACKS: Mapping[Fallback, str] = {"none": "printed", "regenerate": "text", "reuse": "reuse"}
ENGINES: Mapping[str, Engine] = seconds_per_step(
    C1, judge_s=JUDGE_S, scorer=SCORE, reward=SCORE, gate=GATE_S, embedding=0.1
)
FREE = seconds_per_step(C1, gate=0.0)
Make = Callable[[Step], Algorithm]


def step(accepted: bool, *, sure: bool = True, final: bool = False, others: str = "", **truth: bool) -> StepTrace:
    """One position with draft and target of one token; the gate agrees with the judge, and is sure of it or not."""
    yes = (1.0 if sure else 0.55) if accepted else (0.0 if sure else 0.45)
    return StepTrace(
        draft_tokens=1,
        target_tokens=1,
        accepted=accepted,
        draft_final=final,
        target_final=final,
        judge_score=float(accepted),
        scores={SCORER: 9.0 if accepted else 0.0, REWARD: float(accepted), GATE: yes, EXACT: float(accepted)},
        others=tuple(other(sign == "+", final) for sign in others),
        draft_right=truth.get("draft_right"),
        target_right=truth.get("target_right"),
    )


def other(accepted: bool, final: bool = False, **scores: float) -> DraftTrace:
    known = {SCORER: 9.0 if accepted else 0.0, GATE: float(accepted), JUDGE: float(accepted)}
    return DraftTrace(tokens=1, accepted=accepted, final=final, scores=scores or known)


def run(make: Make, *steps: StepTrace, corruption: float = 0.0, ends_alone: bool = False) -> Session:
    behaviour = TraceBehaviour((AnswerTrace(prompt_tokens=0, steps=steps),), corruption, ends_alone)
    return run_answer(make, behaviour.answer(0), ENGINES)


def writers(session: Session) -> str:
    return "".join(one.role[0] for one in session.committed)


def drafts(session: Session) -> list[str]:
    """Outcomes of the drafts."""
    return [op.outcome.value for op in session.operations if isinstance(op, Generate) and op.role == "draft"]


@pytest.mark.parametrize(("threshold", "expected"), [(9.0, "dd"), (9.0 + 1e-9, "tt")])
def test_the_threshold_is_compared_with_the_recorded_score(threshold: float, expected: str) -> None:
    make = partial(graded_drafts, threshold=threshold)
    assert writers(run(make, step(True), step(True, final=True))) == expected


@pytest.mark.parametrize(
    ("role", "select", "threshold", "expected"),
    [
        (SCORER, "grades", 7.0, ["discarded", "accepted", "discarded"]),
        (SCORER, "grades", 8.5, ["rejected"] * 3),
        (CHOOSER, "choice", 8.5, ["discarded", "accepted", "discarded"]),
    ],
)
def test_spec_cot_takes_the_best_and_the_first_of_equals(
    role: str, select: Any, threshold: float, expected: list[str]
) -> None:
    others = (other(True, True, **{role: 8.0}),) * 2
    trace = replace(step(False, final=True), scores={role: 7.0}, others=others)
    session = run(partial(best_of_drafts, width=3, threshold=threshold, select=select), trace)
    assert drafts(session) == expected
    written = 1.0 if "accepted" not in expected else 0.0
    assert session.finished == pytest.approx(C1 + (SCORE if select == "grades" else 1.0) + written)


def test_an_unsure_gate_asks_the_judge() -> None:
    steps = (step(True, sure=False), step(False, sure=True, final=True))
    session = run(partial(confspec, k1=1, fallback="reuse"), *steps)
    verdicts = [(op.role, op.outcome.value) for op in session.operations if isinstance(op, Verify)]
    assert verdicts == [("gate", "escalated"), ("judge", "accepted"), ("gate", "rejected")]
    lax = run(partial(confspec, k1=1, fallback="reuse", check=Check(verifier=CASCADE, gamma=0.5)), *steps)
    assert [op.role for op in lax.operations if isinstance(op, Verify)] == ["gate", "gate"]


def test_lookahead_reasoning_with_another_verifier_and_threshold() -> None:
    similar = replace(step(True, final=True), scores={EMBEDDING: 0.85})
    for threshold, expected in ((0.8, "d"), (0.9, "t"), (None, "d")):
        check = Check(verifier=EMBEDDING, threshold=threshold)
        assert writers(run(partial(lookahead_async, k1=2, check=check), similar)) == expected
    bare = replace(similar, judge_score=None)
    with pytest.raises(ParameterError, match=r"verifier='gate' must be one whose scores were recorded \(embedding\)"):
        run(partial(confspec, k1=1), bare)


def test_the_survey_leaves_the_trajectory_as_it_is() -> None:
    steps = (step(True, others="-"), step(False, others="+"), step(True, final=True, others="+"))
    plain = run(paired_trajectory, *steps)
    seen = run(partial(paired_trajectory, drafts=2, verifiers=(GATE,), scorers=(SCORER,)), *steps)
    assert writers(seen) == writers(plain) == "dtd"
    assert sum(isinstance(op, Score) for op in seen.operations) == 6
    n_verdicts = sum(isinstance(op, Verify) for op in seen.operations)
    assert n_verdicts == 3 + 3 * 2 + 3  # per position: the judge; the gate twice; the judge on the other draft


# --- closed forms, exactly: every acceptance pattern of a stage, weighted with its probability


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize(("name", "width"), [("spec-reason", 1), ("rsd", 1), *(("spec-cot", w) for w in (1, 2, 3))])
def test_methods_that_grade_equal_their_closed_forms(name: str, width: int, alpha: float) -> None:
    """A stage is one step."""
    make = method(name).build(**{"width": width} if name == "spec-cot" else {})
    mean = 0.0
    for pattern in product((False, True), repeat=width):
        p = math.prod(alpha if yes else 1.0 - alpha for yes in pattern)
        rest = "".join("+" if yes else "-" for yes in pattern[1:])
        mean += p * (run(make, step(pattern[0], final=True, others=rest)).finished or 0.0)
    best = best_of_speedup(alpha, C1, width, SCORE)
    expected = best if name == "spec-cot" else graded_speedup(alpha, C1, SCORE)
    assert 1.0 / mean == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("fallback", FALLBACKS)
@pytest.mark.parametrize(("alpha", "escalation", "k1"), [(0.7, 0.4, 3), (0.3, 1.0, 2), (1.0, 0.5, 4), (0.0, 0.2, 2)])
def test_confspec_equals_its_closed_form(fallback: Fallback, alpha: float, escalation: float, k1: int) -> None:
    """The first iteration, over every pattern of accepted and escalated drafts; what follows it is cut off."""
    steps = seconds = 0.0
    for pattern in product(product((True, False), repeat=2), repeat=k1):
        p = math.prod(
            (alpha if yes else 1.0 - alpha) * (1.0 - escalation if sure else escalation) for yes, sure in pattern
        )
        if p == 0.0:
            continue
        traces = [*(step(yes, sure=sure, others="+") for yes, sure in pattern), step(True), step(True, final=True)]
        session = run(partial(confspec, k1=k1, fallback=fallback), *traces)
        end = session.commit_times[0]
        seconds += p * end
        steps += p * session.commit_times.count(end)
    costs: dict[str, Any] = {"gate_cost": GATE_S, "judge_cost": JUDGE_S, "escalation": escalation}
    closed = confspec_speedup(alpha, C1, k1, fallback=FALLBACKS[fallback], **costs)
    assert steps / seconds == pytest.approx(float(closed), rel=1e-12)


def run_stage(n_accepted: int) -> float:
    """Seconds of a stage of Lookahead Reasoning, by its own generator and the judge's verdicts."""
    steps = (*[step(True)] * n_accepted, step(False, final=True))
    session = run_answer(partial(lookahead_async, k1=3), replayed(*steps).answer(0), FREE)
    assert session.finished is not None
    return session.finished


@pytest.mark.parametrize("fallback", FALLBACKS)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_the_pipeline_equals_its_closed_form(fallback: Any, alpha: float) -> None:
    """Stages by their number of accepted drafts; every k1 = 3 more of them take a target step more."""
    first = [run_stage(x) for x in range(9)]
    assert first[6:] == pytest.approx([s + 1.0 for s in first[3:6]], rel=1e-12)
    steps = seconds = 0.0
    for x in range(400):
        alone = fallback == "none"
        anew = x == 0 if alone else fallback == "regenerate"
        p = (1.0 - alpha) * alpha**x
        steps += p * (x + (not alone or anew))
        seconds += p * ((first[x] if x < 6 else first[3 + x % 3] + x // 3 - 1) + anew)
    closed: Any = confspec_pipeline_speedup(alpha, C1, 3, fallback=FALLBACKS[fallback])  # type: ignore[arg-type]
    assert steps / seconds == pytest.approx(float(closed), rel=1e-12)


@pytest.mark.parametrize("n_accepted", [0, 1, 4, 7])
def test_fallbacks_of_the_pipeline(n_accepted: int) -> None:
    """After some accepted drafts a rejection, at the end of the answer; the position's other draft passes or not."""

    def seconds(fallback: str | None, others: str = "-") -> float:
        steps = [*[step(True)] * n_accepted, step(False, others=others, final=True)]
        make = method("confspec").build(k1=3, fallback=fallback)
        session = run_answer(make, replayed(*steps).answer(0), FREE)
        assert writers(session)[-1] == ("d" if fallback == "none" and others == "+" and n_accepted else "t")
        assert session.finished is not None
        return session.finished

    plain = seconds(None)
    assert plain == seconds("reuse") == run_stage(n_accepted)
    assert seconds("regenerate") == pytest.approx(plain + 1.0, rel=1e-12)
    drafted_again = 1.0 if n_accepted else 0.0
    assert seconds("none") == pytest.approx(plain + drafted_again + 1.0, rel=1e-12)
    assert seconds("none", others="+") == pytest.approx(plain + 1.0, rel=1e-12)


def test_the_pipeline_follows_the_most_confident_draft() -> None:
    """Equation 5: the first draft passes too, and its verdict comes no later."""
    surer = other(True, True, **{GATE: 0.99, JUDGE: 1.0})
    both = replace(step(True, final=True), scores={GATE: 0.92}, others=(surer,))
    assert drafts(run(method("confspec").build(k1=2, width=2), both)) == ["discarded", "accepted"]


# --- closed forms, by chance: long answers of the simulator


def long_answers(n_steps: int = 200, **quality: float) -> SyntheticBehaviour:
    return drawn_answers(10, alpha=0.7, steps=n_steps, quality=Quality(**quality), seed=11)


@pytest.mark.parametrize("fallback", FALLBACKS)
def test_long_answers_with_two_drafts_agree_with_the_closed_form(fallback: Fallback) -> None:
    """Within 4.5 standard errors (3 cases: false alarm 2e-5), and half an iteration at the end of 200 steps."""
    make = method("confspec").build(k1=3, width=2, schedule="algorithm-1", fallback=fallback)
    found = simulate(*with_plain(make, long_answers(escalation=0.3), ENGINES), n=16).speedup
    costs = {"gate_cost": GATE_S, "judge_cost": JUDGE_S, "escalation": 0.3, "width": 2}
    expected = float(confspec_speedup(0.7, C1, 3, fallback=FALLBACKS[fallback], **costs))  # type: ignore[arg-type]
    end_effect = 0.5 * 3 / 200 * expected
    assert abs(found.value - expected) <= 4.5 * found.stderr + end_effect
    assert 4.5 * found.stderr <= 0.05 * found.value  # or the comparison would see nothing


def test_false_accepts_and_corruption_agree_with_the_closed_forms() -> None:
    """Three means over independent answers within 4.5 standard errors: false alarm 2e-5 each."""
    n_steps, n, wrong, wrong_target, corruption = 12, 1000, 0.1, 0.02, 0.6
    behaviour = long_answers(n_steps, wrong_accepted=wrong, wrong_target=wrong_target, corruption=corruption)
    make = method("spec-reason").build()
    counts = run_trial(Trial.of(make, behaviour, ENGINES), range(n)).counts
    right = 1.0 - 0.7 * wrong - 0.3 * wrong_target
    accepted = sum(0.7 * (1.0 - corruption * (1.0 - right**i)) for i in range(n_steps))  # after i steps that stand
    compared = {
        "false_accepts": (wrong * accepted, [c.false_accepts for c in counts]),
        "accepted": (accepted, [c.accepted for c in counts]),
        "clean": (right**n_steps, [c.wrong_steps == 0 for c in counts]),
    }
    for name, (value, samples) in compared.items():
        margin = 4.5 * np.std(samples, ddof=1) / math.sqrt(n)
        assert margin <= 0.2 * value
        assert abs(np.mean(samples) - value) <= margin, name


def test_gate_errors_and_escalations_come_at_their_rates() -> None:
    """Binomial tests, two-sided p >= 1e-6 each."""
    behaviour = long_answers(2000, escalation=0.3, gate_error=0.1)
    session = run_answer(partial(paired_trajectory, verifiers=(GATE,)), behaviour.answer(0), ENGINES)
    judged, gated = (
        [op.result for op in session.operations if isinstance(op, Verify) and op.role == role] for role in (JUDGE, GATE)
    )
    pairs = list(zip(judged, gated, strict=True))
    unsure = sum(gate.score == 0.5 for _, gate in pairs)
    errors = sum(judge.accepted != gate.accepted for judge, gate in pairs if gate.score != 0.5)
    assert stats.binomtest(unsure, len(pairs), 0.3).pvalue >= 1e-6
    assert stats.binomtest(errors, len(pairs) - unsure, 0.1).pvalue >= 1e-6


@pytest.mark.parametrize("threshold", [0.2, 0.9])
def test_chance_accepts_at_its_threshold(threshold: float) -> None:
    make = method("lr-sync").build(k1=2, verifier="random", threshold=threshold)
    counts = Counts.of(run_answer(make, long_answers(3000, escalation=0.3).answer(0), ENGINES))
    judged = counts.accepted + counts.rejected
    assert stats.binomtest(counts.accepted, judged, 1.0 - threshold).pvalue >= 1e-6


# --- accuracy of replays

LAST = step(True, draft_right=True, target_right=True, final=True)
GOOD, REFUSED = (step(accepted, draft_right=True, target_right=True) for accepted in (True, False))
TOOK_WRONG = step(True, draft_right=False, target_right=True)
LEFT_WRONG = replace(TOOK_WRONG, accepted=False)
"""The draft is wrong; the recording committed it, or the target's right step in its place."""
ENDED = replace(step(True), accepted=False, target_final=True)
"""The target's last step ended the recorded answer, the draft's did not."""
LOW = replace(ENDED, scores={SCORER: 3.0, REWARD: 0.0})


@pytest.mark.parametrize("name", ["spec-reason", "rsd"])
@pytest.mark.parametrize(
    ("steps", "how", "expected"),
    [
        pytest.param((LEFT_WRONG, GOOD, LAST), {"corruption": 1.0}, "dtt", id="what follows is refused"),
        pytest.param((LEFT_WRONG, GOOD, LAST), {}, "ddd", id="or not"),
        pytest.param((TOOK_WRONG, GOOD, LAST), {"corruption": 1.0}, "ddd", id="recorded verdicts hold already"),
        pytest.param((LEFT_WRONG, REFUSED, LAST), {"corruption": -1.0}, "ddd", id="nonsense pleases"),
        pytest.param((LEFT_WRONG, REFUSED, LAST), {}, "dtd", id="nonsense does not please"),
        pytest.param((REFUSED, LEFT_WRONG, LAST), {"corruption": -1.0}, "tdd", id="nonsense pleases only after it"),
        pytest.param((GOOD, ENDED), {}, "ddt", id="the target ends the answer"),
        pytest.param((GOOD, ENDED), {"ends_alone": True}, "ddd", id="a draft ends it, scored as the last"),
        pytest.param((GOOD, LOW), {"ends_alone": True}, "dt", id="a low score leaves that to the target"),
    ],
)
def test_a_replay_leaves_its_recording(name: str, steps: tuple[StepTrace, ...], how: Any, expected: str) -> None:
    """A wrong step that the recording did not commit changes the verdicts after it; an answer may end later."""
    assert writers(run(method(name).build(), *steps, **how)) == expected


def test_a_corruption_beyond_all_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"corruption=-1.5 must be in \[-1, 1\]"):
        run(paired_trajectory, GOOD, LAST, corruption=-1.5)


def test_counts_know_the_truth_of_what_stands() -> None:
    session = run(method("spec-reason").build(), TOOK_WRONG, step(False, draft_right=True, target_right=False), LAST)
    counts = Counts.of(session)
    assert (counts.graded_steps, counts.false_accepts, counts.wrong_steps) == (3, 1, 2)
    assert [repr(one.payload) for one in session.committed] == ["wrong, corrupted"] * 2 + ["right, corrupted"]


@pytest.mark.parametrize("make", [lookahead_async, lookahead_sync])
def test_lookahead_reasoning_with_a_cascade(make: Callable[..., Algorithm]) -> None:
    steps = (step(True, sure=False), step(True), step(False, sure=False, final=True))
    session = run(partial(make, k1=4, check=Check(verifier=CASCADE, gamma=0.9)), *steps)
    assert writers(session) == "ddt"
    escalated = [op.candidate.depth for op in session.operations if op.outcome is Outcome.ESCALATED]
    assert escalated == [0, 2]
