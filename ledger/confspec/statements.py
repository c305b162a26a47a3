"""Sympy forms of the closed forms of ConfSpec: the source that ``theory.cascade`` is tested against.

Symbols: ``c_d``, ``c_t`` seconds per draft and target verification, ``e`` escalation rate (the paper's alpha), ``a``
probability that a drafted step is accepted given that its predecessors were, ``k`` drafted steps per iteration,
``delta`` probability that a decision differs from the target's, ``n`` decisions per answer.
"""

from __future__ import annotations

import sympy as sp

__all__ = [
    "a",
    "accuracy_loss_bound",
    "break_even_escalation",
    "c_d",
    "c_t",
    "committed_after_text",
    "committed_as_printed",
    "committed_law",
    "delta",
    "e",
    "expected_verification_cost",
    "k",
    "n",
    "tree_candidates",
    "verified_steps",
    "width",
]

c_d, c_t = sp.symbols("c_d c_t", positive=True)
e = sp.Symbol("e", nonnegative=True)
a = sp.Symbol("a", nonnegative=True)
delta = sp.Symbol("delta", nonnegative=True)
k = sp.Symbol("k", integer=True, positive=True)
n = sp.Symbol("n", integer=True, nonnegative=True)
width = sp.Symbol("W", integer=True, positive=True)
_j = sp.Symbol("j", integer=True, nonnegative=True)


def expected_verification_cost() -> sp.Expr:
    """Section 4.4 with the constants written out, per verified step: ``c_d + e c_t``."""
    return c_d + e * c_t


def break_even_escalation() -> sp.Expr:
    """Escalation rate below which the cascade costs less than the target verifier alone: ``1 - c_d / c_t``."""
    return sp.Max(0, 1 - c_d / c_t)


def accuracy_loss_bound() -> sp.Expr:
    """Largest change of accuracy by n decisions, each different with probability <= delta: ``1 - (1 - delta)**n``."""
    return 1 - (1 - delta) ** n


def verified_steps() -> sp.Expr:
    """Steps verified per iteration of Algorithm 1, the first rejected one included: ``sum_{j<k} a**j``."""
    return sp.Sum(a**_j, (_j, 0, k - 1))


def committed_as_printed() -> sp.Expr:
    """Steps committed per iteration, lines 16-22: m, or 1 when m = 0: ``sum_{j=1}^{k} a**j + (1 - a)``."""
    return sp.Sum(a**_j, (_j, 1, k)) + 1 - a


def committed_after_text() -> sp.Expr:
    """Steps committed per iteration when a target step follows every rejection (section 4.2): ``sum_{j<k} a**j``."""
    return sp.Sum(a**_j, (_j, 0, k - 1))


def committed_law(p: sp.Expr, q: sp.Expr, agreement: sp.Expr) -> sp.Expr:
    """Probability that a first step of meaning c is committed when a rejection regenerates: ``p (1 + q - A)``.

    p and q are the probabilities of c under target and draft, A the probability that two independent steps agree.
    """
    return p * (1 + q - agreement)


def tree_candidates() -> sp.Expr:
    """Candidates of a draft tree of width W and depth k: ``sum_{j=1}^{k} W**j``."""
    return sp.Sum(width**_j, (_j, 1, k))
