"""Beam search, RSD with several beams and SPECS: runs by hand, the closed forms, selection laws, replays."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from pass_laws import batch_seconds, best_of
from refusals import refused
from scipy import stats
from sim_worlds import drawn_answers, replayed, seconds_per_step

from ledger.specs.exact import selection_law
from sim.algorithms.beams import beam_search, rsd_beams, surveyed_beams
from sim.algorithms.candidates import soft_choice
from sim.algorithms.specs import specs
from sim.answers.drawn import SyntheticBehaviour, TraceBehaviour
from sim.answers.lengths import Lognormal
from sim.answers.traces import AnswerTrace, BeamStepTrace, DraftTrace, StepTrace
from sim.catalogue import method
from sim.engines.batching import BatchEngine
from sim.engines.costs import TableCost
from sim.engines.fixed import FixedEngine
from sim.engines.protocol import Engine
from sim.operations import Algorithm, Generate, Score, Step
from sim.roles import DRAFT, DRAFT_LIKELIHOOD, LIKELIHOOD, RANDOM, REWARD, TARGET
from sim.serving.run import closed_loop
from sim.timeline import Counts
from sim.trial import run_answer, simulate, with_plain
from sim.virtual_clock import Session
from theory.errors import ParameterError
from theory.specs.beams import beam_speedup, rsd_beams_speedup, specs_speedup
from theory.step_methods import any_of

C1, SCORE, LOOK = 0.25, 0.05, 0.03
Make = Callable[[Step], Algorithm]


def engines() -> dict[str, Engine]:
    likelihoods = {LIKELIHOOD: LOOK, DRAFT_LIKELIHOOD: LOOK / 2}
    return {**seconds_per_step(C1, reward=SCORE, **likelihoods)}


def candidate(reward: float, ratio: float = 0.0, **more: object) -> DraftTrace:
    """A step of one token; ``ratio`` is the log of its probabilities under target and draft."""
    scores = {REWARD: reward, LIKELIHOOD: ratio - 1.0, DRAFT_LIKELIHOOD: -1.0}
    return DraftTrace(tokens=1, accepted=False, scores=scores, **more)  # type: ignore[arg-type]


def position(drafts: Sequence[float], targets: Sequence[float] = (0.9, 0.9)) -> BeamStepTrace:
    return BeamStepTrace(
        drafts=tuple(candidate(reward) for reward in drafts), targets=tuple(candidate(reward) for reward in targets)
    )


def run(make: Make, *positions: BeamStepTrace, index: int = 0) -> Session:
    only = StepTrace(draft_tokens=1, target_tokens=1, accepted=True, draft_final=True)
    return run_answer(make, replayed(only, beams=positions).beam_answer(index), engines())


def writers(session: Session) -> str:
    return "".join(one.role[0] for one in session.committed)


def taken(session: Session) -> list[int]:
    """Branches of the steps that stand."""
    by_step = {id(o.result): o.branch for o in session.operations if isinstance(o, Generate)}
    return [by_step[id(step)] for step in session.committed]


# --- by hand


def two(first: float, second: float) -> BeamStepTrace:
    return position((first, second), (first, second))


def test_two_beams_commit_a_step_when_both_share_it() -> None:
    steps = position((0.5,), (0.9, 0.8, 0.1, 0.1))
    session = run(lambda root: beam_search(root, width=2, keep=2), steps, steps, steps)
    # After the first step both candidates go on; of the four after them the best two follow the first one.
    assert taken(session) == [0, 0, 0]
    assert [round(t, 2) for t in session.commit_times] == [2.1, 3.15, 3.15]
    assert Counts.of(session).peak_targets == 4


def test_rsd_falls_back_to_the_target_where_no_draft_is_good_enough() -> None:
    session = run(lambda root: rsd_beams(root, width=2, threshold=0.7), two(0.6, 0.7), two(0.6, 0.69))
    assert writers(session) == "dt"
    assert taken(session) == [1, 1]
    drafts = [o.outcome.value for o in session.operations if isinstance(o, Generate) and o.role == DRAFT]
    assert drafts == ["discarded", "accepted", "rejected", "rejected"]
    assert session.finished == pytest.approx(2 * (C1 + SCORE) + 1.0 + SCORE)


LOW, HIGH = two(0.1, 0.2), two(0.1, 0.9)


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({}, "ttddd"),  # Algorithm 1: never back
        ({"switch": "both-ways"}, "ttdtt"),
        ({"switch": "retry"}, "tdttd"),
        ({"switch": "never"}, "ttttt"),
        ({"switch": "never", "start": DRAFT}, "ddddd"),
        ({"tau": 0.95}, "ttttt"),
    ],
)
def test_specs_switches_as_the_rewards_say(knobs: dict[str, object], expected: str) -> None:
    make = method("specs").build(**{"tau": 0.5, "width": 2, **knobs})
    assert writers(run(make, LOW, HIGH, LOW, LOW, HIGH)) == expected


def test_specs_asks_for_likelihoods_of_drafts_only_and_waits_for_the_slowest() -> None:
    session = run(method("specs").build(width=2, tau=0.5), HIGH, HIGH)
    asked = [(o.role, o.candidate.role) for o in session.operations if isinstance(o, Score) and o.role != RANDOM]
    assert asked[:2] == [(REWARD, TARGET)] * 2
    assert asked[2:] == [(LIKELIHOOD, DRAFT)] * 2 + [(DRAFT_LIKELIHOOD, DRAFT)] * 2 + [(REWARD, DRAFT)] * 2
    assert session.finished == pytest.approx(1.0 + SCORE + C1 + max(SCORE, LOOK))
    blind = run(method("specs-no-likelihood").build(width=2, tau=0.5), HIGH, HIGH)
    assert {o.role for o in blind.operations} == {TARGET, DRAFT, REWARD, RANDOM}


def test_the_likelihood_decides_where_rewards_are_equal() -> None:
    wrong, right = candidate(0.5, -400.0), candidate(0.5, 0.0)
    steps = BeamStepTrace(drafts=(wrong, right), targets=(right,))
    make = method("specs-no-target").build(width=2)
    assert {taken(run(make, steps, index=i))[0] for i in range(20)} == {1}
    blind = method("specs-no-target").build(width=2, likelihood=False)
    assert {taken(run(blind, steps, index=i))[0] for i in range(20)} == {0, 1}


def test_random_switching_draws_a_lot_for_every_step() -> None:
    """A binomial test, two-sided p >= 1e-6."""
    steps = [two(0.5, 0.5)] * 400
    session = run(method("specs-random-switch").build(width=1, share=0.3), *steps)
    by_target = sum(one.role == TARGET for one in session.committed[1:])
    assert stats.binomtest(by_target, len(steps) - 1, 0.3).pvalue >= 1e-6


def test_noise_changes_which_candidate_is_the_best() -> None:
    """The difference of two noisy rewards is normal: P(first wins) = Phi(0.1 / (0.1 sqrt 2)); p >= 1e-6."""
    session = run(lambda root: beam_search(root, width=2, noise=0.1), *[two(0.6, 0.5)] * 600)
    first = sum(branch == 0 for branch in taken(session))
    assert stats.binomtest(first, 600, stats.norm.cdf(1 / math.sqrt(2))).pvalue >= 1e-6
    assert set(taken(run(lambda root: beam_search(root, width=2), *[two(0.6, 0.5)] * 5))) == {0}


def test_a_soft_choice_survives_scores_that_overflow() -> None:
    assert soft_choice([1e6, -1e6], 0.999999) == 0
    assert soft_choice([-1e6, -1e6 + 1.0], 0.9) == 1
    assert soft_choice([3.0], 0.0) == 0


# --- laws of selection


LAW, REWARDS, RATIO = (0.5, 0.3, 0.2), (0.0, 0.5, 1.0), (0.0, 0.7, -0.4)
N_POSITIONS = 1000


def alphabet(n: int) -> list[BeamStepTrace]:
    """Positions whose draft's candidates are drawn independently from three letters, told apart by their lengths."""
    letters = [
        DraftTrace(tokens=1 + i, accepted=False, scores={REWARD: r, LIKELIHOOD: q, DRAFT_LIKELIHOOD: 0.0})
        for i, (r, q) in enumerate(zip(REWARDS, RATIO, strict=True))
    ]
    drawn = np.random.default_rng(5).choice(3, p=LAW, size=(N_POSITIONS, n))
    return [BeamStepTrace(drafts=tuple(letters[i] for i in row), targets=(letters[0],)) for row in drawn.tolist()]


