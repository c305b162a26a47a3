"""Beam search, RSD with several beams and SPECS: runs by hand, the closed forms, selection laws, replays."""

import math
from collections.abc import Callable, Sequence
from functools import partial

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
from sim.answers.drawn import TraceBehaviour
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
from theory.specs.beams import beam_speedup

C1, SCORE, LOOK = 0.25, 0.05, 0.03
DRAFT_COST, TARGET_COST = C1 + SCORE, 1.0 + SCORE
ENGINES: dict[str, Engine] = {**seconds_per_step(C1, reward=SCORE, **{LIKELIHOOD: LOOK, DRAFT_LIKELIHOOD: LOOK / 2})}
ONLY = StepTrace(draft_tokens=1, target_tokens=1, accepted=True, draft_final=True)
Make = Callable[[Step], Algorithm]


def candidate(reward: float, ratio: float = 0.0, tokens: int = 1, right: bool | None = None) -> DraftTrace:
    """A candidate; ``ratio`` is the log of its probabilities under target and draft."""
    scores = {REWARD: reward, LIKELIHOOD: ratio - 1.0, DRAFT_LIKELIHOOD: -1.0}
    return DraftTrace(tokens=tokens, accepted=False, scores=scores, right=right)


def position(drafts: Sequence[float], targets: Sequence[float]) -> BeamStepTrace:
    return BeamStepTrace(drafts=tuple(map(candidate, drafts)), targets=tuple(map(candidate, targets)))


def two(first: float, second: float) -> BeamStepTrace:
    return position((first, second), (first, second))


def run(make: Make, *positions: BeamStepTrace, index: int = 0) -> Session:
    return run_answer(make, replayed(ONLY, beams=positions).beam_answer(index), ENGINES)


def writers(session: Session) -> str:
    return "".join(one.role[0] for one in session.committed)


def taken(session: Session) -> list[int]:
    """Branches of the steps that stand."""
    by_step = {id(o.result): o.branch for o in session.operations if isinstance(o, Generate)}
    return [by_step[id(step)] for step in session.committed]


# --- by hand


def test_two_beams_commit_a_step_when_both_share_it() -> None:
    steps = position((0.5,), (0.9, 0.8, 0.1, 0.1))
    session = run(partial(beam_search, width=2, keep=2), steps, steps, steps)
    # After the first step both candidates go on; of the four after them the best two follow the first one.
    assert taken(session) == [0, 0, 0]
    assert [round(t, 2) for t in session.commit_times] == [2.1, 3.15, 3.15]
    assert Counts.of(session).peak_targets == 4


def test_rsd_falls_back_to_the_target_where_no_draft_is_good_enough() -> None:
    session = run(partial(rsd_beams, width=2, threshold=0.7), two(0.6, 0.7), two(0.6, 0.69))
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


@pytest.mark.parametrize(("knobs", "expected"), [({}, {1}), ({"likelihood": False}, {0, 1})])
def test_the_likelihood_decides_where_rewards_are_equal(knobs: dict[str, bool], expected: set[int]) -> None:
    wrong, right = candidate(0.5, -400.0), candidate(0.5, 0.0)
    steps = BeamStepTrace(drafts=(wrong, right), targets=(right,))
    make = method("specs-no-target").build(width=2, **knobs)
    assert {taken(run(make, steps, index=i))[0] for i in range(20)} == expected


def test_chance_switches_and_disturbs_rewards_at_its_rates() -> None:
    """Binomial tests, two-sided p >= 1e-6. The difference of two noisy rewards is normal: Phi(0.1 / (0.1 sqrt 2))."""
    switching = run(method("specs-random-switch").build(width=1, share=0.3), *[two(0.5, 0.5)] * 400)
    by_target = sum(one.role == TARGET for one in switching.committed[1:])
    assert stats.binomtest(by_target, 399, 0.3).pvalue >= 1e-6
    noisy = taken(run(partial(beam_search, width=2, noise=0.1), *[two(0.6, 0.5)] * 600))
    assert stats.binomtest(noisy.count(0), 600, stats.norm.cdf(1 / math.sqrt(2))).pvalue >= 1e-6


