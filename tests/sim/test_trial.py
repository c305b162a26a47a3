"""Trials of answers one by one: totals, counts, and the same bytes in every process."""

import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sim_worlds import batch_engines, drawn_answers, replayed, seconds_per_step

from sim.algorithms import lookahead_async
from sim.answers.traces import StepTrace
from sim.operations import Algorithm, Step
from sim.timeline import Counts
from sim.trial import Runs, simulate, with_plain
from theory.errors import ParameterError

FIXED = seconds_per_step(0.1)
BEHAVIOUR = drawn_answers(20.0, cv=0.5, alpha=0.7, steps=20, seed=3, correlation=0.5)


def test_totals_are_those_of_the_answers() -> None:
    result = simulate(*with_plain(partial(lookahead_async, k1=3), BEHAVIOUR, batch_engines(None)), n=15)
    times, bases = result.method.seconds, result.baseline.seconds
    assert result.speedup.value == pytest.approx(sum(bases) / sum(times))
    assert result.speedup.value > 1.0
    assert result.speedup.seed == BEHAVIOUR.seed
    assert times.shape == bases.shape == (15,)
    assert sum(counts.steps for counts in result.method.counts) == 15 * 20
    assert result.method.peak_targets == 3


def test_replays_have_no_seed_and_no_answers_are_refused() -> None:
    step = StepTrace(draft_tokens=2, target_tokens=5, accepted=True, draft_final=True, target_final=True)
    trials = with_plain(partial(lookahead_async, k1=2), replayed(step, baseline=(5,)), FIXED)
    speedup = simulate(*trials, n=7).speedup
    assert (speedup.n, speedup.value, speedup.seed) == (7, 1.0, None)
    with pytest.raises(ParameterError, match="non-empty"):
        simulate(*trials, n=0)


def test_same_seed_same_bytes_in_another_process() -> None:
    """Hash randomisation, import order and process do not reach the result."""
    code = """
from functools import partial
from sim_worlds import batch_engines, drawn_answers
from sim.algorithms import lookahead_async
from sim.trial import simulate, with_plain
answers = drawn_answers(20.0, cv=0.5, alpha=0.7, steps=9, correlation=0.5, siblings=0.3, spread=0.1)
print(simulate(*with_plain(partial(lookahead_async, k1=3, width=2), answers, batch_engines(None)), n=5))
"""
    root = Path(__file__).resolve().parents[2]
    path = f"{root}:{root / 'tests' / 'helpers'}"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_step_is_not_an_algorithm() -> None:
    def nonsense(root: Step) -> Algorithm:
        yield root  # type: ignore[misc]

    with pytest.raises(TypeError, match="no action"):
        simulate(*with_plain(nonsense, BEHAVIOUR, FIXED), n=1)


def test_the_draft_writes_fewer_steps_than_its_acceptance_says_where_some_are_not_drafted() -> None:
    """LR sync has no draft for the last step of a cycle."""
    runs = Runs(np.ones(2), (Counts(steps=8, accepted=5, rejected=1, discarded=2), Counts(steps=2)))
    assert (runs.accepted, runs.acceptance) == (0.5, 5 / 6)
    assert math.isnan(Runs(np.ones(1), (Counts(steps=3),)).acceptance)
