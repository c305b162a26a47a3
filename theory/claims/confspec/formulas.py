"""ConfSpec: claims that are inequalities, as formulas with their domains."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from theory.claims.proving.deferred import sp
from theory.claims.proving.formulas import Formula, between, whole

if TYPE_CHECKING:
    import sympy

__all__ = ["CHEAPER", "DIFFERING"]


def _differing() -> sympy.Basic:
    d, n = sp.symbols("d n", positive=True)
    return 1 - (1 - d) ** n <= n * d


def _cheaper() -> sympy.Basic:
    draft, target, escalated = sp.symbols("c_d c_t e", positive=True)
    return draft + escalated * target < target


def _few_escalated() -> sympy.Basic:
    draft, target, escalated = sp.symbols("c_d c_t e", positive=True)
    return escalated < 1 - draft / target


DIFFERING: Final = Formula(relation=_differing, domain={"d": between(0, 1), "n": whole(1, 400)}, sharp=Fraction(1, 100))
CHEAPER: Final = Formula(
    relation=_cheaper,
    domain={"c_d": between(0, 10), "c_t": between(0, 10), "e": between(0, 1)},
    premise=_few_escalated,
    sharp=Fraction(1, 100),
)
