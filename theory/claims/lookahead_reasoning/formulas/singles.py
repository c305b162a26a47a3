"""Lookahead Reasoning, sections 2 and 3 and Theorems 1 and 2, as formulas: one level of speculation by itself."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from theory.claims.lookahead_reasoning.formulas.forms import drafted, saturated, speedup, symbols
from theory.claims.proving.formulas import Formula, between, less, whole

if TYPE_CHECKING:
    import sympy

__all__ = ["ASYNCHRONOUS_IS_FASTER", "CEILING"]

_UNIT = between(0, 1)
_ONE_PERCENT = Fraction(1, 100)


def _ceiling() -> sympy.Basic:
    alpha, c, gamma = symbols("alpha c gamma")
    return less(drafted(alpha, c, gamma), 1 / (1 - alpha))


CEILING: Final = Formula(
    relation=_ceiling,
    domain={"alpha": _UNIT, "c": between(0, 1, "[)"), "gamma": between(0, None, "[)")},
    sharp=_ONE_PERCENT,
)
"""LR-B2."""


def _asynchronous_is_faster() -> sympy.Basic:
    alpha, c, k = symbols("alpha1 c1 k")
    return less(speedup(alpha, c, k), saturated(alpha, c, k))


def _limited() -> sympy.Basic:
    c, k = symbols("c1 k")
    return less(k, 1 / c)


ASYNCHRONOUS_IS_FASTER: Final = Formula(
    relation=_asynchronous_is_faster,
    domain={"alpha1": _UNIT, "c1": _UNIT, "k": whole(2, 60)},
    premise=_limited,
    sharp=_ONE_PERCENT,
)
"""LR-S7."""
