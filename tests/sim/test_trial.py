"""Estimates, trials, replication to a precision, load."""

import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from sim_worlds import batch_engines, drawn_answers, seconds_per_step

from sim.algorithms import autoregressive, lookahead_async
from sim.answers.drawn import TraceBehaviour
from sim.answers.traces import AnswerTrace, StepTrace
from sim.estimate import Estimate, mean, proportion, ratio_of_totals
from sim.operations import Algorithm, Step
from sim.serving.arrivals import bursty_times
from sim.serving.run import OverloadError, arriving
from sim.timeline import Counts
from sim.trial import Runs, Trial, simulate, with_plain
from theory.errors import ParameterError

FIXED = seconds_per_step(0.1)


BEHAVIOUR = drawn_answers(20.0, cv=0.5, alpha=0.7, steps=20, seed=3, correlation=0.5)


def test_ratio_of_totals_by_hand() -> None:
    estimate = ratio_of_totals([4.0, 6.0], [1.0, 4.0])
    # S = 2; residuals 2 and -2; se = sqrt(8 / 2) / 2.5
    assert (estimate.value, estimate.stderr, estimate.n) == (2.0, pytest.approx(0.8), 2)


def test_mean_and_its_interval() -> None:
    estimate = mean([1.0, 2.0, 3.0, 4.0])
    assert estimate.value == 2.5
    assert estimate.stderr == pytest.approx(math.sqrt(5 / 3 / 4))
    assert estimate.half_width == pytest.approx(3.1824463052842638 * estimate.stderr)  # t quantile, 3 degrees


def test_one_sample_has_no_known_error() -> None:
    estimate = mean([2.0])
    assert math.isnan(estimate.stderr)
    assert (estimate.low, estimate.high) == (-math.inf, math.inf)
    assert str(estimate) == "2 ± ?"


@pytest.mark.parametrize(
    ("value", "stderr", "unit", "text"),
    [
        (1.4299, 0.0213, "", "1.430 ± 0.021"),
        (123.4, 15.0, "s", "123 ± 15 s"),
        (1.25, 0.0, "s", "1.25 (±0) s"),
        (0.00123456, 0.0000123, "", "0.001235 ± 0.000012"),
    ],
)
def test_printing(value: float, stderr: float, unit: str, text: str) -> None:
    estimate = Estimate(value=value, stderr=stderr, low=0.0, high=1.0, n=3, unit=unit)
    assert str(estimate) == text


def test_proportion_keeps_to_its_domain() -> None:
    assert proportion(0, 20).low == 0.0
    assert proportion(20, 20).high == 1.0
    wilson = proportion(5, 20)  # Newcombe 1998: 0.1119 to 0.4687
    assert (round(wilson.low, 4), round(wilson.high, 4)) == (0.1119, 0.4687)


test_bad_samples_are_refused = refused(
    lambda call: call(),
    (lambda: mean([]), "samples"),
    (lambda: mean([float("nan")]), "samples"),
    (lambda: mean([[1.0]]), "samples"),
    (lambda: ratio_of_totals([1.0], [0.0]), "positive total"),
    (lambda: proportion(3, 2), "3 of 2"),
    (lambda: arriving(Trial.of(autoregressive, BEHAVIOUR, batch_engines(None)), []), "moments_s=0"),
)


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
    behaviour = TraceBehaviour((AnswerTrace(prompt_tokens=0, steps=(step,), baseline=(5,)),))
    replayed = partial(simulate, *with_plain(partial(lookahead_async, k1=2), behaviour, FIXED))
    speedup = replayed(n=7).speedup
    assert (speedup.n, speedup.value, speedup.seed) == (7, 1.0, None)
    with pytest.raises(ParameterError, match="non-empty"):
        replayed(n=0)


def test_overload_is_said() -> None:
    trial = Trial.of(autoregressive, BEHAVIOUR, batch_engines(None))
    with pytest.raises(OverloadError, match="overload"):
        arriving(trial, bursty_times(50.0, 1.0, 200).tolist(), max_in_flight=30)


def test_same_seed_same_bytes_in_another_process() -> None:
    """Hash randomisation, import order and process do not reach the result."""
    code = """
from functools import partial
from sim.answers.acceptance import Acceptance
from sim.algorithms import lookahead_async
from sim.answers.drawn import SyntheticBehaviour
from sim.engines.costs import LinearCost
from sim.engines.batching import BatchEngine
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.trial import simulate, with_plain
lengths = Lengths(target=Lognormal(mean=20.0, cv=0.5), draft=Lognormal(mean=20.0, cv=0.5), correlation=0.5)
b = SyntheticBehaviour(lengths=lengths, acceptance=Acceptance(alpha=0.7, siblings=0.3, spread=0.1), steps=Fixed(9))
e = {r: BatchEngine(LinearCost(base_s=0.02, sequence_s=0.001)) for r in ("target", "draft", "judge")}
print(simulate(*with_plain(partial(lookahead_async, k1=3, width=2), b, e), n=5))
"""
    root = Path(__file__).resolve().parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_step_is_not_an_algorithm() -> None:
    with pytest.raises(TypeError, match="no action"):
        simulate(*with_plain(_nonsense, BEHAVIOUR, FIXED), n=1)


def _nonsense(root: Step) -> Algorithm:
    yield root  # type: ignore[misc]


def test_the_draft_writes_fewer_steps_than_its_acceptance_says_where_some_are_not_drafted() -> None:
    """LR sync has no draft for the last step of a cycle."""
    runs = Runs(np.ones(2), (Counts(steps=8, accepted=5, rejected=1, discarded=2), Counts(steps=2)))
    assert runs.accepted == 0.5
    assert runs.acceptance == 5 / 6
    assert math.isnan(Runs(np.ones(1), (Counts(steps=3),)).acceptance)
