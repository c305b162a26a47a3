"""The recursions of `sim.vectorised` for answers of any length: in numpy, or compiled by numba where it is installed.

Both do the same additions and comparisons in the same order, so the results are the same to the last bit (a test
compares them). Compiling takes a second or two, so that short runs are left to numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.algorithms.rules import Rules
from sim.vectorised import async_recursion

__all__ = ["WORTH_COMPILING", "async_seconds", "is_compiled", "sync_seconds"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

WORTH_COMPILING = 5_000_000
"""Steps simulated by this process from which on the compiled recursion is used: about 0.5 s with numpy."""

_done = [0]


def is_compiled(n_steps: int) -> bool:
    """Whether the next ``n_steps`` steps are run by compiled code."""
    _done[0] += n_steps
    return _done[0] >= WORTH_COMPILING and find_spec("numba") is not None


def async_seconds(
    target: Array,
    draft: Array,
    accepted: Flags,
    verify: Array | np.float64,
    n_steps: NDArray[np.int64],
    *,
    k1: int,
    rules: Rules,
    target_cut: Flags,
    draft_cut: Flags,
    compiled: bool | None = None,
) -> Array | None:
    """Return the commit time of the last step of each answer, s, shape (answers,); None if it depends on ties.

    Where two events have the same time, the order of their start decides whether a draft is late; a recursion does not
    know that order. Under rules that wait for drafts the order has no effect.

    Parameters
    ----------
    target, draft, accepted, k1, rules : as in `sim.vectorised.async_commit_times`. Constant step times
        (`numpy.broadcast_to`) are computed from the lengths of runs of accepted drafts, where the rules allow: about
        ten times as fast, and equal up to rounding.
    verify : seconds of verdicts, one number for all or one for each.
    n_steps : steps of each answer, shape (answers,).
    target_cut, draft_cut : which steps were cut.
    compiled : whether to use numba; by default where the number of steps is worth compiling.
    """
    window = k1 + rules.extra_in_flight
    if window - (not rules.prefetch_draft) < 1:
        return None  # the draft never starts, as on the virtual clock
    constant = not any((*target.strides, *draft.strides, np.ndim(verify)))  # a constant each, broadcast
    if constant and rules.judges_every_draft:
        return _constant_seconds(target, draft, accepted, verify, n_steps, window)
    if compiled is None:
        compiled = is_compiled(target.size)
    if compiled:
        seconds, tie = _compiled()[0](
            *(np.ascontiguousarray(one) for one in (target, draft, accepted)),
            np.broadcast_to(verify, target.shape),
            *(np.ascontiguousarray(one) for one in (target_cut, draft_cut)),
            n_steps,
            window,
            rules.prefetch_draft,
            rules.late_draft == "wait",
            rules.late_draft == "in-order",
            rules.restart == "in-order",
            rules.reject_first,
            rules.reject_after_truncation,
        )
        return None if tie else seconds
    commits, ties = async_recursion(
        target,
        draft,
        accepted,
        k1=k1,
        verify_s=verify,
        rules=rules,
        target_truncated=target_cut,
        draft_truncated=draft_cut,
    )
    if ties is not None and ties[np.arange(target.shape[1]) < n_steps[:, None]].any():
        return None
    return np.asarray(commits[np.arange(len(commits)), n_steps - 1])


def _constant_seconds(
    target: Array,
    draft: Array,
    accepted: Flags,
    verify: Array | np.float64,
    n_steps: NDArray[np.int64],
    window: int,
) -> Array:
    """`async_seconds` for constant step times.

    Verdicts then come in order, so the process restarts after each rejection. An answer takes the sum of its runs, each
    ended by a rejection or by the end of the answer; their times are commit times of a row of accepted drafts.
    """
    steps = np.arange(accepted.shape[1])
    ends = ~accepted if (n_steps == steps.size).all() else ~accepted[steps < n_steps[:, None]]
    ends, last = ends.reshape(-1), np.cumsum(n_steps) - 1
    ends[last] = True
    at = np.flatnonzero(ends)
    n_before = np.diff(at, prepend=-1) - 1  # accepted drafts before a run's last step
    run_s = _run_seconds(float(target[0, 0]), float(draft[0, 0]), float(verify), int(n_before.max()) + 1, window)
    first_runs = np.searchsorted(at, np.append(0, last[:-1] + 1))
    return np.asarray(np.add.reduceat(run_s[n_before], first_runs))


def _run_seconds(target: float, draft: float, verify: float, n: int, window: int) -> Array:
    """Commit times of ``n`` steps in a row that are all accepted, s."""
    commits: list[float] = []
    prefix = 0.0
    for d in range(n):
        start = max(prefix, commits[d - window]) if d >= window else prefix
        commits.append(start + max(target, draft) + verify)
        prefix = start + draft
    return np.array(commits)


def sync_seconds(
    target: Array,
    draft: Array,
    accepted: Flags,
    verify: float,
    n_steps: NDArray[np.int64],
    *,
    k1: int,
    compiled: bool | None = None,
) -> Array:
    """Return the time of each answer by synchronous lookahead, s, shape (answers,).

    Parameters are those of `sim.vectorised.sync_answer_seconds` and `async_seconds`.
    """
    if is_compiled(target.size) if compiled is None else compiled:
        arrays = (np.ascontiguousarray(one) for one in (target, draft, accepted))
        seconds: Array = _compiled()[1](*arrays, float(verify), n_steps, k1)
        return seconds
    seconds, at, rows = np.zeros(len(target)), np.zeros(len(target), dtype=np.int64), np.arange(len(target))
    last = target.shape[1] - 1
    while rows.size:
        first, left = at[rows], n_steps[rows] - at[rows]
        ahead = np.minimum(k1 - 1, left)
        now, slowest, n_good = seconds[rows], target[rows, first], np.zeros(rows.size, dtype=np.int64)
        for j in range(k1 - 1):
            here = np.minimum(first + j, last)
            now = np.where(j < ahead, now + draft[rows, here], now)
            n_good += (j < ahead) & (n_good == j) & accepted[rows, here]
            after = np.minimum(here + 1, last)
            slowest = np.where(j + 1 < np.minimum(ahead + 1, left), np.maximum(slowest, target[rows, after]), slowest)
        now = now + slowest
        seconds[rows] = np.where(ahead > 0, now + verify, now)
        at[rows] = first + n_good + 1
        rows = rows[at[rows] < n_steps[rows]]
    return seconds


@lru_cache(maxsize=1)
def _compiled() -> tuple[Callable[..., Any], ...]:
    """The loops below, compiled."""
    from numba import njit

    return njit(nogil=True)(_async_loop), njit(nogil=True)(_sync_loop)


def _sync_loop(target: Any, draft: Any, accepted: Any, verify: float, n_steps: Any, k1: int) -> Array:
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
    """`sim.vectorised.async_commit_times`, one answer after the other; keeps the commit times of a window only."""
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
