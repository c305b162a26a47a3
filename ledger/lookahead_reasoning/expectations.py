"""Lookahead Reasoning, Appendix C: the expectations behind the asynchronous speedup, for every integer depth."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.proving.deferred import sp
from ledger.proving.records import proved
from ledger.proving.tools import all_of, identity, prove_identity

__all__ = ["CLAIMS", "expected_intervals_proof", "expected_remainder_proof"]


def expected_remainder_proof(what: str, *, scale: int = 1) -> Evidence:
    """E[X mod k] for every k: induction on k of the finite sum, with a symbol for alpha**k."""
    from ledger.lookahead_reasoning.statements import ALPHA1, K1, expected_partial_batch

    def total(k: sp.Expr) -> sp.Expr:
        """sum_{r < k} r alpha**r, from the printed expectation times (1 - alpha**k) / (1 - alpha)."""
        printed = expected_partial_batch() * (1 - ALPHA1**K1) / (1 - ALPHA1)
        return scale * printed.subs(K1, k, simultaneous=True)

    step = total(K1 + 1) - total(K1) - K1 * ALPHA1**K1
    return all_of(
        identity(total(sp.Integer(1)), "empty sum at k1 = 1"),
        lambda: prove_identity(
            step, what=f"{what}: raising k1 by one adds k1 alpha**k1", samples=[{"alpha1": "1/2", "k1": "2"}]
        ),
    )


def expected_intervals_proof(power: int) -> Evidence:
    """E[ceil((X+1)/k)] = 1/(1 - alpha**(power k)) for every k: sum_m (m+1) q**m (1-q), by telescoping in m."""
    q = sp.Symbol("q", positive=True)
    m = sp.Symbol("m", positive=True, integer=True)

    def summed(n: sp.Expr) -> sp.Expr:
        """The first n terms, summed by hand: 1/(1 - q**power) minus a remainder that tends to 0."""
        return (1 - q**n) / (1 - q**power) - n * q**n

    term = (m + 1) * q**m * (1 - q)
    return all_of(
        identity(summed(sp.Integer(0)), "empty sum"),
        lambda: prove_identity(
            summed(m + 1) - summed(m) - term, what="each interval adds its term", samples=[{"q": "1/2", "m": "1"}]
        ),
        detail="q = alpha**k1; the partial sums (1 - q**n)/(1 - q) - n q**n tend to 1/(1 - q)",
    )


def _interval_probability(exponent_shift: int) -> Evidence:
    """P(m k <= X < (m+1) k) = alpha**(m k) (1 - alpha**k)."""
    a = sp.Symbol("alpha", positive=True)
    m, k, i = sp.symbols("m k i", positive=True, integer=True)
    tail = a ** (m * k) - a ** ((m + 1) * k + exponent_shift)  # P(X >= n) = alpha**n
    one = a**i - a ** (i + 1) - a**i * (1 - a)
    return all_of(
        identity(one, "P(X >= i) - P(X >= i + 1) = alpha**i (1 - alpha)"),
        lambda: prove_identity(
            tail - a ** (m * k) * (1 - a**k),
            what="the interval's probability",
            samples=[{"alpha": "1/2", "m": "1", "k": "2"}],
        ),
    )


def _remainder_pmf(period: int) -> Evidence:
    """The printed p solves p = (1 - alpha) alpha**r + alpha**(k + period) p, which is a shift of X by k."""
    a = sp.Symbol("alpha", positive=True)
    k, r = sp.symbols("k r", positive=True, integer=True)
    p = (1 - a) * a**r / (1 - a**k)
    return prove_identity(
        p - (1 - a) * a**r - a ** (k + period) * p,
        what="P(X mod k = r) = (1 - alpha) alpha**r / (1 - alpha**k)",
        samples=[{"alpha": "1/2", "k": "2", "r": "1"}],
    )


def _geometric_mean(scale: str) -> Evidence:
    """Mu = E[X] solves mu = alpha (1 + mu): an accepted draft adds one and starts afresh."""
    from ledger.lookahead_reasoning.statements import ALPHA1, expected_accepted_steps

    mean = Fraction(scale).numerator * expected_accepted_steps() / Fraction(scale).denominator
    return prove_identity(mean - ALPHA1 * (1 + mean), what="E[X] = alpha + alpha E[X]", samples=[{"alpha1": "1/2"}])


CLAIMS: tuple[Claim, ...] = (
    proved("LR-C1", verify=lambda: _geometric_mean("1"), mutants={"doubled": partial(_geometric_mean, "2")}),
    proved("LR-C2", verify=lambda: _interval_probability(0), mutants={"longer": partial(_interval_probability, 1)}),
    proved(
        "LR-C3", verify=lambda: expected_intervals_proof(1), mutants={"squared": partial(expected_intervals_proof, 2)}
    ),
    proved("LR-C4", verify=lambda: _remainder_pmf(0), mutants={"period": partial(_remainder_pmf, 1)}),
    proved(
        "LR-C5",
        verify=lambda: expected_remainder_proof("E[X mod gamma]"),
        mutants={"doubled": partial(expected_remainder_proof, "twice", scale=2)},
    ),
)
