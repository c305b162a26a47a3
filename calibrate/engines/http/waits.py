"""Time limits of many waits by one timer: a timer for each request takes as long as reading a short answer."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Final

__all__ = ["Wait", "Waits"]

_LATE: Final = 0.1
"""A wait ends after 1 to 1.1 times its limit."""


class Waits:
    """Limits waits of tasks in one event loop.

    Parameters
    ----------
    seconds : limit of each wait, s.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running = set[Wait]()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look for waits that are over, as long as there are any."""
        if self._timer is None:
            self._timer = loop.call_later((1.0 + _LATE) * self.seconds, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for wait in [wait for wait in self.running if wait.end <= now]:
            wait.break_off()
        self._timer = loop.call_later(_LATE * self.seconds, self._look, loop) if self.running else None


class Wait:
    """A context in which the running task waits, as ``asyncio.timeout``: if it takes too long, `TimeoutError`.

    Attributes
    ----------
    end : when it is over, s on the event loop's clock.
    """

    __slots__ = ("_cancelling", "_is_over", "_loop", "_task", "_waits", "end")

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self._is_over = False

    def __enter__(self) -> Wait:
        """Begin."""
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self.end = self._loop.time() + self._waits.seconds
        self._waits.running.add(self)
        self._waits.watch(self._loop)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """End; the cancellation of a wait that took too long is its own, unless its task is cancelled as well."""
        self._waits.running.discard(self)
        task = self._task
        del self._task  # else a cancelled one were part of a cycle, by its traceback
        if self._is_over and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def again(self) -> None:
        """Begin anew."""
        self.end = self._loop.time() + self._waits.seconds

    def pause(self) -> None:
        """Wait without a limit until it begins anew."""
        self.end = math.inf

    def break_off(self) -> None:
        """End what waits."""
        self._waits.running.discard(self)
        self._is_over = True
        self._task.cancel()
