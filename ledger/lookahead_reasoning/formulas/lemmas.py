"""Lookahead Reasoning, Lemmas 1 to 4 and 6, as formulas."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ledger.lookahead_reasoning.formulas.forms import (
    a,
    peak_function,
    saturated,
    speedup,
    symbols,
    unsaturated,
)
from ledger.proving.deferred import sp
from ledger.proving.formulas import Formula, between, equal, less, one_of, whole

if TYPE_CHECKING:
    import sympy

__all__ = [
    "A_AT_TWO",
    "A_FALLS",
    "A_FROM_TEN",
    "A_RISES",
    "BELOW_TO_CEILING",
    "BELOW_TO_END",
    "BOTH_PARTS",
    "CHAIN",
    "CHAIN_MENDED",
    "DEEPER_IS_FASTER",
    "DERIVATIVE",
    "DISPLAY",
    "DISPLAY_PRINTED",
    "HALVING",
    "MEETING",
    "ONE_PEAK",
    "ONE_PEAK_PRINTED",
    "PEAK",
    "PEAK_CONCAVE",
    "PEAK_CURVATURE",
    "PEAK_CURVATURE_PRINTED",
    "PEAK_SLOPE",
    "RISES_TO_CEILING",
    "RISES_TO_END",
    "SECOND_TOKEN",
    "TWO_STEPS",
    "TWO_TOKENS",
    "X_DERIVATIVE",
]

_UNIT = between(0, 1)
_ONE_PERCENT = Fraction(1, 100)
_RATE = between("1/2", "4/5")
_BOX: Final = {
    **{"alpha1": _RATE, "alpha2": _RATE},
    **{"c1": between(0, "1/3"), "c2": between(0, "1/5"), "M": whole(16, None, 2)},
}
"""Lemma 1."""


def _w(gamma: sympy.Expr) -> sympy.Expr:
    a1, a2, c1, c2, budget = symbols("alpha1 alpha2 c1 c2 M")
    return saturated(a1, c1, gamma) * speedup(a2, c2, budget / gamma)


def _two_steps() -> sympy.Basic:
    return _w(sp.Integer(2)) > _w(sp.Integer(1))


def _two_tokens() -> sympy.Basic:
    (budget,) = symbols("M")
    return _w(budget / 2) > _w(budget)


TWO_STEPS: Final = Formula(
    relation=_two_steps,
    domain=_BOX,
    room="w(2) / w(1) is at least 1.186 where tried, at M = 16 and costs near their ends",
)
"""LR-L1a."""
TWO_TOKENS: Final = Formula(
    relation=_two_tokens,
    domain=_BOX,
    room="w(M/2) / w(M) is at least 1.07 where tried, at M = 16, alpha1 near 4/5, alpha2 near 1/2 and c2 near 1/5",
)
"""LR-L1b."""


def _both_parts() -> sympy.Basic:
    return sp.And(_two_steps(), _two_tokens())


BOTH_PARTS: Final = Formula(relation=_both_parts, domain={**_BOX, "M": one_of(14, 16, 40)}, sharp=Fraction(1, 20))
"""LR-L1f, at its least budget, the next, and a large one."""


def _halving() -> sympy.Basic:
    """Of a budget M = 2 n, with the sum written out."""
    alpha, c, n = symbols("alpha1 c1 n")
    i = sp.Symbol("i", integer=True, positive=True)
    q = alpha**n
    below = 1 + c * sp.Sum(alpha**i, (i, 1, n)) - c * n * q
    shown = 1 - (1 - c * n * (1 - q)) * q / (1 + q) / below
    return sp.And(equal(saturated(alpha, c, n) / saturated(alpha, c, 2 * n), shown), less(sp.Integer(1), below))


HALVING: Final = Formula(
    relation=_halving, domain={"alpha1": _RATE, "c1": between(0, "1/3"), "n": whole(8, 60)}, sharp=_ONE_PERCENT
)
"""LR-L1e."""


def _deeper_is_faster() -> sympy.Basic:
    alpha, c, gamma = symbols("alpha1 c1 gamma")
    return saturated(alpha, c, gamma + 1) > saturated(alpha, c, gamma)


def _next_limited() -> sympy.Basic:
    c, gamma = symbols("c1 gamma")
    return gamma + 1 <= 1 / c


DEEPER_IS_FASTER: Final = Formula(
    relation=_deeper_is_faster,
    domain={"alpha1": _UNIT, "c1": _UNIT, "gamma": whole(1, 60)},
    premise=_next_limited,
    sharp=_ONE_PERCENT,
)
"""LR-L2a."""


def _slope_of_s2() -> sympy.Basic:
    alpha, c, x = symbols("alpha1 c1 gamma")
    top = 1 - alpha**x
    bottom = 1 - alpha + c * alpha * top - c * x * alpha**x * (1 - alpha)
    shown = alpha**x * (1 - alpha) * (-sp.log(alpha) * (1 - c * x) + c * top)
    return equal(sp.diff(top, x) * bottom - top * sp.diff(bottom, x), shown)


DERIVATIVE: Final = Formula(
    relation=_slope_of_s2, domain={"alpha1": _UNIT, "c1": _UNIT, "gamma": between(1, 60, "[)")}, sharp=_ONE_PERCENT
)
"""LR-L2b."""


def _later_is_faster() -> sympy.Basic:
    alpha, c, gamma, later = symbols("alpha1 c1 gamma later")
    return less(saturated(alpha, c, gamma), saturated(alpha, c, later))


def _before_ceiling() -> sympy.Basic:
    c, gamma, later = symbols("c1 gamma later")
    return sp.And(less(gamma, later), less(later, sp.ceiling(1 / c)))


def _before_end() -> sympy.Basic:
    c, gamma, later = symbols("c1 gamma later")
    return sp.And(less(gamma, later), less(later, 1 / c))


_REAL_DEPTHS: Final = {
    **{"alpha1": _UNIT, "c1": _UNIT},
    **{"gamma": between(1, None, "[)"), "later": between(1, None)},
}
RISES_TO_CEILING: Final = Formula(relation=_later_is_faster, domain=_REAL_DEPTHS, premise=_before_ceiling)
"""LR-L2c as printed."""
RISES_TO_END: Final = Formula(relation=_later_is_faster, domain=_REAL_DEPTHS, premise=_before_end, sharp=_ONE_PERCENT)
"""Its correction."""


def _below_unsaturated() -> sympy.Basic:
    alpha, c, gamma = symbols("alpha1 c1 gamma")
    return saturated(alpha, c, gamma) <= unsaturated(alpha, c)


def _below_ceiling() -> sympy.Basic:
    c, gamma = symbols("c1 gamma")
    return less(gamma, sp.ceiling(1 / c))


def _below_end() -> sympy.Basic:
    c, gamma = symbols("c1 gamma")
    return less(gamma, 1 / c)


_REAL_DEPTH: Final = {"alpha1": _UNIT, "c1": _UNIT, "gamma": between(1, None, "[)")}
BELOW_TO_CEILING: Final = Formula(relation=_below_unsaturated, domain=_REAL_DEPTH, premise=_below_ceiling)
"""LR-L2d as printed."""
BELOW_TO_END: Final = Formula(relation=_below_unsaturated, domain=_REAL_DEPTH, premise=_below_end, sharp=_ONE_PERCENT)
"""Its correction."""


def _meeting() -> sympy.Basic:
    alpha, c = symbols("alpha1 c1")
    return equal(saturated(alpha, c, 1 / c), unsaturated(alpha, c))


MEETING: Final = Formula(relation=_meeting, domain={"alpha1": _UNIT, "c1": _UNIT}, sharp=_ONE_PERCENT)
"""LR-L2e."""


def _one_peak() -> sympy.Basic:
    """F, which falls, is positive at gamma = 1, and its limit -c2 is negative."""
    (alpha,), c = symbols("alpha2"), sp.Symbol("c2")
    return sp.And(less(c * (1 - alpha), -alpha * sp.log(alpha)), less(sp.Integer(0), c))


def _cheap_token() -> sympy.Basic:
    alpha, c = symbols("alpha2 c2")
    return less(c, alpha)


ONE_PEAK_PRINTED: Final = Formula(
    relation=_one_peak, domain={"alpha2": _UNIT, "c2": between(0, 1, "[)")}, premise=_cheap_token
)
"""LR-L3a as printed."""
ONE_PEAK: Final = Formula(
    relation=_one_peak, domain={"alpha2": _UNIT, "c2": _UNIT}, premise=_cheap_token, sharp=_ONE_PERCENT
)
"""Its correction."""


def _display(extra: int) -> sympy.Basic:
    """What stands before the limit against the slope of g, times what is positive in it."""
    alpha, c, x = symbols("alpha c gamma")
    slope = sp.diff(speedup(alpha, c, x), x) * (1 - alpha) * (1 - c + c * x) ** 2
    shown = alpha**x * (-sp.log(alpha) * (1 - c + c * x) + extra * c) - c * (1 - alpha**x)
    return equal(slope, shown)


def _display_printed() -> sympy.Basic:
    return _display(1)


def _display_mended() -> sympy.Basic:
    return _display(0)


_DISPLAY: Final = {"alpha": _UNIT, "c": _UNIT, "gamma": between(1, 60, "[)")}
DISPLAY_PRINTED: Final = Formula(relation=_display_printed, domain=_DISPLAY)
"""LR-L3c as printed."""
DISPLAY: Final = Formula(relation=_display_mended, domain=_DISPLAY, sharp=_ONE_PERCENT)
"""Its correction."""


def _second_token() -> sympy.Basic:
    alpha, c = symbols("alpha2 c2")
    return speedup(alpha, c, sp.Integer(2)) > speedup(alpha, c, sp.Integer(1))


SECOND_TOKEN: Final = Formula(
    relation=_second_token, domain={"alpha2": _UNIT, "c2": _UNIT}, premise=_cheap_token, sharp=_ONE_PERCENT
)
"""LR-L3b."""


def _a_falls() -> sympy.Basic:
    alpha, x, more = symbols("alpha x more")
    return a(alpha, x + more) < a(alpha, x)


def _a_rises() -> sympy.Basic:
    alpha, x, more = symbols("alpha x more")
    return a(alpha + more * (sp.Rational(4, 5) - alpha), x) > a(alpha, x)


def _a_from_ten() -> sympy.Basic:
    alpha, x = symbols("alpha x")
    return a(alpha, x) < a(sp.Rational(4, 5), sp.Integer(10))


A_FALLS: Final = Formula(
    relation=_a_falls, domain={"alpha": _RATE, "x": between(1, None), "more": between(0, 5)}, sharp=_ONE_PERCENT
)
"""LR-L4a."""
A_RISES: Final = Formula(
    relation=_a_rises, domain={"alpha": _RATE, "x": between(1, None), "more": _UNIT}, sharp=_ONE_PERCENT
)
"""LR-L4c."""
A_FROM_TEN: Final = Formula(relation=_a_from_ten, domain={"alpha": _RATE, "x": between(10, None)}, sharp=_ONE_PERCENT)
"""LR-L4e."""


def _x_derivative() -> sympy.Basic:
    alpha, x = symbols("alpha x")
    power = alpha**x
    slope = sp.diff(x * power / (1 - power), x) * (1 - power) ** 2
    shown = power * ((1 + x * sp.log(alpha)) * (1 - power) + x * sp.log(alpha) * power)
    short = power * (1 + x * sp.log(alpha) - power)
    return sp.And(equal(slope, shown), equal(shown, short), less(short, sp.Integer(0)))


X_DERIVATIVE: Final = Formula(relation=_x_derivative, domain={"alpha": _UNIT, "x": between(0, 100)}, sharp=_ONE_PERCENT)
"""LR-L4b."""


def _chain() -> sympy.Basic:
    alpha, x = symbols("alpha x")
    log = -sp.log(alpha)
    return sp.And(x * log >= log, log > 1 - alpha, 1 - alpha >= 1 - alpha**x)


def _chain_mended() -> sympy.Basic:
    alpha, x = symbols("alpha x")
    return less(1 - alpha**x, -x * sp.log(alpha))


_CHAIN: Final = {"alpha": _RATE, "x": between(1, None, "[)")}
CHAIN: Final = Formula(relation=_chain, domain=_CHAIN)
"""LR-L4d as printed."""
CHAIN_MENDED: Final = Formula(
    relation=_chain_mended,
    domain=_CHAIN,
    room="the left side is at least 1.115 times the right one, at alpha = 4/5 and x = 1",
)
"""Its correction."""


def _a_at_two() -> sympy.Basic:
    (alpha,) = symbols("alpha")
    value = a(alpha, sp.Integer(2))
    return sp.And(less(sp.Rational("0.48"), value), less(value, sp.Rational("0.8")))


A_AT_TWO: Final = Formula(relation=_a_at_two, domain={"alpha": between("13/25", "4/5")}, sharp=_ONE_PERCENT)
"""LR-L4h, the interval."""


def _peak() -> sympy.Basic:
    (y,) = symbols("y")
    return peak_function(y) < sp.Rational("1.157")


PEAK: Final = Formula(relation=_peak, domain={"y": _UNIT}, sharp=_ONE_PERCENT)
"""LR-L6a."""


def _peak_slope() -> sympy.Basic:
    (y,) = symbols("y")
    return equal(sp.diff(peak_function(y), y), (1 - y**-2) * sp.log(1 - y) - 1 / y)


PEAK_SLOPE: Final = Formula(relation=_peak_slope, domain={"y": _UNIT}, sharp=_ONE_PERCENT)
"""LR-L6b."""


def _curvature(inner: int) -> sympy.Basic:
    (y,) = symbols("y")
    return equal(sp.diff(peak_function(y), y, 2), (y * (inner + y) + 2 * sp.log(1 - y)) / y**3)


def _curvature_printed() -> sympy.Basic:
    return _curvature(1)


def _curvature_mended() -> sympy.Basic:
    return _curvature(2)


PEAK_CURVATURE_PRINTED: Final = Formula(relation=_curvature_printed, domain={"y": _UNIT})
"""LR-L6c as printed."""
PEAK_CURVATURE: Final = Formula(relation=_curvature_mended, domain={"y": _UNIT}, sharp=_ONE_PERCENT)
"""Its correction."""


def _chords() -> sympy.Basic:
    y, z = symbols("y z")
    return less((peak_function(y) + peak_function(z)) / 2, peak_function((y + z) / 2))


def _apart() -> sympy.Basic:
    y, z = symbols("y z")
    return less(y, z)


PEAK_CONCAVE: Final = Formula(relation=_chords, domain={"y": _UNIT, "z": _UNIT}, premise=_apart, sharp=_ONE_PERCENT)
"""LR-L6d, by chords."""
