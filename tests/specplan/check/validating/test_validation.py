"""What a validation adds to its runs: predictions for engines as fast as they were, and for the texts that they met."""

from dataclasses import replace
from typing import Any

import pytest
from measured_profiles import measured, speculated

from calibrate.record.engine_records import InUse
from calibrate.replay.traces import trace_of
from calibrate.replay.trials import Trials
from calibrate.running.interleaved import BASELINE, RealRun, Runs
from sim.configuration import PLAIN, Configuration
from sim.timeline import Counts
from specplan.check.validating.validation import _at_pace, _replayed, slowdowns
from specplan.planning.predict import Predictor


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
    runs = Runs(by_name={name: [_run(work=one) for one in did] for name, did in work.items()})
    pace, at_pace = _at_pace(profile, predictions, runs)
    assert pace == {"big": pytest.approx(1.5), "small": pytest.approx(2.0)}
    expected = Predictor(slower, uncertainty=False).predict(configuration).speedup.value
    assert abs(expected - predictions[name].speedup.value) > 0.01
    assert at_pace[name] == pytest.approx(expected, rel=1e-3)
    assert _at_pace(profile, predictions, Runs()) == ({}, {})


def test_the_passes_of_token_level_methods_count() -> None:
    """Passes over drafts take 12 ms in the profile and 15 ms in the runs, plain iterations 10 ms in both."""
    trials = Trials(speculated(measured([True] * 8), pass_s=0.012))
    drafting = Configuration(method="draft-model", k2=3)
    passes = [{"big": InUse(passes=[(1, 10, 640, 0.150)])}]
    assert slowdowns(trials, {drafting: passes}) == {"big": pytest.approx(1.25)}
    plain = [{"big": _did(0.010)}]
    assert slowdowns(trials, {PLAIN: plain, drafting: passes}) == {"big": pytest.approx(0.250 / 0.220)}


def _run(**told: Any) -> RealRun:
    return RealRun(problem="q", seconds=1.0, counts=Counts(), correct=None, **told)


@pytest.mark.parametrize("n_plain", [1, 2])
def test_what_the_runs_met_is_simulated_on_engines_as_fast_as_they_were(n_plain: int) -> None:
    """The runs met rejections of which the profile knows nothing, and engines that took twice as long."""
    profile, other = measured([True] * 8), measured([True, False] * 4, target_s=0.02, draft_s=0.002)
    lr = Configuration(method="lr-async", k1=2)
    predictions = {lr.name: Predictor(profile, uncertainty=False).predict(lr)}
    met = [trace_of(answer) for answer in other.answers]
    plain = [_run(met=replace(trace, steps=()), steps=trace.baseline) for trace in met]
    own = [_run(met=replace(trace, baseline=()), steps=trace.baseline) for trace in met]
    runs = Runs(by_name={BASELINE: plain, lr.name: own}, again=[[run] * (n_plain - 1) for run in plain])
    found = _replayed(profile, predictions, runs, {"big": 2.0, "small": 2.0})
    expected = Predictor(other, uncertainty=False).predict(lr).speedup.value
    assert found == {lr.name: pytest.approx(expected, rel=1e-6)}
    assert abs(expected - predictions[lr.name].speedup.value) > 0.1
    runs.by_name[lr.name][1] = _run()  # a run that leaves some of it open
    assert _replayed(profile, predictions, runs, {}) == {}