def test_a_soft_choice_survives_scores_that_overflow() -> None:
    assert soft_choice([1e6, -1e6], 0.999999) == 0
    assert soft_choice([-1e6, -1e6 + 1.0], 0.9) == 1
    assert soft_choice([3.0], 0.0) == 0


# --- laws of selection

LAW, REWARDS, RATIO = (0.5, 0.3, 0.2), (0.0, 0.5, 1.0), (0.0, 0.7, -0.4)
N, WIDTH = 1000, 4


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (partial(beam_search, width=WIDTH, role=DRAFT), best_of(LAW, WIDTH)),
        (
            method("specs-no-target").build(width=WIDTH, beta=1.5),
            selection_law(LAW, np.exp(np.array(RATIO) + 1.5 * np.array(REWARDS)), WIDTH),
        ),
        (
            method("specs-no-target").build(width=WIDTH, beta=1.5, likelihood=False),
            selection_law(LAW, np.exp(1.5 * np.array(REWARDS)), WIDTH),
        ),
    ],
    ids=["hard", "soft", "no-likelihood"],
)
def test_what_is_taken_has_the_law_that_theory_says(make: Make, law: Sequence[float]) -> None:
    """Drafts are drawn from three letters, told apart by their lengths. Chi-square tests of fit: false alarm 3e-6."""
    letters = [candidate(reward, q, 1 + i) for i, (reward, q) in enumerate(zip(REWARDS, RATIO, strict=True))]
    drawn = np.random.default_rng(5).choice(3, p=LAW, size=(N, WIDTH)).tolist()
    session = run(make, *(BeamStepTrace(drafts=tuple(letters[i] for i in row), targets=(letters[0],)) for row in drawn))
    found = np.bincount([step.n_tokens - 1 for step in session.committed], minlength=3)
    assert stats.chisquare(found, N * np.array(law) / np.sum(law)).pvalue >= 1e-6


# --- closed forms of time


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize(("role", "cost"), [(TARGET, TARGET_COST), (DRAFT, DRAFT_COST)])
def test_beam_search_equals_its_closed_form(role: str, cost: float, keep: int) -> None:
    """No chance enters: candidates take the same time, whichever is taken."""
    make = partial(beam_search, width=3, keep=keep, role=role)
    session = run_answer(make, drawn_answers(10, alpha=0.5, steps=100, seed=17).answer(0), ENGINES)
    assert 100 / (session.finished or 0.0) == pytest.approx(float(beam_speedup(cost)), rel=1e-12)


def test_a_batch_that_empties_takes_what_its_closed_form_says() -> None:
    """Lengths of independent candidates; steps are independent too: within 4.5 standard errors, false alarm 2e-5."""
    lengths, tau = Lognormal(mean=9.5, cv=0.8), (0.01, 0.012, 0.013, 0.0135)
    target = BatchEngine(TableCost(batches=(1, 2, 3, 4), seconds=tau, prefill_s=0.005))
    made = {TARGET: target, DRAFT: FixedEngine(0.0), REWARD: FixedEngine(0.0)}
    behaviour = drawn_answers(lengths, alpha=0.5, steps=3000, seed=3)
    session = run_answer(partial(beam_search, width=4), behaviour.beam_answer(0), made)
    seconds = np.diff(session.commit_times, prepend=0.0)
    edges = (np.log(np.arange(1.0, 400.0) + 0.5) - math.log(lengths.mean) + lengths.sigma**2 / 2) / lengths.sigma
    law = np.diff(stats.norm.cdf(edges), prepend=0.0, append=1.0)  # of 1, 2, ... tokens: a length is rounded
    expected = 4 * 0.005 + batch_seconds([0.0, *law], tau)
    margin = 4.5 * seconds.std(ddof=1) / math.sqrt(seconds.size)
    assert margin <= 0.1 * expected
    assert abs(seconds.mean() - expected) <= margin


# --- replays


