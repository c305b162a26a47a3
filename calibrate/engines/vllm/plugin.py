"""Plugin that vLLM loads into each of its processes where specplan is installed too (``vllm.general_plugins``).

vLLM's processes wait for each other in busy loops, for up to a second after the latest message. With fewer cores than
processes, as on the small machines that its CPU build is tested on, waiting processes take the time of working ones:
streams arrive in bursts, and a server that has just become idle slows its neighbours (by half, measured with two
servers on one core). With the variable `VARIABLE` set to 1 they sleep in these loops, longer the longer they have
waited; else nothing is changed.

An engine that specplan has started ends with the process that started it, even if that is killed: otherwise vLLM's
processes would go on, with their memory and busy loops.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Final

__all__ = ["PARENT", "VARIABLE", "register"]

VARIABLE: Final = "SPECPLAN_VLLM_DOZE"

PARENT: Final = "SPECPLAN_VLLM_PARENT"
"""Environment variable with the id of the process with which an engine ends."""

_LEAST_S, _MOST_S = 2e-5, 2e-3
"""Shortest sleep, to which Linux adds 50 us, and longest one."""

_SHARE: Final = 0.02
"""Length of a sleep / time since the latest message, which bounds the delay of the next message, [-]."""

_WATCH: Final = "specplan watches the parent"
_WATCH_S: Final = 1.0


def register() -> None:
    """Make the process sleep in its busy loops and end with its parent, if configured; may be called repeatedly."""
    parent = os.environ.get(PARENT, "")
    if parent == str(os.getppid()) and _WATCH not in [thread.name for thread in threading.enumerate()]:
        threading.Thread(target=_end_with, args=(int(parent),), name=_WATCH, daemon=True).start()
    if os.environ.get(VARIABLE) == "1":
        from vllm.distributed.device_communicators import shm_broadcast

        shm_broadcast.sched_yield = lambda: time.sleep(_LEAST_S)
        if shm_broadcast.SpinCondition.wait.__module__ != __name__:
            shm_broadcast.SpinCondition.wait = _dozing(shm_broadcast.SpinCondition.wait)


def _end_with(parent: int) -> None:
    """Wait until this process has another parent, then end it; vLLM then ends the model's process."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)


def _dozing(wait: Any) -> Any:
    """A reader's wait with sleeps in its busy phase; after it, vLLM's own wait for a notification."""

    def dozing(self: Any, timeout_ms: int | None = None) -> None:
        waited = time.monotonic() - self.last_read
        if waited <= self.busy_loop_s:
            time.sleep(min(max(_SHARE * waited, _LEAST_S), _MOST_S))
        else:
            wait(self, timeout_ms)

    return dozing
