"""When to stop: the correction for several looks against published constants and simulation, and the cheapest mix."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refuses
from scipy import stats

from calibrate.measuring.stopping import Precision, Stopping, cheapest_mix, simultaneous_quantile
from sim.estimate import student_quantile

FALSE_FAIL = 1e-6
"""Probability that a statistical test of this module fails by chance, each."""


def precise(answers: float, timings: float = 0.0) -> Precision:
    return Precision(planned="lr-async k1=2", speedup=1.5, answers=answers, timings=timings)


# The critical value

POCOCK = {1: 1.960, 2: 2.178, 3: 2.289, 4: 2.361, 5: 2.413, 10: 2.555}
"""Pocock 1977, Table 1: alpha = 0.05, equal steps."""


@pytest.mark.parametrize("looks", POCOCK)
def test_equal_steps_give_the_published_constants(looks: int) -> None:
    found = simultaneous_quantile(tuple(float(k + 1) for k in range(looks)))
    assert round(found, 3) == POCOCK[looks]


# Coverage of what is reported when it stopped

REPEATS = 4000


def stopped(rule: Stopping, sigma: float, seed: int) -> tuple[float, float]:
    """Mean answers, and coverage of the interval, of a mean of 1 that is estimated until it suffices."""
    rng = np.random.default_rng(seed)
    x = 1.0 + sigma * rng.standard_normal((REPEATS, rule.max_answers))
    open_ = np.ones(REPEATS, dtype=bool)
    answers, inside = np.zeros(REPEATS), np.zeros(REPEATS, dtype=bool)
    for n in rule.looks:
        mean, half = x[:, :n].mean(axis=1), x[:, :n].std(axis=1, ddof=1) / math.sqrt(n) * student_quantile(0.95, n - 1)
        half *= rule.widening(n)
        over = open_ & ((half <= rule.precision * mean) | (n == rule.max_answers))
        answers[over] = n
        inside[over] = np.abs(mean - 1.0)[over] <= half[over]
        open_ &= ~over
    return float(answers.mean()), float(inside.mean())


MARGIN = stats.norm.isf(FALSE_FAIL) * math.sqrt(0.05 * 0.95 / REPEATS)


@pytest.mark.parametrize("sigma", [0.1, 0.3])
def test_the_interval_of_the_look_that_stopped_covers(sigma: float) -> None:
    """At least 95 %, with a false-alarm rate of 1e-6; and it does stop early where that is enough."""
    answers, covered = stopped(Stopping(precision=0.08, min_answers=8, max_answers=120), sigma, seed=int(1000 * sigma))
    assert covered >= 0.95 - MARGIN
    assert answers < {0.1: 25, 0.3: 121}[sigma]


# The rule


def test_looks_are_spaced_and_end_at_the_most() -> None:
    assert Stopping(precision=0.1, min_answers=8, max_answers=16).looks == (8, 12, 16)
    assert Stopping(precision=0.1, min_answers=5, max_answers=5).looks == (5,)
    assert Stopping(precision=0.05, min_answers=24, max_answers=60).looks == (24, 34, 48, 60)


def test_it_stops_when_the_widened_interval_is_narrow_enough() -> None:
    rule = Stopping(precision=0.1, min_answers=8, max_answers=64)
    just = 0.1 / rule.widening(8)
    for share, stops in ((0.999, True), (1.001, False)):
        outcome, following = rule.decide(precise(just * share), 8, 2, n_looks=1, answer_s=1.0, round_s=1.0)
        assert bool(outcome.reason) is stops
        assert following[0] in (8, 12)
    assert outcome.widened == pytest.approx(0.1001)


def test_samples_go_where_the_error_is() -> None:
    rule = Stopping(precision=0.05, min_answers=8, max_answers=100, max_rounds=50)
    _, answers = rule.decide(precise(0.2, 0.001), 8, 6, n_looks=1, answer_s=1.0, round_s=1.0)
    _, timings = rule.decide(precise(0.001, 0.2), 8, 6, n_looks=1, answer_s=1.0, round_s=1.0)
    _, both = rule.decide(precise(0.2, 0.2), 8, 6, n_looks=1, answer_s=1.0, round_s=1.0)
    assert answers == (12, 6)
    assert timings == (8, 12)
    assert both == (12, 12)


@given(
    answers=st.floats(0.0, 0.5),
    timings=st.floats(0.0, 0.5),
    n=st.integers(2, 200),
    rounds=st.integers(1, 50),
    target=st.floats(0.01, 0.3),
    answer_s=st.floats(0.01, 100.0),
    round_s=st.floats(0.01, 100.0),
)
@example(answers=0.0234375, timings=0.0, n=8, rounds=1, target=0.0234375, answer_s=1.0, round_s=1.0)
def test_the_mix_reaches_its_target_and_nothing_near_is_cheaper(
    answers: float, timings: float, n: int, rounds: int, target: float, answer_s: float, round_s: float
) -> None:
    found = cheapest_mix(precise(answers, timings), n, rounds, target=target, answer_s=answer_s, round_s=round_s)

    def half(x: float, y: float) -> float:
        return math.hypot(answers * math.sqrt(n / x), timings * math.sqrt(rounds / y))

    assert found[0] >= n
    assert found[1] >= rounds
    assert half(*found) <= target * (1 + 1e-9)
    cost = found[0] * answer_s + found[1] * round_s
    for share in (0.5, 0.8, 1.25, 2.0):
        other = max((found[0] - 1) * share, n), max((found[1] - 1) / share, rounds)
        cheaper = other[0] * answer_s + other[1] * round_s < (cost - answer_s - round_s) * (1 - 1e-9)
        assert not (cheaper and half(*other) <= target * (1 - 1e-9))


def test_the_rule_ends_whatever_the_precision_does() -> None:
    """Random precisions: looks stay within their number, counts grow, and the end is reached."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        rule = Stopping(precision=0.02, min_answers=4, max_answers=40, max_rounds=24)
        n, rounds, looks = 4, 6, 0
        while True:
            looks += 1
            parts = precise(*(float(v) for v in rng.exponential(0.1, 2)))
            outcome, following = rule.decide(parts, n, rounds, n_looks=looks, answer_s=1.0, round_s=3.0)
            if outcome.reason:
                break
            assert following != (n, rounds)
            assert following[0] >= n
            assert following[1] >= rounds
            n, rounds = following
        assert looks <= rule.max_looks


test_bad_rules = refuses(
    Stopping,
    ({"precision": 0.0}, "precision"),
    ({"precision": float("nan")}, "precision"),
    ({"precision": 0.1, "min_answers": 1}, "min_answers"),
    ({"precision": 0.1, "min_answers": 30, "max_answers": 20}, "min_answers"),
    ({"precision": 0.1, "growth": 1.0}, "growth"),
    ({"precision": 0.1, "max_rounds": 0}, "max_rounds"),
)
test_bad_precision = refuses(precise, ({"answers": 0.1, "timings": -1.0}, "timings"))
