r"""The k that maximises g and f_sync: closed form over the reals by Lambert W, exact over the integers.

Both formulas are (1 - alpha**k) / ((1 - alpha)(1 - c + c k)). With L = -ln alpha, u = L k and a = L (1 - c) / c the
derivative vanishes where exp(u) - 1 - u = a, that is

.. math:: k^* = \frac{-W_{-1}(-e^{-1-a}) - 1 - a}{L}.

The left side grows with u, so the maximum is unique and the formula rises before it and falls after it. It is interior
(k* > 1) exactly if c < alpha L / (1 - alpha), a weaker condition than alpha > c, under which the *integer* 2 beats 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from theory import checks, kernels
from theory.checks import FloatArray
from theory.errors import ParameterError

__all__ = ["IntegerOptimum", "f_sync_argmax", "g_argmax"]

_LOG_FORM: Final = 1e100
"""Above this a, u = ln(1 + a + u) is ln a to the last digit, and a itself may overflow."""

_NEWTON_STEPS: Final = 5
"""Each squares the relative error: 8e-2, 3e-3, 5e-6, 1e-11 and then the rounding; one step in hand."""

_PRECISIONS: Final = (128, 512, 2048, 8192)
"""Precisions, in bits, at which two neighbours are compared. Values that agree to 8192 bits are a tie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerOptimum:
    """The integer maximiser of g or f_sync."""

    k: int
    """The smallest maximiser."""
    speedup: float
    """The value there, [-]."""
    ties: tuple[int, ...]
    """All maximisers, ascending: (k,), or (k, k + 1) where the two are equal in exact arithmetic. Where the formula is
    constant (alpha = c = 0 or alpha = c = 1) only 1 is listed."""


def g_argmax(alpha2: float, c2: float, *, k_max: int | None = None) -> IntegerOptimum:
    """The integer k2 in [1, k_max] that maximises g, decided in exact arithmetic on the given floats.

    Parameters
    ----------
    alpha2 : acceptance probability of a drafted token, [-], in [0, 1].
    c2 : time of a draft token / time of a target pass, [-], in [0, 1].
    k_max : largest k2 allowed, >= 1; None for no limit.

    Returns
    -------
    The smallest maximiser, its speedup, and all ties (at alpha2 = c2 the values at 1 and 2 are equal).

    Raises
    ------
    ParameterError : an argument outside its domain, or no limit where g grows without end.

    References
    ----------
    Own derivation (module docstring).

    >>> g_argmax(0.8, 0.1).k, g_argmax(0.25, 0.25).ties
    (7, (1, 2))
    """
    return _argmax("2", alpha2, c2, k_max)


def f_sync_argmax(alpha1: float, c1: float, *, k_max: int | None = None) -> IntegerOptimum:
    """The integer k1 in [1, k_max] that maximises f_sync; see `g_argmax`, whose formula is the same.

    Parameters
    ----------
    alpha1 : acceptance probability of a draft step, [-], in [0, 1].
    c1 : time of a draft step / time of a target step, [-], in [0, 1].
    k_max : largest k1 allowed, >= 1; None for no limit.

    Returns
    -------
    The smallest maximiser, its speedup, and all ties.

    Raises
    ------
    ParameterError : an argument outside its domain, or no limit where f_sync grows without end.

    References
    ----------
    Own derivation (module docstring).

    >>> f_sync_argmax(0.8, 0.1, k_max=4)
    IntegerOptimum(k=4, speedup=2.270769230769231, ties=(4,))
    """
    return _argmax("1", alpha1, c1, k_max)


def real_maximiser(alpha: FloatArray, c: FloatArray) -> FloatArray:
    """k* for checked arguments."""
    rate = kernels.neg_log(alpha)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        interior = c * (1.0 - alpha) < alpha * rate
        log_a = np.log(rate) + np.log1p(-c) - np.log(c)
        k = np.maximum(_solve(rate * (1.0 - c) / c, log_a) / rate, 1.0)
    endless = ((c == 0.0) & (alpha > 0.0)) | ((alpha == 1.0) & (c < 1.0))
    return np.where(endless, np.inf, np.where(interior, k, 1.0))


def _solve(a: FloatArray, log_a: FloatArray) -> FloatArray:
    """The u = -W_{-1}(-exp(-1 - a)) - 1 - a >= 0 with exp(u) - 1 - u = a; a may be inf where log_a is finite.

    Lambert W by Newton on its own equation: a library's W would be handed exp(-1 - a), which has lost half the digits
    of a small a and underflows at a = 745. The start is right to first order at both ends and 8 % off between.
    """
    u = np.log1p(a + np.sqrt(2.0 * a))
    for _ in range(_NEWTON_STEPS):
        u = u - (kernels.exp_minus_linear(u) - a) / np.expm1(u)
    return np.where(a > _LOG_FORM, log_a, u)


def _argmax(level: str, alpha: float, c: float, k_max: int | None) -> IntegerOptimum:
    a = checks.scalar_probability(f"alpha{level}", alpha)
    cost = checks.scalar_ratio(f"c{level}", c)
    limit = None if k_max is None else checks.scalar_count("k_max", k_max)
    peak = float(real_maximiser(np.asarray(a), np.asarray(cost)))
    if limit is None and np.isinf(peak):
        name = f"c{level}" if cost == 0.0 else f"alpha{level}"
        raise ParameterError(name, cost if cost == 0.0 else a, "has no best k (more is always better): give k_max")
    if a == cost and a in (0.0, 1.0):
        return IntegerOptimum(k=1, speedup=1.0, ties=(1,))
    if limit is not None and peak > 2.0 * limit + 2.0:
        k, tie = limit, False
    else:
        k = _last_rise(a, cost, peak)
        tie = _step_sign(a, cost, k) == 0 and k != limit
        if limit is not None and k > limit:
            k, tie = limit, False
    value = float(kernels.sync_speedup(np.asarray(a), np.asarray(cost), np.asarray(float(k))))
    return IntegerOptimum(k=k, speedup=value, ties=(k, k + 1) if tie else (k,))


def _last_rise(alpha: float, c: float, peak: float) -> int:
    """The smallest k with value(k + 1) <= value(k), within the rounding error of the real maximiser."""
    slack = int(peak * 1e-13) + 2
    low, high = max(int(peak) - slack, 1), int(peak) + slack
    while low < high:
        middle = (low + high) // 2
        if _step_sign(alpha, c, middle) > 0:
            low = middle + 1
        else:
            high = middle
    return low


def _step_sign(alpha: float, c: float, k: int) -> int:
    """Sign of value(k + 1) - value(k), which is that of alpha**k (c + (1 - alpha)(1 - c + c k)) - c; 0 for a tie."""
    from flint import arb, ctx

    for bits in _PRECISIONS:
        with ctx.workprec(bits):
            a, cost = arb(alpha), arb(c)
            difference = a**k * (cost + (1 - a) * (1 - cost + cost * k)) - cost
            if difference > 0:
                return 1
            if difference < 0:
                return -1
    return 0
