"""SpecReason, RSD, SpecCoT and ConfSpec: small runs by hand, the closed forms exactly and by chance, and accuracy."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

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
from sim.answers.facts import Facts, Quality
from sim.answers.traces import AnswerTrace, DraftTrace, StepTrace
from sim.catalogue import method
from sim.engines.fixed import FixedEngine
from sim.engines.protocol import Engine
from sim.operations import Algorithm, Generate, Outcome, Score, Step, Verify
from sim.roles import EXACT, GATE, JUDGE, REWARD, SCORER
from sim.timeline import Counts
from sim.trial import run_answer, simulate, with_plain
from sim.virtual_clock import Session
from theory.errors import ParameterError
from theory.step_methods import best_of_speedup, confspec_pipeline_speedup, confspec_speedup, graded_speedup

C1, SCORE, GATE_S, JUDGE_S = 0.25, 0.05, 0.01, 0.06
FALLBACKS: Mapping[Fallback, str] = {"none": "printed", "regenerate": "text", "reuse": "reuse"}
Make = Callable[[Step], Algorithm]


def engines() -> dict[str, Engine]:
    return {**seconds_per_step(C1, judge_s=JUDGE_S, scorer=SCORE, reward=SCORE, gate=GATE_S)}


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


def other(accepted: bool, final: bool = False, grade: float | None = None) -> DraftTrace:
    score = (9.0 if accepted else 0.0) if grade is None else grade
    scores = {SCORER: score, GATE: float(accepted), JUDGE: float(accepted)}
    return DraftTrace(tokens=1, accepted=accepted, final=final, scores=scores)


def run(make: Make, *steps: StepTrace, corruption: float = 0.0, ends_alone: bool = False) -> Session:
    behaviour = TraceBehaviour((AnswerTrace(prompt_tokens=0, steps=steps),), corruption, ends_alone)
    return run_answer(make, behaviour.answer(0), engines())


def writers(session: Session) -> str:
    return "".join(one.role[0] for one in session.committed)


def test_the_threshold_is_compared_with_the_recorded_score() -> None:
    steps = (step(True), step(True, final=True))
    assert writers(run(lambda root: graded_drafts(root, threshold=9.0), *steps)) == "dd"
    assert writers(run(lambda root: graded_drafts(root, threshold=9.0 + 1e-9), *steps)) == "tt"


def test_spec_cot_takes_the_best_grade_and_the_first_of_equals() -> None:
    drafts = (other(True, True, 8.0), other(True, True, 8.0))
    graded = replace(step(False, final=True), scores={SCORER: 7.0}, others=drafts)
    session = run(lambda root: best_of_drafts(root, width=3, threshold=7.0), graded)
    drafts = [op for op in session.operations if isinstance(op, Generate)]
    assert [op.outcome.value for op in drafts] == ["discarded", "accepted", "discarded"]
    assert session.finished == pytest.approx(C1 + SCORE)
    refused = run(lambda root: best_of_drafts(root, width=3, threshold=8.5), graded)
    assert writers(refused) == "t"
    chosen = run(lambda root: best_of_drafts(root, width=3, threshold=7.0, select="choice"), graded_choice(graded))
    assert [op.outcome.value for op in chosen.operations][:4] == ["discarded", "accepted", "discarded", "accepted"]


def graded_choice(trace: StepTrace) -> StepTrace:
    """The same drafts as a chooser would score them."""
    others = tuple(replace(draft, scores={"chooser": draft.scores[SCORER]}) for draft in trace.others)
    return replace(trace, scores={"chooser": trace.scores[SCORER]}, others=others)


def test_an_unsure_gate_asks_the_judge() -> None:
    steps = (step(True, sure=False), step(False, sure=True, final=True))
    session = run(lambda root: confspec(root, k1=1, fallback="reuse"), *steps)
    verdicts = [(op.role, op.outcome.value) for op in session.operations if isinstance(op, Verify)]
    assert verdicts == [("gate", "escalated"), ("judge", "accepted"), ("gate", "rejected")]
    lax = run(lambda root: confspec(root, k1=1, fallback="reuse", check=Check(verifier=CASCADE, gamma=0.5)), *steps)
    assert [op.role for op in lax.operations if isinstance(op, Verify)] == ["gate", "gate"]


def test_lookahead_reasoning_with_another_verifier_and_threshold() -> None:
    half = StepTrace(draft_tokens=1, target_tokens=1, accepted=True, draft_final=True, target_final=True)
    similar = replayed(with_scores(half, embedding=0.85))
    for threshold, expected in ((0.8, "d"), (0.9, "t"), (None, "d")):
        check = Check(verifier="embedding", threshold=threshold)
        session = run_answer(
            lambda root, c=check: lookahead_async(root, k1=2, check=c),  # type: ignore[misc]
            similar.answer(0),
            {**engines(), "embedding": FixedEngine(0.1)},
        )
        assert writers(session) == expected


def with_scores(trace: StepTrace, **scores: float) -> StepTrace:
    return replace(trace, scores=scores)


def test_a_verifier_that_was_not_recorded_is_named() -> None:
    bare = StepTrace(draft_tokens=1, target_tokens=1, accepted=True, draft_final=True, target_final=True)
    with pytest.raises(ParameterError, match=r"verifier='gate' must be one whose scores were recorded \(embedding\)"):
        run(lambda root: confspec(root, k1=1), with_scores(bare, embedding=0.5))


def test_the_survey_leaves_the_trajectory_as_it_is() -> None:
    steps = (step(True, others="-"), step(False, others="+"), step(True, final=True, others="+"))
    plain = run(paired_trajectory, *steps)
    seen = run(lambda r: paired_trajectory(r, drafts=2, verifiers=(GATE,), scorers=(SCORER,)), *steps)
    assert writers(seen) == writers(plain) == "dtd"
    assert sum(isinstance(op, Score) for op in seen.operations) == 6
    n_verdicts = sum(isinstance(op, Verify) for op in seen.operations)
    assert n_verdicts == 3 + 3 * 2 + 3  # per position: the judge; the gate twice; the judge on the other draft


# --- closed forms, exactly: every acceptance pattern of a stage, weighted with its probability


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("name", ["spec-reason", "rsd"])
def test_graded_methods_equal_their_closed_form(name: str, alpha: float) -> None:
    """A stage is one step: its seconds are simulated once accepted and once rejected."""
    make = method(name).build()
    seconds = [run(make, step(accepted, final=True)).finished or 0.0 for accepted in (False, True)]
    mean = (1.0 - alpha) * seconds[0] + alpha * seconds[1]
    assert 1.0 / mean == pytest.approx(float(graded_speedup(alpha, C1, SCORE)), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_spec_cot_equals_its_closed_form(alpha: float, width: int) -> None:
    make = method("spec-cot").build(width=width)
    mean = 0.0
    for pattern in product((False, True), repeat=width):
        p = math.prod(alpha if yes else 1.0 - alpha for yes in pattern)
        first, rest = pattern[0], "".join("+" if yes else "-" for yes in pattern[1:])
        mean += p * (run(make, step(first, final=True, others=rest)).finished or 0.0)
    assert 1.0 / mean == pytest.approx(float(best_of_speedup(alpha, C1, width, SCORE)), rel=1e-12)


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
        session = run(lambda root: confspec(root, k1=k1, fallback=fallback), *traces)
        end = session.commit_times[0]
        seconds += p * end
        steps += p * session.commit_times.count(end)
    closed = confspec_speedup(
        alpha,
        C1,
        k1,
        fallback=FALLBACKS[fallback],  # type: ignore[arg-type]
        gate_cost=GATE_S,
        judge_cost=JUDGE_S,
        escalation=escalation,
    )
    assert steps / seconds == pytest.approx(float(closed), rel=1e-12)


@pytest.mark.parametrize("fallback", FALLBACKS)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_the_pipeline_equals_its_closed_form(fallback: Fallback, alpha: float) -> None:
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
    closed = confspec_pipeline_speedup(alpha, C1, 3, fallback=FALLBACKS[fallback])  # type: ignore[arg-type]
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


FREE = seconds_per_step(C1, gate=0.0)


def run_stage(n_accepted: int) -> float:
    """Seconds of a stage of Lookahead Reasoning, by its own generator and the judge's verdicts."""
    steps = (*[step(True)] * n_accepted, step(False, final=True))
    session = run_answer(lambda root: lookahead_async(root, k1=3), replayed(*steps).answer(0), FREE)
    assert session.finished is not None
    return session.finished


