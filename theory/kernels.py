"""The formulas without their checks: float64 arrays in, float64 arrays out, broadcasting, warnings off.

`theory.speedup` wraps them with checks; the optimiser calls them in its inner loops on checked arguments. Every
expression is arranged so that no step loses digits: sums of positive terms, `expm1` and `log1p` where a
difference would cancel, and a power series where both arguments of a difference go to zero. ``k`` is a float64 array
of whole numbers up to 2**53.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from theory.checks import FloatArray, Mode

__all__ = [
    "async_saturated",
    "async_unsaturated",
    "exp_minus_linear",
    "geometric_sum",
    "is_saturated",
    "neg_log",
    "partial_window",
    "reciprocal_ceiling",
    "step_speedup",
    "step_speedup_async",
    "sync_speedup",
]

_SERIES: Final = tuple(1.0 / math.factorial(n) for n in range(20, 1, -1))
"""1/20! down to 1/2!: at x <= 1 the first term left out is below 1e-19 of the sum of x**n / n!, n >= 2."""


def neg_log(alpha: FloatArray) -> FloatArray:
    """-ln(alpha); inf at 0. The log of a float near 1 keeps all its digits, as 1 - alpha does (Sterbenz)."""
    with np.errstate(divide="ignore"):
        return -np.log(alpha)


def geometric_sum(alpha: FloatArray, k: FloatArray) -> FloatArray:
    """1 + alpha + ... + alpha**(k - 1) = (1 - alpha**k) / (1 - alpha); k at alpha = 1, 0 at k = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total = -np.expm1(-k * neg_log(alpha)) / (1.0 - alpha)
    return np.where((alpha == 1.0) | (k <= 1.0), k, total)


def sync_speedup(alpha: FloatArray, c: FloatArray, k: FloatArray) -> FloatArray:
    """Both f_sync and g of the LR paper: k positions per target pass, k - 1 of them drafted."""
    return geometric_sum(alpha, k) / (1.0 + c * (k - 1.0))


def async_unsaturated(alpha: FloatArray, c: FloatArray) -> FloatArray:
    """S1 of the LR paper, 1 / (c + (1 - c)(1 - alpha)); inf at alpha = 1, c = 0 (and where 1 / c overflows)."""
    with np.errstate(divide="ignore", over="ignore"):
        # Near alpha = 1 a sum of positive terms; below, the form that is exactly 1 at alpha = 0.
        return 1.0 / np.where(alpha > 0.5, c + (1.0 - c) * (1.0 - alpha), 1.0 - alpha * (1.0 - c))


def async_saturated(alpha: FloatArray, c: FloatArray, k: FloatArray) -> FloatArray:
    """S2 of the LR paper."""
    return geometric_sum(alpha, k) / (1.0 + c * partial_window(alpha, k))


def partial_window(alpha: FloatArray, k: FloatArray) -> FloatArray:
    """(1 - alpha**k) E[X mod k] for X geometric: alpha (1 + ... + alpha**(k-1)) - k alpha**k.

    Both terms are near k when alpha is near 1 while their difference is near k**2 (1 - alpha) / 2. With t = -ln alpha
    and P(2, x) = 1 - (1 + x) exp(-x) the difference is alpha / (1 - alpha) (P(2, kt) - k alpha**(k-1) P(2, t)), whose
    terms differ by a factor of k at least where t is small: no digit is lost.
    """
    t = neg_log(alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        bracket = _gamma_two(k * t) - k * np.exp(-(k - 1.0) * t) * _gamma_two(t)
        value = alpha / (1.0 - alpha) * bracket
    return np.where((alpha == 0.0) | (alpha == 1.0) | (k == 1.0), 0.0, value)


def _gamma_two(x: FloatArray) -> FloatArray:
    """P(2, x) = 1 - (1 + x) exp(-x) for x >= 0, by its power series up to x = 1."""
    small = np.minimum(x, 1.0)
    large = np.minimum(x, 800.0)  # exp(-800) is 0; infinity itself would give inf * 0
    tail = np.exp(-large)
    return np.where(x <= 1.0, small * small * _horner(small) * np.exp(-small), -np.expm1(-large) - large * tail)


def exp_minus_linear(x: FloatArray) -> FloatArray:
    """exp(x) - 1 - x for x >= 0, by its power series up to x = 1."""
    small = np.minimum(x, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(x <= 1.0, small * small * _horner(small), np.expm1(x) - x)


def _horner(x: FloatArray) -> FloatArray:
    """(exp(x) - 1 - x) / x**2 for 0 <= x <= 1."""
    series = np.zeros_like(x)
    for coefficient in _SERIES:
        series = series * x + coefficient
    return series


def is_saturated(c: FloatArray, k: FloatArray) -> NDArray[np.bool_]:
    """Whether k drafts take less than one target step, k c < 1, where c counts as 1/k if it is the float nearest to it.

    Without that reading 49 * (1 / 49) < 1 in binary. S1 and S2 meet at k c = 1 with equal values, so the reading
    moves no result by more than the rounding of c does.
    """
    return np.less(c, 1.0 / k)


def reciprocal_ceiling(c: FloatArray) -> FloatArray:
    """ceil(1 / c) as float64: the smallest n with fl(1 / n) <= c, so 10 for 0.1 and 49 for 1 / 49; inf at c = 0."""
    with np.errstate(divide="ignore", over="ignore"):
        near = np.rint(1.0 / c)
        return np.where(is_saturated(c, near), near + 1.0, near)


def step_speedup_async(alpha: FloatArray, c: FloatArray, k: FloatArray) -> FloatArray:
    """f_async of the LR paper with the switch at k c = 1.

    S2 is used where k c < 1 only. There either term of its bracket, times c, is below 1 and is added to 1, so the plain
    difference is as good as `partial_window` and costs a third.
    """
    total = geometric_sum(alpha, k)
    with np.errstate(over="ignore"):
        saturated = total / (1.0 + c * (alpha * total - k * np.exp(-k * neg_log(alpha))))
    return np.where(is_saturated(c, k), saturated, async_unsaturated(alpha, c))


def step_speedup(alpha: FloatArray, c: FloatArray, k: FloatArray, mode: Mode) -> FloatArray:
    """f_sync or f_async."""
    return sync_speedup(alpha, c, k) if mode == "sync" else step_speedup_async(alpha, c, k)
