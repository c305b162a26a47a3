"""Closed forms of Lookahead Decoding, which formulas in ``papers``, proofs and tests call by name.

Symbols: ``alpha`` acceptance probability of one drafted token, ``gamma`` drafted tokens per sequence (``N - 1``), ``b``
sequences per step, ``f`` decoding steps per useful pool lookup, ``W``, ``N``, ``G`` window, n-gram length, guesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.proving.deferred import sp

if TYPE_CHECKING:
    import sympy

__all__ = ["compression", "multi", "single", "step_tokens", "unbounded"]


def single(alpha: sympy.Expr, gamma: sympy.Expr) -> sympy.Expr:
    """Equation 4: mean tokens of a step with one sequence of gamma drafted tokens; 0/0 at alpha = 1."""
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


def multi(alpha: sympy.Expr, gamma: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """Equation 5: mean tokens of a step with b sequences."""
    i = sp.Symbol("i", integer=True, positive=True)
    return gamma + 1 - sp.Sum((1 - alpha**i) ** b, (i, 1, gamma))


def unbounded(alpha: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """Limit of Equation 5 for gamma to infinity, alpha < 1: ``1 + sum_{i>=1} (1 - (1 - alpha**i)**b)``.

    The binomial expansion turns it into a finite sum over the sizes of subsets of the b guesses.
    """
    i = sp.Symbol("i", integer=True, positive=True)
    return sp.Sum((-1) ** (i + 1) * sp.binomial(b, i) / (1 - alpha**i), (i, 1, b))


def compression(tokens: sympy.Expr, f: sympy.Expr) -> sympy.Expr:
    """Equation 7: autoregressive steps per step, where one in f steps emits so many tokens and the others one."""
    return (f - 1 + tokens) / f


def step_tokens(window: sympy.Expr, ngram: sympy.Expr, guesses: sympy.Expr) -> sympy.Expr:
    """Input tokens of one decoding step (section 5.5)."""
    return (window + guesses) * (ngram - 1)
