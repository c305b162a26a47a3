"""Lookahead Reasoning, Lemma 3: one peak over the length of a draft."""

from __future__ import annotations

from fractions import Fraction

from theory.claims.ledger import Claim, Evidence, Verdict, statement
from theory.claims.lookahead_reasoning import exact
from theory.claims.lookahead_reasoning.formulas import lemmas
from theory.claims.proving.deferred import sp
from theory.claims.proving.records import mutant, proved, proved_with_fix
from theory.claims.proving.tools import (
    all_of,
    counterexample,
    identity,
    prove_descent,
    prove_identity,
    prove_sign,
    refute,
    screened,
    with_fix,
)

__all__ = ["CLAIMS", "log_above_chord", "unimodal_proof"]


def log_above_chord() -> Evidence:
    """-log(alpha) > 1 - alpha on (0, 1), with alpha = exp(-u)."""
    u = sp.Symbol("u", positive=True)
    return prove_descent(u - 1 + sp.exp(-u), u, what="-log(alpha) > 1 - alpha, alpha = exp(-u)", order=2)


def unimodal_proof(sign: int = 1) -> Evidence:
    """Lemma 3: the derivative has the sign of F; F falls strictly, from F(1) > 0 to -c."""
    from theory.claims.lookahead_reasoning.statements import stationarity

    a, c, x, u, s = sp.symbols("alpha c gamma u s", positive=True)
    slope = sp.diff((1 - a**x) / ((1 - a) * (1 - c + c * x)), x) * (1 - a) * (1 - c + c * x) ** 2
    falls = sp.diff(stationarity(a, c, x), x) + sign * a**x * sp.log(a) ** 2 * (1 - c + c * x)
    start = stationarity(a, c, sp.Integer(1)) - (a * (-sp.log(a) - (1 - a)) + (a - c) * (1 - a))
    tail = sp.exp(-u * x) * (u * (1 - c + c * x) + c)
    sample = {"alpha": "1/2", "c": "1/4", "gamma": "2"}
    return all_of(
        lambda: prove_identity(slope - stationarity(a, c, x), what="g' has the sign of F", samples=[sample]),
        lambda: prove_identity(falls, what="F' = -alpha**gamma (log alpha)**2 (1 - c + c gamma) < 0", samples=[sample]),
        identity(start, "F(1) = alpha (-log alpha - (1-alpha)) + (alpha - c)(1 - alpha)"),
        log_above_chord,
        lambda: prove_sign(
            (a - s * a) * (1 - a), unit=("alpha", "s"), what="(alpha - c)(1 - alpha) > 0 for c = s alpha"
        ),
        lambda: _vanishes(tail, x, "F + c = alpha**gamma (L (1 - c + c gamma) + c), L = -log(alpha)"),
    )


def _vanishes(expression: sp.Expr, variable: sp.Symbol, what: str) -> Evidence:
    """The limit at infinity is 0."""
    value = sp.limit(expression, variable, sp.oo)
    verdict = Verdict.PROVED if value == 0 else Verdict.OPEN
    return Evidence(verdict=verdict, method="symbolic", detail=f"{what} tends to {value}")


def _falls_somewhere(c: str) -> Evidence:
    """As the lemma asks of c2 only that it is below alpha2: at c2 = 0 no length is the last that gains."""
    if Fraction(c) > 0:
        return unimodal_proof()
    a = sp.Symbol("alpha", positive=True)
    k = sp.Symbol("k", positive=True, integer=True)
    growth = (1 - a ** (k + 1)) / (1 - a) - (1 - a**k) / (1 - a) - a**k
    endless = identity(growth, "g(k+1) - g(k) = alpha2**k > 0 for every k")()
    if endless.verdict is not Verdict.PROVED:
        return endless
    return counterexample(
        f"g decreases after some point: at c2 = 0 it never does; {endless.detail}", {"alpha2": "1/2", "c2": "0"}
    )


def _integer_maximum(condition: str) -> Evidence:
    """g(2) > g(1) whenever alpha > condition * c."""
    scale = Fraction(condition)

    def holds(alpha: Fraction, c: Fraction) -> bool:
        return alpha <= scale * c or exact.g(alpha, c, 2) > exact.g(alpha, c, 1)

    points = [{"alpha": a, "c": c} for a in ("1/10", "1/4", "1/2", "9/10") for c in ("1/20", "1/5", "1/3", "4/5")]
    points += [{"alpha": f"{near}/5000", "c": "1/5"} for near in (999, 1001)]  # both sides of the sharp edge
    a, s = sp.symbols("alpha s", positive=True)
    ratio = (1 + a) / (1 + s * a) - 1
    return screened(
        refute(holds, points, what=f"g(2) > g(1) for alpha > {condition} c"),
        _second_over_first,
        lambda: prove_sign(ratio, unit=("alpha", "s"), what="(1+alpha)/(1+c) > 1 for c = s alpha, s < 1"),
    )


