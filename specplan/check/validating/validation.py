"""Validation: configurations are predicted first, and then run on real engines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from calibrate.costs.fit import CostFit, slowdown_of
from calibrate.measuring.engine_work import work_done
from calibrate.measuring.noise import cpu_times, stolen_share
from calibrate.measuring.plan import MeasurableModels
from calibrate.record.engine_records import InUse
from calibrate.record.journal import Journal
from calibrate.record.profile import Profile
from calibrate.replay.trials import Trials
from calibrate.running.interleaved import (
    BASELINE,
    Measured,
    RealConfiguration,
    RealRun,
    Runs,
    measured,
    run_interleaved,
    trace_of_session,
)
from calibrate.running.problem import Problem, Truth
from sim.algorithms.checks import VERIFIERS
from sim.answers.drawn import TraceBehaviour
from sim.configuration import PLAIN, Configuration
from sim.estimate import Estimate
from sim.roles import RANDOM, TARGET
from sim.timeline import Timeline
from specplan.check.validating.closed_forms import closed_form
from specplan.check.validating.next_measurement import Measurements
from specplan.check.validating.run_record import (
    effective,
    identity,
    of_configuration,
    of_models,
    of_profile,
    of_questions,
)
from specplan.planning.predict import Prediction, Predictor

__all__ = [
    "TOLERANCE",
    "Row",
    "Validation",
    "draw_timelines",
    "plain_answers",
    "predict_all",
    "real_configuration",
    "slowdowns",
    "validate",
]

TOLERANCE = 0.10
"""A prediction is good if its error is at most this share, or the measurement inside its interval."""

_REPLAYABLE: Final = frozenset(VERIFIERS) - {RANDOM}
"""Verifiers whose decisions a run records completely; a random one would decide anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A configuration with its prediction and its measurement."""

    name: str
    prediction: Prediction
    measured: Measured
    expected: Estimate
    """The prediction, with the interval of a measurement on as many fresh questions."""
    at_pace: float | None = None
    """The speedup predicted with the engine times of the runs; None where engines do not report them."""
    replayed: float | None = None
    """The speedup simulated from the lengths and verdicts of the runs, with the engine times of the runs; None where
    the runs lack some of them."""
    closed_form: float | None = None
    """The speedup by the papers' closed forms, from the same profile; None for methods without one."""

    @property
    def error(self) -> float:
        """Predicted / measured speedup - 1, [-]."""
        return self.prediction.speedup.value / self.measured.speedup.value - 1.0

    @property
    def good(self) -> bool:
        """Whether the error is within the tolerance, or the measurement inside the predicted interval."""
        return abs(self.error) <= TOLERANCE or self.expected.contains(self.measured.speedup.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The result of a validation."""

    profile: str
    rows: tuple[Row, ...]
    baseline: Measured
    runs: Runs
    slowdown: Mapping[str, float] = field(default_factory=dict)
    """By engine, the time of its work in these runs / the time that the profile gives for it, [-]."""
    effective: Mapping[str, Any] = field(default_factory=dict)
    """Effective parameters of the run by part, as plain data."""

    @property
    def fastest(self) -> Row:
        """The row that was measured fastest."""
        return max(self.rows, key=lambda row: row.measured.speedup.value)


def plain_answers(n_rows: int) -> int:
    """Return how often plain decoding should answer each question that ``n_rows`` configurations answer once.

    It is sqrt(n_rows): all are compared with plain decoding, whose noise enters each speedup, and this number makes the
    comparisons most precise for a given number of answers (Dunnett, "A multiple comparison procedure", JASA 50, 1955,
    section 6).
    """
    return max(1, round(math.sqrt(n_rows)))


def predict_all(profile: Profile, configurations: Sequence[Configuration]) -> list[Prediction]:
    """Predict the configurations from the profile."""
    predictor = Predictor(profile)
    return [predictor.predict(configuration) for configuration in configurations]


async def validate(
    profile: Profile,
    predictions: Sequence[Prediction],
    models: MeasurableModels,
    problems: Sequence[Problem],
    *,
    n_plain: int = 1,
    truth: Truth | None = None,
    source: str = "",
    seed: int = 0,
    journal: Path | None = None,
    progress: Callable[[str], None] = lambda part: None,
) -> Validation:
    """Run what was predicted, interleaved with plain decoding, on at least two fresh problems; opens and closes models.

    Parameters
    ----------
    n_plain : answers of plain decoding to each question; see `plain_answers`.
    truth, source : ground truth of the task, if it has one, and the source of the problems, for the record.
    seed, journal : of the order of the runs; file that keeps each of them, from which the same validation goes on.
    progress : called after each answer.

    Raises
    ------
    CalibrationError : an engine failed, or the journal cannot be written.
    SchemaError : the journal is of another validation.
    ParameterError : a token-level method that these engines cannot run.
    """
    by_name = {p.configuration.name: p for p in predictions}
    methods = {name: real_configuration(p, models) for name, p in by_name.items()}
    options = {**identity(profile, models, by_name, problems), "seed": seed, "plain": n_plain}
    async with AsyncExitStack() as stack:
        kept = None if journal is None else stack.enter_context(Journal(journal, options))
        roles, clock = await stack.enter_async_context(models.open())
        before = cpu_times()
        engines: dict[str, Any] = {name: roles[role] for role, name in profile.placement.items() if role in roles}
        work = partial(work_done, engines)
        how: dict[str, Any] = {"n_plain": n_plain, "truth": truth, "seed": seed, "work": work, "journal": kept}
        runs = await run_interleaved(clock, problems, methods, progress=progress, **how)
        after = cpu_times()
        opened = of_models(models, roles, clock)
    baseline = measured(runs, BASELINE)
    slowdown, at_pace = _at_pace(profile, by_name, runs)
    replayed, measurements = _replayed(profile, by_name, runs, slowdown), Measurements(profile)
    rows = tuple(
        Row(
            name=name,
            prediction=p,
            measured=measured(runs, name),
            expected=measurements.expected(p, len(runs.plain)),
            at_pace=at_pace.get(name),
            replayed=replayed.get(name),
            closed_form=closed_form(profile, p.configuration),
        )
        for name, p in by_name.items()
    )
    return Validation(
        profile=profile.name,
        rows=rows,
        baseline=baseline,
        runs=runs,
        slowdown=slowdown,
        effective=effective(
            stolen=stolen_share(before, after),
            profile=of_profile(profile),
            **opened,
            questions=of_questions(problems, source, seed, baseline.speedup.confidence, n_plain),
            methods={name: of_configuration(p.configuration, methods[name]) for name, p in by_name.items()},
        ),
    )


def _at_pace(
    profile: Profile, predictions: Mapping[str, Prediction], runs: Runs
) -> tuple[dict[str, float], dict[str, float]]:
    """Measured over predicted time of the engines' work, by engine, and the speedups predicted with it."""
    done = {PLAIN: runs.work.get(BASELINE, [])}
    done |= {p.configuration: runs.work.get(name, []) for name, p in predictions.items()}
    slowdown = slowdowns(Trials(profile), done)
    if not slowdown:
        return {}, {}
    predictor = Predictor(profile, uncertainty=False, slower=slowdown)
    return slowdown, {name: predictor.predict(p.configuration).speedup.value for name, p in predictions.items()}


def slowdowns(trials: Trials, done: Mapping[Configuration, Sequence[Mapping[str, InUse]]]) -> dict[str, float]:
    """Return the measured time of each engine's work / the time by the profile, ratio of totals, [-]; by engine.

    Methods with several drafts per position do not count: the sizes of their groups of requests are not recorded.

    Parameters
    ----------
    trials : trials of the profile.
    done : work of the engines in each run of a configuration; plain decoding's configuration is `PLAIN`.
    """
    work: dict[str, list[tuple[CostFit, InUse]]] = {}
    for configuration, runs in done.items():
        if configuration.spec.level == "beam" or not runs:
            continue
        for engine, fit in trials.fits(configuration).items():
            work.setdefault(engine, []).extend((fit, run[engine]) for run in runs if engine in run)
    ratios = {engine: slowdown_of(pairs) for engine, pairs in work.items()}
    return {engine: ratio for engine, ratio in ratios.items() if ratio is not None}


def _replayed(
    profile: Profile, predictions: Mapping[str, Prediction], runs: Runs, slower: Mapping[str, float]
) -> dict[str, float]:
    """Speedups simulated from the lengths and verdicts of the runs, whose errors are not due to the drawn texts."""

    def seconds(configuration: Configuration, answers: Sequence[RealRun]) -> float | None:
        met = [replace(run.met, baseline=run.steps) for run in answers if run.met is not None]
        if len(met) < len(answers):
            return None
        predictor = Predictor(profile, uncertainty=False, slower=slower, behaviour=TraceBehaviour(tuple(met)))
        return float(predictor.simulated(configuration, len(met)).seconds.mean())

    plain_s = seconds(PLAIN, list(chain.from_iterable(runs.plain)))
    speedups = {}
    for name, prediction in predictions.items():
        if plain_s is not None and prediction.configuration.decider[0] in _REPLAYABLE:
            method_s = seconds(prediction.configuration, runs.by_name[name])
            if method_s is not None:
                speedups[name] = plain_s / method_s
    return speedups


def real_configuration(prediction: Prediction, models: MeasurableModels) -> RealConfiguration:
    """Return the configuration to run, with the token-level speculation and settings that the prediction assumes."""
    configuration = prediction.configuration
    make, token = configuration.algorithm(), configuration.token
    if token is None:
        return RealConfiguration(make=make)
    given = {name: value for name, value in configuration.token_knobs.items() if value is not None}
    speculation = models.speculation(token, {**prediction.token_settings, **given})
    return RealConfiguration(make=make, speculation={TARGET: speculation})


def draw_timelines(profile: Profile, validation: Validation, row: Row, path: Path) -> None:
    """Draw a measured answer below the simulation of the same answer, on the same time axis.

    The simulation replays the lengths and verdicts of the run. Where the run lacks some of them (no target step where
    the method trusts the draft), a recorded answer of the profile is simulated instead.
    """
    from sim.gantt import draw

    session = validation.runs.sessions[row.name]
    met = trace_of_session(session)
    what, behaviour = ("another answer", None) if met is None else ("the same answer", TraceBehaviour((met,)))
    predictor = Predictor(profile, uncertainty=False, behaviour=behaviour)
    simulated = predictor.timeline(row.prediction.configuration)
    real = Timeline.of(session, f"measured, {row.name}")
    draw([replace(simulated, label=f"simulated, {what}"), real], path)
