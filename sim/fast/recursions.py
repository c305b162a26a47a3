"""Lookahead Reasoning by recursion on arrays: millions of steps per second where no engine is shared.

One recursion for the asynchronous schedule and one for the synchronous, over many answers at a time, both at width 1
and with step times that do not depend on the load. They follow the committed trajectory only. That is exact at width 1:
work on a wrong prefix is thrown away, and without shared engines it delays nothing. The generators of `sim.algorithms`
on the virtual clock are the specification.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from sim.algorithms.rules import PAPER, Rules, check_counts
from sim.fast.compiled import compiled_loops, is_compiled
from theory.errors import ParameterError

__all__ = ["async_recursion", "async_seconds", "sync_seconds"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def async_recursion(
    target_s: ArrayLike,
    draft_s: ArrayLike,
    accepted: ArrayLike,
    *,
    k1: int,
    verify_s: ArrayLike = 0.0,
    rules: Rules = PAPER,
    target_truncated: ArrayLike = False,
    draft_truncated: ArrayLike = False,
) -> tuple[Array, Flags]:
    r"""Commit time of each step of each answer by asynchronous lookahead, s, and where a tie leaves it undecided.

    Position d exists from :math:`s_d` on. Its target step starts at :math:`\max(s_d, C_{d-w})`, when the window of w
    positions admits it, and ends at :math:`t_d`; its draft ends at :math:`e_d`, started together with it or, without
    ``prefetch_draft``, at :math:`\max(s_d, C_{d-w+1})`. The verdict comes at :math:`v_d = \max(t_d, e_d) + V`; for a
    draft that is too late or refused unjudged, at the moment of that decision. The commit is at
    :math:`C_d = \max(C_{d-1}, v_d)`, and the next prefix exists at :math:`e_d` if the draft is accepted, else at
    :math:`v_d` or, in order, at :math:`C_d`.

    Parameters
    ----------
    target_s, draft_s : step times, s, shape (answers, steps). Values after the last step of a shorter answer are
        arbitrary: no time depends on a later position.
    accepted : verdicts, same shape.
    k1 : target steps in flight, >= 1; w is ``k1 + rules.extra_in_flight``.
    verify_s : time of a verdict, s, of a shape that broadcasts to (answers, steps).
    rules : ``slot`` and ``fallback`` must be the paper's, the others are free; ``winner`` has no effect on single
        drafts, and the last fields none on commits.
    target_truncated, draft_truncated : whether the steps were cut at their limit, of shapes that broadcast likewise.

    Returns
    -------
    Commit times, shape (answers, steps), each row ascending; and of the same shape the steps where two events have the
    same time, so that their order decides whether a draft is late: such drafts count as in time. Under rules that wait
    for drafts there are none.

    Raises
    ------
    ParameterError : shapes differ or do not broadcast, ``k1`` < 1, or other rules.
    """
    check_counts(k1, 1)
    if (rules.slot, rules.fallback) != (PAPER.slot, PAPER.fallback):
        raise ParameterError("rules", rules, "must be the paper's in slot and fallback")
    target, draft, yes = _columns(target_s, draft_s, accepted)
    verify = _like(target, "verify_s", verify_s).T
    target_cut = _like(target, "target_truncated", target_truncated).T
    draft_cut = _like(target, "draft_truncated", draft_truncated).T
    # The values of a position of all answers are contiguous in memory: each step of the recursion reads them together.
    target, draft, yes = np.ascontiguousarray(target.T), np.ascontiguousarray(draft.T), np.ascontiguousarray(yes.T)
    window, in_order = k1 + rules.extra_in_flight, rules.late_draft == "in-order"
    waits = rules.late_draft == "wait"
    commits, ties = np.empty_like(target), np.zeros(target.shape, dtype=np.bool_)
    prefix = last = np.zeros(target.shape[1])
    unjudged = np.full(target.shape[1], rules.reject_first)
    for d in range(len(target)):
        start = _admitted(prefix, commits, d, window)
        drafting = start if rules.prefetch_draft else _admitted(prefix, commits, d, window - 1)
        target_end, draft_end = start + target[d], drafting + draft[d]
        verdict = both = np.maximum(target_end, draft_end)
        good = yes[d]
        if rules.judges_every_draft:
            verdict = both + verify[d]
        else:
            decidable = np.maximum(target_end, last) if in_order else target_end
            late = drafting > target_end if waits else draft_end > decidable
            ties[d] = drafting == target_end if waits else draft_end == decidable
            refused = late | unjudged
            verdict = np.where(refused, np.minimum(both, decidable), both + verify[d])
            good = good & ~refused
            unjudged = rules.reject_after_truncation & np.where(good, draft_cut[d], target_cut[d])
        commits[d] = last = np.maximum(verdict, last)
        prefix = np.where(good, draft_end, last if rules.restart == "in-order" else verdict)
    return commits.T, ties.T


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
    target, draft, accepted, k1, rules : as in `async_recursion`. Constant step times
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
        seconds, tie = compiled_loops()[0](
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
    if ties[np.arange(target.shape[1]) < n_steps[:, None]].any():
        return None
    return np.asarray(commits[np.arange(len(commits)), n_steps - 1])


def _constant_seconds(
    target: Array, draft: Array, accepted: Flags, verify: Array | np.float64, n_steps: NDArray[np.int64], window: int
) -> Array:
    """`async_seconds` for constant step times.

    Verdicts then come in order, so the process restarts after each rejection. An answer takes the sum of its runs, each
    ended by a rejection or by the end of the answer; their times are commit times of a row of accepted drafts.
    """
    most, last = accepted.shape[1], np.cumsum(n_steps)
    refused = ~accepted if (n_steps == most).all() else ~accepted[np.arange(most) < n_steps[:, None]]
    ends = np.ones(last[-1] + 1, dtype=np.bool_)  # which steps end runs, all answers in a row; before them one more
    ends[1:] = refused.reshape(-1)
    ends[last] = True
    at = np.flatnonzero(ends)
    n_run = at[1:] - at[:-1]
    longest = min(1 << int(n_run.max() - 1).bit_length(), most)
    run_s = _run_seconds(float(target[0, 0]), float(draft[0, 0]), float(verify), window, longest)
    return np.asarray(np.add.reduceat(run_s[n_run], np.searchsorted(at, last - n_steps)))


@lru_cache(maxsize=16)
def _run_seconds(target: float, draft: float, verify: float, window: int, longest: int) -> Array:
    """Seconds of runs of 0 to ``longest`` steps, shape (longest + 1,); cached: a block of answers takes no longer."""
    row = np.full((1, longest), target), np.full((1, longest), draft), np.ones((1, longest))
    return np.append(0.0, async_recursion(*row, k1=window, verify_s=verify)[0])


def _admitted(prefix: Array, commits: Array, d: int, window: int) -> Array:
    """Earliest start of a text of position d: its prefix exists, and the window reaches it; inf for window 0."""
    if window < 1:
        return np.full_like(prefix, np.inf)
    return np.maximum(prefix, commits[d - window]) if d >= window else prefix


def _like(shape: Array, name: str, given: ArrayLike) -> NDArray[Any]:
    try:
        return np.broadcast_to(np.asarray(given), shape.shape)
    except ValueError:
        raise ParameterError(name, np.shape(given), f"must broadcast to {shape.shape}") from None


def sync_seconds(
    target_s: ArrayLike,
    draft_s: ArrayLike,
    accepted: ArrayLike,
    n_steps: ArrayLike | None = None,
    *,
    k1: int,
    verify_s: float = 0.0,
    barrier: bool = True,
    compiled: bool | None = None,
) -> Array:
    """Time of each answer by synchronous lookahead, s, shape (answers,).

    A cycle from position a drafts the next ``k1 - 1`` steps one after the other, then generates ``k1`` target steps in
    parallel and waits for the slowest, then judges all drafts at once.

    Parameters
    ----------
    target_s, draft_s, accepted : as in `async_recursion`.
    n_steps : steps of each answer, shape (answers,); default as many as there are columns.
    k1 : target steps in flight, >= 1.
    verify_s : time of a verdict, s.
    barrier : as in `sim.algorithms.rules.Rules`; without it a cycle ends at its first rejection.
    compiled : as in `async_seconds`; with the barrier only.

    Raises
    ------
    ParameterError : shapes differ, or ``k1`` < 1.
    """
    check_counts(k1, 1)
    target, draft, yes = _columns(target_s, draft_s, accepted)
    ends = np.broadcast_to(target.shape[1] if n_steps is None else np.asarray(n_steps), len(target))
    if barrier and (is_compiled(target.size) if compiled is None else compiled):
        arrays = (np.ascontiguousarray(one) for one in (target, draft, yes, ends))
        return np.asarray(compiled_loops()[1](*arrays, float(verify_s), k1))
    targets, drafts = (_ahead(one, ends, min(k1 - 1, target.shape[1])) for one in (target, draft))
    steps = np.arange(target.shape[1])
    refused = np.where(yes & (steps < ends[:, None]), target.shape[1], steps)  # from each position on, the next refusal
    refused = np.minimum.accumulate(refused[:, ::-1], axis=1)[:, ::-1]
    seconds, at, rows = np.zeros(len(target)), np.zeros(len(target), dtype=np.int64), np.arange(len(target))
    while rows.size:  # the cycles of all answers side by side, summed in the order of the clock
        first, left = at[rows], ends[rows] - at[rows]
        drafted = np.minimum(k1 - 1, left)
        good = np.minimum(refused[rows, first] - first, drafted)
        waited = drafted if barrier else good
        beside = targets[rows, first + 1, : waited.max()]
        slowest = np.where(steps[: beside.shape[1]] < waited[:, None], beside, 0.0).max(axis=1, initial=0.0)
        written = np.column_stack([seconds[rows], drafts[rows, first, : drafted.max()]])
        now = np.add.accumulate(written, axis=1)[:, -1] + np.maximum(slowest, target[rows, first])
        seconds[rows] = np.where(drafted > 0, now + verify_s, now)
        at[rows] = first + good + 1
        rows = rows[at[rows] < ends[rows]]
    return seconds


def _ahead(values: Array, ends: NDArray[np.int64], n: int) -> Array:
    """The ``n`` values from each position on, shape (answers, steps + 1, n); beyond an answer's end they are 0."""
    padded = np.zeros((len(values), values.shape[1] + n))
    padded[:, : values.shape[1]] = np.where(np.arange(values.shape[1]) < ends[:, None], values, 0.0)
    return sliding_window_view(padded, n, axis=1)


def _columns(target_s: ArrayLike, draft_s: ArrayLike, accepted: ArrayLike) -> tuple[Array, Array, Flags]:
    target, draft = np.asarray(target_s, dtype=np.float64), np.asarray(draft_s, dtype=np.float64)
    yes = np.asarray(accepted, dtype=np.bool_)
    if target.ndim != 2 or target.shape != draft.shape or target.shape != yes.shape or target.shape[1] == 0:
        raise ParameterError("accepted", yes.shape, f"and target_s {target.shape}, draft_s {draft.shape} must be equal")
    return target, draft, yes
