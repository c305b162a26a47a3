"""How well predictions tell configurations apart: against brute force, laws, and coverage by simulation."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specplan.check.validating.comparison import PLAIN, inside, kendall_tau, resampled, skill, spearman_rho

speedups = st.lists(st.sampled_from([0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2.0, 3.0]), min_size=3, max_size=7)
seeds = st.integers(0, 10**6)


def timed(true: Any, n: int = 40, noise: float = 0.2, seed: int = 0) -> tuple[Any, Any]:
    """Times of rows with these speedups, and of plain decoding: lognormal questions, noise of each answer's own."""
    rng = np.random.default_rng(seed)
    question = rng.lognormal(0.0, 0.5, n)
    own = question / np.asarray(true)[:, None] * rng.lognormal(0.0, noise, (len(true), n))
    return own, question * rng.lognormal(0.0, noise, n)


@settings(max_examples=30)
@given(speedups, seeds)
def test_correlations_are_those_of_scipy(true: list[float], seed: int) -> None:
    x = np.asarray(true)
    y = np.random.default_rng(seed).choice([1.0, 2.0, 3.0], (5, x.size))
    for ours, theirs in ((kendall_tau, stats.kendalltau), (spearman_rho, stats.spearmanr)):
        for found, row in zip(ours(x, y), y, strict=True):
            if np.ptp(x) == 0.0 or np.ptp(row) == 0.0:
                assert math.isnan(found)
            else:
                assert found == pytest.approx(theirs(x, row).statistic, abs=1e-12)


@settings(max_examples=30)
@given(speedups, seeds)
def test_figures_are_those_of_brute_force(predicted: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, plain = timed(rng.uniform(0.5, 2.0, len(predicted)), seed=seed)
    found = skill(predicted, resampled(own, plain))
    real = [float(plain.sum() / row.sum()) for row in own]
    errors = [abs(p / m - 1.0) for p, m in zip(predicted, real, strict=True)]
    chosen = [m for p, m in zip([1.0, *predicted], [1.0, *real], strict=True) if p == max([1.0, *predicted])]
    regret = max([1.0, *real]) / math.prod(chosen) ** (1 / len(chosen)) - 1.0
    assert found.regret.value == pytest.approx(regret, abs=1e-12)
    assert found.regret.low <= found.regret.value <= found.regret.high
    assert (found.mean_error, found.median_error) == pytest.approx((np.mean(errors), np.median(errors)))
    assert abs(found.largest_error) == pytest.approx(max(errors))
    assert found.n_ordered <= found.n_pairs <= math.comb(len(predicted) + 1, 2)
    assert found.best == int(np.argmax([1.0, *real])) - 1


def test_the_right_order_has_no_regret_and_the_wrong_one_has_the_most() -> None:
    true = [0.5, 0.8, 1.2, 1.5]
    own = 1.0 / np.asarray(true)[:, None] * np.linspace(0.5, 1.5, 20)  # no noise but the questions' own
    measured = resampled(own, np.linspace(0.5, 1.5, 20))
    right, wrong = skill(true, measured), skill(true[::-1], measured)
    assert right.kendall is not None
    assert (right.kendall.value, right.kendall.low, right.n_ordered, right.n_pairs) == (1.0, 1.0, 10, 10)
    assert (right.regret.value, right.regret.high) == pytest.approx((0.0, 0.0))
    assert wrong.regret.value == pytest.approx(2.0)
    assert wrong.regret.low == pytest.approx(2.0)
    tied = resampled(1.0 / np.array([0.5, 1.2, 1.2, 2.0])[:, None] * np.ones(10), np.ones(10))
    mixed = skill([0.6, 1.1, 0.9, 0.8], tied)  # of ten pairs, with plain decoding's, one is tied
    assert (mixed.n_ordered, mixed.n_pairs) == (5, 9)
    assert np.array_equal(tied.only([3, 0, 1]).resamples, tied.resamples[:, [3, 0, 1]])


def test_a_constant_ranks_nothing_and_chooses_anything() -> None:
    own, plain = timed([1.2, 1.5, 2.0], noise=0.0)
    above, below = (skill([value] * 3, resampled(own, plain)) for value in (1.4, 0.7))
    assert (above.kendall, above.spearman, above.chosen, below.chosen) == (None, None, (0, 1, 2), (PLAIN,))
    assert above.regret.value == pytest.approx(2.0 / (1.2 * 1.5 * 2.0) ** (1 / 3) - 1.0)
    assert below.regret.value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("true", "predicted", "regret"),
    [([1.5] * 8, [1.6, *[1.5] * 7], 1e-12), ([1.0, 1.05, 1.1, 0.9], [1.3, 1.2, 1.1, 1.0], 0.1)],
)
def test_the_regrets_interval_holds(true: list[float], predicted: list[float], regret: float) -> None:
    """Rows as fast as the chosen one have no regret, however large the measured one; and a regret of 10 %.

    Of 60 worlds at most 5 % may leave [low, high]: more than 9 come by chance with probability below 1e-3.
    """
    missed = 0
    for seed in range(60):
        found = skill(predicted, resampled(*timed(true, seed=seed))).regret
        missed += not found.low <= regret <= found.high
    assert missed <= 9


def test_the_correlations_interval_holds_for_the_true_speedups() -> None:
    """Of 60 worlds at most 5 % may leave it: more than 9 come by chance with probability below 1e-3."""
    true = np.exp(0.05 * np.arange(12.0) - 0.3)
    predicted = true * np.exp(np.random.default_rng(0).normal(0.0, 0.08, 12))
    exact, missed = (float(kendall_tau(predicted, true)), float(spearman_rho(predicted, true))), [0, 0]
    for seed in range(60):
        found = skill(predicted, resampled(*timed(true, n=60, noise=0.25, seed=seed)))
        for i, one in enumerate((found.kendall, found.spearman)):
            assert one is not None
            missed[i] += not one.low <= exact[i] <= one.high
    assert max(missed) <= 9


@given(st.integers(1, 40), st.data())
def test_coverage_has_the_exact_interval(n: int, data: st.DataObject) -> None:
    """Clopper and Pearson: at the limits the tail has probability 2.5 %."""
    k = data.draw(st.integers(0, n))
    found = inside([0.0] * n, [1.0] * n, [0.5] * k + [2.0] * (n - k))
    assert (found.value, found.n) == (k / n, n)
    if k:
        assert stats.binom.sf(k - 1, n, found.low) == pytest.approx(0.025, rel=1e-6)
    if k < n:
        assert stats.binom.cdf(k, n, found.high) == pytest.approx(0.025, rel=1e-6)