def test_the_pipeline_follows_the_most_confident_draft() -> None:
    """Equation 5: the first draft passes too, and its verdict comes no later."""
    scores = {GATE: 0.92, JUDGE: 1.0}
    surer = DraftTrace(tokens=1, accepted=True, final=True, scores={**scores, GATE: 0.99})
    both = replace(step(True, final=True), scores=scores, others=(surer,))
    session = run(method("confspec").build(k1=2, width=2), both)
    drafts = [op for op in session.operations if isinstance(op, Generate) and op.role == "draft"]
    assert [op.outcome.value for op in drafts] == ["discarded", "accepted"]


# --- closed forms, by chance: long answers of the simulator


def long_answers(quality: Quality | None = None, n_steps: int = 200, alpha: float = 0.7) -> SyntheticBehaviour:
    return drawn_answers(
        10, alpha=alpha, steps=n_steps, quality=quality if quality is not None else Quality(escalation=0.3), seed=11
    )


@pytest.mark.parametrize("fallback", FALLBACKS)
def test_long_answers_with_two_drafts_agree_with_the_closed_form(fallback: Fallback) -> None:
    """Within 4.5 standard errors (3 cases: false alarm 2e-5), and half an iteration at the end of 200 steps."""
    make = method("confspec").build(k1=3, width=2, schedule="algorithm-1", fallback=fallback)
    found = simulate(*with_plain(make, long_answers(), engines()), n=16).speedup
    costs = {"gate_cost": GATE_S, "judge_cost": JUDGE_S, "escalation": 0.3, "width": 2}
    expected = float(confspec_speedup(0.7, C1, 3, fallback=FALLBACKS[fallback], **costs))  # type: ignore[arg-type]
    end_effect = 0.5 * 3 / 200 * expected
    assert abs(found.value - expected) <= 4.5 * found.stderr + end_effect
    assert 4.5 * found.stderr <= 0.05 * found.value  # or the comparison would see nothing


