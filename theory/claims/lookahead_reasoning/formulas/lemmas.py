"""Lookahead Reasoning, Lemmas 1 to 4 and 6, as formulas."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from theory.claims.lookahead_reasoning.formulas.forms import a, peak_function, saturated, speedup, symbols
from theory.claims.proving.deferred import sp
from theory.claims.proving.formulas import Formula, between, less, whole

if TYPE_CHECKING:
    import sympy

__all__ = [
    "A_FALLS",
    "A_FROM_TEN",
    "A_RISES",
    "DEEPER_IS_FASTER",
    "PEAK",
    "SECOND_TOKEN",
    "TWO_STEPS",
    "TWO_TOKENS",
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


def _second_token() -> sympy.Basic:
    alpha, c = symbols("alpha2 c2")
    return speedup(alpha, c, sp.Integer(2)) > speedup(alpha, c, sp.Integer(1))


def _cheap_token() -> sympy.Basic:
    alpha, c = symbols("alpha2 c2")
    return less(c, alpha)


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


def _peak() -> sympy.Basic:
    (y,) = symbols("y")
    return peak_function(y) < sp.Rational("1.157")


PEAK: Final = Formula(relation=_peak, domain={"y": _UNIT}, sharp=_ONE_PERCENT)
"""LR-L6a."""
