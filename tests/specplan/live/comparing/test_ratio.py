"""The confidence sequence of a ratio: how often it is wrong, over many seeded streams, and how soon it is right."""

import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from scipy import stats

from specplan.live.comparing.ratio import ERROR, Matched

STREAMS, PAIRS = 200, 150


def ends_of(ratios: Iterable[float]) -> list[tuple[float, float]]:
    """Both ends of the interval after each pair of these ratios."""
    matched, ends = Matched(), []
    for ratio in ratios:
        matched.take(False, 1.0 if ratio < math.inf else 0.0, 1.0)
        matched.take(True, min(ratio, 1e9), 1.0)
        ends.append((matched.interval.low, matched.interval.high))
    return ends


def first(ends: list[tuple[float, float]], known: Callable[[float, float], bool]) -> int:
    """Pairs after which something is known; 99: never."""
    return next((n for n, (low, high) in enumerate(ends, 1) if known(low, high)), 99)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "heavy tails", "two values"])
@pytest.mark.parametrize("gain", [1.0, 1.2])
def test_the_interval_rarely_ever_leaves_out_the_ratio(law: str, gain: float) -> None:
    rng, size, middle = np.random.default_rng(1), (STREAMS, PAIRS), math.log(gain)
    noise = {
        "normal": 0.1 * rng.standard_normal(size),
        "heavy tails": np.clip(0.1 * rng.standard_t(1.0, size), -9.0, 9.0),  # some a factor of thousands
        "two values": 0.25 * rng.choice((-1.0, 1.0), size),
    }[law]
    found = [ends_of(np.exp(stream)) for stream in middle + noise]
    above = sum(any(low > gain * (1 + 1e-9) for low, _ in ends) for ends in found)
    below = sum(any(high < gain * (1 - 1e-9) for _, high in ends) for ends in found)
    # Were the rate just what is stated, as few as this or fewer would come but for one time in a million.
    most = stats.binom.isf(1e-6, STREAMS, ERROR)
    assert above <= most
    assert below <= most


@pytest.mark.parametrize(
    ("before", "after", "n", "spread", "soon"),
    [(1.3, 1.3, 0, 0.2, 8), (0.64, 0.64, 0, 0.2, 6), (1.3, 0.6, 40, 0.1, 40 + 16)],
)
def test_a_gain_a_loss_and_a_late_change_are_known_soon(
    before: float, after: float, n: int, spread: float, soon: int
) -> None:
    rng = np.random.default_rng(2)
    logs = spread * rng.standard_normal((30, n + 30)) + np.log(np.repeat([before, after], [n, 30]))
    pairs = [
        first(ends_of(np.exp(stream)), lambda low, high: low > 1.0 if after > 1.0 else high < 1.0) for stream in logs
    ]
    assert min(pairs) > n
    assert np.median(pairs) <= soon


def test_an_outlier_counts_as_the_clip_and_the_estimate_is_the_mean() -> None:
    far, near = (
        ends_of(outliers[k % 2] if k % 10 < 2 else 2.0 for k in range(40))
        for outliers in ((0.0, math.inf), (2.0 / 1.7, 2.0 * 1.7))
    )
    assert far[-1] == near[-1]
    low, high = far[-1]
    assert 1.7 < low < 2.0 < high < 2.4
    steady = Matched()
    assert math.isnan(steady.interval.value)
    for own in (2.0, 0.5):
        steady.take(False, 1.0, 1.0)
        steady.take(True, own, 1.0)
    assert steady.interval.value == pytest.approx(1.0)


def test_no_measurement_is_in_two_pairs() -> None:
    matched = Matched()
    assert matched.take(False, 10.0, 1.0) is None
    assert matched.take(False, 30.0, 1.0) is None
    assert matched.take(True, 30.0, 1.0) == pytest.approx(1.5)  # over (10 + 30) / 2
    assert matched.take(True, 30.0, 1.0) is None
    assert matched.take(False, 30.0, 2.0) == pytest.approx(2.0)
    assert matched.n == 2
    for _ in range(9):  # only the latest four of a side are pooled
        matched.take(True, 1.0, 1.0)
    for _ in range(4):
        matched.take(True, 3.0, 1.0)
    assert matched.take(False, 1.0, 1.0) == pytest.approx(3.0)
    assert matched.take(True, 0.0, 1.0) is None
    assert matched.take(False, 1.0, 1.0) == 0.0
