"""The simulator against the closed forms, exactly and by chance, and against two programs that know nothing of it."""

import importlib.util
import math
from functools import cache, partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_worlds import drawn_answers, replayed, seconds_per_step, seconds_per_token

from sim.algorithms import Rules, lookahead_async, lookahead_sync
from sim.answers.drawn import DrawnAnswer, SyntheticBehaviour, TraceBehaviour
from sim.answers.traces import StepTrace
from sim.engines.fixed import FixedEngine
from sim.fast.recursions import async_recursion
from sim.trial import run_answer
from theory.errors import ParameterError
from theory.speedup import f_async, f_sync

GRID = [
    (alpha, c1, k1)
    for alpha in (0.1, 0.5, 0.8, 0.95)
    for c1, k1 in ((0.05, 4), (0.1, 3), (0.1, 10), (0.2, 5), (0.25, 12), (0.5, 2), (0.9, 1), (0.9, 3))
]


def verdicts_then_rejection(n_accepted: int) -> TraceBehaviour:
    """An answer whose first drafts are accepted, and which ends with a rejection."""
    good = StepTrace(draft_tokens=1, target_tokens=1, accepted=True)
    bad = StepTrace(draft_tokens=1, target_tokens=1, accepted=False, target_final=True)
    return replayed(*[good] * n_accepted, bad)


@cache
def simulated_stage(c1: float, k1: int, n_accepted: int) -> float:
    answer = verdicts_then_rejection(n_accepted).answer(0)
    session = run_answer(partial(lookahead_async, k1=k1), answer, seconds_per_step(c1))
    assert session.finished is not None
    return session.finished


@pytest.mark.parametrize(("alpha", "c1", "k1"), GRID)
def test_async_equals_theorem_2_given_the_stage_length(alpha: float, c1: float, k1: int) -> None:
    """E[steps] / E[seconds] over stages, each length simulated and weighted with the geometric law.

    Stage times grow by 1 every k1 steps (or by c1 every step), so beyond the first few periods they are linear in the
    length: the tail of the law is summed in closed form from two simulated points, and nothing is cut off.
    """
    period = max(k1, 2)
    reach = 4 * period
    seconds = [simulated_stage(c1, k1, x) for x in range(reach + period)]
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
        # Long enough that the end of the answer is outside this cycle.
        trace = verdicts_then_rejection(x).traces[0].steps[:-1]
        more = StepTrace(draft_tokens=1, target_tokens=1, accepted=False)
        last = StepTrace(draft_tokens=1, target_tokens=1, accepted=False, target_final=True)
        answer = replayed(*trace, *[more] * k1, last).answer(0)
        session = run_answer(partial(lookahead_sync, k1=k1), answer, seconds_per_step(c1))
        first = session.commit_times[0]
        steps.append(probability * session.commit_times.count(first))
        seconds.append(probability * first)
    assert math.fsum(steps) / math.fsum(seconds) == pytest.approx(float(f_sync(alpha, c1, k1)), rel=1e-12)


def drawn(n_steps: int, cv: float, seed: int) -> SyntheticBehaviour:
    return drawn_answers(40.0, cv=cv, alpha=0.7, steps=n_steps, seed=seed, correlation=0.5, lag1=0.3)


TARGET_S, DRAFT_S = 0.01, 0.0021737
"""Seconds per token, of which few multiples are equal: no draft ends at the very moment of its target step."""


def by_tokens(verify_s: float) -> dict[str, FixedEngine]:
    return seconds_per_token(TARGET_S, DRAFT_S, judge_s=verify_s)


def columns(answers: list[DrawnAnswer]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    target = TARGET_S * np.array([answer.target_lengths() for answer in answers])
    draft = DRAFT_S * np.array([answer.draft_lengths() for answer in answers])
    return target, draft, np.array([answer.accepted() for answer in answers])


@cache
def yardstick() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "idiomatic_simpy.py"
    spec = importlib.util.spec_from_file_location("idiomatic_simpy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(seed=st.integers(0, 2**31), k1=st.integers(1, 9), verify_s=st.sampled_from([0.0, 0.05]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_an_idiomatic_simpy_program_gives_the_same_times(seed: int, k1: int, verify_s: float) -> None:
    answer = drawn(n_steps=25, cv=1.5, seed=seed).answer(0)
    target, draft, accepted = columns([answer])
    theirs = yardstick().idiomatic_commit_times(target[0], draft[0], accepted[0], k1=k1, verify_s=verify_s)
    ours = run_answer(partial(lookahead_async, k1=k1), answer, by_tokens(verify_s)).commit_times
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_recursions_refuse_bad_input() -> None:
    with pytest.raises(ParameterError, match="accepted"):
        async_recursion([[1.0]], [[1.0, 2.0]], [[True]], k1=2)
    for rules in (Rules(fallback="regenerate"), Rules(slot="any-target")):
        with pytest.raises(ParameterError, match="rules"):
            async_recursion([[1.0]], [[1.0]], [[True]], k1=2, rules=rules)
    with pytest.raises(ParameterError, match="verify_s"):
        async_recursion([[1.0]], [[1.0]], [[True]], k1=2, verify_s=[[0.0, 0.0]])
