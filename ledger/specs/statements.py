"""Sympy forms of the closed forms of SPECS, which proofs read.

Symbols: ``n`` beam width, ``H`` horizon in blocks, ``beta`` inverse temperature, ``R`` width of the reward range, ``C``
coverage coefficient, ``s`` Laplace variable. Letters of a finite alphabet carry generator probabilities ``g0, g1, ...``
and exponentiated scores ``w0, w1, ...``.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

__all__ = [
    "H",
    "exponentiated_score",
    "kl_bound",
    "kl_bound_printed",
    "laplace",
    "letters",
    "n",
    "optimum",
    "poisson_selection",
    "r",
    "s",
    "score",
    "selection_second_moment",
    "tilt",
]

n = sp.Symbol("n", positive=True)
H = sp.Symbol("H", positive=True, integer=True)
beta, R, C, theta = sp.symbols("beta R C theta", positive=True)
s = sp.Symbol("s", nonnegative=True)
target, gen = sp.symbols("t g", positive=True)
r = sp.Symbol("r", real=True)


def letters(size: int) -> tuple[tuple[sp.Symbol, ...], tuple[sp.Symbol, ...]]:
    """Generator probabilities and exponentiated scores of an alphabet of this size."""
    return sp.symbols(f"g:{size}", positive=True), sp.symbols(f"w:{size}", positive=True)


def score() -> sp.Expr:
    """Equation 1: ``log(t / g) + beta r``."""
    return sp.log(target / gen) + beta * r


def tilt() -> sp.Expr:
    """The exponentiated reward, ``exp(beta r)``."""
    return sp.exp(beta * r)


def exponentiated_score() -> sp.Expr:
    """Definition 5: ``t / g * exp(beta r)``."""
    return target / gen * tilt()


def optimum(y: int, probabilities: Sequence[sp.Expr], tilts: Sequence[sp.Expr]) -> sp.Expr:
    """Equations 3 and 4: the probability of letter y under the law proportional to ``probability * tilt``."""
    return probabilities[y] * tilts[y] / sum(p * w for p, w in zip(probabilities, tilts, strict=True))


def laplace(gens: Sequence[sp.Expr], weights: Sequence[sp.Expr], at: sp.Expr = s) -> sp.Expr:
    """Laplace transform of the exponentiated score: ``sum_y g_y exp(-s w_y)``."""
    return sum(g * sp.exp(-at * w) for g, w in zip(gens, weights, strict=True))


def poisson_selection(y: int, gens: Sequence[sp.Expr], weights: Sequence[sp.Expr], width: sp.Expr = n) -> sp.Expr:
    """Lemma 4: the law averaged over N ~ Poisson(n) given N > 0."""
    integrand = sp.exp(width * (laplace(gens, weights) - 1) - s * weights[y])
    return width * gens[y] * weights[y] / (1 - sp.exp(-width)) * sp.Integral(integrand, (s, 0, sp.oo))


def selection_second_moment(y: int, gens: Sequence[sp.Expr], weights: Sequence[sp.Expr]) -> sp.Expr:
    """Lemma 5: mean square of the selection probability of letter y over N ~ Poisson(n) given N > 0."""
    s1, s2 = sp.symbols("s1 s2", nonnegative=True)
    product = laplace(gens, weights, s1) * laplace(gens, weights, s2)
    integrand = (n + n**2 * product) * gens[y] ** 2 * sp.exp(-(s1 + s2) * weights[y] + n * (product - 1))
    return weights[y] ** 2 / (1 - sp.exp(-n)) * sp.Integral(integrand, (s1, 0, sp.oo), (s2, 0, sp.oo))


def kl_bound() -> sp.Expr:
    """Theorem 1 with its constants, sharp form: ``H log(1 + ((C exp(beta R) - 1) / n)**2)``."""
    return H * sp.log(1 + ((C * sp.exp(beta * R) - 1) / n) ** 2)


def kl_bound_printed() -> sp.Expr:
    """Theorem 1 in the printed form with constant 1 and without logarithms: ``H C**2 exp(2 beta R) / n**(3/2)``."""
    return H * C**2 * sp.exp(2 * beta * R) / n ** sp.Rational(3, 2)
