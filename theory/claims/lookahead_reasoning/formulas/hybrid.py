"""Lookahead Reasoning, Theorems 3 and 4 and Lemma 5, as formulas: both levels of speculation under a budget."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from theory.claims.lookahead_reasoning.formulas.forms import doubling, symbols
from theory.claims.proving.deferred import sp
from theory.claims.proving.formulas import Formula, between, whole

if TYPE_CHECKING:
    import sympy

__all__ = ["ONE_OF_TWO", "THRESHOLD_FALLS", "six"]

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
