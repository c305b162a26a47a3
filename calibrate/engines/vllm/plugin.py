"""What vLLM loads into each of its processes where specplan is installed too (``vllm.general_plugins``).

vLLM's processes wait for each other in busy loops, for up to a second after the latest message. Where there are fewer
cores than processes, as on the small machines that its CPU build is tested on, those that wait take the time of those
that work: streams come in bursts, and a server that has just become idle slows its neighbours (by half, measured with
two servers on one core). With the variable `VARIABLE` set to 1 they doze in these loops, the longer the longer they
have waited; else nothing is changed.

An engine that specplan itself has started ends with the process that started it, also where that is killed: vLLM's own
go on, with their memory and in their busy loops, until somebody finds them.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

__all__ = ["PARENT", "VARIABLE", "register"]

VARIABLE: Final = "SPECPLAN_VLLM_DOZE"

PARENT: Final = "SPECPLAN_VLLM_PARENT"
"""Names the process, by its id, with which an engine is to end."""

_LEAST_S: Final = 2e-5
"""Linux adds 50 us to it."""

_MOST_S: Final = 2e-3
_SHARE: Final = 0.02
"""Share of the time since the latest message for which a process dozes at once, and by which the next may come late."""

_WATCH: Final = "specplan watches the parent"
_WATCH_S: Final = 1.0


def register() -> None:
    """Let the process doze in its busy loops and end with its parent, if that is asked for; called more than once."""
    parent = os.environ.get(PARENT, "")
    if parent == str(os.getppid()) and _WATCH not in [thread.name for thread in threading.enumerate()]:
        threading.Thread(target=_end_with, args=(int(parent),), name=_WATCH, daemon=True).start()
    if os.environ.get(VARIABLE) == "1":
        from vllm.distributed.device_communicators import shm_broadcast

        shm_broadcast.sched_yield = _doze
        if shm_broadcast.SpinCondition.wait.__module__ != __name__:
            shm_broadcast.SpinCondition.wait = _dozing(shm_broadcast.SpinCondition.wait)


def _end_with(parent: int) -> None:
    """Wait until this process has another parent, then end it; the model's process ends with it by vLLM's own means."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)


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
