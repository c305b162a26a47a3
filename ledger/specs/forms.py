"""Closed forms of SPECS for two letters, which formulas in ``papers`` call by name.

Target probability ``t`` of letter 1, exponentiated reward ``w`` of letter 2 (1 of letter 1), a policy that gives letter
1 probability ``p``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.proving.deferred import sp

if TYPE_CHECKING:
    import sympy

__all__ = ["divergence", "objective", "optimum"]


def divergence(p: sympy.Expr, q: sympy.Expr) -> sympy.Expr:
    """Divergence of (p, 1 - p) from (q, 1 - q)."""
    return p * sp.log(p / q) + (1 - p) * sp.log((1 - p) / (1 - q))


def optimum(t: sympy.Expr, w: sympy.Expr) -> sympy.Expr:
    """Equation 3: the probability that the optimum gives letter 1."""
    return t / (t + (1 - t) * w)


def objective(p: sympy.Expr, t: sympy.Expr, w: sympy.Expr) -> sympy.Expr:
    """Beta times Equation 2."""
    return (1 - p) * sp.log(w) - divergence(p, t)