def test_false_accepts_and_corruption_agree_with_the_closed_forms() -> None:
    """Three means over independent answers within 4.5 standard errors: false alarm 2e-5 each."""
    n_steps, n, wrong, wrong_target, corruption = 12, 1000, 0.1, 0.02, 0.6
    quality = Quality(wrong_accepted=wrong, wrong_target=wrong_target, corruption=corruption)
    behaviour = long_answers(quality, n_steps)
    make = method("spec-reason").build()
    counts = [Counts.of(run_answer(make, behaviour.answer(i), engines())) for i in range(n)]
    right = 1.0 - 0.7 * wrong - 0.3 * wrong_target
    accepted = sum(0.7 * (1.0 - corruption * (1.0 - right**i)) for i in range(n_steps))  # after i steps that stand
    expected = {"false_accepts": wrong * accepted, "accepted": accepted, "clean": right**n_steps}
    found = {
        "false_accepts": np.array([c.false_accepts for c in counts], dtype=float),
        "accepted": np.array([c.accepted for c in counts], dtype=float),
        "clean": np.array([c.wrong_steps == 0 for c in counts], dtype=float),
    }
    for name, value in expected.items():
        margin = 4.5 * found[name].std(ddof=1) / math.sqrt(n)
        assert margin <= 0.2 * float(value)
        assert abs(found[name].mean() - float(value)) <= margin, name


def test_gate_errors_and_escalations_come_at_their_rates() -> None:
    """Binomial tests, two-sided p >= 1e-6 each."""
    quality = Quality(escalation=0.3, gate_error=0.1)
    behaviour = long_answers(quality, 2000)
    session = run_answer(lambda r: paired_trajectory(r, verifiers=(GATE,)), behaviour.answer(0), engines())
    verdicts = {
        role: [op.result for op in session.operations if isinstance(op, Verify) and op.role == role]
        for role in (JUDGE, GATE)
    }
    pairs = list(zip(verdicts[JUDGE], verdicts[GATE], strict=True))
    unsure = sum(gate.score == 0.5 for _, gate in pairs)
    errors = sum(judge.accepted != gate.accepted for judge, gate in pairs if gate.score != 0.5)
    assert stats.binomtest(unsure, len(pairs), 0.3).pvalue >= 1e-6
    assert stats.binomtest(errors, len(pairs) - unsure, 0.1).pvalue >= 1e-6


