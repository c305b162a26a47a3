"""The confidence sequence of a ratio: how often it is wrong, over many seeded streams, and how soon it is right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from specplan.live.comparing.ratio import Matched, RatioSequence
from theory.errors import ParameterError

STREAMS, PAIRS, ERROR = 200, 150, 0.05


def sequences(log_ratios: NDArray[np.float64]) -> list[list[tuple[float, float]]]:
    """Both ends of the interval of each stream after each pair."""
    found = []
    for stream in log_ratios:
        sequence, ends = RatioSequence(ERROR), []
        for log in stream:
            sequence.take(math.exp(log))
            ends.append((sequence.low, sequence.high))
        found.append(ends)
    return found


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
    found = sequences(middle + noise)
    above = sum(any(low > gain * (1 + 1e-9) for low, _ in ends) for ends in found)
    below = sum(any(high < gain * (1 - 1e-9) for _, high in ends) for ends in found)
    # Were the rate just what is stated, as few as this or fewer would come but for one time in a million.
    most = stats.binom.isf(1e-6, STREAMS, ERROR)
    assert above <= most
    assert below <= most


def test_a_gain_and_a_loss_are_known_soon() -> None:
    rng = np.random.default_rng(2)
    gains = sequences(math.log(1.3) + 0.2 * rng.standard_normal((50, 30)))
    soon = [next((n for n, (low, _) in enumerate(ends, 1) if low > 1.0), 99) for ends in gains]
    assert np.median(soon) <= 8
    losses = sequences(math.log(0.64) + 0.2 * rng.standard_normal((50, 30)))
    soon = [next((n for n, (_, high) in enumerate(ends, 1) if high < 1.0), 99) for ends in losses]
    assert np.median(soon) <= 6


def test_a_late_change_is_known_about_as_soon() -> None:
    rng = np.random.default_rng(3)
    noise = 0.1 * rng.standard_normal((30, 60))
    noise[:, :40] += math.log(1.3)
    noise[:, 40:] += math.log(0.6)
    soon = [next((n for n, (_, high) in enumerate(ends, 1) if high < 1.0), 99) for ends in sequences(noise)]
    assert min(soon) > 40
    assert np.median(soon) <= 40 + 16


def test_an_outlier_counts_as_the_clip_and_the_estimate_is_the_mean() -> None:
    far, near = RatioSequence(ERROR), RatioSequence(ERROR)
    for k in range(40):
        far.take((0.0, math.inf)[k % 2] if k % 10 < 2 else 2.0)
        near.take((2.0 / 1.7, 2.0 * 1.7)[k % 2] if k % 10 < 2 else 2.0)
    assert (far.low, far.high) == (near.low, near.high)
    assert 1.7 < far.low < 2.0 < far.high < 2.4
    steady = RatioSequence(ERROR)
    steady.take(2.0)
    steady.take(0.5)
    assert steady.estimate == pytest.approx(1.0)
    assert math.isnan(RatioSequence(ERROR).estimate)


@pytest.mark.parametrize("ratio", [-1.0, math.nan])
def test_a_ratio_that_is_none_is_refused(ratio: float) -> None:
    with pytest.raises(ParameterError, match="ratio"):
        RatioSequence(ERROR).take(ratio)


@pytest.mark.parametrize("error", [0.0, 1.0, math.nan])
def test_an_error_outside_its_range_is_refused(error: float) -> None:
    with pytest.raises(ParameterError, match="error"):
        RatioSequence(error)


def test_no_measurement_is_in_two_pairs() -> None:
    matched = Matched(ERROR)
    assert matched.take(False, 10.0, 1.0) is None
    assert matched.take(False, 30.0, 1.0) is None
    assert matched.take(True, 30.0, 1.0) == pytest.approx(1.5)  # over (10 + 30) / 2
    assert matched.take(True, 30.0, 1.0) is None
    assert matched.take(False, 30.0, 2.0) == pytest.approx(2.0)
    assert matched.ratio.n == 2
    for _ in range(9):  # only the latest four of a side are pooled
        matched.take(True, 1.0, 1.0)
    for _ in range(4):
        matched.take(True, 3.0, 1.0)
    assert matched.take(False, 1.0, 1.0) == pytest.approx(3.0)
    assert matched.take(True, 0.0, 1.0) is None
    assert matched.take(False, 1.0, 1.0) == 0.0