def partial_search(n: int) -> Make:
    return lambda root: beam_search(root, width=n, role=DRAFT)


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (partial_search, lambda n: best_of(LAW, n)),
        (
            lambda n: method("specs-no-target").build(width=n, beta=1.5),
            lambda n: np.array(selection_law(LAW, np.exp(np.array(RATIO) + 1.5 * np.array(REWARDS)), n)),
        ),
        (
            lambda n: method("specs-no-target").build(width=n, beta=1.5, likelihood=False),
            lambda n: np.array(selection_law(LAW, np.exp(1.5 * np.array(REWARDS)), n)),
        ),
    ],
    ids=["hard", "soft", "no-likelihood"],
)
def test_what_is_taken_has_the_law_that_theory_says(
    make: Callable[[int], Make], law: Callable[[int], np.ndarray]
) -> None:
    """A chi-square test of fit for each of 3 cases, p >= 1e-6: false alarm 3e-6."""
    n = 4
    session = run(make(n), *alphabet(n))
    found = np.bincount([step.n_tokens - 1 for step in session.committed], minlength=3)
    assert stats.chisquare(found, N_POSITIONS * law(n) / law(n).sum()).pvalue >= 1e-6


# --- closed forms of time


def answers(alpha: float, n_steps: int = 100) -> SyntheticBehaviour:
    return drawn_answers(10, alpha=alpha, steps=n_steps, seed=17)


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("role", [TARGET, DRAFT])
def test_beam_search_equals_its_closed_form(role: str, keep: int) -> None:
    """No chance enters: candidates take the same time, whichever is taken."""
    session = run_answer(
        lambda root: beam_search(root, width=3, keep=keep, role=role), answers(0.5).answer(0), engines()
    )
    cost = (1.0 if role == TARGET else C1) + SCORE
    assert 100 / (session.finished or 0.0) == pytest.approx(float(beam_speedup(cost)), rel=1e-12)


