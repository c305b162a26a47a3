r"""Draft trees: acceptance among W correlated branches, and the best (k1, k2, W) under a parallel budget.

Each position of a draft gets W branches, and every prefix of branches needs a target step of its own, so that a window
of K positions holds P = 1 + W + ... + W**(K - 1) target steps, with K = k1 (sync) or min(ceil(1 / c1), k1) (async). LR,
section 3.1, lets a position pass when one of its branches does.

Branches of one position are correlated: their verdicts share a beta-distributed latent rate with mean alpha1 and
correlation rho, so that all W fail with probability (beta-binomial)

.. math:: \prod_{i=0}^{W-1} \frac{(1 - \alpha_1)(1 - \rho) + i \rho}{(1 - \rho) + i \rho}.

Independence, rho = 0, gives LR's 1 - (1 - alpha1)**W, which is .9996 where Table 3 has .83 (GSM8K, W = 8); rho = .63
gives .83. Every position in flight beyond the first adds the share eta to the time of all steps, target and draft
alike, so that the speedup is

.. math:: \frac{f(p_W, c_1, k_1) \, g(\alpha_2, c_2, k_2)}{1 + \eta (P k_2 - 1)}.

Drafting W branches takes the time of drafting one, and verdicts are free, as in `theory.speedup`.

Method of `best_tree`. All (k1, k2, W) within the budget are evaluated: about 2 M ln M of them, a second's work at the
largest budget. Two tie when their speedups differ by less than `TREE_TIE_RTOL` relative, which is more than the
rounding error of any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from theory import checks, kernels
from theory.checks import FloatArray, IntArray, Mode

__all__ = [
    "MAX_TREE_BUDGET",
    "TREE_TIE_RTOL",
    "TreeOptimum",
    "accepted_among",
    "best_tree",
    "h_tree",
    "position_cost_at",
]

MAX_TREE_BUDGET: Final = 2**14
"""Largest budget of `best_tree`, and most branches of a position."""

TREE_TIE_RTOL: Final = 1e-12
"""The error of `h_tree` stays below a quarter of this (``test_h_tree_against_forty_digits``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptimum:
    """The best configuration with branches under a parallel budget."""

    k1: int
    """Target steps in flight along one path, at most."""
    k2: int
    """Tokens per target pass."""
    width: int
    """W, branches per position; 1 where k1 is."""
    speedup: float
    """Over plain decoding, [-], >= 1."""
    positions: int
    """P k2, at most the budget."""
    accepted: float
    """Probability that a position passes, p_W, [-]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """Checked arguments of one search."""

    alpha1: float
    c1: float
    alpha2: float
    c2: float
    siblings: float
    position_cost: float
    mode: Mode

    @property
    def most_in_flight(self) -> int:
        """Target steps of one path in flight at any k1, at most."""
        if self.mode == "sync":
            return checks.MAX_COUNT
        return int(min(float(kernels.reciprocal_ceiling(np.asarray(self.c1))), checks.MAX_COUNT))


def accepted_among(alpha1: ArrayLike, width: ArrayLike, siblings: ArrayLike) -> FloatArray:
    """Probability that at least one of W branches of a position is accepted.

    Parameters
    ----------
    alpha1 : acceptance probability of each branch, [-], in [0, 1].
    width : W, branches, integer in [1, 2**14].
    siblings : correlation of the verdicts on two branches (rho), [-], in [0, 1].

    Returns
    -------
    p_W, [-]: alpha1 at W = 1 or rho = 1, and ``1 - (1 - alpha1)**W`` at rho = 0.

    Raises
    ------
    ParameterError : an argument outside its domain, or shapes that do not broadcast.

    References
    ----------
    Beta-binomial law (module docstring); LR, section 3.1 and Table 3.

    >>> accepted_among(0.63, [1, 2, 4, 8], 0.63).round(2).tolist(), float(accepted_among(0.5, 2, 0.0))
    ([0.63, 0.72, 0.78, 0.83], 0.75)
    """
    a, w, rho = (
        checks.probability("alpha1", alpha1),
        checks.count("width", width, maximum=MAX_TREE_BUDGET),
        checks.probability("siblings", siblings),
    )
    shape = checks.broadcast_shape(alpha1=a, width=w, siblings=rho)
    pairs = np.stack(np.broadcast_arrays(a, rho), axis=-1).reshape(-1, 2)
    which = np.broadcast_to(np.arange(len(pairs)).reshape(np.broadcast_shapes(a.shape, rho.shape)), shape)
    curves = np.array([_accepted_up_to(int(w.max()), *pair) for pair in pairs])
    return checks.unwrap(curves[which, np.broadcast_to(w, shape) - 1])


def h_tree(
    alpha1: float,
    c1: float,
    k1: ArrayLike,
    width: ArrayLike,
    alpha2: float,
    c2: float,
    k2: ArrayLike,
    mode: str,
    *,
    siblings: float,
    position_cost: float = 0.0,
) -> FloatArray:
    """Speedup of both levels with W branches per position.

    Parameters
    ----------
    alpha1, c1, alpha2, c2 : as in `theory.budget.best_hybrid`.
    k1 : target steps in flight along one path, >= 1.
    width : W, branches per position, integer in [1, 2**14].
    k2 : tokens per target pass, >= 1.
    mode : 'sync' or 'async'.
    siblings : correlation of the verdicts on two branches, [-], in [0, 1].
    position_cost : time that each further position in flight adds to every step (eta), as a share of it, >= 0.

    Returns
    -------
    Speedup over plain decoding, [-]; at W = 1 without a position cost that of `theory.speedup.h`.

    Raises
    ------
    ParameterError : an argument outside its domain, or shapes that do not broadcast.

    References
    ----------
    Own combination (module docstring) of LR, sections 3.1 to 3.3.

    >>> round(float(h_tree(0.5, 0.0, 2, 2, 0.0, 0.0, 1, "sync", siblings=0.0)), 12)
    1.75
    """
    problem = _problem(alpha1, c1, alpha2, c2, mode, siblings, position_cost)
    depth, w, tokens = checks.count("k1", k1), checks.count("width", width), checks.count("k2", k2)
    checks.broadcast_shape(k1=depth, width=w, k2=tokens)
    return checks.unwrap(_speedup(problem, depth, w, tokens)[0])


def best_tree(
    alpha1: float,
    c1: float,
    alpha2: float,
    c2: float,
    budget: int,
    mode: str,
    *,
    siblings: float,
    position_cost: float = 0.0,
) -> TreeOptimum:
    """The k1, k2 and W of largest speedup with at most ``budget`` positions in flight.

    Parameters
    ----------
    alpha1, c1, alpha2, c2, mode, siblings, position_cost : as in `h_tree`.
    budget : M, most target positions in flight, integer in [1, 2**14].

    Returns
    -------
    The largest speedup; of those that tie (`TREE_TIE_RTOL`) the one with the fewest positions, then the least W, then
    the least k1.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.3, Eq. (1), extended by the width (module docstring).

    >>> best = best_tree(0.63, 0.28, 0.0, 0.1, 7, "sync", siblings=0.63)
    >>> best.k1, best.k2, best.width, best_tree(0.63, 0.28, 0.0, 0.1, 2, "sync", siblings=0.63).width
    (3, 1, 2, 1)
    """
    m = checks.scalar_count("budget", budget, maximum=MAX_TREE_BUDGET)
    problem = _problem(alpha1, c1, alpha2, c2, mode, siblings, position_cost)
    k1, width, k2 = _within_budget(problem, m)
    speedup, positions = _speedup(problem, k1, width, k2)
    ties = np.nonzero(speedup >= speedup.max() * (1.0 - TREE_TIE_RTOL))[0]
    best = ties[np.lexsort((k1[ties], width[ties], positions[ties]))[0]]
    return TreeOptimum(
        k1=int(k1[best]),
        k2=int(k2[best]),
        width=int(width[best]),
        speedup=float(speedup[best]),
        positions=int(positions[best]),
        accepted=float(accepted_among(problem.alpha1, int(width[best]), problem.siblings)),
    )


def position_cost_at(
    alpha1: float, c1: float, k1: int, width: int, mode: str, *, siblings: float, gain: float = 1.0
) -> float:
    """The position cost at which W branches are ``gain`` times as fast as one, at equal depth and one token per pass.

    At the default it is the break-even: below it the branches pay. With Q = (gain of f by the branches) / ``gain`` and
    P, P' the steps in flight with and without branches, it is (Q - 1) / (P - 1 - Q (P' - 1)).

    Parameters
    ----------
    alpha1, c1, mode, siblings : as in `h_tree`.
    k1 : target steps in flight along one path, >= 2.
    width : W, branches per position, integer in [2, 2**14].
    gain : speedup with W branches / speedup with one, > 0; a measured one tells what positions cost there.

    Returns
    -------
    Share of a step's time for each further position: inf where the branches gain more at every cost, and negative where
    they do not gain as much at no cost.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    Own derivation (module docstring).

    >>> round(position_cost_at(0.63, 0.28, 2, 2, "async", siblings=0.63), 3)
    0.065
    """
    problem = _problem(alpha1, c1, 0.0, 0.0, mode, siblings, 0.0)
    depth = checks.scalar_count("k1", k1, minimum=2)
    w = checks.scalar_count("width", width, minimum=2, maximum=MAX_TREE_BUDGET)
    one = np.asarray(1)
    branched, plain = (_speedup(problem, np.asarray(depth), np.asarray(each), one) for each in (w, 1))
    excess = float(branched[0] / plain[0]) / checks.single("gain", checks.positive("gain", gain), gain)
    room = float(branched[1]) - 1.0 - excess * (float(plain[1]) - 1.0)
    return (excess - 1.0) / room if room > 0.0 else float("inf")


def _problem(
    alpha1: float, c1: float, alpha2: float, c2: float, mode: str, siblings: float, position_cost: float
) -> _Problem:
    return _Problem(
        alpha1=checks.scalar_probability("alpha1", alpha1),
        c1=checks.scalar_ratio("c1", c1),
        alpha2=checks.scalar_probability("alpha2", alpha2),
        c2=checks.scalar_ratio("c2", c2),
        siblings=checks.scalar_probability("siblings", siblings),
        position_cost=checks.single("position_cost", checks.nonnegative("position_cost", position_cost), position_cost),
        mode=checks.mode("mode", mode),
    )


def _speedup(p: _Problem, k1: IntArray, width: IntArray, k2: IntArray) -> tuple[FloatArray, FloatArray]:
    """Speedup and positions in flight of each triple."""
    positions = _steps_in_flight(width, np.minimum(k1, p.most_in_flight)) * k2
    accepted = np.asarray(accepted_among(p.alpha1, width, p.siblings))
    cost = np.full(positions.shape, p.c1)
    f = kernels.step_speedup(np.broadcast_to(accepted, cost.shape), cost, np.broadcast_to(1.0 * k1, cost.shape), p.mode)
    g = kernels.sync_speedup(np.asarray(p.alpha2), np.asarray(p.c2), k2.astype(np.float64))
    load = p.position_cost * (positions - 1.0) if p.position_cost else 0.0  # 0 times infinitely many is 0
    return f * g / (1.0 + load), positions


def _steps_in_flight(width: IntArray, window: IntArray) -> FloatArray:
    """1 + W + ... + W**(K - 1), whole numbers; inf where they overflow."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        powers = (width.astype(np.float64) ** window - 1.0) / (width - 1.0)
    return np.where(width == 1, window.astype(np.float64), powers)


