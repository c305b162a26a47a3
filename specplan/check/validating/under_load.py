"""Validation under load: predictions against measurements with many clients, and the regret of the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from calibrate.measuring.engine_work import work_done
from calibrate.measuring.noise import cpu_times, stolen_share
from calibrate.measuring.plan import MeasurableModels
from calibrate.record.journal import Journal
from calibrate.record.profile import Profile
from calibrate.running.closed_loop import Loaded, rounds_of, run_under_load
from calibrate.running.interleaved import BASELINE
from calibrate.running.problem import Problem, Truth
from sim.configuration import PLAIN, Configuration
from sim.estimate import Estimate, proportion, ratio_of_totals
from sim.random_streams import stream
from sim.roles import DRAFT, TARGET
from sim.serving.rounds import Round
from sim.timeline import acceptance
from specplan.check.validating.load_prediction import (
    PERCENTILES,
    UNITS,
    LoadPredictor,
    Totals,
    share_beyond,
    swept_batches,
    totals_of,
)
from specplan.check.validating.run_record import (
    effective,
    identity,
    of_configuration,
    of_models,
    of_profile,
    of_questions,
)
from specplan.check.validating.validation import TOLERANCE, real_configuration, slowdowns
from specplan.planning.loads.statements import Pays
from specplan.planning.predict import Predictor
from theory.errors import ParameterError

__all__ = ["LoadRow", "LoadValidation", "Verdict", "check_rounds", "off_from", "validate_under_load", "verdict_on"]


_RESAMPLES: Final = 1000
Side = Literal["predicted", "measured"]
_IN_ROUNDS: Final = {
    "interleaved": "each round has its own questions; every configuration runs at every load, in random order, "
    "before the next round",
    "warm_up": "all configurations answer questions of the first round with the most clients, not counted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """A configuration at a load."""

    name: str
    clients: int
    predicted: Mapping[str, Estimate]
    """By the names of `METRICS`."""
    measured: Mapping[str, Estimate]
    accuracy: Estimate | None
    """Measured share of right answers; None without ground truth."""
    acceptance: float
    """Measured acceptance rate of judged drafts, in [0, 1]; NaN if none was judged."""
    answers_at_once: tuple[float, float]
    """Mean answers in flight over a round, predicted and measured; fewer than clients while a round ends."""
    most_steps: tuple[int, int]
    """Most target steps in flight, predicted and measured."""
    beyond: Mapping[str, tuple[float, float]]
    """By role, the share of the time with more steps in flight than the largest timed batch, predicted and measured."""
    seconds: tuple[float, ...] = ()
    """Durations of the measured rounds, each of the work of plain decoding's (`totals_of`), s."""
    at_pace: float | None = None
    """The gain predicted with the engine times of this load; None where engines do not report them."""

    @property
    def error(self) -> float:
        """Predicted / measured gain - 1, [-]."""
        return self.predicted["gain"].value / self.measured["gain"].value - 1.0

    @property
    def inside(self) -> bool:
        """Whether the measured gain lies in the predicted interval."""
        return self.predicted["gain"].contains(self.measured["gain"].value)

    @property
    def good(self) -> bool:
        """Whether the error is within the tolerance, or the measured gain inside the predicted interval."""
        return self.inside or abs(self.error) <= TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The choice at a load."""

    clients: int
    chosen: str
    """Configuration with the largest predicted gain; plain decoding if none is above 1."""
    best: str
    """Configuration with the largest measured gain."""
    regret: Estimate
    """Measured gain of the best / of the chosen configuration - 1, [-], with an interval over rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadValidation:
    """The result of a validation under load."""

    profile: str
    rows: tuple[LoadRow, ...]
    verdicts: tuple[Verdict, ...]
    n_questions: int
    n_rounds: int
    off_from: tuple[int | None, int | None]
    """The least load from which no method gains, predicted and measured; None: some method gains at the highest."""
    slowdown: Mapping[int, Mapping[str, float]]
    """By number of clients and engine, the time of its work / the time that the profile gives for it, [-]."""
    swept: Mapping[str, int]
    """The largest timed batch, by role."""
    most: Mapping[str, int]
    """The largest batch of the role's engine, where the engine reports it."""
    effective: Mapping[str, Any] = field(default_factory=dict)
    """Effective parameters of the run by part, as plain data."""


