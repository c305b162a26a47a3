"""Rounds on real engines in a closed loop: each client sends its next question when its last answer is complete.

Every round has its own questions, which every configuration answers under every load, in random order; so a slow drift
of the machine affects all configurations, and the rounds are replications.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from calibrate.engines.protocol import Generation
from calibrate.record.engine_records import InUse
from calibrate.record.journal import Journal
from calibrate.running.interleaved import BASELINE, RealConfiguration
from calibrate.running.problem import Problem, Truth
from calibrate.running.session import WallSession
from calibrate.running.wall_clock import WallClock
from sim.algorithms import autoregressive
from sim.operations import Generate
from sim.serving.rounds import Round, check_clients, in_flight
from sim.timeline import Counts

__all__ = ["Loaded", "RealRound", "all_or_none", "real_round", "rounds_of", "run_under_load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRound:
    """A round of one configuration on real engines."""

    round: Round
    counts: tuple[Counts, ...]
    """Counts of operations and tokens of each answer."""
    correct: tuple[bool, ...] | None
    """Whether each answer is right; None without ground truth."""
    work: Mapping[str, InUse] = field(default_factory=dict)
    """Work of each engine; empty where it was not recorded."""


Loaded = dict[tuple[str, int], list[RealRound]]
"""Name of a configuration and number of clients -> its rounds, in order."""

Result = TypeVar("Result")

_ROUND: Final = TypeAdapter(RealRound)


def rounds_of(problems: Sequence[Problem], n_rounds: int) -> list[Sequence[Problem]]:
    """Split the questions into rounds of consecutive questions, of equal number up to one."""
    size, longer = divmod(len(problems), n_rounds)
    ends = [i * size + min(i, longer) for i in range(n_rounds + 1)]
    return [problems[begin:end] for begin, end in pairwise(ends)]


async def run_under_load(
    clock: WallClock,
    rounds: Sequence[Sequence[Problem]],
    methods: Mapping[str, RealConfiguration],
    loads: Sequence[int],
    *,
    truth: Truth | None = None,
    seed: int = 0,
    work: Callable[[], Awaitable[Mapping[str, InUse]]] | None = None,
    journal: Journal | None = None,
    progress: Callable[[str], None] = lambda part: None,
) -> Loaded:
    """Run every round under every load with plain decoding and with every method, in random order.

    Every load draws its own answers, so that its errors are its own.

    Every configuration answers some questions before, with the largest number of clients, as a warm-up.

    Raises
    ------
    ParameterError : more clients than a round has questions.
    CalibrationError : an engine failed, or the journal cannot be written.
    """
    for load, questions in product(loads, rounds):
        check_clients(load, len(questions))
    configurations = {BASELINE: RealConfiguration(make=autoregressive), **methods}
    parts = list(product(configurations, loads))
    loaded: Loaded = {part: [] for part in parts}
    for name, configuration in configurations.items():
        keys = (_key(name, load, number) for number in range(len(rounds)) for load in loads)
        if journal is None or any(key not in journal for key in keys):
            await real_round(clock, rounds[0][: max(loads)], configuration, max(loads))
    if work is not None:
        await work()
    rng = random.Random(seed)
    for number, questions in enumerate(rounds):
        for name, load in rng.sample(parts, len(parts)):
            key = _key(name, load, number)
            if journal is not None and key in journal:
                one = _ROUND.validate_python(journal[key])
            else:
                own = [replace(problem, name=f"{problem.name} {load}") for problem in questions]  # its own draws
                one = await real_round(clock, own, configurations[name], load, truth=truth, work=work)
                if journal is not None:
                    journal.add(key, _ROUND.dump_python(one, mode="json"))
            loaded[name, load].append(one)
            progress(key)
    return loaded


def _key(name: str, load: int, number: int) -> str:
    return f"{number} {load} {name}"


async def real_round(
    clock: WallClock,
    questions: Sequence[Problem],
    configuration: RealConfiguration,
    load: int,
    *,
    truth: Truth | None = None,
    work: Callable[[], Awaitable[Mapping[str, InUse]]] | None = None,
) -> RealRound:
    """Run a round with a number of clients, after emptying prefix caches.

    If an answer fails or the round is cancelled, all requests in flight are aborted first.
    """
    await clock.fresh(configuration.speculation)
    roots = [await clock.root(problem.prompt) for problem in questions]
    sessions: dict[int, WallSession] = {}
    waiting = iter(range(len(questions)))
    begin = time.monotonic()

    async def client() -> None:
        for i in waiting:
            algorithm = configuration.make(roots[i])
            sessions[i] = await clock.run(algorithm, stream=questions[i].name, speculation=configuration.speculation)

    await all_or_none([client() for _ in range(load)])
    await clock.drain()
    in_order = [sessions[i] for i in range(len(questions))]
    makespan = max(session.epoch - begin + (session.finished or 0.0) for session in in_order)
    return RealRound(
        round=Round(
            seconds=tuple(session.finished or 0.0 for session in in_order),
            tokens=tuple(sum(step.n_tokens for step in session.committed) for session in in_order),
            first=tuple(map(_first_s, in_order)),
            makespan=makespan,
            in_flight=in_flight(((session, session.epoch - begin) for session in in_order), makespan),
        ),
        counts=tuple(Counts.of(session) for session in in_order),
        correct=None
        if truth is None
        else tuple(
            truth.answer_is_correct(problem.prompt, session.text)
            for problem, session in zip(questions, in_order, strict=True)
        ),
        work=dict(await work()) if work is not None else {},
    )


async def all_or_none(clients: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Return the results of all tasks; when one fails, cancel the others, wait for their ends, and raise its error."""
    tasks = [asyncio.ensure_future(client) for client in clients]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _first_s(session: WallSession) -> float:
    """Seconds from an answer's start to its first token that a user sees; see `Round.first`."""
    for operation in session.operations:
        if isinstance(operation, Generate) and operation.whole and isinstance(operation.job, Generation):
            return max(operation.job.times.first_token - session.epoch, 0.0)
    return session.commit_times[0] if session.commit_times else session.finished or 0.0
