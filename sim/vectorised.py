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
from typing import Literal

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
    verify_s: float = 0.0,
    rules: Rules = PAPER,
) -> Array:
    r"""When each step of each answer is committed by asynchronous lookahead, s.

    Position d starts both its texts at :math:`g_d = \max(s_d, C_{d-k_1})`: when its prefix exists and the window admits
    it. Its verdict comes at :math:`v_d = \max(t_d, e_d) + V` after target's and draft's ends, its commit at
    :math:`C_d = \max(C_{d-1}, v_d)`; the next prefix exists at :math:`s_{d+1} = e_d` if the draft is accepted, else at
    :math:`v_d`.

    Parameters
    ----------
    target_s, draft_s : step times, s, shape (answers, steps).
    accepted : verdicts, same shape.
    k1 : target steps in flight, >= 1.
    verify_s : time of a verdict, s.
    rules : of these, only ``late_draft`` may differ from the paper's (a late draft that is cancelled is rejected when
        its target ends).

    Raises
    ------
    ParameterError : shapes differ, ``k1`` < 1, or other rules.
    """
    check_counts(k1, 1)
    if rules not in (PAPER, Rules(late_draft="cancel")):
        raise ParameterError("rules", rules, "must be the paper's, except for late_draft")
    target, draft, yes = _columns(target_s, draft_s, accepted)
    commits = np.empty_like(target)
    prefix = np.zeros(len(target))
    for d in range(target.shape[1]):
        start = np.maximum(prefix, commits[:, d - k1]) if d >= k1 else prefix
        target_end, draft_end = start + target[:, d], start + draft[:, d]
        verdict = np.maximum(target_end, draft_end) + verify_s
        good = yes[:, d]
        if rules.late_draft == "cancel":
            late = draft_end > target_end
            verdict = np.where(late, target_end, verdict)
            good = good & ~late
        commits[:, d] = np.maximum(verdict, commits[:, d - 1]) if d else verdict
        prefix = np.where(good, draft_end, verdict)
    return commits


def sync_answer_seconds(
    target_s: ArrayLike, draft_s: ArrayLike, accepted: ArrayLike, *, k1: int, verify_s: float = 0.0
) -> Array:
    """How long each answer takes by synchronous lookahead, s, shape (answers,).

    A cycle from position a drafts the next ``k1 - 1`` steps one after the other, then generates ``k1`` target steps in
    parallel and waits for the slowest, then judges all drafts at once.

    Parameters
    ----------
    target_s, draft_s, accepted : as in `async_commit_times`.
    k1 : target steps in flight, >= 1.
    verify_s : time of a verdict, s.

    Raises
    ------
    ParameterError : shapes differ, or ``k1`` < 1.
    """
    check_counts(k1, 1)
    target, draft, yes = _columns(target_s, draft_s, accepted)
    n, steps = target.shape
    drafted = np.concatenate([np.zeros((n, 1)), np.cumsum(draft, axis=1)], axis=1)
    run = np.zeros((n, steps + 1), dtype=np.int64)  # accepted drafts in a row from each position on
    slowest = np.empty_like(target)
    for d in range(steps - 1, -1, -1):
        run[:, d] = np.where(yes[:, d], run[:, d + 1] + 1, 0)
        slowest[:, d] = target[:, d : d + k1].max(axis=1)
    seconds, at, rows = np.zeros(n), np.zeros(n, dtype=np.int64), np.arange(n)
    while rows.size:
        a = at[rows]
        n_drafts = np.minimum(k1 - 1, steps - a)
        seconds[rows] += drafted[rows, a + n_drafts] - drafted[rows, a] + slowest[rows, a] + verify_s * (n_drafts > 0)
        at[rows] = a + np.minimum(run[rows, a], n_drafts) + 1
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
