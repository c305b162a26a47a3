"""Validation under load: predictions against measurements with many clients, and the regret of the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from calibrate.measuring.engine_work import work_done
from calibrate.measuring.noise import CpuTimes
from calibrate.measuring.plan import MeasurableModels
from calibrate.record.journal import Journal
from calibrate.record.profile import Profile
from calibrate.running.closed_loop import Loaded, rounds_of, run_under_load
from calibrate.running.problem import Problem, Truth
from sim.configuration import PLAIN, Configuration
from sim.roles import DRAFT, TARGET
from specplan.check.validating.load_prediction import LoadPredictor, swept_batches
from specplan.check.validating.load_rows import LoadRow, Verdict, off_from, row_of, verdict_on
from specplan.check.validating.run_record import (
    effective,
    identity,
    of_configuration,
    of_models,
    of_profile,
    of_questions,
)
from specplan.check.validating.validation import real_configuration, slowdowns
from specplan.planning.predict import Predictor
from theory.errors import ParameterError

__all__ = ["LoadValidation", "check_rounds", "validate_under_load"]


_IN_ROUNDS: Final = {
    "interleaved": "each round has its own questions; every configuration runs at every load, in random order, "
    "before the next round",
    "warm_up": "all configurations answer questions of the first round with the most clients, not counted",
}


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
    profile : profile that the predictions are made from.
    configurations : configurations to run; plain decoding is added.
    models : models, which are opened and closed here.
    problems : questions; each belongs to a single round.
    loads : numbers of clients.
    n_rounds : number of rounds, at least 2, for an interval.
    truth, source, seed, journal : as in `specplan.check.validating.validation.validate`.
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
        expected = LoadPredictor(predictor.trials, [len(questions) for questions in rounds], _most(roles))
        for configuration, load in product((PLAIN, *configurations), loads):
            expected.expected(configuration, load)
            progress(f"predicted: {load} {configuration.name}")
        before = CpuTimes.now()
        work = partial(work_done, {name: roles[role] for role, name in profile.placement.items() if role in roles})
        loaded = await run_under_load(
            clock, rounds, methods, loads, truth=truth, seed=seed, work=work, journal=kept, progress=progress
        )
        after = CpuTimes.now()
        opened = of_models(models, roles, clock)
    record = effective(
        stolen=None if before is None or after is None else after.stolen_since(before),
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
        row_of(configuration, load, expected, loaded, swept, at_pace)
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


def check_rounds(n_questions: int, n_rounds: int, loads: Sequence[int]) -> None:
    """Refuse invalid loads, too few rounds for an interval, and rounds with fewer questions than clients.

    Raises
    ------
    ParameterError : any of these.
    """
    if not loads or min(loads) < 1:
        raise ParameterError("concurrency", ",".join(map(str, loads)), "must be integers >= 1, e.g. 1,2,4,8")
    if n_rounds < 2:
        raise ParameterError("rounds", n_rounds, "must be an integer >= 2, for an interval")
    least = n_rounds * max(loads)
    if n_questions < least:
        rule = (
            f"must be at least {least}: {n_rounds} rounds, each with a question for every one of {max(loads)} clients"
        )
        raise ParameterError("answers", n_questions, rule)


def _most(roles: Mapping[str, Any]) -> dict[str, int]:
    """The largest batch of the engines by role, where they report it."""
    limits = {}
    for role in (TARGET, DRAFT):
        if most := roles[role].describe().get("max_batch"):
            limits[role] = int(most)
    return limits
