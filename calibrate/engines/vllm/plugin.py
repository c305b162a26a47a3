"""What vLLM loads into each of its processes where specplan is installed too (``vllm.general_plugins``).

vLLM's processes wait for each other in busy loops, for up to a second after the latest message. Where there are fewer
cores than processes, as on the small machines that its CPU build is tested on, those that wait take the time of those
that work: streams come in bursts, and a server that has just become idle slows its neighbours (by half, measured with
two servers on one core). With the variable `VARIABLE` set to 1 they doze in these loops, the longer the longer they
have waited; else nothing is changed.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

__all__ = ["VARIABLE", "register"]

VARIABLE: Final = "SPECPLAN_VLLM_DOZE"

_LEAST_S: Final = 2e-5
"""Linux adds 50 us to it."""

_MOST_S: Final = 2e-3
_SHARE: Final = 0.02
"""Of the time since the latest message for which a process dozes at once, and by which the next one may come late."""


def register() -> None:
    """Let the process doze in its busy loops, if that is asked for; called by vLLM, more than once."""
    if os.environ.get(VARIABLE) == "1":
        from vllm.distributed.device_communicators import shm_broadcast

        shm_broadcast.sched_yield = _doze
        if shm_broadcast.SpinCondition.wait.__module__ != __name__:
            shm_broadcast.SpinCondition.wait = _dozing(shm_broadcast.SpinCondition.wait)


def _doze() -> None:
    time.sleep(_LEAST_S)


def _dozing(wait: Any) -> Any:
    """A reader's wait whose busy phase dozes; after it, vLLM's own wait for a notification."""

    def dozing(self: Any, timeout_ms: int | None = None) -> None:
        waited = time.monotonic() - self.last_read
        if waited <= self.busy_loop_s:
            time.sleep(min(max(_SHARE * waited, _LEAST_S), _MOST_S))
        else:
            wait(self, timeout_ms)

    return dozing
