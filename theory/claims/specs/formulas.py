"""SPECS: claims that are inequalities, as formulas with their domains."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from theory.claims.proving.deferred import sp
from theory.claims.proving.formulas import Formula, between, whole

if TYPE_CHECKING:
    import sympy

__all__ = ["HITS_ITS_MEAN", "TWO_INTEGRALS"]


def _hits_its_mean() -> sympy.Basic:
    n = sp.Symbol("n", positive=True)
    return n**n * sp.exp(-n) / sp.gamma(n + 1) >= sp.exp(-1) / sp.sqrt(n)


def _two_integrals() -> sympy.Basic:
    """Lemmas 6 and 7 together: log(1 + sum of the two bounds)."""
    n, kappa = sp.symbols("n kappa", positive=True)
    p = 4 * sp.log(n) / n
    return sp.log(sp.exp(p**2 * (kappa - 1) ** 2) + 4 * kappa / n**2) <= 8 * p**2 * kappa**2


HITS_ITS_MEAN: Final = Formula(relation=_hits_its_mean, domain={"n": whole(1, 400)}, sharp=Fraction(1, 100))
TWO_INTEGRALS: Final = Formula(
    relation=_two_integrals,
    domain={"n": whole(3, 10_000), "kappa": between(1, 200)},
    room="8 is generous: where tried, to kappa = 10^5, the quotient stays below 1, which it nears as kappa grows",
)