DRAFT_COST, TARGET_COST = C1 + SCORE, 1.0 + SCORE


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("rsd-beams", {}),
        ("specs", {}),
        ("specs", {"switch": "both-ways"}),
        ("specs-no-target", {}),
        ("specs-random-switch", {"share": 0.3}),
        ("specs-draft-first", {}),
    ],
)
def test_times_agree_with_the_closed_forms_within_standard_errors(name: str, knobs: dict[str, object]) -> None:
    """Answers are independent: mean seconds within 4.5 standard errors (6 cases: false alarm 4e-5)."""
    alpha, width, n_steps, n = 0.3, 3, 20, 60
    make, behaviour = method(name).build(width=width, **knobs), answers(alpha, n_steps)
    seconds = np.array([run_answer(make, behaviour.beam_answer(i), engines()).finished or 0.0 for i in range(n)])
    if name == "rsd-beams":
        expected = n_steps / float(rsd_beams_speedup(alpha, width, DRAFT_COST, TARGET_COST))
    else:
        p = float(any_of(alpha, width))
        defaults = method(name).settings(knobs)
        how = {key: defaults[key] for key in ("switch", "start", "share")}
        expected = n_steps / specs_speedup(n_steps, p, p, TARGET_COST, DRAFT_COST, **how)  # type: ignore[arg-type]
        counts = Counts.of(run_answer(make, behaviour.beam_answer(0), engines()))
        assert counts.targets % width == 0
    margin = 4.5 * seconds.std(ddof=1) / math.sqrt(n)
    assert margin <= 0.1 * expected
    assert abs(seconds.mean() - expected) <= margin + 1e-9


def test_a_batch_that_empties_takes_what_its_closed_form_says() -> None:
    """Lengths of independent candidates; steps are independent too: within 4.5 standard errors, false alarm 2e-5."""
    lengths = Lognormal(mean=9.5, cv=0.8)
    width, tau = 4, (0.01, 0.012, 0.013, 0.0135)
    cost = TableCost(
        batches=(1, 2, 3, 4), seconds=tau, context_s=0.0, prefill_s=0.005, prefill_token_s=0.0, request_s=0.0
    )
    behaviour = drawn_answers(lengths, alpha=0.5, steps=3000, seed=3)
    made = {TARGET: BatchEngine(cost), DRAFT: FixedEngine(0.0), REWARD: FixedEngine(0.0)}
    session = run_answer(lambda root: beam_search(root, width=width), behaviour.beam_answer(0), made)
    seconds = np.diff(session.commit_times, prepend=0.0)
    edges = (np.log(np.arange(1.0, 400.0) + 0.5) - math.log(lengths.mean) + lengths.sigma**2 / 2) / lengths.sigma
    law = np.diff(stats.norm.cdf(edges), prepend=0.0, append=1.0)  # of 1, 2, ... tokens: a length is rounded
    expected = width * 0.005 + batch_seconds([0.0, *law], tau[:width])
    margin = 4.5 * seconds.std(ddof=1) / math.sqrt(seconds.size)
    assert margin <= 0.1 * expected
    assert abs(seconds.mean() - expected) <= margin


# --- replays


def test_a_replay_knows_the_truth_of_what_stands() -> None:
    steps = BeamStepTrace(
        drafts=(candidate(0.2, right=True), candidate(0.9, right=False)), targets=(candidate(0.5, right=True),) * 2
    )
    counts = Counts.of(run(lambda root: beam_search(root, width=2, role=DRAFT), steps, steps))
    assert (counts.false_accepts, counts.wrong_steps, counts.graded_steps) == (2, 2, 2)
    assert Counts.of(run(lambda root: beam_search(root, width=2), steps)).wrong_steps == 0


