"""The best split of a parallel budget between step-level and token-level speculation.

Maximise h(k1, k2) = f(k1) g(k2) over integers k1, k2 >= 1 with ParallelDim_f * ParallelDim_g <= M, where
ParallelDim_g = k2 and ParallelDim_f = k1 (sync) or min(ceil(1 / c1), k1) (async). LR, section 3.3, Eq. (1).

Method. f_async grows up to ceil(1 / c1) and is constant from there; f_sync and g rise to one peak and fall (LR,
Lemma 3). Beyond its plateau or peak a larger k uses budget without a gain, so each k is capped there, and below the
caps both factors grow. Then k2 = min(floor(M / k1), cap) is best for each k1, and among the k1 with the same
floor(M / k1) the largest is best: about 2 sqrt(M) candidates contain the optimum.

Ties. Two configurations tie when their computed speedups differ by less than `TIE_RTOL` relative, which is a few times
the rounding error of h. Only ties are listed for which no other tie has both k1 and k2 at most as large: a longer
window without a larger speedup is of no use. The reported tie needs the smallest budget, and among equal budgets has
the smallest k1, because token-level speculation cannot change the output and step-level speculation can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory import checks, kernels
from theory.checks import FloatArray, IntArray, Mode
from theory.optimum import real_maximiser

__all__ = ["MAX_BUDGET", "REGIMES", "TIE_RTOL", "HybridOptimum", "RegimeMap", "best_hybrid", "regime_map"]

Regime: TypeAlias = Literal["autoregressive", "token-only", "step-only", "hybrid"]

REGIMES: Final[tuple[Regime, ...]] = ("autoregressive", "token-only", "step-only", "hybrid")
"""Names of the codes in `RegimeMap.regime`: bit 0 is k2 >= 2, bit 1 is k1 >= 2."""

TIE_RTOL: Final = 32 * float(np.finfo(np.float64).eps)
"""7.1e-15. The error of h stays below 8 eps (``test_product_of_both_levels``), so equal configurations always tie."""

MAX_BUDGET: Final = 2**40
"""Largest budget accepted: 2 sqrt(M) candidates are then 2 million, a second's work."""

