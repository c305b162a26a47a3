"""How long this process did not get to look at its streams: what was read late has no moment of arrival."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from types import TracebackType
from typing import Final, Self

__all__ = ["TICK_S", "StallWatch", "tolerated"]

TICK_S: Final = 0.002
_KEPT: Final = 4096
_LATE_SHARE: Final = 0.1
"""Share of a measurement's time for which this process may have waited for its processor at once, [-]."""

_LATE_S: Final = 0.005
"""What it may have waited however short the measurement, s: schedulers give another process so long at a time."""


def tolerated(seconds: float) -> float:
    """Return the longest stall that a measurement of so many seconds bears, s."""
    return max(_LATE_S, _LATE_SHARE * seconds)


class StallWatch:
    """Ticks in the event loop and remembers where they were late; use it as an async context manager.

    A machine with too much to do may leave a process waiting for a second. Whatever comes over its streams meanwhile
    is then read at once, and looks as if it had come at once.

    Parameters
    ----------
    tick_s : time between two looks, s; twice as long is the shortest stall that is seen.
    """

    def __init__(self, *, tick_s: float = TICK_S) -> None:
        self._tick_s = tick_s
        self._stalls: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._ticked = time.monotonic()

    async def __aenter__(self) -> Self:
        self._ticked = time.monotonic()
        self._task = asyncio.ensure_future(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})  # not its exception: who waits here may be cancelled too, which must be seen

    def note(self, begin: float, end: float) -> None:
        """Remember that nothing was looked at between two moments (s, monotonic clock)."""
        self._stalls.append((begin, end))
        self._ticked = max(self._ticked, end)

    def longest(self, begin: float, end: float) -> float:
        """Return the longest stall that touches a period (s, monotonic clock), in seconds and beyond a tick; 0: none.

        One that goes on while this is asked counts too.
        """
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
