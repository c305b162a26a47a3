"""Predicted against measured: predictions are made first, then the same configurations run on real engines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from calibrate.costs.fit import pace
from calibrate.measuring.engine_work import work_done
from calibrate.measuring.noise import CpuTimes
from calibrate.measuring.plan import MeasurableModels
from calibrate.record.engine_records import InUse
from calibrate.record.journal import Journal, digest
from calibrate.record.profile import Profile
from calibrate.record.uses import Use
from calibrate.replay.system import use_of
from calibrate.replay.trials import PLAIN, Trials
from calibrate.running.interleaved import (
    BASELINE,
    Measured,
    RealConfiguration,
    RealRun,
    Runs,
    measured,
    run_interleaved,
)
from calibrate.running.met import trace_of_session
from calibrate.running.problem import Problem, Truth
from sim.algorithms.checks import VERIFIERS
from sim.answers.drawn import TraceBehaviour
from sim.estimate import Estimate
from sim.operations import RANDOM, TARGET
from sim.timeline import Timeline
from specplan.check.validating.closed_forms import closed_form
from specplan.check.validating.next_measurement import Measurements
from specplan.check.validating.run_record import effective, of_configuration, of_models, of_profile, of_questions
from specplan.planning.predict import Configuration, Prediction, Predictor

__all__ = [
    "TOLERANCE",
    "Row",
    "Validation",
    "draw_timelines",
    "plain_answers",
    "predict_all",
    "real_configuration",
    "validate",
]

TOLERANCE = 0.10
"""A prediction is good if it is off by at most this share, or the measurement inside the interval for it."""

_TOLD: Final = frozenset(VERIFIERS) - {RANDOM}
"""Who decides about drafts in such a way that a run tells all that it met: chance would decide anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One configuration: what was predicted, and what came."""

    name: str
    prediction: Prediction
    measured: Measured
    expected: Estimate
    """The prediction, with an interval for a measurement on so many fresh questions."""
    at_pace: float | None = None
    """The predicted speedup on engines as fast as they were in the runs; None where engines do not tell."""
    replayed: float | None = None
    """The speedup simulated from the very lengths and verdicts that the runs met, on engines as fast as they were then;
    None where runs leave some of them open."""
    closed_form: float | None = None
    """What the papers' closed forms promise, from the same profile; None for methods without one."""

    @property
    def error(self) -> float:
        """Predicted / measured speedup - 1, [-]."""
        return self.prediction.speedup.value / self.measured.speedup.value - 1.0

    @property
    def good(self) -> bool:
        """Whether the prediction is within the tolerance, or the measurement inside the interval for it."""
        return abs(self.error) <= TOLERANCE or self.expected.contains(self.measured.speedup.value)

    @property
    def good_by_measured_interval(self) -> bool:
        """Whether the prediction is within the tolerance or inside the measured interval, the earlier rule."""
        return abs(self.error) <= TOLERANCE or self.measured.speedup.contains(self.prediction.speedup.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The outcome of a validation."""

    profile: str
    rows: tuple[Row, ...]
    baseline: Measured
    runs: Runs
    pace: Mapping[str, float] = field(default_factory=dict)
    """By engine, what it took for its work in these runs / what the profile says that it takes, [-]."""

    effective: Mapping[str, Any] = field(default_factory=dict)
    """Every parameter of the run by part, as it was in effect; plain data."""


def plain_answers(n_rows: int) -> int:
    """How often plain decoding best answers each question that n_rows configurations answer once: sqrt(n_rows) times.

    All are compared with it, so its noise counts in each speedup; at that share the comparisons are the most precise
    for the answers given (Dunnett, "A multiple comparison procedure", JASA 50, 1955, section 6).
    """
    return max(1, round(math.sqrt(n_rows)))


def predict_all(profile: Profile, configurations: Sequence[Configuration]) -> list[Prediction]:
    """Predict the configurations from the profile alone."""
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
    """Run what was predicted, interleaved with plain decoding, on fresh problems.

    Parameters
    ----------
    profile : what the predictions were made from.
    predictions : what to run.
    models : to be opened, and closed again.
    problems : at least two.
    n_plain : how often plain decoding answers each; see `plain_answers`.
    truth : ground truth of the task, if it has one.
    source : where the problems come from, for the record.
    seed : of the order of the runs.
    journal : where every run is kept as it is finished; the same validation goes on from there. The caller removes it.
    progress : called once per answer.

    Raises
    ------
    CalibrationError : an engine failed, or the journal cannot be written.
    SchemaError : the journal is of another validation.
    ParameterError : a token-level method that these engines cannot run.
    """
    by_name = {_name(p.configuration): p for p in predictions}
    methods = {name: real_configuration(p, models) for name, p in by_name.items()}
    asked = {
        "profile": digest(profile.model_dump_json()),
        "models": models.identity(),
        "runs": list(by_name),
        "questions": digest(*(problem.prompt for problem in problems)),
        "seed": seed,
        "plain": n_plain,
    }
    async with AsyncExitStack() as stack:
        kept = None if journal is None else stack.enter_context(Journal(journal, asked))
        roles, clock = await stack.enter_async_context(models.open())
        before = CpuTimes.now()
        engines: dict[str, Any] = {name: roles[role] for role, name in profile.placement.items() if role in roles}
        runs = await run_interleaved(
            clock,
            problems,
            methods,
            n_plain=n_plain,
            truth=truth,
            seed=seed,
            work=partial(work_done, engines),
            journal=kept,
            progress=progress,
        )
        after = CpuTimes.now()
        opened = of_models(models, roles, clock)
    baseline = measured(runs, BASELINE)
    found, at_pace = _at_pace(profile, by_name, runs)
    return Validation(
        profile=profile.name,
        rows=_rows(profile, by_name, runs, at_pace, _replayed(profile, by_name, runs, found)),
        baseline=baseline,
        runs=runs,
        pace=found,
        effective=effective(
            stolen=None if before is None or after is None else after.stolen_since(before),
            profile=of_profile(profile),
            **opened,
            questions=of_questions(problems, source, seed, baseline.speedup.confidence, n_plain),
            methods={name: of_configuration(p.configuration, methods[name]) for name, p in by_name.items()},
        ),
    )


def _rows(
    profile: Profile,
    predictions: Mapping[str, Prediction],
    runs: Runs,
    at_pace: Mapping[str, float],
    replayed: Mapping[str, float],
) -> tuple[Row, ...]:
    measurements = Measurements(profile)
    return tuple(
        Row(
            name=name,
            prediction=p,
            measured=measured(runs, name),
            expected=measurements.expected(p, len(runs.plain)),
            at_pace=at_pace.get(name),
            replayed=replayed.get(name),
            closed_form=closed_form(profile, p.configuration),
        )
        for name, p in predictions.items()
    )


def _at_pace(
    profile: Profile, predictions: Mapping[str, Prediction], runs: Runs
) -> tuple[dict[str, float], dict[str, float]]:
    """How fast the engines were in the runs, by engine, and the speedups that are predicted for engines so fast.

    Plain decoding and step-level methods show it: what they did is all in iterations and prefills.
    """
    fits = Trials(profile).system.fits
    uses: dict[str, Use] = {BASELINE: "plain"}
    for name, prediction in predictions.items():
        configuration = prediction.configuration
        if configuration.spec.level == "step" and configuration.token is None:
            uses[name] = use_of(configuration.spec, configuration.knobs)
    found = {}
    for engine in fits["plain"] if fits else ():
        work = [(fits[use][engine], one) for name, use in uses.items() for one in _done(runs, name, engine)]
        ratio = pace(work)
        if ratio is not None:
            found[engine] = ratio
    if not found:
        return {}, {}
    predictor = Predictor(profile, uncertainty=False, slower=found)
    return found, {name: predictor.predict(p.configuration).speedup.value for name, p in predictions.items()}


def _replayed(
    profile: Profile, predictions: Mapping[str, Prediction], runs: Runs, slower: Mapping[str, float]
) -> dict[str, float]:
    """The speedups simulated from what the runs met: what is left of an error then is no draw of texts."""

    def seconds(configuration: Configuration, answers: Sequence[RealRun]) -> float | None:
        met = [replace(run.met, baseline=run.steps) for run in answers if run.met is not None]
        if len(met) < len(answers):
            return None
        predictor = Predictor(profile, uncertainty=False, slower=slower, behaviour=TraceBehaviour(tuple(met)))
        return float(predictor.simulated(configuration, len(met)).seconds.mean())

    plain_s = seconds(PLAIN, list(chain.from_iterable(runs.plain)))
    found = {}
    for name, prediction in predictions.items():
        if plain_s is not None and prediction.configuration.decider[0] in _TOLD:
            method_s = seconds(prediction.configuration, runs.by_name[name])
            if method_s is not None:
                found[name] = plain_s / method_s
    return found


def _done(runs: Runs, name: str, engine: str) -> list[InUse]:
    return [one[engine] for one in runs.work.get(name, ()) if engine in one]


def _name(configuration: Configuration) -> str:
    return configuration.name


def real_configuration(prediction: Prediction, models: MeasurableModels) -> RealConfiguration:
    """What to run: the target's requests speculate as the prediction supposes, knobs left open as recorded."""
    configuration = prediction.configuration
    make, token = configuration.algorithm(), configuration.token
    if token is None:
        return RealConfiguration(make=make)
    given = {name: value for name, value in configuration.token_knobs.items() if value is not None}
    speculation = models.speculation(token, {**prediction.token_settings, **given})
    return RealConfiguration(make=make, speculation={TARGET: speculation})


def draw_timelines(profile: Profile, validation: Validation, row: Row, path: Path) -> None:
    """Draw a measured answer, and above it the simulation of the same answer, on the same time axis.

    The simulation replays the lengths and verdicts that the run met. Where a method leaves some of them open (it asks
    for no target step where it trusts the draft), a recorded answer of the profile is simulated instead.
    """
    from sim.gantt import draw

    session = validation.runs.sessions[row.name]
    met = trace_of_session(session)
    what, behaviour = ("another answer", None) if met is None else ("the same answer", TraceBehaviour((met,)))
    predictor = Predictor(profile, uncertainty=False, behaviour=behaviour)
    simulated = predictor.timeline(row.prediction.configuration)
    real = Timeline.of(session, f"measured, {row.name}")
    draw([replace(simulated, label=f"simulated, {what}"), real], path)
