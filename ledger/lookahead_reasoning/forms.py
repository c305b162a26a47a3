"""Closed forms of Lookahead Reasoning for real depths, which formulas in ``papers`` call by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.proving.deferred import sp

if TYPE_CHECKING:
    import sympy

__all__ = ["a", "cycle", "doubling", "drafted", "peak_function", "saturated", "speedup", "stationarity", "unsaturated"]


def speedup(alpha: sympy.Expr, c: sympy.Expr, k: sympy.Expr) -> sympy.Expr:
    """Theorem 1 and Equation (2), which are one function."""
    return (1 - alpha**k) / ((1 - alpha) * (1 - c + c * k))


def drafted(alpha: sympy.Expr, c: sympy.Expr, gamma: sympy.Expr) -> sympy.Expr:
    """The speedup of speculative decoding with gamma drafted tokens (section 2)."""
    return (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (1 + c * gamma))


def cycle(alpha: sympy.Expr, c: sympy.Expr, drafts: sympy.Expr) -> sympy.Expr:
    """Algorithm 1: a first rejection at draft j emits j + 1 steps, no rejection emits drafts + 1."""
    j = sp.Symbol("j", integer=True, nonnegative=True)
    emitted = sp.Sum((j + 1) * alpha**j * (1 - alpha), (j, 0, drafts - 1)) + (drafts + 1) * alpha**drafts
    return emitted / (1 + c * drafts)


def saturated(alpha: sympy.Expr, c: sympy.Expr, gamma: sympy.Expr) -> sympy.Expr:
    """S2."""
    power = alpha**gamma
    return (1 - power) / (1 - alpha + c * alpha * (1 - power) - c * gamma * power * (1 - alpha))


def unsaturated(alpha: sympy.Expr, c: sympy.Expr) -> sympy.Expr:
    """S1."""
    return 1 / (c + (1 - c) * (1 - alpha))


def doubling(alpha: sympy.Expr, c: sympy.Expr, budget: sympy.Expr) -> sympy.Expr:
    """D(M) of Theorem 3."""
    return (1 + alpha ** (budget / 2)) * (1 - c + c * budget / 2) / (1 - c + c * budget)


def stationarity(alpha: sympy.Expr, c: sympy.Expr, x: sympy.Expr) -> sympy.Expr:
    """F of Lemma 3, whose sign is the sign of the derivative of g at real x."""
    return alpha**x * (-sp.log(alpha)) * (1 - c + c * x) - c * (1 - alpha**x)


def a(alpha: sympy.Expr, x: sympy.Expr) -> sympy.Expr:
    """a(alpha, x) of Lemma 4."""
    return -sp.log(alpha) * x * alpha**x / (1 - alpha**x)


def peak_function(y: sympy.Expr) -> sympy.Expr:
    """F of Lemma 6."""
    return 2 - y + (y - 2 + 1 / y) * sp.log(1 - y)