async def validate_under_load(
    profile: Profile,
    configurations: Sequence[Configuration],
    models: MeasurableModels,
    problems: Sequence[Problem],
    loads: Sequence[int],
    *,
    n_rounds: int = 4,
    truth: Truth | None = None,
    source: str = "",
    seed: int = 0,
    journal: Path | None = None,
    progress: Callable[[str], None] = lambda part: None,
) -> LoadValidation:
    """Predict rounds of all configurations at all loads, then run them, interleaved with plain decoding.

    Parameters
    ----------
    problems : questions; each belongs to a single round.
    loads : numbers of clients.
    n_rounds : number of rounds, at least 2, for an interval.
    models, truth, source, seed, journal : as in `specplan.check.validating.validation.validate`.
    progress : called for each prediction of a configuration at a load, and for each round that was run.

    Raises
    ------
    ParameterError : more clients than questions in a round, or a method that the profile or the engines do not know.
    CalibrationError : an engine failed, or the journal cannot be written.
    SchemaError : the journal is of another validation.
    """
    check_rounds(len(problems), n_rounds, loads)
    rounds = rounds_of(problems, n_rounds)
    predictor = Predictor(profile, uncertainty=False)
    methods = {c.name: real_configuration(predictor.predict(c), models) for c in configurations}
    options = {**identity(profile, models, methods, problems), **_load_options(loads, n_rounds), "seed": seed}
    async with AsyncExitStack() as stack:
        kept = None if journal is None else stack.enter_context(Journal(journal, options))
        roles, clock = await stack.enter_async_context(models.open())
        limits = {role: roles[role].describe().get("max_batch") for role in (TARGET, DRAFT)}
        most = {role: int(limit) for role, limit in limits.items() if limit}
        expected = LoadPredictor(predictor.trials, [len(questions) for questions in rounds], most)
        for configuration, load in product((PLAIN, *configurations), loads):
            expected.expected(configuration, load)
            progress(f"predicted: {load} {configuration.name}")
        before = cpu_times()
        work = partial(work_done, {name: roles[role] for role, name in profile.placement.items() if role in roles})
        loaded = await run_under_load(
            clock, rounds, methods, loads, truth=truth, seed=seed, work=work, journal=kept, progress=progress
        )
        after = cpu_times()
        opened = of_models(models, roles, clock)
    record = effective(
        stolen=stolen_share(before, after),
        profile=of_profile(profile),
        **opened,
        questions={**of_questions(problems, source, seed, 0.95), **_load_options(loads, n_rounds), **_IN_ROUNDS},
        methods={c.name: of_configuration(c, methods[c.name]) for c in configurations},
    )
    return replace(_compared((PLAIN, *configurations), loads, expected, loaded), effective=record)


def _load_options(loads: Sequence[int], n_rounds: int) -> dict[str, Any]:
    return {"loads": list(loads), "rounds": n_rounds}


def _compared(
    configurations: Sequence[Configuration], loads: Sequence[int], expected: LoadPredictor, loaded: Loaded
) -> LoadValidation:
    trials = expected.trials
    swept = swept_batches(trials.profile)
    slowdown = {
        load: slowdowns(trials, {c: [one.work for one in loaded[c.name, load]] for c in configurations})
        for load in loads
    }
    rows = tuple(
        _row_of(configuration, load, expected, loaded, swept, at_pace)
        for load in loads
        for configuration, at_pace in zip(
            configurations, expected.gains_at_pace(configurations, load, slowdown[load]), strict=True
        )
    )
    return LoadValidation(
        profile=trials.profile.name,
        rows=rows,
        verdicts=tuple(verdict_on([row for row in rows if row.clients == load]) for load in loads),
        n_questions=sum(expected.sizes),
        n_rounds=len(expected.sizes),
        off_from=(off_from(rows, "predicted"), off_from(rows, "measured")),
        slowdown=slowdown,
        swept=swept,
        most=expected.most,
    )


