"""Steps that the proofs of several claims of SPECS share: divergences, density ratios, coverage.

The repaired argument behind most claims about rates is `prove_density_ratio`, which is not in the paper: at every fixed
width n each density ratio ``pi_n(y) / pi*(y)`` is within ``(kappa - 1) / n`` of one, ``kappa`` the largest over the
smallest exponentiated score. It needs no Poisson width, no logarithm and no condition on n, and its constant cannot be
lowered.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ledger.ledger import Evidence
from ledger.proving.deferred import sp
from ledger.proving.margins import Margin, at_least, at_most
from ledger.proving.symbolic import as_expression, descent
from ledger.proving.tools import all_of, identity, prove_identity
from ledger.specs.exact import Instance, agree, coverage, nonnegative, ratio

__all__ = [
    "covered",
    "prove_coverage",
    "prove_density_ratio",
    "prove_gibbs",
    "prove_log_identity",
    "prove_regret",
    "within_ratio",
]


def prove_log_identity(given: sp.Expr | str, what: str) -> Evidence:
    """An identity between logarithms of positive symbols."""
    return prove_identity(sp.expand_log(as_expression(given), force=True), what=what)


def prove_gibbs() -> Evidence:
    """``log x <= x - 1`` on both sides of 1, which makes every divergence nonnegative and zero only at equality."""
    return all_of(
        descent("u - log(1 + u)", "x - 1 - log x > 0 for x = 1 + u", "u", order=1),
        descent("1 / (1 + u) - 1 + log(1 + u)", "the same for x = 1 / (1 + u)", "u", order=1),
        detail="D(p | q) = - sum p log(q / p) >= - sum p (q / p - 1) = 0",
    )


def prove_regret(scale: int = 1) -> Evidence:
    """``beta r - log(pi / t) = log Z - log(pi / pi*)`` per letter; average under pi. ``scale`` is for mutants."""
    term = f"log(e) - log(pi / t) == log(Z) - {scale} * log(pi * Z / (t * e))"
    return prove_log_identity(term, "beta r - log(pi/t) = log Z - log(pi/pi*), per letter")


def _ratio_algebra() -> Evidence:
    """The inequalities between mean-one weights in [m, M] (kappa = M / m), the selected weight v and the width n.

    ``X = (v + sum of n - 1 weights) / n`` has E X - 1 = (v - 1) / n, n**2 E (X - 1)**2 = (v - 1)**2 + (n - 1) var and
    X >= (v + (n - 1) m) / n, and the density ratio is E[1 / X].
    """
    a, b, c, k = sp.symbols("a b c k", nonnegative=True)
    n = 1 + k

    def excess(v: sp.Expr, m: sp.Expr, top: sp.Expr) -> sp.Expr:
        spread = (v - 1) ** 2 + (n - 1) * (top - 1) * (1 - m)
        return top / m - 1 - ((1 - v) + spread / (v + (n - 1) * m))

    return all_of(
        identity("1 / x == 1 - (x - 1) + (x - 1)**2 / x", "1/X = 1 - (X - 1) + (X - 1)^2 / X"),
        identity(
            "M + m - M * m - 1 == (M - 1) * (1 - m)", "(M - W)(W - m) >= 0 and E W = 1 give var W <= (M - 1)(1 - m)"
        ),
        nonnegative(excess(1 + c, 1 / (1 + b), 1 + c + a), "n (ratio - 1) <= kappa - 1 for 1 <= v <= M"),
        nonnegative(excess(1 / (1 + c), 1 / (1 + c + b), 1 + a), "n (ratio - 1) <= kappa - 1 for m <= v <= 1"),
        nonnegative("(1 + c + a) * (1 + b) - 1 - c", "n (1 - ratio) <= v - 1 <= kappa - 1"),
    )


def within_ratio(instance: Instance, n: int, power: int = 1, scale: Fraction = Fraction(1)) -> Margin:
    """Whether each density ratio is within ``scale * (kappa - 1) / n**power`` of one."""
    law = instance.selected(n)
    worst = max(abs(p / q - 1) for p, q in zip(law, instance.optimum, strict=True))
    return at_most(worst * n**power, scale * (ratio(instance.weights) - 1))


def prove_density_ratio(power: int = 1, scale: Fraction = Fraction(1)) -> Evidence:
    """``abs(pi_n(y) / pi*(y) - 1) <= (kappa - 1) / n`` for all letters, alphabets, weights and widths n >= 1."""
    return all_of(
        agree(
            partial(within_ratio, power=power, scale=scale),
            what="largest distance of a density ratio from one, times n, is at most kappa - 1",
        ),
        _ratio_algebra,
        detail="Means and variances of sums of independent weights are quoted",
    )


def covered(instance: Instance, _n: int, *, both: bool = True) -> Margin:
    """Whether ``kappa <= C exp(beta R)``, and C >= 1; ``both`` False: C of one sup-norm."""
    forward = max(t / g for t, g in zip(instance.target, instance.gen, strict=True))
    cover = coverage(instance.target, instance.gen) if both else forward
    return at_most(ratio(instance.weights), cover * ratio(instance.tilt)) & at_least(
        coverage(instance.target, instance.gen), 1
    )


def prove_coverage(both: bool = True) -> Evidence:
    """``kappa <= C exp(beta R)`` with C the product of both sup-norms (mutant: of one), and C >= 1."""
    return all_of(
        agree(partial(covered, both=both), what="kappa <= C exp(beta R) and C >= 1", sizes=(1,)),
        nonnegative(
            "A * B * theta - A * theta / ((1 + a) * (1 + b)) / ((1 + c) * (1 + d) / B)", "any score ratio <= A B theta"
        ),
        identity(
            "g * (1 - t / g) == g - t",
            "the mean of 1 - t/g under g is 0, so t/g reaches one somewhere, and g/t likewise",
        ),
    )
