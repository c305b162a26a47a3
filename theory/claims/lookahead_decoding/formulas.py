"""Lookahead Decoding: its claims that are relations of closed forms, with their domains."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from theory.claims.proving.deferred import sp
from theory.claims.proving.formulas import Formula, between, whole

if TYPE_CHECKING:
    import sympy

__all__ = ["LOWER_EDGE", "UPPER_EDGE"]

_FIVE_PERCENT = Fraction(1, 20)
_RATES: Final = {"alpha": between(0, 1), "b": whole(1, 12)}
"""Guesses side by side up to twelve: the sum over their subsets alternates."""


def _tokens() -> tuple[sympy.Expr, sympy.Expr]:
    """E(b) for unbounded n-grams, Equation 5 summed over all subsets of the b guesses, and H_b / ln(1 / alpha)."""
    alpha = sp.Symbol("alpha", positive=True)
    b, j = sp.symbols("b j", positive=True, integer=True)
    unbounded = sp.Sum((-1) ** (j + 1) * sp.binomial(b, j) / (1 - alpha**j), (j, 1, b))
    return unbounded, sp.harmonic(b) / sp.log(1 / alpha)


def _lower() -> sympy.Basic:
    tokens, line = _tokens()
    return tokens > line


def _upper() -> sympy.Basic:
    tokens, line = _tokens()
    return tokens < 1 + line


UPPER_EDGE: Final = Formula(relation=_upper, domain=_RATES, sharp=_FIVE_PERCENT)
LOWER_EDGE: Final = Formula(relation=_lower, domain=_RATES, sharp=_FIVE_PERCENT)
"""The price of E tokens rests on it."""