def _row_of(
    configuration: Configuration,
    load: int,
    expected: LoadPredictor,
    loaded: Loaded,
    swept: Mapping[str, int],
    at_pace: float | None,
) -> LoadRow:
    """Compare the prediction of a configuration at a load with the measurement."""
    simulated, real = expected.rounds(configuration, load), loaded[configuration.name, load]
    seen, plain = ([one.round for one in part] for part in (real, loaded[BASELINE, load]))
    totals = totals_of(configuration)
    graded = [one for part in real for one in part.correct or ()]
    return LoadRow(
        name=configuration.name,
        clients=load,
        predicted=expected.expected(configuration, load),
        measured=_measured(totals, seen, plain),
        accuracy=proportion(sum(graded), len(graded)) if graded else None,
        acceptance=acceptance(one for part in real for one in part.counts),
        answers_at_once=(_at_once(simulated), _at_once(seen)),
        most_steps=(max(one.most_steps(TARGET) for one in simulated), max(one.most_steps(TARGET) for one in seen)),
        beyond={role: (share_beyond(simulated, role, n), share_beyond(seen, role, n)) for role, n in swept.items()},
        seconds=tuple(totals["gain"](seen, plain)[1]),
        at_pace=at_pace,
    )


def _at_once(rounds: Sequence[Round]) -> float:
    return sum(sum(one.seconds) for one in rounds) / sum(one.makespan for one in rounds)


def _measured(totals: Mapping[str, Totals], own: Sequence[Round], plain: Sequence[Round]) -> dict[str, Estimate]:
    """Metrics of the real rounds: gains and rates with Student's interval over rounds, others by resampled answers."""
    estimates = {
        name: ratio_of_totals(*of(own, plain), estimator="ratio of totals over rounds", unit=UNITS.get(name, "s"))
        for name, of in totals.items()
    }
    seconds = np.array([value for one in own for value in one.seconds])
    picks = stream(0, "resampled answers", 0).integers(0, seconds.size, (_RESAMPLES, seconds.size))
    for name, q in PERCENTILES.items():
        resampled = np.percentile(seconds[picks], q, axis=1)
        low, high = np.percentile(resampled, (2.5, 97.5))
        estimates[name] = Estimate(
            value=float(np.percentile(seconds, q)),
            stderr=float(resampled.std(ddof=1)),
            low=float(low),
            high=float(high),
            n=seconds.size,
            estimator=f"percentile {q:g} of all answers; bootstrap over answers",
            unit="s",
        )
    return estimates


def verdict_on(rows: Sequence[LoadRow]) -> Verdict:
    """Return the predicted choice among the rows of a load, and its regret."""
    chosen = max(rows, key=lambda row: row.predicted["gain"].value)
    best = max(rows, key=lambda row: row.measured["gain"].value)
    ratio = ratio_of_totals(chosen.seconds, best.seconds, estimator="ratio of totals over rounds, less 1")
    return Verdict(
        clients=chosen.clients,
        chosen=chosen.name,
        best=best.name,
        regret=replace(ratio, value=ratio.value - 1.0, low=ratio.low - 1.0, high=ratio.high - 1.0),
    )


def off_from(rows: Sequence[LoadRow], side: Side) -> int | None:
    """Return the least load from which no configuration has a gain above 1."""
    gains = {row.clients: 0.0 for row in rows}
    for row in (row for row in rows if row.name != BASELINE):
        gains[row.clients] = max(gains[row.clients], getattr(row, side)["gain"].value)
    return Pays(tuple((load, gain > 1.0) for load, gain in sorted(gains.items()))).off_from


def check_rounds(n_questions: int, n_rounds: int, loads: Sequence[int]) -> None:
    """Raise a ParameterError for invalid loads, too few rounds for an interval, or fewer questions than clients."""
    if not loads or min(loads) < 1:
        raise ParameterError("concurrency", ",".join(map(str, loads)), "must be integers >= 1, e.g. 1,2,4,8")
    if n_rounds < 2:
        raise ParameterError("rounds", n_rounds, "must be an integer >= 2, for an interval")
    least = n_rounds * max(loads)
    if n_questions < least:
        each = f"each with a question for every one of {max(loads)} clients"
        rule = f"must be at least {least}: {n_rounds} rounds, {each}"
        raise ParameterError("answers", n_questions, rule)
