"""A closed loop of whole answers on a server: each client sends its next request when its last answer is complete."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.prometheus import ServerCounts
from calibrate.engines.protocol import Generation, Progress
from calibrate.engines.speculation import Speculation
from calibrate.engines.work import EngineStatistics
from calibrate.running.wall_clock import WallClock
from sim.operations import Generate, Step
from sim.roles import TARGET

__all__ = ["Loop", "Reading", "run_loop"]

_UNTIL_BUSY: Final = 0.2
"""Share of a loop before its window opens, [-]: all clients begin at once, which no later moment resembles."""
_PAUSE_S: Final = 0.1
"""Wait before a loop, s: the server has then noticed that the requests of the last one were aborted."""
_COUNTERS_S: Final = 2.0
"""Longest time that a server may take to tell its counters, s."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters, and between which two moments they were read, s on the monotonic clock."""

    counts: ServerCounts | None
    begun: float
    ended: float

    @property
    def moment(self) -> float:
        """The middle of the reading, s on the monotonic clock."""
        return 0.5 * (self.begun + self.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A closed loop that has ended, its window from ``opened`` to ``closed``."""

    at_once: int
    ended: tuple[Generation, ...]
    """Answers that ended."""
    work: EngineStatistics
    begun: Reading
    """Before the first request."""
    opened: Reading
    closed: Reading

    @property
    def seconds(self) -> float:
        """Length of the window, s."""
        return self.closed.moment - self.opened.moment

    def within(self, moment: float) -> bool:
        """Whether a moment lies in the window."""
        return self.opened.moment < moment <= self.closed.moment


async def run_loop(
    clock: WallClock, questions: Sequence[Step], at_once: int, seconds: float, speculation: Speculation | None = None
) -> Loop:
    """Keep the target's server busy with so many whole answers at once for a time; abort those that have not ended.

    Parameters
    ----------
    questions : the prompts, which the clients send in turns, with other seeds each time.
    seconds : length of the loop, > 0; the window opens after a fifth of it.

    Raises
    ------
    CalibrationError : a request was refused or failed.
    """
    engine: Any = clock.backend(TARGET)  # a model set's engines keep statistics
    wanted = {} if speculation is None else {TARGET: speculation}
    await clock.fresh(wanted)
    await asyncio.sleep(_PAUSE_S)
    await engine.stats(clear=True)
    begun = await _read(engine, speculation)
    numbers, ended = count(), list[Generation]()

    async def client() -> None:
        for number in numbers:
            if number and number % len(questions) == 0 and isinstance(engine, OpenAIEngine):
                await engine.forget()  # a repeated question is as new as those of other users
            operation = Generate(TARGET, questions[number % len(questions)], whole=True)
            reply = await clock.generate(operation, f"{at_once} at once, {number}", Progress(), speculation)
            ended.append(reply.record)

    tasks = [asyncio.ensure_future(client()) for _ in range(at_once)]
    try:
        await _unless_failed(tasks, _UNTIL_BUSY * seconds)
        opened = await _read(engine, speculation)
        await _unless_failed(tasks, (1.0 - _UNTIL_BUSY) * seconds)
        closed = await _read(engine, speculation)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    work = await engine.stats(clear=True)
    return Loop(at_once=at_once, ended=tuple(ended), work=work, begun=begun, opened=opened, closed=closed)


async def _unless_failed(tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
    """Wait; as soon as a client has failed, raise its error."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


async def _read(engine: object, speculation: Speculation | None) -> Reading:
    """The counters of the server; None where it tells none, or not in time."""
    begun, counts = time.monotonic(), None
    if isinstance(engine, OpenAIEngine):
        with suppress(TimeoutError):
            counts = await asyncio.wait_for(engine.counts(speculation), _COUNTERS_S)
    return Reading(counts, begun, time.monotonic())
