"""What a validation adds to its runs: the same answer simulated, and predictions for engines as fast as they were."""

from __future__ import annotations

import pytest
from bundled_pair import BundledPair, brief_problems
from measured_profiles import measured
from sim_worlds import seconds_per_step

from calibrate.record.engine_records import InUse
from calibrate.running.interleaved import BASELINE, Runs
from sim.algorithms import autoregressive, lookahead_async
from sim.answers.drawn import TraceBehaviour
from sim.configuration import Configuration
from sim.trial import run_answer
from specplan.planning.predict import Predictor
from specplan.validating.validation import _at_pace, trace_of_session


async def test_a_run_is_replayed_from_what_it_met(bundled_pair: BundledPair) -> None:
    problem, clock = brief_problems(1, 7, "validation")[0], bundled_pair.clock
    root = await clock.root(problem.prompt)
    session = await clock.run(lookahead_async(root, k1=3), stream=problem.name)
    alone = await clock.run(autoregressive(root), stream=problem.name)
    trace = trace_of_session(session)
    assert trace.prompt_tokens == root.n_tokens
    answer = TraceBehaviour((trace,)).answer(0)
    replayed = run_answer(lambda prompt: lookahead_async(prompt, k1=3), answer, seconds_per_step(0.2))
    real = [(step.role, step.n_tokens, step.final) for step in session.committed]
    assert [(step.role, step.n_tokens, step.final) for step in replayed.committed] == real
    assert trace_of_session(alone) is None


def _did(seconds: float, n: int = 10) -> InUse:
    """Iterations of one sequence."""
    return InUse(decode=[(1, n, 100 * n, n * seconds)], prefill=(0, 0, 0.0))


def test_predictions_for_engines_as_fast_as_they_were() -> None:
    """Iterations take 10 ms and 1 ms in the profile, 15 ms and 2 ms in the runs."""
    profile, slower = measured([True] * 8), measured([True] * 8, target_s=0.015, draft_s=0.002)
    configuration = Configuration(method="lr-async", k1=2)
    name = configuration.name
    predictions = {name: Predictor(profile, uncertainty=False).predict(configuration)}
    work = {
        BASELINE: [{"big": _did(0.015), "small": _did(0.0, n=0)}],
        name: [{"big": _did(0.015), "small": _did(0.002)}],
        "prompt-lookup k2=4": [{"big": _did(9.0)}],  # what it did is no plain iteration
    }
    pace, at_pace = _at_pace(profile, predictions, Runs(work=work))
    assert pace == {"big": pytest.approx(1.5), "small": pytest.approx(2.0)}
    expected = Predictor(slower, uncertainty=False).predict(configuration).speedup.value
    assert abs(expected - predictions[name].speedup.value) > 0.01
    assert at_pace[name] == pytest.approx(expected, rel=1e-3)
    assert _at_pace(profile, predictions, Runs()) == ({}, {})
