"""Closed forms of Lookahead Reasoning, which formulas in ``papers``, proofs and tests call by name.

The numeric modules of ``theory`` are tested against them at 50 digits, so that no formula is retyped in a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.proving.deferred import sp

if TYPE_CHECKING:
    import sympy

__all__ = [
    "a",
    "accepted",
    "confspec_pipeline_speedup",
    "confspec_speedup",
    "cycle",
    "doubling",
    "drafted",
    "f_async",
    "lambert_optimum",
    "partial_batch",
    "peak_function",
    "saturated",
    "saturated_printed",
    "speedup",
    "stationarity",
    "unsaturated",
]


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


def saturated_printed(alpha: sympy.Expr, c: sympy.Expr, k: sympy.Expr) -> sympy.Expr:
    """S2 as Theorem 2 prints it."""
    bracket = alpha - alpha ** (k + 1) - k * (1 - alpha) * alpha**k
    return (1 - alpha**k) / ((1 - alpha) + c * bracket)


def unsaturated(alpha: sympy.Expr, c: sympy.Expr) -> sympy.Expr:
    """S1."""
    return 1 / (c + (1 - c) * (1 - alpha))


def f_async(alpha: sympy.Expr, c: sympy.Expr, k: sympy.Expr) -> sympy.Expr:
    """Appendix B: S2 below ``ceil(1/c)``, S1 from it on."""
    return sp.Piecewise((saturated_printed(alpha, c, k), sp.ceiling(1 / c) > k), (unsaturated(alpha, c), True))


def accepted(alpha: sympy.Expr) -> sympy.Expr:
    """E[X] of Appendix B.1.1."""
    return alpha / (1 - alpha)


def partial_batch(alpha: sympy.Expr, k: sympy.Expr) -> sympy.Expr:
    """E[X mod k] of Appendix C, step 3."""
    top = alpha - alpha ** (k + 1) - k * (1 - alpha) * alpha**k
    return top / ((1 - alpha) * (1 - alpha**k))


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


def lambert_optimum(alpha: sympy.Expr, c: sympy.Expr) -> sympy.Expr:
    """The real maximiser of Equation (2): the root of `stationarity`, on the lower branch of Lambert's W.

    With L = -log(alpha) and z = 1 + L (x + (1 - c)/c) the root satisfies ``z exp(-z) = exp(-1 - L (1 - c)/c)``, z > 1.
    """
    rate = -sp.log(alpha)
    offset = (1 - c) / c
    return (-sp.LambertW(-sp.exp(-1 - rate * offset), -1) - 1) / rate - offset


def confspec_speedup(p: sympy.Expr, c: sympy.Expr, k: sympy.Expr, check: sympy.Expr, fallback: str) -> sympy.Expr:
    """ConfSpec, Algorithm 1: steps committed by an iteration over its time, drafts, target, checks and fresh step.

    X of the k drafts pass before the first that fails, P(X >= i) = p**i. The target's own step is fresh if no draft
    passed (``printed``) or not all did (``text``), or it is the compared one (``reuse``); as printed nothing is
    committed beyond X where some passed. The position after the last that passed is checked too.
    """
    passed, all_passed = p * (1 - p**k) / (1 - p), p**k
    own = {"printed": 1 - p, "text": 1 - all_passed, "reuse": 1 - all_passed}[fallback]
    fresh = {"printed": 1 - p, "text": 1 - all_passed, "reuse": sp.Integer(0)}[fallback]
    checked = (1 - p**k) / (1 - p)
    return (passed + own) / (k * c + 1 + checked * check + fresh)


def confspec_pipeline_speedup(p: sympy.Expr, c: sympy.Expr, k: sympy.Expr, fallback: str) -> sympy.Expr:
    """ConfSpec, Appendix B: stages of Theorem 2 at acceptance p, each ending with a rejection.

    A stage takes 1/((1 - p) f) and commits 1/(1 - p) steps, the compared one included. ``text``: that one is written
    anew; ``printed``: it is not committed, and only where it is the stage's first, another is written.
    """
    passed, none_passed, stage = p / (1 - p), 1 - p, 1 / ((1 - p) * f_async(p, c, k))
    own = {"printed": none_passed, "text": sp.Integer(1), "reuse": sp.Integer(1)}[fallback]
    fresh = {"printed": none_passed, "text": sp.Integer(1), "reuse": sp.Integer(0)}[fallback]
    return (passed + own) / (stage + fresh)
