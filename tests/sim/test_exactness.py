"""The simulator against the closed forms of Lookahead Reasoning, exactly."""

import math
from functools import cache, partial

import pytest
from refusals import refused
from sim_worlds import replayed, seconds_per_step

from sim.algorithms import Rules, lookahead_async, lookahead_sync
from sim.answers.traces import StepTrace
from sim.fast.recursions import async_recursion
from sim.trial import run_answer
from sim.virtual_clock import Session
from theory.speedup import f_async, f_sync

GRID = [
    (alpha, c1, k1)
    for alpha in (0.1, 0.5, 0.8, 0.95)
    for c1, k1 in ((0.05, 4), (0.1, 3), (0.1, 10), (0.2, 5), (0.25, 12), (0.5, 2), (0.9, 1), (0.9, 3))
]
GOOD = StepTrace(draft_tokens=1, target_tokens=1, accepted=True)
BAD = StepTrace(draft_tokens=1, target_tokens=1, accepted=False)
LAST = StepTrace(draft_tokens=1, target_tokens=1, accepted=False, target_final=True)


@cache
def stage(sync: bool, c1: float, k1: int, n_accepted: int) -> Session:
    """An answer whose first drafts are accepted, with a rejection after them; its end is outside the first cycle."""
    steps = (*[GOOD] * n_accepted, *[BAD] * (k1 if sync else 0), LAST)
    make = partial(lookahead_sync if sync else lookahead_async, k1=k1)
    return run_answer(make, replayed(*steps).answer(0), seconds_per_step(c1))


@pytest.mark.parametrize(("alpha", "c1", "k1"), GRID)
def test_async_equals_theorem_2_given_the_stage_length(alpha: float, c1: float, k1: int) -> None:
    """E[steps] / E[seconds] over stages, each length simulated and weighted with the geometric law.

    Stage times grow by 1 every k1 steps (or by c1 every step), so beyond the first few periods they are linear in the
    length: the tail of the law is summed in closed form from two simulated points, and nothing is cut off.
    """
    period = max(k1, 2)
    reach = 4 * period
    seconds = [stage(False, c1, k1, x).finished or 0.0 for x in range(reach + period)]
    # E[s(X)] = sum_{x < reach} p q^x s(x) + the tail, in which s(x + period) = s(x) + rise exactly.
    rise = seconds[reach] - seconds[reach - period]
    for x in range(reach - period, reach):
        assert seconds[x + period] - seconds[x] == pytest.approx(rise, rel=1e-12)
    p, q = 1.0 - alpha, alpha
    head = math.fsum(p * q**x * seconds[x] for x in range(reach))
    block = math.fsum(p * q**x * seconds[x] for x in range(reach, reach + period))
    ratio = q**period
    tail = block / (1.0 - ratio) + rise * q**reach * ratio / (1.0 - ratio)
    assert 1.0 / p / (head + tail) == pytest.approx(float(f_async(alpha, c1, k1)), rel=1e-12)


@pytest.mark.parametrize(("alpha", "c1", "k1"), GRID)
def test_sync_equals_theorem_1_given_the_cycle_length(alpha: float, c1: float, k1: int) -> None:
    """A cycle commits min(X, k1 - 1) + 1 steps; its seconds come from the simulator."""
    steps, seconds = [], []
    for x in range(k1):
        probability = (1.0 - alpha) * alpha**x if x < k1 - 1 else alpha**x
        times = stage(True, c1, k1, x).commit_times
        steps.append(probability * times.count(times[0]))
        seconds.append(probability * times[0])
    assert math.fsum(steps) / math.fsum(seconds) == pytest.approx(float(f_sync(alpha, c1, k1)), rel=1e-12)


test_recursions_refuse_bad_input = refused(
    lambda draft, more: async_recursion([[1.0]], draft, [[True]], k1=2, **more),
    ([[1.0, 2.0]], {}, "accepted"),
    ([[1.0]], {"rules": Rules(fallback="regenerate")}, "rules"),
    ([[1.0]], {"rules": Rules(slot="any-target")}, "rules"),
    ([[1.0]], {"verify_s": [[0.0, 0.0]]}, "verify_s"),
)
