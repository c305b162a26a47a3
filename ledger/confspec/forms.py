"""Closed forms of ConfSpec, which formulas in ``papers``, proofs and tests call by name.

Symbols: ``c_d``, ``c_t`` seconds per draft and target verification, ``e`` escalation rate (the paper's alpha), ``a``
probability that a drafted step is accepted given that its predecessors were, ``k`` drafted steps per iteration,
``delta`` probability that a decision differs from the target's, ``n`` decisions per answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.proving.deferred import sp

if TYPE_CHECKING:
    import sympy

__all__ = [
    "accuracy_loss_bound",
    "break_even_escalation",
    "committed_as_printed",
    "committed_law",
    "expected_verification_cost",
    "tree_candidates",
    "verified_steps",
]


def expected_verification_cost(c_d: sympy.Expr, c_t: sympy.Expr, e: sympy.Expr) -> sympy.Expr:
    """Section 4.4 with the constants written out, per verified step."""
    return c_d + e * c_t


def break_even_escalation(c_d: sympy.Expr, c_t: sympy.Expr) -> sympy.Expr:
    """Escalation rate below which the cascade costs less than verifying everything with the target."""
    return sp.Max(0, 1 - c_d / c_t)


def accuracy_loss_bound(delta: sympy.Expr, n: sympy.Expr) -> sympy.Expr:
    """Largest change of accuracy by n decisions, each different with probability <= delta."""
    return 1 - (1 - delta) ** n


def verified_steps(a: sympy.Expr, k: sympy.Expr) -> sympy.Expr:
    """Steps verified per iteration of Algorithm 1, the first rejected one included.

    As many are committed where a target step follows every rejection (section 4.2).
    """
    j = sp.Symbol("j", integer=True, nonnegative=True)
    return sp.Sum(a**j, (j, 0, k - 1))


def committed_as_printed(a: sympy.Expr, k: sympy.Expr) -> sympy.Expr:
    """Steps committed per iteration, lines 16-22: m, or 1 when m = 0."""
    j = sp.Symbol("j", integer=True, nonnegative=True)
    return sp.Sum(a**j, (j, 1, k)) + 1 - a


def committed_law(p: sympy.Expr, q: sympy.Expr, agreement: sympy.Expr) -> sympy.Expr:
    """Probability that a first step of meaning c is committed when a rejection regenerates.

    p and q are the probabilities of c under target and draft, the agreement that two independent steps agree.
    """
    return p * (1 + q - agreement)


def tree_candidates(width: sympy.Expr, k: sympy.Expr) -> sympy.Expr:
    """Candidates of a draft tree of this width and depth k."""
    j = sp.Symbol("j", integer=True, nonnegative=True)
    return sp.Sum(width**j, (j, 1, k))