def test_a_replay_knows_the_truth_of_what_stands() -> None:
    drafts = (candidate(0.2, right=True), candidate(0.9, right=False))
    steps = BeamStepTrace(drafts=drafts, targets=(candidate(0.5, right=True),) * 2)
    counts = Counts.of(run(partial(beam_search, width=2, role=DRAFT), steps, steps))
    assert (counts.false_accepts, counts.wrong_steps, counts.graded_steps) == (2, 2, 2)
    assert Counts.of(run(partial(beam_search, width=2), steps)).wrong_steps == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("specs", [(REWARD, TARGET, 2), (LIKELIHOOD, DRAFT, 7), (REWARD, DRAFT, 2)]),
        ("beam-search-draft", [(REWARD, DRAFT, 14), (REWARD, DRAFT, 9)]),
    ],
)
def test_a_replay_charges_the_scorer_for_what_it_has_not_read(name: str, expected: list[tuple[str, str, int]]) -> None:
    """In the target's cache: what it wrote, and what it has read for a likelihood; two tokens ask for the score."""
    step = candidate(0.9, tokens=7)
    beams = (BeamStepTrace(drafts=(step,), targets=(step,)),) * 2
    read: list[tuple[str, str, int]] = []

    class Reading(FixedEngine):
        def submit(self, operation, n_tokens, n_prompt, context, done):  # type: ignore[no-untyped-def]
            if isinstance(operation, Score):
                read.append((operation.role, operation.candidate.role, n_prompt))
            super().submit(operation, n_tokens, n_prompt, context, done)

    behaviour = replayed(ONLY, prompt_tokens=5, beams=beams)
    run_answer(method(name).build(width=1), behaviour.beam_answer(0), {TARGET: Reading(1.0), DRAFT: FixedEngine(0.1)})
    assert read == expected


def test_the_survey_asks_everything_of_drafts_and_rewards_of_targets() -> None:
    session = run(partial(surveyed_beams, width=2), two(0.1, 0.9), two(0.8, 0.2))
    assert writers(session) == "tt"
    assert taken(session) == [1, 0]
    asked = {(o.candidate.role, o.role) for o in session.operations if isinstance(o, Score)}
    assert asked == {(TARGET, REWARD), (DRAFT, REWARD), (DRAFT, LIKELIHOOD), (DRAFT, DRAFT_LIKELIHOOD)}


test_knobs_outside_their_domain_are_named = refused(
    lambda call, position=(0.1, 0.2): run(call, *([two(*position)] if position else [])),
    (partial(beam_search, width=3), "width=3 must be at most 2, the recorded number of candidates"),
    (partial(beam_search, width=1), (), "candidates=0 must be recorded"),
    (partial(beam_search, width=0), "width"),
    (partial(beam_search, width=1, keep=0), "keep"),
    (partial(rsd_beams, width=0, threshold=0.5), "width"),
    (partial(specs, width=1, beta=1.0, tau=0.5, switch="twice"), "switch"),
    (partial(specs, width=1, beta=1.0, tau=0.5, start="user"), "start"),
)


def recorded() -> TraceBehaviour:
    """Two answers whose course of speculation is nothing like their candidates: steps of 50 tokens against 1 or 3."""
    only = StepTrace(draft_tokens=50, target_tokens=50, accepted=True, draft_final=True)
    trace = AnswerTrace(prompt_tokens=0, steps=(only,), baseline=(1,) * 6, beams=(position((0.9,), (0.9, 0.1)),) * 6)
    return TraceBehaviour((trace, trace))


@pytest.mark.parametrize(("name", "width"), [("beam-search", 2), ("beam-search-draft", 1), ("rsd-beams", 1)])
def test_replays_meet_the_candidates_however_they_are_simulated(name: str, width: int) -> None:
    make, behaviour = method(name).build(width=width), recorded()
    alone = run_answer(make, behaviour.beam_answer(0), ENGINES).finished
    assert alone is not None
    trial, plain = with_plain(make, behaviour, ENGINES, meets="candidates")
    assert simulate(trial, plain, n=2).method.seconds == pytest.approx(alone)
    load = closed_loop(trial, concurrency=2, tokens=24)
    assert load.mean("seconds") == pytest.approx(alone)
    assert load.tokens_per_s == pytest.approx(2 * 6 / alone)


def test_a_replay_of_speculation_refuses_to_score_the_target() -> None:
    with pytest.raises(ParameterError, match="has no scores of target steps"):
        simulate(*with_plain(partial(beam_search, width=1), recorded(), ENGINES), n=2)
