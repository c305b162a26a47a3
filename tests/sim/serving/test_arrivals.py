"""Arrivals: rates and variation as asked, and recorded ones that are in order."""

import math

import numpy as np
import pytest
from refusals import refused

from sim.serving.arrivals import Arrivals, bursty_times

N = 20_000
Z = 4.9
"""Standard errors; a false alarm has probability 1e-6."""


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0])
def test_bursts_have_the_rate_and_the_variation_asked(cv: float) -> None:
    gaps = np.diff(bursty_times(2.5, cv, N + 1, seed=1))
    assert abs(gaps.mean() - 0.4) <= Z * 0.4 * cv / math.sqrt(N)
    kurtosis = 3.0 + 6.0 * cv * cv  # of a gamma variable
    error = (0.4 * cv) ** 2 * math.sqrt((kurtosis - 1.0) / N)  # of its variance
    assert abs(gaps.var(ddof=1) - (0.4 * cv) ** 2) <= Z * error
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) <= Z / math.sqrt(N)


def test_replications_differ_and_repeat() -> None:
    first, again, other = (bursty_times(1.0, 2.0, 5, seed=3, replication=r) for r in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).all()


def test_recorded_arrivals_start_their_clock_with_the_first() -> None:
    found = Arrivals.of([5.0, 6.0, 9.0], [1, 2, 3], [4, 5, 6])
    assert found.times_s.tolist() == [0.0, 1.0, 4.0]
    assert (len(found), found.rate) == (3, 0.5)
    assert found.cv == pytest.approx(math.sqrt(2.0) / 2.0)
    assert math.isinf(Arrivals.of([5.0], [1], [1]).rate)


test_arrivals_guard_their_domain = refused(
    lambda call, *arguments: call(*arguments),
    (Arrivals.of, [], [], [], "times_s"),
    (Arrivals.of, [1.0, 0.0], [1, 1], [1, 1], "times_s"),
    (Arrivals.of, [0.0, math.nan], [1, 1], [1, 1], "times_s"),
    (Arrivals.of, [0.0], [1, 2], [1], "prompt_tokens"),
    (Arrivals.of, [0.0], [-1], [1], "prompt_tokens=-1"),
    (Arrivals.of, [0.0], [0], [0], "answer_tokens=0"),
    (bursty_times, 0.0, 1.0, 3, "rate=0"),
    (bursty_times, 1.0, 1.0, 0, "n=0"),
    (bursty_times, 1.0, 0.0, 3, "cv=0"),
)
