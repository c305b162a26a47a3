"""Lookahead Reasoning, Lemma 5: the split of one budget M = gamma * (M / gamma) between the two levels has one peak."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from fractions import Fraction
from math import isqrt

from theory.claims.ledger import Claim, Evidence
from theory.claims.lookahead_reasoning import exact
from theory.claims.lookahead_reasoning.hybrid.lemma_4 import falls_in_x
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import mutant, proved, refuted, repaired
from theory.claims.proving.tools import all_of, identity, prove_identity, prove_sign, refute, screened

__all__ = ["CLAIMS", "one_peak", "pair_grid", "speedup", "threshold"]

_ALPHAS = ("1/5", "1/2", "4/5", "9/10")
_COSTS = ("1/27", "1/9", "1/3", "1/2")


@functools.cache
def speedup(alpha: Fraction, c: Fraction, k: int) -> Fraction:
    """Value of g (and f_sync) at an integer, remembered: the grids visit each value thousands of times."""
    value: Fraction = exact.g(alpha, c, k)
    return value


@functools.cache
def threshold(alpha: Fraction, c: Fraction, budget: int) -> Fraction:
    """D(M) for even M; for odd M, alpha must be a square of a rational (then alpha**(M/2) is rational)."""
    if budget % 2 == 0:
        return exact.doubling_ratio(alpha, c, budget // 2)  # type: ignore[no-any-return]
    root = _square_root(alpha)
    return (1 + root**budget) * (1 - c + c * budget / 2) / (1 - c + c * budget)


def _square_root(value: Fraction) -> Fraction:
    """The exact square root of a square."""
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    assert root * root == value  # our own choice of points
    return root


def pair_grid(
    budgets: tuple[int, ...], alphas: tuple[str, ...] = _ALPHAS, costs: tuple[str, ...] = _COSTS
) -> Iterator[dict[str, str]]:
    """Parameters of both levels, and the budget."""
    for a1, a2, c1, c2, m in itertools.product(alphas, alphas, costs, costs, budgets):
        yield {"alpha1": a1, "c1": c1, "alpha2": a2, "c2": c2, "M": str(m)}


def _split(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, budget: int) -> dict[int, Fraction]:
    """The values of w at every divisor gamma of the budget."""
    divisors = [d for d in range(1, budget + 1) if budget % d == 0]
    return {d: speedup(alpha1, c1, d) * speedup(alpha2, c2, budget // d) for d in divisors}


def _fails_token(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, budget: int) -> bool:
    """(7) fails."""
    return (1 + alpha1) / (1 + c1) < threshold(alpha2, c2, budget)


def _interior(budgets: tuple[int, ...]) -> Evidence:
    """If (7) and (8) hold, some divisor in [2, M/2] maximises w over the divisors of M."""

    def holds(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> bool:  # noqa: N803
        budget = int(M)
        if _fails_token(alpha1, c1, alpha2, c2, budget) or _fails_token(alpha2, c2, alpha1, c1, budget):
            return True
        values = _split(alpha1, c1, alpha2, c2, budget)
        inside = [value for d, value in values.items() if 2 <= d <= budget // 2]
        return bool(inside) and max(inside) == max(values.values())

    grid = pair_grid(budgets, ("1/4", "16/25", "1/25"), ("1/10", "1/5", "1/3"))
    return refute(holds, grid, what="with (7) and (8) the maximum over the divisors lies in [2, M/2]")


def _corner(*, swap: bool, claim: str = "fails") -> Evidence:
    """If (7) (swapped: (8)) fails, the corner gamma = 1 (swapped: M) is the unique maximiser over the divisors."""

    def holds(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> bool:  # noqa: N803
        first, second = ((alpha1, c1), (alpha2, c2)) if not swap else ((alpha2, c2), (alpha1, c1))
        failing = _fails_token(*first, *second, int(M))
        if failing is not (claim == "fails"):
            return True
        values = _split(alpha1, c1, alpha2, c2, int(M))
        corner = int(M) if swap else 1
        return all(values[corner] > value for d, value in values.items() if d != corner)

    name = "(8)" if swap else "(7)"
    return refute(holds, pair_grid((4, 6, 8, 12)), what=f"if {name} {claim}, the corner is the unique maximiser")


def one_peak() -> Evidence:
    """Gamma w'/w falls strictly on the reals, so the sign of w' changes at most once, from plus to minus."""
    return all_of(_log_derivative, falls_in_x, _cost_terms, detail="gamma w'(gamma)/w(gamma) falls strictly in gamma")


def _log_derivative(sign: int = 1) -> Evidence:
    """The identity x g'(x)/g(x) = a(x) - c x/(1 - c + c x)."""
    a, c, x = sp.symbols("alpha c x", positive=True)
    value = (1 - a**x) / ((1 - a) * (1 - c + c * x))
    shown = -x * sp.log(a) * a**x / (1 - a**x) - sign * c * x / (1 - c + c * x)
    return prove_identity(
        x * sp.diff(value, x) / value - shown,
        what="the logarithmic derivative as displayed",
        samples=[{"alpha": "1/2", "c": "1/4", "x": "2"}],
    )


