"""Rounds on real engines: clients that each take the next question when their last answer is there.

Every round asks questions of its own, of every configuration under every load, in an order drawn anew; so a slow drift
of the machine hits all of them, and the rounds are repetitions of each other.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any, Final

from pydantic import TypeAdapter

from calibrate.record.engine_records import InUse
from calibrate.record.journal import Journal
from calibrate.running.interleaved import BASELINE, RealConfiguration
from calibrate.running.problem import Problem, Truth
from calibrate.running.session import WallSession
from calibrate.running.wall_clock import WallClock
from sim.algorithms import autoregressive
from sim.serving.rounds import Round, check_clients, in_flight
from sim.timeline import Counts

__all__ = ["Loaded", "RealRound", "all_or_none", "real_round", "rounds_of", "run_under_load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRound:
    """A round of one configuration, for real."""

    round: Round
    counts: tuple[Counts, ...]
    """What was done for each answer."""
    correct: tuple[bool, ...] | None
    """Whether each answer is right; None without ground truth."""
    work: Mapping[str, InUse] = field(default_factory=dict)
    """What each engine did, where that was asked for."""


Loaded = dict[tuple[str, int], list[RealRound]]
"""Name of a configuration and clients to its rounds, in order."""

_ROUND: Final = TypeAdapter(RealRound)


def rounds_of(problems: Sequence[Problem], n_rounds: int) -> list[Sequence[Problem]]:
    """Return the questions of each round: neighbours, and as equal in number as can be."""
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
    """Run every round under every load with plain decoding and with every method, in an order drawn anew for each.

    Every configuration answers a few questions beforehand, with as many clients as will be, which do not count.

    Parameters
    ----------
    clock : drives real engines.
    rounds : the questions of each, as many as clients at least.
    methods : name to what is run; ``BASELINE`` is added.
    loads : clients.
    truth, seed, work : as of `calibrate.running.interleaved.run_interleaved`.
    journal : keeps every round as it is finished; those that it holds are not run again.
    progress : called once per round, configuration and load.

    Raises
    ------
    ParameterError : more clients than a round has questions.
    CalibrationError : an engine failed, or the journal cannot be written.
    """
    for load, questions in product(loads, rounds):
        check_clients(load, len(questions))
    configurations = {BASELINE: RealConfiguration(make=autoregressive), **methods}
    parts = list(product(configurations, loads))
    found: Loaded = {part: [] for part in parts}
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
                one = await real_round(clock, questions, configurations[name], load, truth=truth, work=work)
                if journal is not None:
                    journal.add(key, _ROUND.dump_python(one, mode="json"))
            found[name, load].append(one)
            progress(key)
    return found


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
    """Have so many clients answer the questions of a round; no round finds texts that another one has left in caches.

    If an answer fails or the round is cancelled, everything in flight is aborted first.
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
    return RealRound(
        round=_seen(in_order, begin),
        counts=tuple(Counts.of(session) for session in in_order),
        correct=None
        if truth is None
        else tuple(
            truth.answer_is_correct(problem.prompt, session.text)
            for problem, session in zip(questions, in_order, strict=True)
        ),
        work=dict(await work()) if work is not None else {},
    )


async def all_or_none(clients: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait for all; when one fails, cancel the others, wait until they have aborted, and raise its error."""
    tasks = [asyncio.ensure_future(client) for client in clients]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _seen(sessions: Sequence[WallSession], begin: float) -> Round:
    ends = [session.epoch - begin + (session.finished or 0.0) for session in sessions]
    makespan = max(ends)
    return Round(
        seconds=tuple(session.finished or 0.0 for session in sessions),
        tokens=tuple(sum(step.n_tokens for step in session.committed) for session in sessions),
        makespan=makespan,
        in_flight=in_flight(((session, session.epoch - begin) for session in sessions), makespan),
    )
