"""Warm-up and noise are found where they were planted, and seldom where they were not."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from calibrate.measuring.noise import check_steadiness, cpu_times, leading_slow, steadiness, stolen_share
from theory.errors import UnstableMeasurementError

FALSE_FAIL = 1e-6


def durations(n: int, rng: np.random.Generator, sigma: float = 0.1) -> NDArray[np.float64]:
    return 0.01 * rng.lognormal(0.0, sigma, n)


def at_most(hits: int, trials: int, rate: float) -> None:
    """The rate is no larger than stated; fails by chance with probability 1e-6."""
    assert hits <= stats.binom.isf(FALSE_FAIL, trials, rate)


# Warm-up


@pytest.mark.parametrize("n", [20, 100])
def test_false_alarms_are_as_rare_as_stated(n: int) -> None:
    """Exchangeable samples of any distribution, a heavy tail here: 1 % by the change point, 1 / n by the gross rule."""
    rng = np.random.default_rng([n, len("heavy tail")])
    hits = sum(leading_slow(0.01 * (1.0 + rng.pareto(1.5, n))) > 0 for _ in range(600))
    at_most(hits, 600, 0.01 + 1 / n)


@pytest.mark.parametrize("planted", [8, 20, 60])
def test_a_planted_warm_up_is_found(planted: int) -> None:
    """Half as slow again for ``planted`` of 200 samples with 10 % of noise: found, to within a few samples."""
    rng = np.random.default_rng(planted)
    slowing = np.where(np.arange(200) < planted, 1.5, 1.0)
    missed = sum(abs(leading_slow(durations(200, rng) * slowing) - planted) > 4 for _ in range(200))
    at_most(missed, 200, 0.02)


def test_one_gross_first_sample_is_enough_and_a_slow_end_is_no_warm_up() -> None:
    x = durations(50, np.random.default_rng(1))
    x[0] = 1.0
    assert leading_slow(x) == 1
    x[1] = 0.5
    assert leading_slow(x) == 2
    assert leading_slow(np.where(np.arange(100) < 60, 1.0, 2.0) * durations(100, np.random.default_rng(2))) == 0
    assert leading_slow([5.0, 4.0, 3.0, 2.0, 1.0]) == leading_slow([]) == 0, "too few"


# Noise


def run(factors: NDArray[np.float64], rng: np.random.Generator, sigma: float = 0.05) -> list[tuple[float, float]]:
    n = factors.size
    return list(zip(np.linspace(0.0, 100.0, n).tolist(), (durations(n, rng, sigma) * factors).tolist(), strict=True))


def complains(sentinels: list[tuple[float, float]]) -> bool:
    found = steadiness(sentinels)
    return found is not None and bool(found.complaint())


@pytest.mark.parametrize("n", [16, 60])
def test_a_normal_machine_passes(n: int) -> None:
    """Noise of 20 %, and 5 % of the sentinels at half speed: at most 1 % false alarms."""
    rng = np.random.default_rng([n, 20])
    hits = sum(complains(run(rng.choice([1.0, 2.0], n, p=[0.95, 0.05]), rng, 0.2)) for _ in range(300))
    at_most(hits, 300, 0.01)


@pytest.mark.parametrize(
    "planted",
    [
        lambda n, rng: rng.choice([1.0, 2.2], n, p=[0.65, 0.35]),  # half speed for a third of the time
        lambda n, rng: rng.lognormal(0.0, 0.8, n),
        lambda n, rng: np.linspace(1.0, 1.8, n),  # ever slower
        lambda n, rng: np.linspace(1.0, 0.5, n),
        lambda n, rng: np.where(np.arange(n) < n // 2, 1.0, 2.5),  # something else began to run
    ],
    ids=["half speed", "wild", "slower", "faster", "a step"],
)
def test_planted_noise_is_found(planted: object) -> None:
    """In at least 95 % of the cases."""
    rng = np.random.default_rng(3)
    trials, n = 100, 60
    missed = sum(not complains(run(planted(n, rng), rng)) for _ in range(trials))  # type: ignore[operator]
    at_most(missed, trials, 0.05)


def test_the_message_says_what_was_seen_and_what_to_do() -> None:
    rng = np.random.default_rng(4)
    slower = run(np.linspace(1.0, 2.0, 40), rng)
    with pytest.raises(UnstableMeasurementError) as caught:
        check_steadiness({"target": slower, "draft": run(np.ones(40), rng)})
    text = str(caught.value)
    assert text.startswith("the machine was not steady: target: it became ")
    assert "slower from beginning to end (limit 30%)" in text
    assert "stop what else runs on it and measure again" in text
    assert "draft" not in text
    assert "\n" not in text
    assert caught.value.spread > 0.3


def test_figures_are_those_planted() -> None:
    moments = np.linspace(0.0, 10.0, 41)
    sentinels = list(zip(moments.tolist(), (0.01 * 1.5 ** (moments / 10.0)).tolist(), strict=True))
    found = steadiness(sentinels)
    assert found.drift == pytest.approx(0.5)
    assert found.median_s == pytest.approx(0.01 * math.sqrt(1.5))
    assert found.trend_p < 1e-9
    paused = [(moment + (1e9 if moment else 0.0), seconds) for moment, seconds in sentinels]
    assert steadiness(paused) == found
    equal = steadiness([(float(i), 0.01) for i in range(10)])
    assert (equal.spread, equal.drift, equal.trend_p) == (0.0, 0.0, 1.0)
    assert steadiness([(0.0, 1.0), (1.0, 9.0)]) is None, "too few"


def test_the_share_is_of_the_time_that_was_wanted() -> None:
    assert stolen_share((100, 10), (190, 20)) == pytest.approx(0.1)
    assert stolen_share((100, 10), (100, 10)) == 0.0
    assert cpu_times()[0] > 0
    assert cpu_times("intr 1 2 3") is cpu_times("cpu 1 2 3") is stolen_share(None, (1, 0)) is None