_CHUNK: Final = 1 << 19
"""Candidates evaluated at a time: tens of MB of temporaries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridOptimum:
    """The best configuration under a parallel budget."""

    k1: int
    """Most target steps in flight."""
    k2: int
    """Tokens per target pass."""
    speedup: float
    """f(k1) g(k2), [-], >= 1."""
    parallel_dim: int
    """Positions in flight, at most the budget."""
    regime: Regime
    """Which of k1, k2 exceed 1."""
    ties: tuple[tuple[int, int], ...]
    """All undominated (k1, k2) with this speedup, the reported one first; rule in `theory.budget`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimeMap:
    """The best configuration at each point of a grid."""

    k1: IntArray
    """Target steps in flight at most."""
    k2: IntArray
    """Tokens per target pass."""
    speedup: FloatArray
    """f(k1) g(k2), [-]."""
    regime: NDArray[np.int8]
    """Index into `REGIMES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problems:
    """n problems under one budget: checked arrays of shape (n,), and the caps beyond which a larger k has no gain."""

    alpha1: FloatArray
    c1: FloatArray
    alpha2: FloatArray
    c2: FloatArray
    mode: Mode
    cap1: IntArray
    cap2: IntArray

    def f(self, rows: IntArray, k1: IntArray) -> FloatArray:
        """Step-level speedup of problem ``rows`` at ``k1``."""
        return kernels.step_speedup(self.alpha1[rows], self.c1[rows], k1.astype(np.float64), self.mode)

    def g(self, rows: IntArray, k2: IntArray) -> FloatArray:
        """Token-level speedup of problem ``rows`` at ``k2``."""
        return kernels.sync_speedup(self.alpha2[rows], self.c2[rows], k2.astype(np.float64))

    def least_k1(self, rows: IntArray, k2: IntArray, goal: FloatArray, high: IntArray) -> IntArray:
        """Least k1 up to ``high`` (where it is true) with h(k1, k2) >= goal."""
        factor = self.g(rows, k2)
        return _least(lambda k1: self.f(rows, k1) * factor >= goal, high)

    def least_k2(self, rows: IntArray, k1: IntArray, goal: FloatArray, high: IntArray) -> IntArray:
        """Least k2 up to ``high`` (where it is true) with h(k1, k2) >= goal."""
        factor = self.f(rows, k1)
        return _least(lambda k2: factor * self.g(rows, k2) >= goal, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ties:
    """Undominated maximisers of n problems, sorted by (row, k1 k2, k1)."""

    row: IntArray
    k1: IntArray
    k2: IntArray


def best_hybrid(alpha1: float, c1: float, alpha2: float, c2: float, budget: int, mode: str) -> HybridOptimum:
    """The k1 and k2 of largest speedup with ParallelDim_f * ParallelDim_g <= budget.

    Parameters
    ----------
    alpha1 : acceptance probability of a draft step, [-], in [0, 1].
    c1 : time of a draft step / time of a target step, [-], in [0, 1].
    alpha2 : acceptance probability of a drafted token, [-], in [0, 1].
    c2 : time of a draft token / time of a target pass, [-], in [0, 1].
    budget : M, most target positions in flight, integer in [1, 2**40].
    mode : 'sync' or 'async', the step-level schedule.

    Returns
    -------
    The exact optimum up to the tie rule of this module; k1 = k2 = 1, "autoregressive", where no speculation pays. In
    async mode every k1 >= ceil(1 / c1) is the same schedule, and the smallest is reported.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.3, Eq. (1).

    >>> best_hybrid(0.6, 0.2, 0.7, 0.1, 16, "async")  # doctest: +NORMALIZE_WHITESPACE
    HybridOptimum(k1=4, k2=4, speedup=3.6631292401267515, parallel_dim=16, regime='hybrid', ties=((4, 4),))
    """
    schedule = checks.mode("mode", mode)
    m = checks.scalar_count("budget", budget, maximum=MAX_BUDGET)
    point = (
        checks.scalar_probability("alpha1", alpha1),
        checks.scalar_ratio("c1", c1),
        checks.scalar_probability("alpha2", alpha2),
        checks.scalar_ratio("c2", c2),
    )
    problems = _problems([np.array([x]) for x in point], m, schedule)
    ties = _solve(problems, m)
    first = np.zeros(1, dtype=np.int64)
    k1, k2 = int(ties.k1[0]), int(ties.k2[0])
    return HybridOptimum(
        k1=k1,
        k2=k2,
        speedup=float(problems.f(first, ties.k1[:1])[0] * problems.g(first, ties.k2[:1])[0]),
        parallel_dim=k1 * k2,
        regime=REGIMES[(k2 > 1) + 2 * (k1 > 1)],
        ties=tuple(zip(ties.k1.tolist(), ties.k2.tolist(), strict=True)),
    )


def regime_map(alpha1: ArrayLike, c1: ArrayLike, alpha2: ArrayLike, c2: ArrayLike, budget: int, mode: str) -> RegimeMap:
    """`best_hybrid` at every point of the grid that the arguments broadcast to.

    Parameters
    ----------
    alpha1, c1, alpha2, c2 : see `best_hybrid`; arrays that broadcast together.
    budget, mode : see `best_hybrid`.

    Returns
    -------
    Arrays of the broadcast shape.

    Raises
    ------
    ParameterError : an argument outside its domain, or shapes that do not fit.

    References
    ----------
    LR, section 3.3, Eq. (1), and Theorems 3 and 4 on which regime wins where.

    >>> regimes = regime_map([0.2, 0.6], 0.3, [[0.1], [0.7]], 0.1, 16, "sync")
    >>> [[REGIMES[code] for code in row] for row in regimes.regime]
    [['autoregressive', 'step-only'], ['token-only', 'hybrid']]
    """
    schedule = checks.mode("mode", mode)
    m = checks.scalar_count("budget", budget, maximum=MAX_BUDGET)
    named = {
        "alpha1": checks.probability("alpha1", alpha1),
        "c1": checks.ratio("c1", c1),
        "alpha2": checks.probability("alpha2", alpha2),
        "c2": checks.ratio("c2", c2),
    }
    shape = checks.broadcast_shape(**named)
    flat = [np.broadcast_to(a, shape).ravel() for a in named.values()]
    rows = max(1, _CHUNK // _candidates(m).size)
    parts = [_grid_part([a[i : i + rows] for a in flat], m, schedule) for i in range(0, flat[0].size, rows)]
    k1, k2, speedup = (np.concatenate(column).reshape(shape) for column in zip(*parts, strict=True))
    regime = ((k2 > 1) + 2 * (k1 > 1)).astype(np.int8)
    return RegimeMap(k1=k1, k2=k2, speedup=speedup, regime=regime)


def _grid_part(arrays: list[FloatArray], budget: int, mode: Mode) -> tuple[IntArray, IntArray, FloatArray]:
    """k1, k2 and speedup of each problem."""
    problems = _problems(arrays, budget, mode)
    ties = _solve(problems, budget)
    rows, first = np.unique(ties.row, return_index=True)
    k1, k2 = ties.k1[first], ties.k2[first]
    return k1, k2, problems.f(rows, k1) * problems.g(rows, k2)


def _problems(arrays: list[FloatArray], budget: int, mode: Mode) -> _Problems:
    alpha1, c1, alpha2, c2 = arrays
    if mode == "async":
        cap1 = np.minimum(kernels.reciprocal_ceiling(c1), budget).astype(np.int64)
    else:
        cap1 = _peak(alpha1, c1, budget)
    cap2 = _peak(alpha2, c2, budget)
    return _Problems(alpha1=alpha1, c1=c1, alpha2=alpha2, c2=c2, mode=mode, cap1=cap1, cap2=cap2)


def _peak(alpha: FloatArray, c: FloatArray, budget: int) -> IntArray:
    """The integer in [1, budget] that maximises f_sync or g, by the real maximiser and its two neighbours."""
    below = np.clip(np.floor(real_maximiser(alpha, c)), 1.0, budget)
    above = np.minimum(below + 1.0, budget)
    better = kernels.sync_speedup(alpha, c, above) > kernels.sync_speedup(alpha, c, below)
    return np.where(better, above, below).astype(np.int64)


def _candidates(budget: int) -> IntArray:
    """The largest k1 of each value of floor(budget / k1), ascending."""
    root = math.isqrt(budget)
    low = np.arange(1, root + 1, dtype=np.int64)
    high = budget // low[::-1]
    return np.concatenate((low[low < high[0]], high))


def _solve(p: _Problems, budget: int) -> _Ties:
    k1 = np.minimum(_candidates(budget), p.cap1[:, None])
    k2 = np.minimum(budget // k1, p.cap2[:, None])
    every = np.arange(p.cap1.size)[:, None]
    value = p.f(every, k1) * p.g(every, k2)
    threshold = value.max(axis=1) * (1.0 - TIE_RTOL)
    row, column = np.nonzero(value >= threshold[:, None])
    return _undominated(p, row, k1[row, column], k2[row, column], threshold)


def _undominated(p: _Problems, row: IntArray, k1: IntArray, k2: IntArray, threshold: FloatArray) -> _Ties:
    """Walk down each staircase of ties below (k1, k2): the least k1 that holds the value, then the least k2, and on."""
    undominated: list[tuple[IntArray, IntArray, IntArray]] = []
    bound1 = k1
    while row.size:
        low1 = p.least_k1(row, k2, threshold[row], bound1)
        low2 = p.least_k2(row, low1, threshold[row], k2)
        undominated.append((row, low1, low2))
        on = low2 > 1
        row, bound1, k2 = row[on], bound1[on], low2[on] - 1
        on = p.f(row, bound1) * p.g(row, k2) >= threshold[row]
        row, bound1, k2 = row[on], bound1[on], k2[on]
    rows, low1, low2 = (np.concatenate(part) for part in zip(*undominated, strict=True))
    order = np.lexsort((low1, low1 * low2, rows))
    rows, low1, low2 = rows[order], low1[order], low2[order]
    new = np.ones(rows.size, dtype=np.bool_)
    new[1:] = (np.diff(rows) != 0) | (np.diff(low1) != 0) | (np.diff(low2) != 0)
    return _Ties(row=rows[new], k1=low1[new], k2=low2[new])


def _least(holds: Callable[[IntArray], NDArray[np.bool_]], high: IntArray) -> IntArray:
    """Elementwise the smallest k in [1, high] at which ``holds``, which grows with k and is true at ``high``."""
    # Nearly always the answer is `high` itself, which one probe below it shows.
    low = np.where(holds(np.maximum(high - 1, 1)), 1, high)
    while (low < high).any():
        middle = (low + high) // 2
        true = holds(middle)
        high = np.where(true, middle, high)
        low = np.where(true, low, np.minimum(middle + 1, high))
    return high
