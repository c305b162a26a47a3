"""The sequential test: how often it is wrong, and how soon it is right, over many seeded streams."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from specplan.live.drift.betting import Bet, MeanBets
from theory.errors import ParameterError

STREAMS = 400


def first_alarms(
    p: float, q: float, *, start: int, steps: int, false_alarm: float, band: float = 0.0, seed: int = 0
) -> NDArray[np.float64]:
    """Step of each stream's first alarm, infinity for none; acceptance is p before ``start``, and q from there on."""
    rng = np.random.default_rng(seed)
    bets = MeanBets(max(p - band, 0.0), min(p + band, 1.0), drift=0.1, false_alarm=false_alarm)
    alarms = np.full(STREAMS, np.inf)
    for step in range(steps):
        bets.take((rng.random(STREAMS) < (p if step < start else q)).astype(float))
        alarms = np.where((bets.evidence >= 1.0) & np.isinf(alarms), step + 1, alarms)
    return alarms


@pytest.mark.parametrize(("p", "false_alarm"), [(0.5, 0.05), (0.95, 0.05), (0.8, 0.01)])
def test_the_false_alarm_rate_holds_over_20000_steps(p: float, false_alarm: float) -> None:
    alarms = np.isfinite(first_alarms(p, p, start=0, steps=20_000, false_alarm=false_alarm)).sum()
    # Were the rate just what is stated, as few as this or fewer would come but for one time in a million.
    assert alarms <= stats.binom.isf(1e-6, STREAMS, false_alarm)


def test_nearly_no_alarm_where_the_truth_is_inside_what_the_profile_knows() -> None:
    assert np.isfinite(first_alarms(0.8, 0.8, start=0, steps=20_000, false_alarm=0.05, band=0.03)).sum() <= 2


# A drift of 0.1 from the start, at the rate that a gateway has for acceptance: 3 %. Lorden's bound for one false alarm
# in 20,000 steps is 492, 400, 223 and 141 steps on average; half of the streams are found sooner than within 200, as
# half of the money is on a profile that is wrong from the start.
@pytest.mark.parametrize(("p", "within"), [(0.5, 0.40), (0.75, 0.50), (0.9, 0.80), (0.95, 0.90)])
def test_a_planted_drift_of_a_tenth_is_found_within_200_steps(p: float, within: float) -> None:
    alarms = first_alarms(p, p - 0.1, start=0, steps=200, false_alarm=0.03)
    assert np.isfinite(alarms).mean() >= within


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.4), (0.75, 0.65), (0.9, 0.8), (0.7, 0.8), (0.9, 1.0)])
def test_a_later_drift_is_found_about_as_soon_as_can_be(p: float, q: float) -> None:
    start = 3_000
    alarms = first_alarms(p, q, start=start, steps=start + 1_500, false_alarm=0.03)
    delays = alarms[alarms > start] - start
    information = q * math.log(q / p) + ((1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0)
    assert np.median(delays) <= 1.25 * math.log(20_000) / information
    assert np.isfinite(delays).mean() >= 0.99


@pytest.mark.parametrize(
    ("low", "high", "always"), [(0.0, 0.5, 0.0), (0.5, 1.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0)]
)
def test_what_cannot_be_exceeded_is_never_said_to_be(low: float, high: float, always: float) -> None:
    """A mean that is predicted to be at least 0 may be 0, for ever."""
    bets = MeanBets(low, high, drift=0.1, false_alarm=0.05)
    for _ in range(20_000):
        bets.take(always)
    assert bets.evidence < 1.0


def test_a_bet_never_gains_in_expectation_while_its_claim_holds() -> None:
    for below in (False, True):
        for bound in (0.01, 0.3, 0.9, 1.0):
            bet = Bet(bound, 0.1, below=below)
            for mean in np.linspace(bet.bound, 1.0 if below else 0.0, 5):
                expected = mean * bet.factor(1.0) + (1.0 - mean) * bet.factor(0.0)
                assert expected <= 1.0 + 1e-12
            assert min(bet.factor(0.0), bet.factor(1.0)) >= -1e-12


@pytest.mark.parametrize(("low", "high", "rate"), [(0.6, 0.5, 0.1), (-0.1, 0.5, 0.1), (0.5, 0.6, 0.0), (0.5, 0.6, 1.0)])
def test_what_cannot_be_is_refused(low: float, high: float, rate: float) -> None:
    with pytest.raises(ParameterError):
        MeanBets(low, high, drift=0.1, false_alarm=rate)
