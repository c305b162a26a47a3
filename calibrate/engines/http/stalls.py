"""Stalls of this process, during which it did not read its streams: data read late have no known arrival time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final, Self

__all__ = ["TICK_S", "StallWatch", "tolerated"]

TICK_S: Final = 0.002
_KEPT: Final = 4096
_LATE_SHARE: Final = 0.1
"""Longest tolerated stall as a share of a measurement's time, [-]."""

_LATE_S: Final = 0.005
"""Stall that is tolerated in any measurement, s: a time slice of the scheduler for another process."""


def tolerated(seconds: float) -> float:
    """Return the longest tolerated stall in a measurement of that many seconds, s."""
    return max(_LATE_S, _LATE_SHARE * seconds)


class StallWatch:
    """Ticks in the event loop, every ``tick_s`` s, and records ticks twice as late; an async context manager.

    On an overloaded machine a process may wait for a processor for a second. All data that arrive on its streams in
    that time are read at once afterwards, as if they had arrived together.
    """

    def __init__(self, *, tick_s: float = TICK_S) -> None:
        self._tick_s = tick_s
        self._stalls: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._ticked = time.monotonic()

    async def __aenter__(self) -> Self:
        self._ticked = time.monotonic()
        self._task = asyncio.ensure_future(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})  # raises only a cancellation of the caller

    def longest(self, begin: float, end: float) -> float:
        """Return the longest stall in a period (s, monotonic clock), ended or not, s beyond a tick; 0: none."""
        stalls = [*self._stalls, (self._ticked, time.monotonic())]
        touching = [till - since - self._tick_s for since, till in stalls if till > begin and since < end]
        return max([0.0, *touching])

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            now = time.monotonic()
            if now - self._ticked > 2 * self._tick_s:
                self._stalls.append((self._ticked, now))
            self._ticked = now