def _accepted_up_to(width: int, alpha1: float, siblings: float) -> FloatArray:
    """p_1, ..., p_W: each branch adds its acceptance given that all before it were refused, so nothing cancels."""
    later = alpha1 * (1.0 - siblings) / ((1.0 - siblings) + siblings * np.arange(1, width))
    passes = np.concatenate(([alpha1], later))
    refused = np.concatenate(([1.0], np.cumprod(1.0 - passes[:-1])))
    return np.asarray(np.minimum(np.cumsum(refused * passes), 1.0))


def _within_budget(p: _Problem, budget: int) -> tuple[IntArray, IntArray, IntArray]:
    """Every (k1, W, k2) whose positions fit; deeper than the window is the same schedule, and is left out."""
    shapes = [(1, 1, 1)]
    for width in range(1, budget):
        k1, steps = 2, 1 + width
        while steps <= budget and k1 <= p.most_in_flight:
            shapes.append((k1, width, steps))
            steps = steps * width + 1 if width > 1 else steps + 1
            k1 += 1
    k1s, widths, steps_of = (np.asarray(column) for column in zip(*shapes, strict=True))
    most = budget // steps_of
    row = np.repeat(np.arange(most.size), most)
    k2 = np.arange(row.size) - np.repeat(np.cumsum(most) - most, most) + 1
    return k1s[row], widths[row], k2