def test_a_replay_charges_the_scorer_for_what_it_has_not_read() -> None:
    """In the target's cache: what it wrote, and what it has read for a likelihood; two tokens ask for the score."""
    step = DraftTrace(tokens=7, accepted=False, scores={REWARD: 0.9, LIKELIHOOD: -1.0, DRAFT_LIKELIHOOD: -1.0})
    only = StepTrace(draft_tokens=1, target_tokens=1, accepted=True, draft_final=True)
    trace = AnswerTrace(prompt_tokens=5, steps=(only,), beams=(BeamStepTrace(drafts=(step,), targets=(step,)),) * 2)
    read: list[tuple[str, str, int]] = []

    class Reading(FixedEngine):
        def submit(self, operation, n_tokens, n_prompt, context, done):  # type: ignore[no-untyped-def]
            if isinstance(operation, Score):
                read.append((operation.role, operation.candidate.role, n_prompt))
            super().submit(operation, n_tokens, n_prompt, context, done)

    target = Reading(1.0)
    made: dict[str, Engine] = {TARGET: target, DRAFT: FixedEngine(0.1)}
    run_answer(method("specs").build(width=1), TraceBehaviour((trace,)).beam_answer(0), made)
    assert read == [(REWARD, TARGET, 2), (LIKELIHOOD, DRAFT, 7), (REWARD, DRAFT, 2)]
    read.clear()
    run_answer(method("beam-search-draft").build(width=1), TraceBehaviour((trace,)).beam_answer(0), made)
    assert read[1:] == [(REWARD, DRAFT, 9)]


def test_the_survey_asks_everything_of_drafts_and_rewards_of_targets() -> None:
    session = run(lambda root: surveyed_beams(root, width=2), two(0.1, 0.9), two(0.8, 0.2))
    assert writers(session) == "tt"
    assert taken(session) == [1, 0]
    asked = {(o.candidate.role, o.role) for o in session.operations if isinstance(o, Score)}
    assert asked == {(TARGET, REWARD), (DRAFT, REWARD), (DRAFT, LIKELIHOOD), (DRAFT, DRAFT_LIKELIHOOD)}


test_knobs_outside_their_domain_are_named = refused(
    lambda call, position=(0.1, 0.2): run(call, *([two(*position)] if position else [])),
    (lambda root: beam_search(root, width=3), "width=3 must be at most 2, the recorded number of candidates"),
    (lambda root: beam_search(root, width=1), (), "candidates=0 must be recorded"),
    (lambda root: beam_search(root, width=0), "width"),
    (lambda root: beam_search(root, width=1, keep=0), "keep"),
    (lambda root: rsd_beams(root, width=0, threshold=0.5), "width"),
    (lambda root: specs(root, width=1, beta=1.0, tau=0.5, switch="twice"), "switch"),
    (lambda root: specs(root, width=1, beta=1.0, tau=0.5, start="user"), "start"),
)


# --- replays by the two ways to simulate


def recorded() -> TraceBehaviour:
    """Two answers whose course of speculation is nothing like their candidates: steps of 50 tokens against 1 or 3."""
    only = StepTrace(draft_tokens=50, target_tokens=50, accepted=True, draft_final=True)
    steps = tuple(BeamStepTrace(drafts=(candidate(0.9),), targets=(candidate(0.9), candidate(0.1))) for _ in range(6))
    trace = AnswerTrace(prompt_tokens=0, steps=(only,), baseline=(1,) * 6, beams=steps)
    return TraceBehaviour((trace, trace))


@pytest.mark.parametrize(("name", "width"), [("beam-search", 2), ("beam-search-draft", 1), ("rsd-beams", 1)])
def test_replays_meet_the_candidates_however_they_are_simulated(name: str, width: int) -> None:
    make, behaviour = method(name).build(width=width), recorded()
    alone = run_answer(make, behaviour.beam_answer(0), engines()).finished
    assert alone is not None
    trial, plain = with_plain(make, behaviour, engines(), meets="candidates")
    assert simulate(trial, plain, n=2).method.seconds == pytest.approx(alone)
    load = closed_loop(trial, concurrency=2, tokens=24)
    assert load.mean("seconds") == pytest.approx(alone)
    assert load.tokens_per_s == pytest.approx(2 * 6 / alone)


def test_a_replay_of_speculation_refuses_to_score_the_target() -> None:
    def unmarked(root: Step) -> Algorithm:
        return beam_search(root, width=1)

    with pytest.raises(ParameterError, match="has no scores of target steps"):
        simulate(*with_plain(unmarked, recorded(), engines()), n=2)
