"""What vLLM loads into each of its processes where specplan is installed beside it (``vllm.general_plugins``).

vLLM's processes wait for each other in busy loops, for up to a second after the latest message. Where there are fewer
cores than processes, as on the small machines that its CPU build is tested on, those that wait take the time of those
that work, and streams come in bursts. With the variable `VARIABLE` set to 1 they doze in these loops; else nothing is
changed.
"""

from __future__ import annotations

import os
import time
from typing import Final

__all__ = ["VARIABLE", "register"]

VARIABLE: Final = "SPECPLAN_VLLM_DOZE"

_DOZE_S: Final = 2e-5
"""Linux adds 50 us to it; a message waits for so long at most."""


def register() -> None:
    """Let the process doze in its busy loops, if that is asked for; called by vLLM, more than once."""
    if os.environ.get(VARIABLE) == "1":
        from vllm.distributed.device_communicators import shm_broadcast

        shm_broadcast.sched_yield = _doze


def _doze() -> None:
    time.sleep(_DOZE_S)
