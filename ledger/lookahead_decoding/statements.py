"""Sympy forms of the closed forms of Lookahead Decoding: ``theory.lookahead_decoding`` is tested against it.

Symbols: ``alpha`` acceptance probability of one drafted token, ``gamma`` drafted tokens per sequence (``N - 1``), ``b``
sequences per step, ``f`` decoding steps per useful pool lookup, ``W``, ``N``, ``G`` window, n-gram length, guesses.
"""

from __future__ import annotations

import sympy as sp

__all__ = [
    "G",
    "N",
    "W",
    "alpha",
    "b",
    "compression",
    "expected_tokens_multi",
    "expected_tokens_single",
    "expected_tokens_unbounded",
    "f",
    "gamma",
    "lookahead_compression",
    "step_tokens",
    "tokens_per_log_guess",
]

alpha = sp.Symbol("alpha", positive=True)
gamma = sp.Symbol("gamma", integer=True, nonnegative=True)
b = sp.Symbol("b", integer=True, positive=True)
f = sp.Symbol("f", positive=True)
W = sp.Symbol("W", integer=True, positive=True)
N = sp.Symbol("N", integer=True, positive=True)
G = sp.Symbol("G", integer=True, nonnegative=True)
_i = sp.Symbol("i", integer=True, positive=True)


def expected_tokens_single() -> sp.Expr:
    """Equation 4: ``(1 - alpha**(gamma + 1)) / (1 - alpha)``; 0/0 at alpha = 1."""
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


def expected_tokens_multi() -> sp.Expr:
    """Equation 5: ``(gamma + 1) - sum_{i=1}^{gamma} (1 - alpha**i)**b``."""
    return gamma + 1 - sp.Sum((1 - alpha**_i) ** b, (_i, 1, gamma))


def expected_tokens_unbounded() -> sp.Expr:
    """Limit of Equation 5 for gamma to infinity, alpha < 1: ``1 + sum_{i>=1} (1 - (1 - alpha**i)**b)``.

    The binomial expansion turns it into the finite sum ``sum_{j=1}^{b} (-1)**(j+1) C(b, j) / (1 - alpha**j)``.
    """
    return sp.Sum((-1) ** (_i + 1) * sp.binomial(b, _i) / (1 - alpha**_i), (_i, 1, b))


def compression(tokens: sp.Expr) -> sp.Expr:
    """Equation 7: ``S = (f - 1 + E) / f``."""
    return (f - 1 + tokens) / f


def lookahead_compression() -> sp.Expr:
    """Equations 5 and 7 with the paper's convention ``G = W = b`` and ``N - 1 = gamma``."""
    return compression(expected_tokens_multi().subs({b: W, gamma: N - 1}))


def tokens_per_log_guess() -> sp.Expr:
    """Slope of the compression in ln(b) for unbounded gamma: ``1 / (f ln(1 / alpha))``."""
    return 1 / (f * sp.log(1 / alpha))


def step_tokens() -> sp.Expr:
    """Input tokens of one decoding step: ``(W + G) (N - 1)``."""
    return (W + G) * (N - 1)
