"""Lookahead Reasoning by recursion on arrays: millions of steps per second where no engine is shared.

Three programs for three needs, all at width 1, with step times that do not depend on the load:

- `stage_speedup`: the papers' assumptions; one geometric draw per stage.
- `async_commit_times`: asynchronous lookahead with given step times, over many answers at once.
- `sync_answer_seconds`: synchronous lookahead likewise.

The recursions follow the committed trajectory only. That is exact at width 1: what hangs on a wrong prefix is thrown
away, and without shared engines it delays nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.algorithms.rules import PAPER, Rules, check_counts
from sim.estimate import Estimate, ratio_of_totals
from sim.random_streams import stream
from theory.errors import ParameterError

__all__ = ["async_commit_times", "stage_speedup", "sync_answer_seconds"]

Array = NDArray[np.float64]


def stage_speedup(
    alpha: float,
    c1: float,
    k1: int,
    *,
    method: Literal["async", "sync"] = "async",
    n_stages: int = 1_000_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """Speedup under the papers' assumptions, simulated stage by stage.

    An asynchronous stage ends with a rejection, a synchronous one with its cycle. Whole stages only: the long run's
    ratio, without the bias of cutting at a fixed number of steps.

    Parameters
    ----------
    alpha : step acceptance, in [0, 1) for async, [0, 1] for sync.
    c1 : draft step time over target step time, >= 0.
    k1 : target steps in flight, >= 1.
    n_stages : stages to simulate, >= 2.
    seed : seed of the stream ``"stages"``.

    Raises
    ------
    ParameterError : a parameter outside its domain.
    """
    check_counts(k1, 1)
    most = 1.0 if method == "sync" else np.nextafter(1.0, 0.0)
    if not 0.0 <= alpha <= most:
        raise ParameterError("alpha", alpha, f"must be in [0, 1{']' if method == 'sync' else ')'}")
    if not 0.0 <= c1 < float("inf"):
        raise ParameterError("c1", c1, "must be finite and >= 0")
    if n_stages < 2:
        raise ParameterError("n_stages", n_stages, "must be an integer >= 2")
    runs = _accepted_runs(alpha, n_stages, seed, k1 - 1 if method == "sync" else None)
    if method == "sync":
        seconds = np.full(n_stages, 1.0 + (k1 - 1) * c1)
    else:
        seconds = np.array(_stage_table(c1, k1, int(runs.max()) + 1))[runs]
    return ratio_of_totals(
        runs + 1.0, seconds, confidence=confidence, estimator="ratio of totals over stages", seed=seed
    )


def _accepted_runs(alpha: float, n: int, seed: int, most: int | None) -> NDArray[np.int64]:
    """Draw how many drafts in a row are accepted."""
    if alpha == 1.0:
        assert most is not None
        return np.full(n, most, dtype=np.int64)
    runs = stream(seed, "stages", 0).geometric(1.0 - alpha, n) - 1
    return runs if most is None else np.minimum(runs, most)


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
    r"""When each step of each answer is committed by asynchronous lookahead, s.

    Position d exists from :math:`s_d` on. Its target step starts at :math:`\max(s_d, C_{d-w})`, when the window of w
    positions admits it, and ends at :math:`t_d`; its draft ends at :math:`e_d`, started together with it or, without
    ``prefetch_draft``, at :math:`\max(s_d, C_{d-w+1})`. The verdict comes at :math:`v_d = \max(t_d, e_d) + V`; at the
    moment when the draft is too late or refused unjudged, if it is. The commit is at
    :math:`C_d = \max(C_{d-1}, v_d)`, and the next prefix exists at :math:`e_d` if the draft stands, else at
    :math:`v_d` or, in order, at :math:`C_d`.

    Parameters
    ----------
    target_s, draft_s : step times, s, shape (answers, steps). What follows the last step of a shorter answer does not
        matter: no time depends on a later position.
    accepted : verdicts, same shape.
    k1 : target steps in flight, >= 1; w is ``k1 + rules.extra_in_flight``.
    verify_s : time of a verdict, s, of a shape that broadcasts to (answers, steps).
    rules : all but ``slot`` and ``fallback``, which must be the paper's; ``winner`` is nothing to single drafts, and
        the last fields are about other things than commits.
    target_truncated, draft_truncated : whether the steps were cut at their limit, of shapes that broadcast likewise.

    Returns
    -------
    Shape (answers, steps), each row ascending.

    Raises
    ------
    ParameterError : shapes differ or do not broadcast, ``k1`` < 1, or other rules.
    """
    check_counts(k1, 1)
    if (rules.slot, rules.fallback) != (PAPER.slot, PAPER.fallback):
        raise ParameterError("rules", rules, "must be the paper's in slot and fallback")
    target, draft, yes = _columns(target_s, draft_s, accepted)
    verify = _like(target, "verify_s", verify_s)
    target_cut = _like(target, "target_truncated", target_truncated)
    draft_cut = _like(target, "draft_truncated", draft_truncated)
    window, in_order = k1 + rules.extra_in_flight, rules.late_draft == "in-order"
    commits = np.empty_like(target)
    prefix = last = np.zeros(len(target))
    unjudged = np.full(len(target), rules.reject_first)
    for d in range(target.shape[1]):
        target_end = _admitted(prefix, commits, d, window) + target[:, d]
        drafting = _admitted(prefix, commits, d, window - (not rules.prefetch_draft))
        draft_end = drafting + draft[:, d]
        both = np.maximum(target_end, draft_end)
        decidable = np.maximum(target_end, last) if in_order else target_end
        late = drafting > target_end if rules.late_draft == "wait" else draft_end > decidable
        refused = late | unjudged
        verdict = np.where(refused, np.minimum(both, decidable), both + verify[:, d])
        good = yes[:, d] & ~refused
        commits[:, d] = last = np.maximum(verdict, last)
        prefix = np.where(good, draft_end, last if rules.restart == "in-order" else verdict)
        unjudged = rules.reject_after_truncation & np.where(good, draft_cut[:, d], target_cut[:, d])
    return commits


def _admitted(prefix: Array, commits: Array, d: int, window: int) -> Array:
    """When a text of position d may start: its prefix exists, and the window reaches it; never in a window of none."""
    if window < 1:
        return np.full_like(prefix, np.inf)
    return np.maximum(prefix, commits[:, d - window]) if d >= window else prefix


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
    """How long each answer takes by synchronous lookahead, s, shape (answers,).

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
    last = np.arange(steps) + np.minimum(k1 - 1, steps - np.arange(steps))  # where a cycle from here would end
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