def _cost_terms() -> Evidence:
    """The displayed difference of cost terms is the one shown, and its derivative in gamma is positive."""
    c1, c2, x, m = sp.symbols("c1 c2 gamma M", positive=True)
    eta = m / x
    left = c1 * x / (1 - c1 + c1 * x) - c2 * eta / (1 - c2 + c2 * eta)
    shown = 1 - (1 - c1) / (1 - c1 + c1 * x) - c2 * m / ((1 - c2) * x + c2 * m)
    return all_of(
        identity(left - shown, "the cost terms as displayed"),
        lambda: prove_sign(sp.diff(shown, x), unit=("c1", "c2"), what="the cost terms rise in gamma"),
    )


def _concave(*, of_log_slope: bool) -> Evidence:
    """The claim that w' falls: chord slopes of w over 1, 2, 4, ... fall (of_log_slope: w rises, then falls)."""

    def holds(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> bool:  # noqa: N803
        values = _split(alpha1, c1, alpha2, c2, int(M))
        steps = list(itertools.pairwise(values.items()))
        slopes = [(later - here) / (b - a) for (a, here), (b, later) in steps]
        if of_log_slope:
            return all(not (here < 0 < later) for here, later in itertools.pairwise(slopes))
        return all(here > later for here, later in itertools.pairwise(slopes))

    grid = pair_grid((8, 16), ("1/2", "4/5"), ("1/5", "1/3"))
    what = "w rises, then falls" if of_log_slope else "w'(gamma) falls strictly on [1, M]"

    def explain(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> str:  # noqa: N803
        shown = ", ".join(f"w({d}) = {float(v):.4f}" for d, v in _split(alpha1, c1, alpha2, c2, int(M)).items())
        return f"{shown}: two chord slopes do not fall"

    return refute(holds, grid, what=what, explain=explain)


def _symbolic_split() -> sp.Expr:

    from theory.claims.lookahead_reasoning import statements as st

    budget = sp.Symbol("M", positive=True, integer=True)
    return st.f_sync() * st.g().subs(st.K2, budget / st.K1)


CLAIMS: tuple[Claim, ...] = (
    proved(
        id="LR-L5a",
        source="Lookahead Reasoning, Lemma 5, proof, Steps 1 and 2, Appendix B.1.2",
        statement="gamma f'/f = a1(gamma) - c1 gamma/(1-c1+c1 gamma), likewise for g, and the difference of the "
        "cost terms equals 1 - (1-c1)/(1-c1+c1 gamma) - c2 M/((1-c2) gamma + c2 M), which rises in gamma.",
        assumptions="0 < alpha < 1, 0 < c < 1",
        verify=lambda: all_of(_log_derivative, _cost_terms),
        mutants=(mutant("sign", "plus the cost term", _log_derivative, -1),),
        notes="The lemma calls its function v and w in turn; they are the same.",
    ),
    refuted(
        id="LR-L5b",
        source="Lookahead Reasoning, Lemma 5, proof, Step 3",
        statement="w'(gamma) falls strictly on [1, M].",
        expression=_symbolic_split,
        assumptions="0 < alpha_i < 1, 0 < c_i < 1, M >= 4",
        verify=lambda: _concave(of_log_slope=False),
        correction="The bracket gamma w'(gamma)/w(gamma) falls strictly, so w' changes sign at most once, from plus "
        "to minus; that is all that the lemma uses. w itself is not concave.",
        correction_verify=lambda: screened(_concave(of_log_slope=True), one_peak),
        mutants=(mutant("corrected", "w rises, then falls", _concave, of_log_slope=True),),
    ),
    repaired(
        id="LR-L5c",
        source="Lookahead Reasoning, Lemma 5 (a)",
        statement="If (7) and (8) hold, w has one peak and its maximum over the integers gamma with integer M/gamma "
        "lies in [2, M/2].",
        expression=_symbolic_split,
        assumptions="M >= 4 (no parity stated)",
        printed=lambda: _interior((4, 5, 6)),
        correction="M must be even, so that 2 and M/2 are divisors: a prime M has no divisor in [2, M/2]. For even M, "
        "w(2) >= w(1), w(M/2) >= w(M) and the single peak give the claim.",
        repair=lambda: screened(_interior((4, 6, 8, 12)), one_peak),
        mutants=(mutant("corrected", "even M only, which needs no fix", _interior, (4, 6, 8)),),
    ),
    proved(
        id="LR-L5d",
        source="Lookahead Reasoning, Lemma 5 (b)",
        statement="If (7) fails, gamma = 1 (token-level only) is the unique maximiser over gamma1 gamma2 = M.",
        assumptions="0 < alpha_i < 1, 0 < c_i < 1, integer M >= 4",
        verify=lambda: screened(_corner(swap=False), one_peak),
        mutants=(mutant("holds", "if (7) holds", _corner, swap=False, claim="holds"),),
        notes="(7) failing says w(2) < w(1) for real w; with one peak w falls from 2 on. No parity is needed.",
    ),
    proved(
        id="LR-L5e",
        source="Lookahead Reasoning, Lemma 5 (c)",
        statement="If (8) fails, gamma = M (step-level only) is the unique maximiser over gamma1 gamma2 = M.",
        assumptions="0 < alpha_i < 1, 0 < c_i < 1, integer M >= 4",
        verify=lambda: screened(_corner(swap=True), one_peak),
        mutants=(mutant("holds", "if (8) holds", _corner, swap=True, claim="holds"),),
    ),
)
