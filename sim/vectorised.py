"""Lookahead Reasoning by recursion on arrays: millions of steps per second where no engine is shared.

Two programs, both at width 1, with step times that do not depend on the load:

- `async_commit_times`: asynchronous lookahead with given step times, over many answers at once.
- `sync_answer_seconds`: synchronous lookahead likewise.

The recursions follow the committed trajectory only. That is exact at width 1: steps after a refused prefix are
discarded, and without shared engines they delay nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.algorithms.rules import PAPER, Rules, check_counts
from theory.errors import ParameterError

__all__ = ["async_commit_times", "async_recursion", "sync_answer_seconds"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def async_commit_times(
    target_s: ArrayLike,
    draft_s: ArrayLike,
    accepted: ArrayLike,
    *,
    k1: int,
    verify_s: ArrayLike = 0.0,
    rules: Rules = PAPER,
    target_truncated: ArrayLike = False,
    draft_truncated: ArrayLike = False,
) -> Array:
    r"""Commit time of each step of each answer by asynchronous lookahead, s.

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
    Shape (answers, steps), each row ascending.

    Raises
    ------
    ParameterError : shapes differ or do not broadcast, ``k1`` < 1, or other rules.
    """
    commits, _ = async_recursion(
        target_s,
        draft_s,
        accepted,
        k1=k1,
        verify_s=verify_s,
        rules=rules,
        target_truncated=target_truncated,
        draft_truncated=draft_truncated,
    )
    return commits


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
) -> tuple[Array, Flags | None]:
    """Return `async_commit_times`, and the steps where it is undecided whether a draft is late because of a tie.

    Parameters and errors are those of `async_commit_times`. Ties matter under rules that do not wait for drafts; such
    drafts count as in time. Both have the shape (answers, steps); None where no rule depends on late drafts.
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
    if rules.judges_every_draft and rules.restart == "verdict":
        return _all_judged(target, draft, yes, verify, window).T, None
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


def _all_judged(target: Array, draft: Array, yes: Flags, verify: Array, window: int) -> Array:
    """The recursion where each draft is judged, and verdicts take effect at once; shapes (steps, answers).

    Both texts of a position start together, so the durations from that moment are known for all positions in advance.
    Rounding is the same: the later of two sums with the same start is the sum with the larger number, to the last bit.
    """
    takes_time = bool(verify.any())
    commits = np.empty_like(target)
    prefix = last = np.zeros(target.shape[1])
    for d in range(len(target)):
        start = np.maximum(prefix, commits[d - window]) if d >= window else prefix
        verdict = np.maximum(target[d], draft[d])
        prefix = np.where(yes[d], draft[d], verdict)
        verdict += start
        prefix += start
        if takes_time:
            verdict += verify[d]
            np.copyto(prefix, verdict, where=~yes[d])
        last = np.maximum(verdict, last, out=commits[d])
    return commits


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


def sync_answer_seconds(
    target_s: ArrayLike,
    draft_s: ArrayLike,
    accepted: ArrayLike,
    *,
    k1: int,
    verify_s: float = 0.0,
    barrier: bool = True,
) -> Array:
    """Time of each answer by synchronous lookahead, s, shape (answers,).

    A cycle from position a drafts the next ``k1 - 1`` steps one after the other, then generates ``k1`` target steps in
    parallel and waits for the slowest, then judges all drafts at once.

    Parameters
    ----------
    target_s, draft_s, accepted : as in `async_commit_times`.
    k1 : target steps in flight, >= 1.
    verify_s : time of a verdict, s.
    barrier : as in `sim.algorithms.rules.Rules`; without it a cycle ends at its first rejection.

    Raises
    ------
    ParameterError : shapes differ, or ``k1`` < 1.
    """
    check_counts(k1, 1)
    target, draft, yes = _columns(target_s, draft_s, accepted)
    n, steps = target.shape
    drafted = np.concatenate([np.zeros((n, 1)), np.cumsum(draft, axis=1)], axis=1)
    last = np.arange(steps) + np.minimum(k1 - 1, steps - np.arange(steps))  # end position of a cycle that starts here
    committed = np.empty_like(target, dtype=np.int64)
    run = np.zeros(n, dtype=np.int64)  # accepted drafts in a row from a position on
    for d in range(steps - 1, -1, -1):
        run = np.where(yes[:, d], run + 1, 0)
        committed[:, d] = np.minimum(run, last[d] - d)
    slowest = target.copy()
    for ahead in range(1, min(k1, steps)):
        waited = True if barrier else committed[:, :-ahead] >= ahead
        np.maximum(slowest[:, :-ahead], np.where(waited, target[:, ahead:], 0.0), out=slowest[:, :-ahead])
    cycle_s = drafted[:, last] - drafted[:, :-1] + slowest + verify_s * (last > np.arange(steps))
    seconds, at, rows = np.zeros(n), np.zeros(n, dtype=np.int64), np.arange(n)
    while rows.size:
        a = at[rows]
        seconds[rows] += cycle_s[rows, a]
        at[rows] = a + committed[rows, a] + 1
        rows = rows[at[rows] < steps]
    return seconds


def _columns(target_s: ArrayLike, draft_s: ArrayLike, accepted: ArrayLike) -> tuple[Array, Array, Flags]:
    target, draft = np.asarray(target_s, dtype=np.float64), np.asarray(draft_s, dtype=np.float64)
    yes = np.asarray(accepted, dtype=np.bool_)
    if target.ndim != 2 or target.shape != draft.shape or target.shape != yes.shape or target.shape[1] == 0:
        raise ParameterError("accepted", yes.shape, f"and target_s {target.shape}, draft_s {draft.shape} must be equal")
    return target, draft, yes
