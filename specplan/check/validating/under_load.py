"""Predicted against measured with many questions at once: what to choose at each load, and the regret of that."""

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
from calibrate.record.journal import Journal, digest
from calibrate.record.profile import Profile
from calibrate.replay.trials import PLAIN
from calibrate.running.closed_loop import Loaded, rounds_of, run_under_load
from calibrate.running.problem import Problem, Truth
from sim.configuration import Configuration
from sim.operations import DRAFT, TARGET
from specplan.check.validating.load_prediction import LoadPredictor, swept_batches
from specplan.check.validating.load_rows import LoadRow, Verdict, off_from, pace_at, row_of, verdict_on
from specplan.check.validating.run_record import effective, of_configuration, of_models, of_profile, of_questions
from specplan.check.validating.validation import real_configuration
from specplan.planning.predict import Predictor
from theory.errors import ParameterError

__all__ = ["LoadValidation", "check_rounds", "validate_under_load"]


_IN_ROUNDS: Final = {
    "interleaved": "in rounds of questions of their own: every configuration under every load, in an order drawn anew, "
    "before the next round",
    "warm_up": "questions of the first round every way, with as many clients as ever, not counted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadValidation:
    """The outcome of a validation under load."""

    profile: str
    rows: tuple[LoadRow, ...]
    verdicts: tuple[Verdict, ...]
    n_questions: int
    n_rounds: int
    off_from: tuple[int | None, int | None]
    """The least load from which on nothing gains, predicted and measured; None: something does at the highest."""
    pace: Mapping[int, Mapping[str, float]]
    """Clients and engine to what it took for its work there / what the profile says that it takes, [-]: of plain
    decoding and step-level methods, whose work is all in iterations and prefills."""
    swept: Mapping[str, int]
    """Role to the largest batch whose iterations the profile has timed."""
    most: Mapping[str, int]
    """Role to the sequences that its engine decodes at once; not told by all engines."""
    effective: Mapping[str, Any] = field(default_factory=dict)
    """Every parameter of the run by part, as it was in effect; plain data."""


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
    profile : what is predicted from.
    configurations : to run; plain decoding is added.
    models : to be opened, and closed again.
    problems : all rounds have asked them together once.
    loads : clients.
    n_rounds : at least 2, for an interval.
    truth, source, seed, journal : as of `specplan.check.validating.validation.validate`.
    progress : called once per load and configuration that is predicted, and per round of it that is run.

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
    asked = {
        "profile": digest(profile.model_dump_json()),
        "models": models.identity(),
        "runs": list(methods),
        "questions": digest(*(problem.prompt for problem in problems)),
        **_loads_asked(loads, n_rounds),
        "seed": seed,
    }
    async with AsyncExitStack() as stack:
        kept = None if journal is None else stack.enter_context(Journal(journal, asked))
        roles, clock = await stack.enter_async_context(models.open())
        expected = LoadPredictor(predictor.trials, [len(questions) for questions in rounds], _most(roles))
        for configuration, load in product((PLAIN, *configurations), loads):
            expected.expected(configuration, load)
            progress(f"predicted: {load} {configuration.name}")
        before = CpuTimes.now()
        work = partial(work_done, {name: roles[role] for role, name in profile.placement.items() if role in roles})
        found = await run_under_load(
            clock, rounds, methods, loads, truth=truth, seed=seed, work=work, journal=kept, progress=progress
        )
        after = CpuTimes.now()
        opened = of_models(models, roles, clock)
    record = effective(
        stolen=None if before is None or after is None else after.stolen_since(before),
        profile=of_profile(profile),
        **opened,
        questions={**of_questions(problems, source, seed, 0.95), **_loads_asked(loads, n_rounds), **_IN_ROUNDS},
        methods={c.name: of_configuration(c, methods[c.name]) for c in configurations},
    )
    return replace(_compared((PLAIN, *configurations), loads, expected, found), effective=record)


def _loads_asked(loads: Sequence[int], n_rounds: int) -> dict[str, Any]:
    return {"loads": list(loads), "rounds": n_rounds}


def _compared(
    configurations: Sequence[Configuration], loads: Sequence[int], expected: LoadPredictor, found: Loaded
) -> LoadValidation:
    """What was expected beside what came."""
    trials = expected.trials
    swept = swept_batches(trials.profile)
    paces = {load: pace_at(trials, configurations, found, load) for load in loads}
    rows = tuple(
        row_of(configuration, load, expected, found, swept, at_pace)
        for load in loads
        for configuration, at_pace in zip(
            configurations, expected.gains_at_pace(configurations, load, paces[load]), strict=True
        )
    )
    return LoadValidation(
        profile=trials.profile.name,
        rows=rows,
        verdicts=tuple(verdict_on([row for row in rows if row.clients == load]) for load in loads),
        n_questions=sum(expected.sizes),
        n_rounds=len(expected.sizes),
        off_from=(off_from(rows, "predicted"), off_from(rows, "measured")),
        pace=paces,
        swept=swept,
        most=expected.most,
    )


def check_rounds(n_questions: int, n_rounds: int, loads: Sequence[int]) -> None:
    """Refuse loads that are none, too few rounds for an interval, and rounds whose clients do not all get a question.

    Raises
    ------
    ParameterError : so.
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
    """Sequences that engines decode at once, by role, where they say so."""
    found = {}
    for role in (TARGET, DRAFT):
        about = roles[role].describe()
        most = about.get("max_batch") or about.get("settings", {}).get("max_num_seqs")
        if most:
            found[role] = int(most)
    return found
