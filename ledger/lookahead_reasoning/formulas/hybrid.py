"""Lookahead Reasoning, Theorems 3 and 4 and Lemma 5, as formulas: both levels of speculation under a budget."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ledger.lookahead_reasoning.formulas.forms import a, doubling, peak_function, speedup, stationarity, symbols
from ledger.proving.deferred import sp
from ledger.proving.formulas import Formula, between, equal, less, whole

if TYPE_CHECKING:
    import sympy

__all__ = [
    "BEYOND_TWO",
    "EASY_RATIO",
    "EASY_RATIO_ASYNC",
    "LOG_DERIVATIVE",
    "ONE_OF_TWO",
    "STATIONARY",
    "SUBSTITUTION",
    "THRESHOLD_FALLS",
    "TIE_BELOW_PEAK",
    "six",
]

_UNIT = between(0, 1)
_ONE_PERCENT = Fraction(1, 100)


def _ratio(alpha: sympy.Expr, c: sympy.Expr) -> sympy.Expr:
    return (1 + alpha) / (1 + c)


def _one_of_two() -> sympy.Basic:
    a1, a2, c1, c2, budget = symbols("alpha1 alpha2 c1 c2 M")
    return sp.Or(_ratio(a1, c1) >= doubling(a2, c2, budget), _ratio(a2, c2) >= doubling(a1, c1, budget))


def six() -> sympy.Basic:
    """The constraint (6)."""
    a1, a2, c1, c2 = symbols("alpha1 alpha2 c1 c2")
    bound = sp.Rational("1.157")
    return sp.And(_ratio(a1, c1) > bound, _ratio(a2, c2) > bound)


ONE_OF_TWO: Final = Formula(
    relation=_one_of_two,
    domain={"alpha1": _UNIT, "alpha2": _UNIT, "c1": _UNIT, "c2": _UNIT, "M": whole(4, None, 2)},
    premise=six,
    sharp=_ONE_PERCENT,
)
"""LR-T3a."""


def _threshold_falls() -> sympy.Basic:
    alpha, c, budget = symbols("alpha c M")
    return doubling(alpha, c, budget + 1) < doubling(alpha, c, budget)


THRESHOLD_FALLS: Final = Formula(
    relation=_threshold_falls, domain={"alpha": _UNIT, "c": _UNIT, "M": between(2, None)}, sharp=_ONE_PERCENT
)
"""LR-T3g."""


def _stationary() -> sympy.Basic:
    """F of Lemma 3 is the condition times what is positive, so both vanish together."""
    alpha, c, x = symbols("alpha c x")
    cost = 1 - c + c * x
    return equal(stationarity(alpha, c, x), (a(alpha, x) - c * x / cost) * (1 - alpha**x) * cost / x)


STATIONARY: Final = Formula(
    relation=_stationary, domain={"alpha": _UNIT, "c": _UNIT, "x": between(1, 40)}, sharp=_ONE_PERCENT
)
"""The correction of LR-T3i."""


def _substitution() -> sympy.Basic:
    """With p = alpha2^(gamma/2)."""
    (p,) = symbols("p")
    return equal((1 + p) * (1 + sp.log(p) * p**2 / (1 - p**2)), peak_function(1 - p))


SUBSTITUTION: Final = Formula(relation=_substitution, domain={"p": _UNIT}, sharp=_ONE_PERCENT)
"""LR-T3j."""


def _log_derivative() -> sympy.Basic:
    alpha, c1, c2, x, budget = symbols("alpha c1 c2 gamma M")
    slope = x * sp.diff(speedup(alpha, c1, x), x) / speedup(alpha, c1, x)
    costs = c1 * x / (1 - c1 + c1 * x) - c2 * (budget / x) / (1 - c2 + c2 * budget / x)

    def shown(gamma: sympy.Expr) -> sympy.Expr:
        return 1 - (1 - c1) / (1 - c1 + c1 * gamma) - c2 * budget / ((1 - c2) * gamma + c2 * budget)

    return sp.And(
        equal(slope, a(alpha, x) - c1 * x / (1 - c1 + c1 * x)), equal(costs, shown(x)), less(shown(x), shown(x + 1))
    )


LOG_DERIVATIVE: Final = Formula(
    relation=_log_derivative,
    domain={"alpha": _UNIT, "c1": _UNIT, "c2": _UNIT, "gamma": between(1, 40, "[)"), "M": whole(4)},
    sharp=_ONE_PERCENT,
)
"""LR-L5a."""
_CORNER: Final = {"alpha1": between("13/25", "4/5"), "c1": between(0, "1/3")}


def _easy_ratio() -> sympy.Basic:
    alpha, c = symbols("alpha1 c1")
    return _ratio(alpha, c) >= sp.Rational("1.157")


def _easy_ratio_async() -> sympy.Basic:
    alpha, c = symbols("alpha1 c1")
    return (1 + alpha) / (1 + c * alpha * (1 - alpha)) > sp.Rational("1.4")


EASY_RATIO: Final = Formula(relation=_easy_ratio, domain=_CORNER)
"""LR-T4f as printed."""
EASY_RATIO_ASYNC: Final = Formula(relation=_easy_ratio_async, domain=_CORNER, sharp=_ONE_PERCENT)
"""Its correction."""


def _rises_at_two() -> sympy.Basic:
    alpha, c = symbols("alpha c")
    return less(sp.Integer(0), stationarity(alpha, c, sp.Integer(2)) / c)


def _six_of_one() -> sympy.Basic:
    alpha, c = symbols("alpha c")
    return _ratio(alpha, c) > sp.Rational("1.157")


BEYOND_TWO: Final = Formula(
    relation=_rises_at_two,
    domain={"alpha": _UNIT, "c": _UNIT},
    premise=_six_of_one,
    room="the sharp constant is that of the premise; LR-L3d refutes 1.156",
)
"""LR-L3d: the slope at 2 is positive, so the one peak lies beyond."""


def _tie_below_peak() -> sympy.Basic:
    """The largest ratio that token-level only reaches at a budget of 2 n, against F of Lemma 6."""
    alpha, n = symbols("alpha n")
    power = alpha ** (2 * n - 1)
    return less((1 - power - (n - 1) * power * (1 - alpha)) / (1 - alpha**n), peak_function(1 - alpha**n))


TIE_BELOW_PEAK: Final = Formula(
    relation=_tie_below_peak, domain={"alpha": _UNIT, "n": whole(2, 30)}, sharp=_ONE_PERCENT
)
"""LR-T3l."""