def _columns(target_s: ArrayLike, draft_s: ArrayLike, accepted: ArrayLike) -> tuple[Array, Array, NDArray[np.bool_]]:
    target, draft = np.asarray(target_s, dtype=np.float64), np.asarray(draft_s, dtype=np.float64)
    yes = np.asarray(accepted, dtype=np.bool_)
    if target.ndim != 2 or target.shape != draft.shape or target.shape != yes.shape or target.shape[1] == 0:
        raise ParameterError("accepted", yes.shape, f"and target_s {target.shape}, draft_s {draft.shape} must be equal")
    return target, draft, yes


@lru_cache(maxsize=256)
def _stage_table(c1: float, k1: int, n: int) -> tuple[float, ...]:
    """When step 0, 1, ..., n - 1 of an asynchronous stage is committed, if all drafts before it are accepted.

    In target steps, for fixed step times and free verification; entry x is how long a stage takes whose first x drafts
    are accepted and the next is rejected. A position starts when its prefix is drafted and the window admits it, and is
    decided when both its texts exist.
    """
    started: list[float] = []
    decided: list[float] = []
    for j in range(n):
        drafted = started[-1] + c1 if j else 0.0
        started.append(max(drafted, decided[j - k1]) if j >= k1 else drafted)
        decided.append(max(started[j] + max(1.0, c1), decided[-1] if j else 0.0))
    return tuple(decided)
