"""Bets on a share that a finite record predicts: as often wrong as stated, and sooner than against an interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from specplan.live.drift.betting import MeanBets, TwoWays
from specplan.live.drift.shares import Record, ShareBets
from theory.errors import ParameterError

STREAMS = 400
RECORD = 480
"""Verdicts of a calibration: 60 answers of eight steps."""


def first_alarms(bets: TwoWays, stream: NDArray[np.float64]) -> NDArray[np.float64]:
    """Step of each stream's first alarm, infinity for none; ``stream`` is of shape (steps, streams)."""
    alarms = np.full(stream.shape[1], np.inf)
    for step, observed in enumerate(stream, 1):
        bets.take(observed)
        alarms = np.where((bets.evidence >= 1.0) & np.isinf(alarms), step, alarms)
    return alarms


def verdicts(rng: np.random.Generator, p: NDArray[np.float64], steps: int, alike: float = 0.0) -> NDArray[np.float64]:
    """Verdicts of answers of eight steps, whose own shares spread with this intra-class correlation around ``p``."""
    if alike:
        k = (1.0 - alike) / alike
        own = rng.beta(k * p, k * (1.0 - p), size=(-(-steps // 8), p.size))
        p = np.repeat(own, 8, axis=0)[:steps]
    return (rng.random((steps, p.shape[-1])) < p).astype(float)


def recorded(rng: np.random.Generator, p: float, alike: float = 0.0) -> float:
    """The share that a calibration finds."""
    return float(verdicts(rng, np.full(1, p), RECORD, alike).mean())


@pytest.mark.parametrize("p", [0.8])
def test_the_false_alarm_rate_holds_on_average_over_what_the_record_leaves_open(p: float) -> None:
    rng = np.random.default_rng(0)
    shares = rng.beta(RECORD * p + 0.5, RECORD * (1.0 - p) + 0.5, STREAMS)
    bets = ShareBets([Record(p, RECORD)], drift=0.1, false_alarm=0.05)
    alarms = np.isfinite(first_alarms(bets, verdicts(rng, shares, 10_000))).sum()
    # Were the rate just what is stated, as few as this or fewer would come but for one time in a million.
    assert alarms <= stats.binom.isf(1e-6, STREAMS, 0.05)


def test_it_holds_for_steps_that_are_alike_within_answers() -> None:
    """At an intra-class correlation of 0.1, where a test that takes them as independent is often wrong."""
    rng, p, alike, wrong = np.random.default_rng(1), 0.83, 0.1, {1.0: 0, 1.7: 0}
    for effect in wrong:
        for _ in range(4):
            bets = ShareBets([Record(recorded(rng, p, alike), RECORD)], alike=effect, drift=0.1, false_alarm=0.05)
            stream = verdicts(rng, np.full(STREAMS // 4, p), 3_000, alike)
            wrong[effect] += int(np.isfinite(first_alarms(bets, stream)).sum())
    assert wrong[1.7] <= stats.binom.isf(1e-6, STREAMS, 0.05)
    assert wrong[1.0] >= 0.2 * STREAMS


@pytest.mark.parametrize(("p", "start", "sooner"), [(0.8, 0, 1.5), (0.9, 0, 1.2), (0.9, 2_000, 1.3)])
def test_a_drift_is_found_sooner_than_against_an_interval(p: float, start: int, sooner: float) -> None:
    rng = np.random.default_rng(2)
    found: dict[str, list[float]] = {"share": [], "interval": []}
    for _ in range(5):
        known = recorded(rng, p)
        half = 1.96 * math.sqrt(known * (1.0 - known) / RECORD)
        n = STREAMS // 5
        stream = np.vstack([verdicts(rng, np.full(n, p), start), verdicts(rng, np.full(n, p - 0.1), 1_000)])
        tests: dict[str, TwoWays] = {
            "share": ShareBets([Record(known, RECORD)], drift=0.1, false_alarm=0.05),
            "interval": MeanBets(known - half, min(known + half, 1.0), drift=0.1, false_alarm=0.05),
        }
        for name, bets in tests.items():
            alarms = first_alarms(bets, stream) - start
            found[name] += [alarm for alarm in alarms if alarm > 0.0]
    assert np.median(found["share"]) * sooner <= np.median(found["interval"])
    assert np.isfinite(found["share"]).mean() >= np.isfinite(found["interval"]).mean()


@pytest.mark.parametrize("n", [40.0, math.inf])
def test_a_sum_is_worth_what_its_observations_are(n: float) -> None:
    """Whatever their order; only what is bet on moves with what was seen, which a sum does not tell."""
    one, sums = (ShareBets([Record(0.7, n)], drift=0.1, false_alarm=0.05) for _ in range(2))
    for observed in (1.0, 0.0, 1.0, 1.0, 0.0):
        one.take(observed)
        sums.take_sum(observed, 1)
        assert [bet.money for bet in sums.bets] == pytest.approx([float(bet.money) for bet in one.bets])
    sums.take_sum(0.0, 0)
    assert [bet.money for bet in sums.bets] == pytest.approx([float(bet.money) for bet in one.bets])


@pytest.mark.parametrize("n", [1.0, 30.0, math.inf])
@pytest.mark.parametrize("value", [0.0, 0.001, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("alike", [1.0, 2.5])
def test_a_bet_never_gains_in_expectation_while_the_prediction_holds(n: float, value: float, alike: float) -> None:
    bets = ShareBets([Record(value, n)], alike=alike, drift=0.1, false_alarm=0.05)
    rng = np.random.default_rng(3)
    for _ in range(50):
        mean = float(bets._known.mean)
        for bet in bets.bets:
            expected = mean * float(bet.factor(1.0)) + (1.0 - mean) * float(bet.factor(0.0))
            assert expected <= 1.0 + 1e-12
            assert min(float(bet.factor(0.0)), float(bet.factor(1.0))) >= 0.0
        bets.take(float(rng.random() < mean))


def test_what_is_always_so_as_predicted_is_never_a_drift() -> None:
    for value, always in ((1.0, 1.0), (0.0, 0.0)):
        for n in (36.0, math.inf):
            bets = ShareBets([Record(value, n)], drift=0.1, false_alarm=0.05)
            for _ in range(5_000):
                bets.take(always)
            assert float(bets.evidence) < 1.0


@pytest.mark.parametrize(
    ("value", "n", "alike", "drift"),
    [(1.5, 10.0, 1.0, 0.1), (0.5, 0.0, 1.0, 0.1), (0.5, 10.0, 0.9, 0.1), (0.5, 9.0, math.nan, 0.1), (0.5, 9.0, 1.0, 0)],
)
def test_what_cannot_be_is_refused(value: float, n: float, alike: float, drift: float) -> None:
    with pytest.raises(ParameterError):
        ShareBets([Record(value, n)], alike=alike, drift=drift, false_alarm=0.05)


def test_kinds_that_can_be_told_beforehand_make_it_sooner() -> None:
    """Shares of 1, 0.95, 0.68 and 0.55 by length, as on the bundled pair; all odds move so that their mean falls."""
    rng, n = np.random.default_rng(4), 200
    shares, weights = np.array([0.99, 0.95, 0.68, 0.55]), np.array([0.42, 0.22, 0.17, 0.19])
    mean = float(weights @ shares)
    lower = optimize.brentq(lambda t: weights @ (t * shares / (1 + (t - 1) * shares)) - mean + 0.1, 0.01, 1.0)
    moved = lower * shares / (1.0 + (lower - 1.0) * shares)
    together = ShareBets([Record(mean)], drift=0.1, false_alarm=0.05)
    apart = ShareBets([Record(p, 1e9 * w) for p, w in zip(shares, weights, strict=True)], drift=0.1, false_alarm=0.05)
    alarms = {"together": np.full(n, np.inf), "apart": np.full(n, np.inf)}
    hundred = np.repeat(np.arange(4), (100 * weights).round().astype(int))
    for step, kind in enumerate(np.concatenate([rng.permutation(hundred) for _ in range(6)]), 1):
        observed = (rng.random(n) < moved[kind]).astype(float)
        apart.of_kind(int(kind))
        for name, bets in (("together", together), ("apart", apart)):
            bets.take(observed)
            alarms[name] = np.where((bets.evidence >= 1.0) & np.isinf(alarms[name]), step, alarms[name])
    assert np.median(alarms["apart"]) * 1.15 <= np.median(alarms["together"])
    assert np.isfinite(alarms["apart"]).mean() >= 0.99
