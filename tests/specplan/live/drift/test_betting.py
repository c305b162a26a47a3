"""The sequential tests: how often they are wrong, and how soon they are right, over many seeded streams."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from refusals import refused
from scipy import stats

from specplan.live.drift.betting import Bets, MeanBets, Record, ShareBets

STREAMS = 400
RECORD = 480
"""Verdicts of a calibration: 60 answers of eight steps."""


def interval(low: float, high: float | None = None, false_alarm: float = 0.05) -> MeanBets:
    return MeanBets(low, low if high is None else high, drift=0.1, false_alarm=false_alarm)


def share(value: float, n: float = math.inf, alike: float = 1.0) -> ShareBets:
    return ShareBets([Record(value, n)], alike=alike, drift=0.1, false_alarm=0.05)


def first_alarms(bets: Bets, stream: NDArray[np.float64]) -> NDArray[np.float64]:
    """Step of each stream's first alarm, infinity for none; ``stream`` is of shape (steps, streams)."""
    alarms = np.full(stream.shape[1], np.inf)
    for step, observed in enumerate(stream, 1):
        bets.take(observed)
        alarms = np.where((bets.evidence >= 1.0) & np.isinf(alarms), step, alarms)
    return alarms


def verdicts(
    rng: np.random.Generator, p: float | NDArray[np.float64], steps: int, alike: float = 0.0, streams: int = STREAMS
) -> NDArray[np.float64]:
    """Verdicts of answers of eight steps, whose own shares spread with this intra-class correlation around ``p``."""
    p = np.full(streams, p) if isinstance(p, float) else p
    if alike:
        k = (1.0 - alike) / alike
        own = rng.beta(k * p, k * (1.0 - p), size=(-(-steps // 8), p.size))
        p = np.repeat(own, 8, axis=0)[:steps]
    return (rng.random((steps, p.shape[-1])) < p).astype(float)


def most_alarms(false_alarm: float = 0.05) -> float:
    """Were the rate just what is stated, more than so many would come once in a million times."""
    return float(stats.binom.isf(1e-6, STREAMS, false_alarm))


@pytest.mark.parametrize(("p", "false_alarm"), [(0.5, 0.05), (0.95, 0.05), (0.8, 0.01)])
def test_the_false_alarm_rate_holds_at_the_ends_of_an_interval_and_far_less_come_inside(
    p: float, false_alarm: float
) -> None:
    stream = verdicts(np.random.default_rng(0), p, 3_000)
    at_its_end, inside = interval(p, false_alarm=false_alarm), interval(p - 0.03, p + 0.03, false_alarm)
    assert np.isfinite(first_alarms(at_its_end, stream)).sum() <= most_alarms(false_alarm)
    assert np.isfinite(first_alarms(inside, stream)).sum() <= 2


def test_the_false_alarm_rate_holds_on_average_over_what_a_record_leaves_open() -> None:
    rng, p = np.random.default_rng(0), 0.8
    shares = rng.beta(RECORD * p + 0.5, RECORD * (1.0 - p) + 0.5, STREAMS)
    assert np.isfinite(first_alarms(share(p, RECORD), verdicts(rng, shares, 3_000))).sum() <= most_alarms()


def test_it_holds_for_steps_that_are_alike_within_answers() -> None:
    """At an intra-class correlation of 0.1, where a test that takes them as independent is often wrong."""
    rng, p, alike, wrong = np.random.default_rng(1), 0.83, 0.1, {1.0: 0, 1.7: 0}
    for effect in wrong:
        for _ in range(4):
            bets = share(float(verdicts(rng, p, RECORD, alike, 1).mean()), RECORD, effect)
            wrong[effect] += int(np.isfinite(first_alarms(bets, verdicts(rng, p, 1_500, alike, STREAMS // 4))).sum())
    assert wrong[1.7] <= most_alarms()
    assert wrong[1.0] >= 0.2 * STREAMS


# A drift of 0.1 from the start. Lorden's bound for one false alarm in 20,000 steps is 492, 400, 223 and 141 steps on
# average; half of the streams are found sooner than within 200, as half of the money is on a profile that is wrong from
# the start.
@pytest.mark.parametrize(("p", "within"), [(0.5, 0.40), (0.75, 0.50), (0.9, 0.80), (0.95, 0.90)])
@pytest.mark.parametrize("n", [0, math.inf, RECORD])
def test_a_planted_drift_of_a_tenth_is_found_within_200_steps(p: float, within: float, n: float) -> None:
    bets = share(p, n) if n else interval(p, false_alarm=0.03)
    alarms = first_alarms(bets, verdicts(np.random.default_rng(0), p - 0.1, 200))
    assert np.isfinite(alarms).mean() >= within - (0.1 if n == RECORD else 0.0)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.4), (0.7, 0.8), (0.9, 1.0)])
def test_a_later_drift_is_found_about_as_soon_as_can_be(p: float, q: float) -> None:
    rng, start = np.random.default_rng(0), 3_000
    stream = np.vstack([verdicts(rng, p, start), verdicts(rng, q, 1_500)])
    alarms = first_alarms(interval(p, false_alarm=0.03), stream)
    delays = alarms[alarms > start] - start
    information = q * math.log(q / p) + ((1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0)
    assert np.median(delays) <= 1.25 * math.log(20_000) / information
    assert np.isfinite(delays).mean() >= 0.99


@pytest.mark.parametrize(
    ("bets", "always"),
    [
        (interval(0.0, 0.5), 0.0),
        (interval(0.5, 1.0), 1.0),
        (interval(0.0, 1.0), 0.0),
        (interval(0.0, 1.0), 1.0),
        *((share(value, n), value) for value in (0.0, 1.0) for n in (36.0, math.inf)),
    ],
)
def test_what_is_always_so_and_may_be_is_never_a_drift(bets: Bets, always: float) -> None:
    for _ in range(3_000):
        bets.take(always)
    assert float(bets.evidence) < 1.0


def check_fair(bets: Bets, means: tuple[float, float]) -> None:
    """A bet never gains in expectation at its mean, and never loses more than all."""
    for one, zero, mean in zip(bets.factors(1.0), bets.factors(0.0), means, strict=True):
        assert mean * float(one) + (1.0 - mean) * float(zero) <= 1.0 + 1e-12
        assert min(float(one), float(zero)) >= -1e-12


@pytest.mark.parametrize("bound", [0.01, 0.3, 0.9, 1.0])
def test_bets_against_an_interval_never_gain_while_it_holds(bound: float) -> None:
    for outside in (0.0, 0.1, bound):
        check_fair(interval(bound), (bound - outside * bound, bound + outside * (1.0 - bound)))


@pytest.mark.parametrize("n", [1.0, 30.0, math.inf])
@pytest.mark.parametrize("value", [0.0, 0.001, 0.5, 0.999, 1.0])
def test_bets_against_a_record_never_gain_while_it_holds(n: float, value: float) -> None:
    rng = np.random.default_rng(3)
    for alike in (1.0, 2.5):
        bets = share(value, n, alike)
        for _ in range(50):
            mean = float(bets.mean)
            check_fair(bets, (mean, mean))
            bets.take(float(rng.random() < mean))


@pytest.mark.parametrize("make", [lambda: interval(0.6), lambda: share(0.7, 40.0), lambda: share(0.7)])
def test_a_sum_is_worth_what_its_observations_are(make: Callable[[], Bets]) -> None:
    one, sums = make(), make()
    for observed in (1.0, 0.0, 1.0, 1.0, 0.0):
        one.take(observed)
        sums.take_sum(observed, 1)
        sums.take_sum(0.0, 0)
        assert [stakes.money for stakes in sums.stakes] == pytest.approx([float(stakes.money) for stakes in one.stakes])


def test_a_sum_of_many_is_worth_the_least_of_what_its_observations_may_be() -> None:
    """The stake is not changed in between, and what is staked later is staked after them."""
    (one, _), (zero, _), (middle, _) = (interval(0.6).factors(observed) for observed in (1.0, 0.0, 0.5))
    mixed, even = interval(0.6), interval(0.6)
    mixed.take_sum(7.0, 10)
    even.take_sum(5.0, 10)
    assert mixed.stakes[0].money == pytest.approx(0.5 * one**7 * zero**3 + 0.5)
    assert even.stakes[0].money <= 0.5 * middle**10 + 0.5


test_a_rate_of_false_alarms_that_is_none_is_refused = refused(
    lambda rate: interval(0.5, false_alarm=rate), *((rate, "false_alarm") for rate in (0.0, 1.0, math.nan))
)