# --- accuracy of replays


def test_a_false_accept_corrupts_what_follows_it() -> None:
    wrong = step(True, draft_right=False, target_right=True)
    right = step(True, draft_right=True, target_right=True)
    last = step(True, draft_right=True, target_right=True, final=True)
    # The recording committed a right step, so nothing in it was corrupted; the replay accepts a wrong one.
    recorded = replace(wrong, accepted=False)
    make = method("spec-reason").build()
    assert writers(run(make, recorded, right, last, corruption=1.0)) == "dtt"
    assert writers(run(make, recorded, right, last, corruption=0.0)) == "ddd"
    # Where the recording itself was corrupted, its verdicts hold already.
    assert writers(run(make, wrong, right, last, corruption=1.0)) == "ddd"


def test_a_context_that_makes_no_sense_may_please_a_scorer() -> None:
    """A negative corruption: what would have been refused is accepted after a wrong step, and only there."""
    wrong = replace(step(True, draft_right=False, target_right=True), accepted=False)
    refused = step(False, draft_right=True, target_right=True)
    last = step(True, draft_right=True, target_right=True, final=True)
    for name in ("spec-reason", "rsd"):
        make = method(name).build()
        assert writers(run(make, wrong, refused, last, corruption=-1.0)) == "ddd"
        assert writers(run(make, wrong, refused, last, corruption=0.0)) == "dtd"
        assert writers(run(make, refused, wrong, last, corruption=-1.0)) == "tdd"
    with pytest.raises(ParameterError, match=r"corruption=-1.5 must be in \[-1, 1\]"):
        run(make, wrong, last, corruption=-1.5)


def test_a_draft_that_stands_on_a_score_ends_an_answer_by_itself() -> None:
    """The target's last step ended the recorded answer, the draft's did not: it writes one more, scored as that one."""
    scored = step(True)
    last = replace(scored, accepted=False, target_final=True)
    grade, reward = method("spec-reason").build(), method("rsd").build()
    for make in (grade, reward):
        assert writers(run(make, scored, last)) == "ddt"
        assert writers(run(make, scored, last, ends_alone=True)) == "ddd"
    low = replace(last, scores={SCORER: 3.0, REWARD: 0.0})
    assert writers(run(grade, scored, low, ends_alone=True)) == "dt"


def test_counts_know_the_truth_of_what_stands() -> None:
    steps = (
        step(True, draft_right=False, target_right=True),
        step(False, draft_right=True, target_right=False),
        step(True, draft_right=True, target_right=True, final=True),
    )
    session = run(method("spec-reason").build(), *steps)
    counts = Counts.of(session)
    assert (counts.graded_steps, counts.false_accepts, counts.wrong_steps) == (3, 1, 2)
    assert [repr(one.payload) for one in session.committed] == ["wrong, corrupted"] * 2 + ["right, corrupted"]
    assert isinstance(session.committed[0].payload, Facts)


def test_chance_accepts_at_its_threshold() -> None:
    behaviour = long_answers(n_steps=3000)
    for threshold in (0.2, 0.9):
        make = method("lr-sync").build(k1=2, verifier="random", threshold=threshold)
        counts = Counts.of(run_answer(make, behaviour.answer(0), engines()))
        judged = counts.accepted + counts.rejected
        assert stats.binomtest(counts.accepted, judged, 1.0 - threshold).pvalue >= 1e-6


@pytest.mark.parametrize("make", [lookahead_async, lookahead_sync])
def test_lookahead_reasoning_with_a_cascade(make: Callable[..., Algorithm]) -> None:
    steps = (step(True, sure=False), step(True), step(False, sure=False, final=True))
    session = run(lambda root: make(root, k1=4, check=Check(verifier=CASCADE, gamma=0.9)), *steps)
    assert writers(session) == "ddt"
    escalated = [op.candidate.depth for op in session.operations if op.outcome is Outcome.ESCALATED]
    assert escalated == [0, 2]
