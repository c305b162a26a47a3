"""Lookahead Reasoning, Lemma 5: the split of one budget M = gamma * (M / gamma) between the two levels has one peak."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning.hybrid.lemma_4 import falls_in_x
from ledger.lookahead_reasoning.hybrid.points import Synchronous, divisors, split
from ledger.proving.cases import Predicate, searched
from ledger.proving.deferred import sp
from ledger.proving.records import proved, refuted, repaired
from ledger.proving.tools import all_of, identity, prove_identity, prove_sign, screened

__all__ = ["CLAIMS", "one_peak", "pair_grid"]

_ALPHAS = ("1/5", "1/2", "4/5", "9/10")
_COSTS = ("1/27", "1/9", "1/3", "1/2")


def pair_grid(
    budgets: tuple[int, ...], alphas: tuple[str, ...] = _ALPHAS, costs: tuple[str, ...] = _COSTS
) -> Iterator[dict[str, str]]:
    """Parameters of both levels, and the budget."""
    for a1, a2, c1, c2, m in itertools.product(alphas, alphas, costs, costs, budgets):
        yield {"alpha1": a1, "c1": c1, "alpha2": a2, "c2": c2, "M": str(m)}


_INTERIOR_ODD, _INTERIOR = (
    divisors(
        "some divisor in [2, M/2] maximises w over the divisors of M",
        lambda point, values: (
            max((value for d, value in values.items() if 2 <= d <= point.budget // 2), default=Fraction(0))
            == max(values.values())
        ),
        lambda point: point.met(strict=False),
        "(7) and (8)" + ("" if odd else ", M even"),
        odd=odd,
    )
    for odd in (True, False)
)


def _search_interior(printed: Predicate, budgets: tuple[int, ...]) -> Evidence:
    """If (7) and (8) hold, some divisor in [2, M/2] maximises w over the divisors of M."""
    return searched(printed, *pair_grid(budgets, ("1/4", "16/25", "1/25"), ("1/10", "1/5", "1/3")))


def _corner(*, swap: bool, claim: str = "fails") -> Predicate:
    """If (7) (swapped: (8)) fails, the corner gamma = 1 (swapped: M) is the unique maximiser over the divisors."""

    def unique(point: Synchronous, values: Mapping[int, Fraction]) -> bool:
        corner = point.budget if swap else 1
        return all(values[corner] > value for d, value in values.items() if d != corner)

    def failing(point: Synchronous) -> bool:
        return (point.r2 < point.d1 if swap else point.r1 < point.d2) is (claim == "fails")

    name = "(8)" if swap else "(7)"
    return divisors("the corner is the unique maximiser over the divisors", unique, failing, f"{name} {claim}")


_TOKEN_CORNER, _STEP_CORNER = _corner(swap=False), _corner(swap=True)


def _search_corner(printed: Predicate) -> Evidence:
    return searched(printed, *pair_grid((4, 6, 8, 12)))


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


def _concave(*, of_log_slope: bool) -> Predicate:
    """The claim that w' falls: chord slopes of w over the divisors fall (of_log_slope: w rises, then falls)."""

    def shaped(_point: Synchronous, values: Mapping[int, Fraction]) -> bool:
        steps = list(itertools.pairwise(values.items()))
        slopes = [(later - here) / (b - a) for (a, here), (b, later) in steps]
        if of_log_slope:
            return all(not (here < 0 < later) for here, later in itertools.pairwise(slopes))
        return all(here > later for here, later in itertools.pairwise(slopes))

    what = "w rises, then falls" if of_log_slope else "w'(gamma) falls strictly on [1, M]"
    return divisors(what, shaped, lambda _point: True, "")


_CONCAVE, _RISES_THEN_FALLS = _concave(of_log_slope=False), _concave(of_log_slope=True)


def _search_concave(printed: Predicate) -> Evidence:
    def explain(alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, M: Fraction) -> str:  # noqa: N803
        shown = ", ".join(f"w({d}) = {float(v):.4f}" for d, v in split(alpha1, c1, alpha2, c2, int(M)).items())
        return f"{shown}: two chord slopes do not fall"

    return searched(printed, *pair_grid((8, 12), ("1/2", "4/5"), ("1/5", "1/3")), explain=explain)


def _symbolic_split() -> sp.Expr:

    from ledger.lookahead_reasoning import statements as st

    budget = sp.Symbol("M", positive=True, integer=True)
    return st.f_sync() * st.g().subs(st.K2, budget / st.K1)


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-L5a", verify=lambda: all_of(_log_derivative, _cost_terms), mutants={"sign": partial(_log_derivative, -1)}
    ),
    refuted(
        "LR-L5b",
        expression=_symbolic_split,
        formula=_CONCAVE,
        correction_formula=_RISES_THEN_FALLS,
        verify=lambda: _search_concave(_CONCAVE),
        correction_verify=lambda: screened(_search_concave(_RISES_THEN_FALLS), one_peak),
        mutants={"corrected": partial(_search_concave, _RISES_THEN_FALLS)},
    ),
    repaired(
        "LR-L5c",
        expression=_symbolic_split,
        formula=_INTERIOR_ODD,
        correction_formula=_INTERIOR,
        printed=lambda: _search_interior(_INTERIOR_ODD, (4, 5, 6)),
        repair=lambda: screened(_search_interior(_INTERIOR, (4, 6, 8, 12)), one_peak),
        mutants={"corrected": partial(_search_interior, _INTERIOR, (4, 6, 8))},
    ),
    proved(
        "LR-L5d",
        formula=_TOKEN_CORNER,
        verify=lambda: screened(_search_corner(_TOKEN_CORNER), one_peak),
        mutants={"holds": partial(_search_corner, _corner(swap=False, claim="holds"))},
    ),
    proved(
        "LR-L5e",
        formula=_STEP_CORNER,
        verify=lambda: screened(_search_corner(_STEP_CORNER), one_peak),
        mutants={"holds": partial(_search_corner, _corner(swap=True, claim="holds"))},
    ),
)