def _second_over_first() -> Evidence:
    """g(2)/g(1) = (1 + alpha)/(1 + c)."""
    from theory.claims.lookahead_reasoning import statements as st

    ratio = st.g().subs(st.K2, 2) / st.g().subs(st.K2, 1)
    return prove_identity(ratio - (1 + st.ALPHA2) / (1 + st.C2), what="g(2)/g(1) = (1 + alpha2)/(1 + c2)")


def _limit_display(extra: int) -> Evidence:
    """F = alpha**gamma [(-log alpha)(1-c+c gamma) + extra c] - c (1 - alpha**gamma)."""
    from theory.claims.lookahead_reasoning.statements import stationarity

    a, c, x = sp.symbols("alpha c gamma", positive=True)
    shown = a**x * (-sp.log(a) * (1 - c + c * x) + extra * c) - c * (1 - a**x)
    sample = {"alpha": "1/2", "c": "1/4", "gamma": "1"}
    return prove_identity(stationarity(a, c, x) - shown, what="F as displayed before its limit", samples=[sample])


CLAIMS: tuple[Claim, ...] = (
    proved_with_fix(
        id="LR-L3a",
        source="Lookahead Reasoning, Lemma 3, Appendix B.1.2",
        statement="As a function of real gamma, g increases up to a unique point and decreases after it; so does "
        "f_sync.",
        expression=statement("lookahead_reasoning", "g"),
        assumptions="0 <= c2 < alpha2 < 1, real gamma >= 1",
        formula=lemmas.ONE_PEAK_PRINTED,
        correction_formula=lemmas.ONE_PEAK,
        verify=lambda: with_fix(lambda: _falls_somewhere("0"), unimodal_proof),
        correction="With 0 < c2 < alpha2, which the proof uses; at c2 = 0 g increases for ever.",
        correction_verify=unimodal_proof,
        mutants=(
            mutant("corrected", "c2 > 0, which needs no fix", _falls_somewhere, "1/1000"),
            mutant(
                "sign",
                "F is claimed to increase",
                with_fix,
                lambda: _falls_somewhere("0"),
                lambda: unimodal_proof(-1),
            ),
        ),
        notes="The lemma prints alpha2 > c2 only. f_sync is the same function of (alpha1, c1).",
    ),
    proved(
        id="LR-L3b",
        source="Lookahead Reasoning, Lemma 3, integer maximum",
        statement="Over the integers the maximum of g lies at some gamma* >= 2, since g(2)/g(1) = (1+alpha2)/(1+c2).",
        assumptions="0 < c2 < alpha2 < 1",
        formula=lemmas.SECOND_TOKEN,
        verify=lambda: _integer_maximum("1"),
        mutants=(
            mutant("weaker", "alpha2 > c2/2", _integer_maximum, "1/2"),
            mutant("slightly weaker", "alpha2 > 0.99 c2", _integer_maximum, "0.99"),
        ),
        notes="The condition is sharp: for alpha2 <= c2 the maximum is at gamma = 1. It may be shared by two "
        "neighbours (alpha2 = 1/2, c2 = 1/27: g(4) = g(5)).",
    ),
    proved_with_fix(
        id="LR-L3c",
        source="Lookahead Reasoning, Lemma 3, proof, Step 3",
        statement="F(gamma) = alpha2**gamma [(-log alpha2)(1 - c2 + c2 gamma) + c2] - c2 (1 - alpha2**gamma), which "
        "tends to -c2.",
        assumptions="0 < c2 < alpha2 < 1",
        formula=lemmas.DISPLAY_PRINTED,
        correction_formula=lemmas.DISPLAY,
        verify=lambda: with_fix(lambda: _limit_display(1), lambda: _limit_display(0)),
        correction="The + c2 inside the bracket counts c2 alpha2**gamma twice; without it the display equals F. The "
        "limit, -c2, is right either way.",
        correction_verify=lambda: all_of(lambda: _limit_display(0), unimodal_proof),
        mutants=(
            mutant(
                "corrected",
                "without the extra term, which needs no fix",
                with_fix,
                lambda: _limit_display(0),
                lambda: _limit_display(0),
            ),
        ),
    ),
)
