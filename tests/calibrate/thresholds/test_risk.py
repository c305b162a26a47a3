"""The promised confidence: exact tests, their duals, and coverage over thousands of repeated draws."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from refusals import refuses
from scipy import stats

from calibrate.thresholds.bounds import (
    betting_p_value,
    betting_units_needed,
    betting_upper,
    binomial_p_value,
    clopper_pearson,
    units_needed,
)
from calibrate.thresholds.risk import Bound, Decisions, certify, fixed_sequence, start_shares
from theory.cascade import accuracy_loss_bound
from theory.errors import ParameterError

FALSE_ALARM = 1e-6
GRID = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])


def assert_rate_at_most(events: int, draws: int, limit: float) -> None:
    """So many events are possible at the limit; alarms falsely once in a million."""
    assert stats.binom.sf(events - 1, draws, limit) > FALSE_ALARM, f"{events} of {draws} at a promised {limit:g}"


@given(st.integers(1, 400), st.data(), st.floats(0.01, 0.99))
def test_binomial_p_value_is_scipys_exact_test(n: int, data: st.DataObject, level: float) -> None:
    k = data.draw(st.integers(0, n))
    expected = stats.binomtest(k, n, level, alternative="less").pvalue
    assert float(binomial_p_value(k, n, level)) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.integers(0, 400), st.data(), st.floats(0.01, 0.5), st.floats(0.5, 0.999))
def test_the_upper_limit_is_the_dual_of_the_test(n: int, data: st.DataObject, level: float, confidence: float) -> None:
    k = data.draw(st.integers(0, n))
    low, high = clopper_pearson(k, n, confidence)
    p = float(binomial_p_value(k, n, level))
    if abs(p - (1 - confidence)) > 1e-9:  # at the edge rounding decides
        assert (float(high) <= level) == (p <= 1 - confidence)
    assert 0.0 <= float(low) <= (k / n if n else 0.5) <= float(high) <= 1.0


@pytest.mark.parametrize(("level", "delta"), [(0.02, 0.2), (0.1, 0.05), (0.5, 0.01)])
def test_betting_p_value_is_valid_by_enumeration(level: float, delta: float) -> None:
    """P(p <= delta) over all outcomes of 60 losses at the level itself, each 0 or 1."""
    n = 60
    p_values = np.array([betting_p_value([1.0] * k + [0.0] * (n - k), level) for k in range(n + 1)])
    assert stats.binom.pmf(np.arange(n + 1), n, level)[p_values <= delta].sum() <= delta


@given(st.lists(st.floats(0, 1), max_size=40), st.floats(0.02, 0.9))
def test_betting_ignores_the_order_and_has_a_dual(losses: list[float], level: float) -> None:
    p = betting_p_value(losses, level)
    assert p == pytest.approx(betting_p_value(sorted(losses), level), rel=1e-9)
    high = betting_upper(losses, 0.95)
    if abs(high - level) > 1e-6:
        assert (high <= level) == (p <= 0.05)


@pytest.mark.parametrize(("failures", "trials"), [(0, 5), (1, 60), (3, 100), (20, 900)])
def test_units_needed_is_where_the_test_turns(failures: int, trials: int) -> None:
    needed = units_needed(failures, trials, 0.05, 0.05)
    rate = failures / trials
    assert float(binomial_p_value(rate * needed, needed, 0.05)) <= 0.05
    assert float(binomial_p_value(rate * (needed - 1), needed - 1, 0.05)) > 0.05


def test_betting_units_needed_reach_the_level_and_none_help_a_rate_at_it() -> None:
    losses = np.array([0.0] * 19 + [0.5])
    copies = math.ceil(betting_units_needed(losses, 0.1, 0.05) / 20)
    assert units_needed(5, 100, 0.05, 0.05) is None
    assert units_needed(0, 0, 0.05, 0.05) is None
    assert betting_units_needed([0.1, 0.0], 0.05, 0.05) is None
    assert betting_p_value(np.tile(losses, copies), 0.1) <= 0.05
    assert betting_p_value(np.tile(losses, copies - 2), 0.1) > 0.05


def test_fixed_sequence_stops_at_the_first_that_fails() -> None:
    certified, allowed = fixed_sequence([0.04, 0.05, 0.051, 0.0], 0.05)
    assert certified.tolist() == [True, True, False, False]
    assert allowed.tolist() == [0.05, 0.05, 0.05, 0.0]


def test_a_walk_takes_its_share_to_the_start_of_the_other() -> None:
    starts = [0.5, 0.0, 0.5, 0.0]
    assert fixed_sequence([0.01, 0.01, 0.04, 0.04], 0.05, starts)[0].tolist() == [True, True, True, True]
    certified, allowed = fixed_sequence([0.01, 0.03, 0.02, 0.03], 0.05, starts)
    assert certified.tolist() == [True, False, True, False]  # the second walk has its own half only
    assert allowed.tolist() == [0.025, 0.025, 0.025, 0.025]


def test_walks_start_where_enough_is_accepted() -> None:
    """At level and delta 5 %: 72 without an error reach 2.5 %, and some 130 with 1.25 % errors."""
    shares = start_shares([10, 71, 72, 73, 120, 500], 0.05, 0.05)
    assert shares[:4].tolist() == [0.0, 0.0, 0.5, 0.0]
    assert shares.sum() == 1.0
    assert start_shares([10, 20], 0.05, 0.05).sum() == 0.0


def test_ties_are_accepted_together_and_an_empty_set_is_not_certified() -> None:
    scores = [0.5] * 100 + [0.2] * 100
    rows = certify(Decisions(scores, [False] * 200), [0.2, 0.5, 0.9], Bound(level=0.05))
    assert [row.threshold for row in rows] == [0.9, 0.5, 0.2]
    assert [row.accepted for row in rows] == [0.0, 0.5, 1.0]
    assert [row.status for row in rows] == ["too few", "certified", "certified"]
    assert math.isnan(rows[0].risk)
    assert (rows[0].low, rows[0].high, rows[0].units_needed) == (0.0, 1.0, None)


def test_accepted_and_wrong_counts_all_and_needs_no_start() -> None:
    wrong = [True] * 3 + [False] * 97
    rows = certify(Decisions([0.5] * 100, wrong), [0.5, 0.9], Bound(level=0.1, risk="accepted-and-wrong"))
    assert [(row.failures, row.trials, row.status) for row in rows] == [(0, 100, "certified"), (3, 100, "certified")]
    assert rows[1].p_value == pytest.approx(stats.binom.cdf(3, 100, 0.1))


def test_samplings_count_their_units() -> None:
    """Two answers: one of four decisions, two of them accepted and one of those wrong; one of a single right one."""
    decisions = Decisions([0.9, 0.9, 0.1, 0.1, 0.9], [True, False, True, True, False], ["a", "a", "a", "a", "b"])

    def row(risk: Any, sampling: Any) -> tuple[int, int, float]:
        found = certify(decisions, [0.5], Bound(level=0.3, risk=risk, sampling=sampling))[0]
        return found.failures, found.trials, round(found.risk, 12)

    assert row("wrong-given-accepted", "independent") == (1, 3, round(1 / 3, 12))
    assert row("accepted-and-wrong", "independent") == (1, 5, 0.2)
    assert row("wrong-given-accepted", "per-answer-mean") == (1, 2, 0.25)
    assert row("accepted-and-wrong", "per-answer-mean") == (1, 2, 0.125)
    assert row("accuracy-loss", "per-answer-mean") == (1, 2, 0.5)


def test_accuracy_loss_of_independent_decisions_is_the_union_bound() -> None:
    decisions = Decisions([0.5] * 2000, [True] * 2 + [False] * 1998)
    bounds = (Bound(level=0.05, risk="accuracy-loss", decisions_per_answer=n) for n in (10, 40))
    few, many = (certify(decisions, [0.5], bound)[0] for bound in bounds)
    assert few.risk == pytest.approx(float(accuracy_loss_bound(0.001, 10)))
    assert few.high <= 0.05
    assert (few.status, many.status) == ("certified", "failed")


test_impossible_bounds_are_refused = refuses(
    Bound,
    ({"level": 0.0}, "level="),
    ({"level": 1.0}, "level="),
    ({"level": math.nan}, "level="),
    ({"level": 0.1, "confidence": 1.0}, "confidence="),
    ({"level": 0.1, "risk": "other"}, "risk="),
    ({"level": 0.1, "sampling": "other"}, "sampling="),
    ({"level": 0.1, "decisions_per_answer": 0}, "decisions_per_answer="),
)


def test_impossible_decisions_and_grids_are_refused() -> None:
    for scores, wrong in (([], []), ([math.nan], [True]), ([0.5, 0.6], [True])):
        with pytest.raises(ParameterError):
            Decisions(scores, wrong)
    with pytest.raises(ParameterError):
        certify(Decisions([0.5], [True]), [], Bound(level=0.1))


def drawn(draws: int, n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """False accepts and accepted at each threshold of GRID: uniform scores, P(wrong | score) = 0.3 (1 - score)."""
    rng = np.random.default_rng(seed)
    scores = rng.random((draws, n))
    wrong = rng.random((draws, n)) < 0.3 * (1.0 - scores)
    bins = np.searchsorted(-GRID, -scores)  # first threshold that accepts
    accepted = bins[..., None] <= np.arange(GRID.size)
    return (accepted & wrong[..., None]).sum(axis=1).astype(float), accepted.sum(axis=1).astype(float)


TRUE_RISK = 0.15 * (1.0 - GRID)  # mean of 0.3 (1 - s) over s uniform above the threshold


@pytest.mark.parametrize(("level", "delta"), [(0.05, 0.2), (0.08, 0.05)])
def test_wrong_given_accepted_is_covered(level: float, delta: float) -> None:
    failures, accepted = drawn(1000, 1500, seed=1)
    certified, _ = fixed_sequence(
        binomial_p_value(failures, accepted, level), delta, start_shares(accepted, level, delta)
    )
    violated = (certified & (level < TRUE_RISK)).any(axis=1)
    assert_rate_at_most(int(violated.sum()), 1000, delta)
    assert certified.any(axis=1).mean() > 0.5  # it does certify something, so the promise is not kept by silence


def clustered(rng: np.random.Generator, risk: float, n_answers: int) -> Decisions:
    """Answers of eight decisions that are wrong together: all of an answer or none."""
    wrong = np.repeat(rng.random(n_answers) < risk, 8)
    return Decisions(np.full(wrong.size, 0.5), wrong, np.repeat(np.arange(n_answers), 8))


def test_clusters_are_covered_by_answers_and_not_by_decisions() -> None:
    """The risk is just above the level, so that each certificate is an error; and 0.01 is certified nearly always."""
    rng, draws = np.random.default_rng(3), 300
    world = [clustered(rng, 0.0801, 150) for _ in range(draws)]

    def certified(decisions: list[Decisions], sampling: Any) -> int:
        bound = Bound(level=0.08, sampling=sampling, risk="accepted-and-wrong", confidence=0.9)
        return sum(certify(one, [0.5], bound)[0].status == "certified" for one in decisions)

    assert_rate_at_most(certified(world, "per-answer-mean"), draws, 0.1)
    assert stats.binom.sf(certified(world, "independent") - 1, draws, 0.1) < FALSE_ALARM
    assert certified([clustered(rng, 0.01, 150) for _ in range(30)], "per-answer-mean") > 26


def test_certify_end_to_end_is_covered_with_unequal_answers() -> None:
    """Scores and labels vary between answers of different lengths; the risk is that of an answer drawn at random."""
    rng = np.random.default_rng(5)
    level, delta, draws, n_answers = 0.15, 0.1, 80, 150
    grid = [0.8, 0.6, 0.4, 0.2, 0.0]
    population = [_answer(rng) for _ in range(3_000)]
    truth = [_true_risk(population, t) for t in grid]
    bound = Bound(level=level, confidence=1 - delta, sampling="per-answer-mean")
    errors = chosen = 0
    for _ in range(draws):
        sample = [population[i] for i in rng.integers(0, len(population), n_answers)]
        labels = np.repeat(np.arange(n_answers), [len(s) for s, _ in sample])
        decisions = Decisions(np.concatenate([s for s, _ in sample]), np.concatenate([w for _, w in sample]), labels)
        passed = [row.threshold for row in certify(decisions, grid, bound) if row.status == "certified"]
        chosen += bool(passed)
        errors += any(truth[grid.index(t)] > level for t in passed)
    assert max(truth) > level > min(truth)
    assert_rate_at_most(errors, draws, delta)
    assert chosen > draws / 2


def _answer(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    n, hard = int(rng.integers(1, 12)), rng.random()
    scores = rng.random(n)
    return scores, rng.random(n) < 0.9 * hard * (1.0 - scores)


def _true_risk(population: list[tuple[NDArray[np.float64], NDArray[np.bool_]]], threshold: float) -> float:
    means = [wrong[scores >= threshold].mean() for scores, wrong in population if (scores >= threshold).any()]
    return float(np.mean(means))
