"""Lookahead Reasoning, Lemma 2: how the asynchronous speedup moves with depth."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.proving.cases import searched
from ledger.proving.deferred import sp
from ledger.proving.formulas import Formula
from ledger.proving.records import formula_of, proved, refuted
from ledger.proving.tools import identity, prove_identity, prove_sign, refute, screened

__all__ = ["CLAIMS"]


def _async_monotone(limit: int) -> Evidence:
    """Strictly increasing at integers 1..ceil(1/c1), constant after: search, then the derivative up to 1/c1."""

    def holds(alpha: Fraction, c: Fraction, k: Fraction) -> bool:
        here, following = (exact.f_async(alpha, c, int(k) + i) for i in (0, 1))
        return following > here if k < exact.ceil_inverse(c) + limit else following == here

    costs = ("2/5", "1/2", "1/4", "3/10", "2/7", "5/7", "1/10")
    points = ({"alpha": a, "c": c, "k": str(k)} for a in ("1/2", "1/10", "9/10") for c in costs for k in range(1, 14))
    rate, slack, c, q = sp.symbols("L slack c1 q", positive=True)
    # -log(alpha) = L > 0 and 1 - c1 gamma = slack >= 0 up to gamma = 1/c1
    return screened(
        refute(holds, points, what="f_async increases strictly up to ceil(1/c1) and is constant after"),
        _derivative_numerator,
        lambda: prove_sign(rate * slack + c * (1 - q), unit=("q",), what="the derivative's bracket for gamma < 1/c1"),
        lambda: prove_sign(c * (1 - q), unit=("q",), what="and at gamma = 1/c1"),
        _meets_unsaturated,
    )


def _derivative_numerator(sign: int = 1) -> Evidence:
    """A' D - A D' = alpha**gamma (1-alpha) [(-log alpha)(1 - c1 gamma) + c1 (1 - alpha**gamma)]."""
    a, c, x = sp.symbols("alpha1 c1 gamma", positive=True)
    top = 1 - a**x
    bottom = 1 - a + c * a * (1 - a**x) - c * x * a**x * (1 - a)
    left = sp.diff(top, x) * bottom - top * sp.diff(bottom, x)
    right = a**x * (1 - a) * (-sp.log(a) * (1 - c * x) + sign * c * (1 - a**x))
    return prove_identity(
        left - right,
        what="the numerator of the derivative as displayed",
        samples=[{"alpha1": "1/2", "c1": "1/4", "gamma": "2"}],
    )


def _meets_unsaturated(factor: int = 1) -> Evidence:
    """S2(factor/c1) = S1."""
    from ledger.lookahead_reasoning import statements as st

    difference = st.f_async_saturated().subs(st.K1, factor / st.C1) - st.f_async_unsaturated()
    sample = {"alpha1": "1/2", "c1": "1/4"}
    return prove_identity(difference, what=f"S2 at gamma = {factor}/c1 equals S1", samples=[sample])


def _real_s2(alpha: Fraction, c: Fraction, gamma: Fraction) -> Fraction:
    """S2 at real gamma, for alpha = 2**-n and gamma such that alpha**gamma = 2**(-n gamma) is rational."""
    exponent = gamma * (alpha.denominator.bit_length() - 1)
    assert exponent.denominator == 1  # our own choice of points
    q = Fraction(1, 2**exponent.numerator)
    return (1 - q) / (1 - alpha + c * alpha * (1 - q) - c * gamma * q * (1 - alpha))


def _search_real(printed: Formula) -> Evidence:
    """S2 between neighbouring depths of a grid."""
    grid = [Fraction(n, 4) for n in range(4, 10)]
    points = [
        {"alpha1": "1/16", "c1": c, "gamma": str(x), "later": str(y)}
        for c in ("9/10", "2/5")
        for x, y in itertools.pairwise(grid)
    ]
    return searched(
        printed,
        *points,
        text=f"S2 increases between real depths ({printed.where})",
        explain=lambda alpha1, c1, gamma, later: (
            f"1 - c1 gamma = {1 - c1 * gamma}, and S2 changes by "
            f"{float(_real_s2(alpha1, c1, later) - _real_s2(alpha1, c1, gamma)):.5f} from {gamma} to {later}"
        ),
    )


def _search_below(printed: Formula) -> Evidence:
    """S2(gamma) <= S1."""
    points = (
        {"alpha1": "1/16", "c1": c, "gamma": str(Fraction(n, 4))} for c in ("2/5", "2/3", "1/4") for n in range(4, 16)
    )
    return searched(
        printed,
        *points,
        text=f"S1 >= S2(gamma) for real gamma ({printed.where})",
        explain=lambda alpha1, c1, gamma: f"S2 = {_real_s2(alpha1, c1, gamma)}, S1 = {exact.f_unsaturated(alpha1, c1)}",
    )


def _gap_to_unsaturated() -> Evidence:
    """S1/S2 - 1 has the sign of 1 - c1 gamma, which is positive at integers below ceil(1/c1)."""
    a, c, q, x, s = sp.symbols("alpha1 c1 q gamma s", positive=True)
    below = 1 - a + c * a * (1 - q) - c * x * q * (1 - a)
    ratio = below / ((1 - q) * (1 - a + c * a)) - 1
    closed = q * (1 - a) * (1 - c * x) / ((1 - q) * (1 - a + c * a))
    return screened(
        _search_below(formula_of("LR-L2d", "correction_formula")),
        identity(ratio - closed, "S1/S2 - 1 = q (1-alpha)(1-c1 gamma)/((1-q)(1-alpha+c1 alpha))"),
        lambda: prove_sign(closed.subs(c, s / x), unit=("alpha1", "q", "s"), what="positive for c1 gamma = s < 1"),
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-L2a",
        verify=lambda: _async_monotone(0),
        mutants={"one further": partial(_async_monotone, 1), "one earlier": partial(_async_monotone, -1)},
    ),
    proved("LR-L2b", verify=_derivative_numerator, mutants={"sign": partial(_derivative_numerator, -1)}),
    refuted(
        "LR-L2c",
        verify=lambda: _search_real(formula_of("LR-L2c")),
        correction_verify=lambda: _async_monotone(0),
        mutants={"corrected": partial(_search_real, formula_of("LR-L2c", "correction_formula"))},
    ),
    refuted(
        "LR-L2d",
        verify=lambda: _search_below(formula_of("LR-L2d")),
        correction_verify=_gap_to_unsaturated,
        mutants={"corrected": partial(_search_below, formula_of("LR-L2d", "correction_formula"))},
    ),
    proved("LR-L2e", verify=_meets_unsaturated, mutants={"2/c1": partial(_meets_unsaturated, 2)}),
)
