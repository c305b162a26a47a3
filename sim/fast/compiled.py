"""The recursions of `sim.fast.recursions` as loops that numba compiles, where it is installed and the work is worth it.

Both do the same additions and comparisons in the same order, so the results are the same to the last bit (a test
compares them). A sweep of 2,000 points takes 44 s of CPU with them and 149 s without. Compiling takes a second or two,
so that short runs are left to numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WORTH_COMPILING", "compiled_loops", "is_compiled"]

Array = NDArray[np.float64]

WORTH_COMPILING = 5_000_000
"""Steps simulated by this process from which on the compiled recursion is used: about 0.5 s with numpy."""

_done = [0]


def is_compiled(n_steps: int) -> bool:
    """Whether the next ``n_steps`` steps are run by compiled code."""
    _done[0] += n_steps
    return _done[0] >= WORTH_COMPILING and find_spec("numba") is not None


@lru_cache(maxsize=1)
def compiled_loops() -> tuple[Callable[..., Any], ...]:
    """Return the loops below, compiled: of the asynchronous and of the synchronous schedule."""
    from numba import njit

    return njit(nogil=True)(_async_loop), njit(nogil=True)(_sync_loop)


def _sync_loop(target: Any, draft: Any, accepted: Any, n_steps: Any, verify: float, k1: int) -> Array:
    """`sync_seconds`, one answer after the other."""
    seconds = np.empty(len(target))
    for i in range(len(target)):
        now, first = 0.0, 0
        while first < n_steps[i]:
            left = n_steps[i] - first
            ahead = min(k1 - 1, left)
            slowest, n_good = target[i, first], 0
            for j in range(ahead):
                now += draft[i, first + j]
                if n_good == j and accepted[i, first + j]:
                    n_good += 1
                if j + 1 < left:
                    slowest = max(slowest, target[i, first + j + 1])
            now += slowest
            if ahead > 0:
                now += verify
            first += n_good + 1
        seconds[i] = now
    return seconds


def _async_loop(
    target: Any,
    draft: Any,
    accepted: Any,
    verify: Any,
    target_cut: Any,
    draft_cut: Any,
    n_steps: Any,
    window: int,
    prefetch: bool,
    waits: bool,
    late_in_order: bool,
    restarts_in_order: bool,
    reject_first: bool,
    reject_after_cut: bool,
) -> tuple[Array, bool]:
    """`async_recursion`, one answer after the other; keeps the commit times of a window only."""
    seconds = np.empty(len(target))
    ring = np.empty(window)
    tie = False
    for i in range(len(target)):
        prefix = last = 0.0
        unjudged = reject_first
        for d in range(n_steps[i]):
            start = drafting = prefix
            if d >= window:
                start = drafting = max(prefix, ring[d % window])
            if not prefetch and d >= window - 1:
                drafting = max(prefix, ring[(d - window + 1) % window])
            target_end = start + target[i, d]
            draft_end = drafting + draft[i, d]
            both = max(target_end, draft_end)
            decidable = max(target_end, last) if late_in_order else target_end
            late = drafting > target_end if waits else draft_end > decidable
            tie = tie or (drafting == target_end if waits else draft_end == decidable)
            refused = late or unjudged
            verdict = min(both, decidable) if refused else both + verify[i, d]
            good = accepted[i, d] and not refused
            last = max(verdict, last)
            ring[d % window] = last
            prefix = draft_end if good else (last if restarts_in_order else verdict)
            unjudged = reject_after_cut and (draft_cut[i, d] if good else target_cut[i, d])
        seconds[i] = last
    return seconds, tie
