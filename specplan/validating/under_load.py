"""Predicted against measured with many questions at once: what to choose at each load, and the regret of that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from calibrate.measuring.engine_work import work_done
from calibrate.measuring.noise import CpuTimes
from calibrate.measuring.plan import MeasurableModels
from calibrate.record.journal import Journal, digest
from calibrate.record.profile import Profile
from calibrate.replay.trials import PLAIN
from calibrate.running.closed_loop import Loaded, RealRound, rounds_of, run_under_load
from calibrate.running.interleaved import BASELINE
from calibrate.running.problem import Problem, Truth
from sim.configuration import Configuration
from sim.estimate import Estimate, proportion, ratio_of_totals
from sim.operations import DRAFT, TARGET
from sim.random_streams import stream
from sim.serving.rounds import Round
from specplan.planning.predict import Predictor
from specplan.validating.load_prediction import PERCENTILES, LoadPredictor, share_beyond, swept_batches
from specplan.validating.run_record import effective, of_configuration, of_models, of_profile, of_questions
from specplan.validating.validation import real_configuration
from theory.errors import ParameterError

__all__ = ["LoadRow", "LoadValidation", "Verdict", "check_rounds", "validate_under_load"]

_RESAMPLES: Final = 1000

Side = Literal["predicted", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """One configuration at one load."""

    name: str
    clients: int
    predicted: Mapping[str, Estimate]
    """By the names of `METRICS`."""
    measured: Mapping[str, Estimate]
    accuracy: Estimate | None
    """Share of right answers as measured; None without ground truth."""
    accepted: float
    """Share of judged drafts that were accepted as measured, in [0, 1]; NaN if none was judged."""
    answers_at_once: tuple[float, float]
    """Answers in flight, mean over a round, predicted and measured: fewer than clients while a round ends."""
    most_steps: tuple[int, int]
    """Most target steps asked for at one time, predicted and measured."""
    beyond: Mapping[str, tuple[float, float]]
    """Role to the share of the time in which more steps were asked for at once than batches were timed, as above."""
    makespans: tuple[float, ...] = ()
    """Of the measured rounds, s."""

    @property
    def error(self) -> float:
        """Predicted / measured gain - 1, [-]."""
        return self.predicted["gain"].value / self.measured["gain"].value - 1.0

    @property
    def inside(self) -> bool:
        """Whether the measured gain lies in the predicted interval."""
        return self.predicted["gain"].contains(self.measured["gain"].value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to choose at one load."""

    clients: int
    chosen: str
    """Of the largest predicted gain; plain decoding if none is above 1."""
    best: str
    """Of the largest measured gain."""
    regret: Estimate
    """Measured gain of the best / that of the chosen one - 1, [-], with the interval that the rounds tell."""


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
    truth, source, seed, journal : as of `specplan.validating.validation.validate`.
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
        "loads": list(loads),
        "rounds": n_rounds,
        "seed": seed,
    }
    async with AsyncExitStack() as stack:
        kept = None if journal is None else stack.enter_context(Journal(journal, asked))
        roles, clock = await stack.enter_async_context(models.open())
        most = _most(roles)
        expected = LoadPredictor(predictor.trials, [len(questions) for questions in rounds], most)
        for configuration in (PLAIN, *configurations):
            for load in loads:
                expected.expected(configuration, load)
                progress(f"predicted: {load} {configuration.name}")
        before = CpuTimes.now()
        engines: dict[str, Any] = {name: roles[role] for role, name in profile.placement.items()}
        found = await run_under_load(
            clock,
            rounds,
            methods,
            loads,
            truth=truth,
            seed=seed,
            work=partial(work_done, engines),
            journal=kept,
            progress=progress,
        )
        after = CpuTimes.now()
        opened = of_models(models, roles, clock)
    swept = swept_batches(profile)
    rows = tuple(_row(c, load, expected, found, swept) for load in loads for c in (PLAIN, *configurations))
    questions_asked = {
        **of_questions(problems, source, seed, 0.95),
        "interleaved": "in rounds of questions of their own: every configuration under every load, in an order "
        "drawn anew, before the next round",
        "rounds": n_rounds,
        "loads": list(loads),
        "warm_up": "a few questions of the first round every way, with as many clients as ever, not counted",
    }
    return LoadValidation(
        profile=profile.name,
        rows=rows,
        verdicts=tuple(_verdict([row for row in rows if row.clients == load]) for load in loads),
        n_questions=len(problems),
        n_rounds=n_rounds,
        off_from=(_off_from(rows, "predicted"), _off_from(rows, "measured")),
        swept=swept,
        most=most,
        effective=effective(
            stolen=None if before is None or after is None else after.stolen_since(before),
            profile=of_profile(profile),
            **opened,
            questions=questions_asked,
            methods={c.name: of_configuration(c, methods[c.name]) for c in configurations},
        ),
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


def _row(
    configuration: Configuration, load: int, expected: LoadPredictor, found: Loaded, swept: Mapping[str, int]
) -> LoadRow:
    simulated, real = expected.rounds(configuration, load), found[configuration.name, load]
    seen = _seen(real)
    counts = [one for part in real for one in part.counts]
    accepted = sum(one.accepted for one in counts)
    judged = accepted + sum(one.rejected for one in counts)
    graded = [one for part in real for one in part.correct or ()]
    return LoadRow(
        name=configuration.name,
        clients=load,
        predicted=expected.expected(configuration, load),
        measured=_measured(seen, _seen(found[BASELINE, load])),
        accuracy=proportion(sum(graded), len(graded)) if graded else None,
        accepted=accepted / judged if judged else math.nan,
        answers_at_once=(_at_once(simulated), _at_once(seen)),
        most_steps=(_most_steps(simulated), _most_steps(seen)),
        beyond={role: (share_beyond(simulated, role, n), share_beyond(seen, role, n)) for role, n in swept.items()},
        makespans=tuple(one.makespan for one in seen),
    )


def _seen(real: Sequence[RealRound]) -> list[Round]:
    return [one.round for one in real]


def _at_once(rounds: Sequence[Round]) -> float:
    return sum(sum(one.seconds) for one in rounds) / sum(one.makespan for one in rounds)


def _most_steps(rounds: Sequence[Round]) -> int:
    return max(one.most_steps(TARGET) for one in rounds)


def _measured(own: Sequence[Round], plain: Sequence[Round]) -> dict[str, Estimate]:
    """What the real rounds say: of paces and gains with Student's interval over rounds, else by resampled answers."""
    spans = [one.makespan for one in own]
    paces: dict[str, tuple[Sequence[float], str]] = {
        "gain": ([one.makespan for one in plain], ""),
        "answers_per_s": ([len(one.seconds) for one in own], "1/s"),
        "tokens_per_s": ([sum(one.tokens) for one in own], "1/s"),
    }
    found = {
        name: ratio_of_totals(amounts, spans, estimator="ratio of totals over rounds", unit=unit)
        for name, (amounts, unit) in paces.items()
    }
    seconds = np.array([value for one in own for value in one.seconds])
    picks = stream(0, "resampled answers", 0).integers(0, seconds.size, (_RESAMPLES, seconds.size))
    for name, q in PERCENTILES.items():
        resampled = np.percentile(seconds[picks], q, axis=1)
        low, high = np.percentile(resampled, (2.5, 97.5))
        found[name] = Estimate(
            value=float(np.percentile(seconds, q)),
            stderr=float(resampled.std(ddof=1)),
            low=float(low),
            high=float(high),
            n=seconds.size,
            estimator=f"percentile {q:g} of all answers; bootstrap over answers",
            unit="s",
        )
    return found


def _verdict(rows: Sequence[LoadRow]) -> Verdict:
    """What the predictions choose among the rows of one load, and what that costs."""
    chosen = max(rows, key=lambda row: row.predicted["gain"].value)
    best = max(rows, key=lambda row: row.measured["gain"].value)
    ratio = ratio_of_totals(chosen.makespans, best.makespans, estimator="ratio of totals over rounds, less 1")
    return Verdict(
        clients=chosen.clients,
        chosen=chosen.name,
        best=best.name,
        regret=replace(ratio, value=ratio.value - 1.0, low=ratio.low - 1.0, high=ratio.high - 1.0),
    )


def _off_from(rows: Sequence[LoadRow], side: Side) -> int | None:
    """The least load from which on no configuration gains."""
    gains: dict[int, list[float]] = {}
    for row in rows:
        known = gains.setdefault(row.clients, [])
        if row.name != BASELINE:
            known.append(getattr(row, side)["gain"].value)
    off = None
    for load in sorted(gains, reverse=True):
        if max(gains[load], default=0.0) > 1.0:
            break
        off = load
    return off
