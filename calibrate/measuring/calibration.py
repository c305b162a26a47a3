"""A calibration from beginning to end: order of the measurements, and their journal.

A journal next to the output holds every finished piece (see `calibrate.record.journal`). Timing rounds are spread
between the answers, and so are sentinels, a small fixed workload whose times show how steady the machine was. A piece
that a server breaks off is measured again as a whole, so that nothing is lost or counted twice. With a stopping rule
(`calibrate.measuring.stopping`) the calibration evaluates its precision at scheduled looks, and stops when it is
reached. The contents of the measurement are defined in `calibrate.measuring.plan`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from calibrate.engines.speculation import Decoding
from calibrate.loads.levels import LoadSweep, measure_clients
from calibrate.measuring.answers import measure_answer, measure_texts, outside_seconds, seconds_in_company
from calibrate.measuring.assembly import assemble
from calibrate.measuring.candidates import measure_beams
from calibrate.measuring.engine_timings import MeasureOptions, WarmUp
from calibrate.measuring.engine_work import work_done
from calibrate.measuring.plan import CalibrationPlan, reaching
from calibrate.measuring.stopping import LookOutcome, Precision, Status
from calibrate.measuring.token_methods import measure_token_answer
from calibrate.record.engine_records import FIELD_OF_USE, STEPWISE, EngineRecord, InUse, as_json
from calibrate.record.journal import Journal
from calibrate.record.profile import Profile
from calibrate.running.patience import Patience
from calibrate.running.problem import Problem
from calibrate.running.wall_clock import WallClock
from sim.algorithms import autoregressive, draft_trajectory, lookahead_async, step_by_step
from sim.operations import Algorithm, Step
from sim.roles import DRAFT, JUDGE, TARGET
from theory.errors import ParameterError

__all__ = ["calibrate_models"]

_RUNS: Final[Mapping[str, Sequence[Callable[[Step], Algorithm]]]] = {
    FIELD_OF_USE["plain"]: (autoregressive,),
    STEPWISE: (step_by_step,),
    FIELD_OF_USE["steps"]: tuple(partial(lookahead_async, k1=k1) for k1 in (1, 2, 4)),
}
"""Field of `EngineRecord` -> algorithms that are run in turns, an answer each, to time engines in that use; candidates
have a survey."""


async def calibrate_models(
    plan: CalibrationPlan,
    journal_path: Path,
    *,
    progress: Callable[[str], None] = lambda part: None,
    precision: Callable[[Profile], Precision] | None = None,
    watch: Callable[[Status], None] = lambda status: None,
) -> Profile:
    """Measure a set of models; pieces that are in the journal are not measured again.

    Parameters
    ----------
    journal_path : file of the finished pieces; the caller has to remove it.
    progress : called with a description when a part is done, ``plan.n_parts`` times in all without a stopping rule.
    precision : returns the precision of the planned speedup by a profile of all pieces so far; for a stopping rule.

    Raises
    ------
    SchemaError : the journal belongs to a measurement with other settings.
    """
    if plan.stopping is not None and precision is None:
        raise ParameterError("precision", None, "must be a function of the profile where the plan has a stopping rule")
    with Journal(journal_path, plan.settings()) as journal:
        async with plan.models.open() as (roles, clock):
            sitting = _Sitting(plan, journal, roles, clock, progress, watch)
            await sitting.warm_up()
            notes = await sitting.measure(precision)
            await sitting.measure_loads()
            stamp = await plan.models.stamp(sitting.engines)
            if n := sitting.patiently.n_repeated:
                notes.append(f"{n} parts were broken off by a server and measured again as a whole")
            return sitting.profile({**stamp, "notes": [*stamp.get("notes", ()), *notes]})


class _Sitting:
    """One run of a calibration: the engines are open, and pieces are added to the journal one by one."""

    def __init__(
        self,
        plan: CalibrationPlan,
        journal: Journal,
        roles: Mapping[str, Any],
        clock: WallClock,
        progress: Callable[[str], None],
        watch: Callable[[Status], None],
    ) -> None:
        self.plan = plan
        self.engines: dict[str, Any] = {}
        # Roles without an engine, as without a draft, use the target's.
        homes = {role: roles.get(role, roles[TARGET]) for role in (TARGET, DRAFT, JUDGE)}
        for role, home in homes.items():
            if not any(engine is home for engine in self.engines.values()):
                self.engines[role] = home
        self.placement = {
            role: next(name for name, engine in self.engines.items() if engine is home) for role, home in homes.items()
        }
        self.n_answers = self.n_rounds = 0
        self._journal = journal
        self._clock = clock
        self._progress = progress
        self._watch = watch
        self._warmups: dict[str, WarmUp] = {}
        self._done = 0
        self._n_parts = plan.n_parts
        self._seconds: dict[str, list[float]] = {"answer": [], "round": []}
        self.patiently = Patience(plan.patience_s)
        self._last_look: LookOutcome | None = None

    async def warm_up(self) -> None:
        """Warm up the engines."""
        for name, engine in self.engines.items():
            warm_up = partial(self.plan.models.warm_up, engine, self.plan.warm_up_s)
            self._warmups[name] = await self.patiently(warm_up)
            self._step(f"{name}: warm-up")

    async def measure(self, precision: Callable[[Profile], Precision] | None) -> list[str]:
        """Measure everything, or until the stopping rule ends it; return notes on the end for the profile."""
        await measure_texts(  # first, so that looks at the precision include them
            self._clock,
            self.plan.texts,
            self._journal,
            truth=self.plan.truth,
            inspection=self.plan.models.inspection(),
            within_s=self.plan.texts_s,
            on_servers=self.plan.models.by_load,
            patiently=self.patiently,
            progress=self._step,
        )
        self.plan = await reaching(self.plan, self._clock, self._journal, self.patiently)
        self._n_parts = self.plan.n_parts  # longer contexts are more parts
        rule, n_answers, n_rounds, n_looks = self.plan.stopping, self.plan.n_answers, self.plan.n_rounds, 0
        if rule is None or precision is None:
            return await self._all_answers(n_answers, n_rounds, precision)
        while True:
            await self._block(n_answers, n_rounds)
            n_looks += 1
            outcome, following = rule.decide(
                self._precision(precision, n_looks),
                n_answers,
                n_rounds,
                n_looks=n_looks,
                answer_s=self._mean_seconds("answer"),
                round_s=self._mean_seconds("round"),
            )
            self._last_look = outcome
            if outcome.reason:
                return [rule.summary(outcome, n_looks)]
            n_answers, n_rounds = self._journal.kept(f"after look:{n_looks}", partial(list, following))
            self._n_parts += n_answers - self.n_answers + (n_rounds - self.n_rounds) * self.plan.parts_per_round
            self._watch(self._status())

    async def _all_answers(
        self, n_answers: int, n_rounds: int, precision: Callable[[Profile], Precision] | None
    ) -> list[str]:
        """Measure all answers, and as many of the timing rounds as the plan's share asks for."""
        share, turn = self.plan.timings_share, min(len(self.plan.engine.contexts), n_rounds)
        if share is None or precision is None:
            await self._block(n_answers, n_rounds)
            return []
        await self._block(n_answers, turn)
        while self.n_rounds < n_rounds:
            known = self._precision(precision, f"{n_answers} answers, {self.n_rounds} rounds")
            if known.timings <= share * known.answers:
                return [known.enough_timings(self.n_rounds, n_rounds)]
            await self._block(n_answers, min(self.n_rounds + turn, n_rounds))
        return []

    async def measure_loads(self) -> None:
        """Measure the engines with several clients, and the target by load for a share of the time taken so far."""
        plan, work, patiently = self.plan, partial(work_done, self.engines), self.patiently
        rounds = partial(measure_clients, self._clock, plan.problems, plan.clients, self._journal)
        clients = partial(rounds, work=work, patiently=patiently, progress=self._step)
        if (options := plan.loads) is None:
            for number in range(plan.client_rounds):
                await clients(number)
            return
        sweep = LoadSweep(
            options=options,
            decodings=plan.decodings,
            clock=self._clock,
            journal=self._journal,
            patiently=patiently,
            progress=self._step,
        )
        await sweep.measure(plan.problems[: self.n_answers], self._journal.spent_s, clients)

    def _precision(self, of_profile: Callable[[Profile], Precision], look: int | str) -> Precision:
        """The precision at a look; a look of an earlier run is read from the journal."""
        return Precision(**self._journal.kept(f"look:{look}", lambda: asdict(of_profile(self.profile({})))))

    async def _block(self, n_answers: int, n_rounds: int) -> None:
        """Measure up to these numbers of answers and timing rounds, with the rounds spread evenly between answers."""
        first, n = self.n_answers, n_answers - self.n_answers
        rounds = range(self.n_rounds, n_rounds)
        parts = max(len(rounds), 1)
        for i in range(parts):
            if rounds:
                await self._round(rounds[i])
            for index in range(first + n * i // parts, first + n * (i + 1) // parts):
                await self._answer(index)

    async def _round(self, number: int) -> None:
        """Run a round of timing all engines; the first round records the warm-up."""
        started, new, options = time.monotonic(), False, self.plan.options_of_round(number)
        for name, engine in self.engines.items():
            key = f"engine:{name}:{number}"
            if key in self._journal:
                for _ in range(options.n_parts):
                    self._step(f"{name}: kept")
                continue
            new = True
            record = await self._timing(engine, options)
            if not number:
                decode, prefill = self._warmups[name]
                record = record.model_copy(update={"warmup_decode": decode, "warmup_prefill": prefill})
            self._journal.add(key, record.model_dump(mode="json"))
        self.n_rounds = number + 1
        if new:
            self._seconds["round"].append(time.monotonic() - started)

    async def _timing(self, engine: Any, options: MeasureOptions) -> EngineRecord:
        reported = 0

        async def once() -> EngineRecord:
            seen = 0

            def step(part: str) -> None:
                nonlocal seen, reported
                seen += 1
                if seen > reported:  # a repeated round reports only parts not reported before
                    reported = seen
                    self._step(part)

            return await self.plan.models.time_engine(engine, options, progress=step)

        return await self.patiently(once)

    async def _answer(self, index: int) -> None:
        problem = self.plan.problems[index]
        key = f"answer:{problem.key}"
        if key not in self._journal:
            started = time.monotonic()
            self._journal.add(key, await self.patiently(lambda: self._measured(problem, index)))
            self._seconds["answer"].append(time.monotonic() - started)
        self.n_answers = index + 1
        self._step(problem.name)

    async def _measured(self, problem: Problem, index: int) -> dict[str, Any]:
        """The journal entry of an answer, with a sentinel of every engine before it."""
        models = self.plan.models
        sentinels = {name: await self._sentinel(engine, index) for name, engine in self.engines.items()}
        answer = await measure_answer(self._clock, problem, self.plan.truth, models.inspection())
        width = models.inspection().beams
        beams, groups = await measure_beams(self._clock, problem, self.plan.truth, self.engines, width=width)
        in_use, token_answers = await self._run_as_used(problem, index)
        return {
            "record": answer.record.model_copy(update={"beams": beams}).model_dump(mode="json"),
            "ids": answer.token_ids,
            "role_seconds": answer.role_seconds,
            "embedding_seconds": await seconds_in_company(self._clock, problem, models.inspection()),
            **{field: as_json(work) for field, work in {**in_use, FIELD_OF_USE["beams"]: groups}.items()},
            "sentinels": sentinels,
            "gpus": models.gpus(),
            "token": token_answers,
        }

    async def _run_as_used(
        self, problem: Problem, index: int
    ) -> tuple[dict[str, Mapping[str, InUse]], dict[str, dict[str, Any]]]:
        """Answer a problem once per use of the engines, in random order; return their work by field, and token answers.

        The previous run affects caches, so that a fixed order would favour some runs.
        """
        alone = (FIELD_OF_USE["plain"], STEPWISE)
        fields = [field for field in _RUNS if field in alone or self.plan.models.inspection().drafts]
        runs: list[str | Decoding] = [*fields, *(self.plan.token if self.plan.takes_token_answer(index) else ())]
        random.Random(f"order {self.plan.engine.seed} {index}").shuffle(runs)
        work: dict[str, Mapping[str, InUse]] = {}
        token_answers: dict[str, dict[str, Any]] = {}
        for run in runs:
            if isinstance(run, Decoding):
                speculation = self.plan.models.speculation(run.method, run.knobs)
                answer = await measure_token_answer(self._clock, problem, speculation)
                token_answers[run.key] = answer.model_dump(mode="json")
            else:
                work[run] = await self._work_of_run(problem, _RUNS[run][index % len(_RUNS[run])])
                if run == FIELD_OF_USE["plain"] and (draft := self.placement[DRAFT]) != self.placement[TARGET]:
                    own = await self._work_of_run(problem, partial(draft_trajectory, scorers=()))
                    work[run] = {**work[run], draft: own[draft]}
        return work, token_answers

    async def _work_of_run(self, problem: Problem, make: Callable[[Step], Algorithm]) -> Mapping[str, InUse]:
        """The work of each engine while an algorithm runs."""
        clock = self._clock
        await clock.fresh()
        root = await clock.root(problem.prompt)
        await work_done(self.engines)
        session = await clock.run(make(root), stream=problem.name)
        await clock.drain()
        spent, outside = outside_seconds(session, clock), {name: list[float]() for name in self.engines}
        for role, name in self.placement.items():
            outside[name] += spent.get(role, ())
        return await work_done(self.engines, outside)

    async def _sentinel(self, engine: Any, index: int) -> tuple[float, float]:
        """Moment and duration of a sentinel; only its prompt differs from others."""
        seed = self.plan.engine.seed + 1_000_003 * (index + 1)
        options = MeasureOptions(
            batches=(1,), contexts=(32,), iterations=8, prefills=(4,), repeats=1, k2=1, rounds=1, seed=seed
        )
        record = await self.plan.models.time_engine(engine, options, progress=lambda part: None)
        return time.time(), median(sample.seconds for sample in record.decode if sample.tokens == 1)

    def profile(self, stamp: dict[str, Any]) -> Profile:
        """All measurements so far as a profile."""
        numbers = {"n_answers": self.n_answers, "n_rounds": self.n_rounds}
        return assemble(self.plan, self._journal, self.engines, self.placement, stamp, **numbers)

    def _step(self, part: str) -> None:
        self._done += 1
        self._progress(part)
        self._watch(self._status())

    def _status(self) -> Status:
        n_parts = max(self._n_parts, self._done)
        return Status(done=self._done, n_parts=n_parts, seconds_left=self._left(), last_look=self._last_look)

    def _left(self) -> float | None:
        """Estimated time until the end, s: until the next look, or the latest look's estimate if that is longer."""
        answers, rounds = self._seconds["answer"], self._seconds["round"]
        if not answers or not rounds:
            return None
        per_round = self.plan.parts_per_round
        n_total = self.n_answers + self.n_rounds * per_round
        share = self.n_answers / max(n_total, 1)
        mean_s = share * self._mean_seconds("answer") + (1.0 - share) * self._mean_seconds("round") / per_round
        seconds = max(self._n_parts - self._done, 0) * mean_s
        return max(seconds, self._last_look.seconds_left if self._last_look is not None else 0.0)

    def _mean_seconds(self, what: str) -> float:
        """Mean seconds of an answer or a round in this run; 1 s before the first is measured."""
        seconds: Sequence[float] = self._seconds[what]
        return max(sum(seconds) / len(seconds), 1e-6) if seconds else 1.0
