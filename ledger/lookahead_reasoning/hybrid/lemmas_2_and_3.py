"""Lookahead Reasoning, Lemmas 2 and 3: the shape of f_async and of g over real depths."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence, Verdict
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.forms import peak_function, stationarity
from ledger.lookahead_reasoning.hybrid.lemma_4 import log_above_chord
from ledger.lookahead_reasoning.hybrid.lemmas_5_and_6 import below_peak
from ledger.proving.balls import point
from ledger.proving.cases import Cases, rows, searched, walked
from ledger.proving.combine import counterexample, exact_step, with_fix
from ledger.proving.deferred import sp
from ledger.proving.records import Given, formula_of, proved, proved_with_fix, refuted, repaired, restated
from ledger.proving.tools import all_of, descent, identity, prove_equalities, prove_identity, refute, screened, sign

__all__ = ["CLAIMS", "async_monotone", "unimodal_proof"]


def async_monotone(limit: int) -> Evidence:
    """Strictly increasing at integers 1..ceil(1/c1), constant after: search, then the derivative up to 1/c1."""

    def holds(alpha: Fraction, c: Fraction, k: Fraction) -> bool:
        here, following = (exact.f_async(alpha, c, int(k) + i) for i in (0, 1))
        return following > here if k < exact.ceil_inverse(c) + limit else following == here

    costs = ("2/5", "1/2", "1/4", "3/10", "2/7", "5/7", "1/10")
    points = ({"alpha": a, "c": c, "k": str(k)} for a in ("1/2", "1/10", "9/10") for c in costs for k in range(1, 14))
    # -log(alpha) = L > 0 and 1 - c1 gamma = slack >= 0 up to gamma = 1/c1
    return screened(
        refute(holds, points, what="f_async increases strictly up to ceil(1/c1) and is constant after"),
        lambda: prove_equalities(formula_of("LR-L2b")),
        sign("L * slack + c1 * (1 - q)", "the derivative's bracket for gamma < 1/c1", unit=("q",)),
        sign("c1 * (1 - q)", "and at gamma = 1/c1", unit=("q",)),
        lambda: prove_equalities(formula_of("LR-L2e")),
    )


_BELOW = restated("LR-L2d", premise="gamma < 1 / c1")
"""LR-L2d, corrected."""


def _gap_to_unsaturated() -> Evidence:
    """S1/S2 - 1 has the sign of 1 - c1 gamma, which is positive at integers below ceil(1/c1)."""
    below = "(1 - alpha1 + c1 * alpha1 * (1 - q) - c1 * gamma * q * (1 - alpha1))"
    return screened(
        searched(_BELOW),
        identity(
            f"{below} / ((1 - q) * (1 - alpha1 + c1 * alpha1)) - 1 == "
            "q * (1 - alpha1) * (1 - c1 * gamma) / ((1 - q) * (1 - alpha1 + c1 * alpha1))",
            "S1/S2 - 1 = q (1-alpha)(1-c1 gamma)/((1-q)(1-alpha+c1 alpha))",
        ),
        sign(
            "q * (1 - alpha1) * (1 - s) / ((1 - q) * (1 - alpha1 + s / gamma * alpha1))",
            "positive for c1 gamma = s < 1",
            unit=("alpha1", "q", "s"),
        ),
    )


def unimodal_proof(way: int = 1) -> Evidence:
    """Lemma 3: the derivative has the sign of F; F falls strictly, from F(1) > 0 to -c."""
    a, c, x, u = sp.symbols("alpha c gamma u", positive=True)
    slope = sp.diff((1 - a**x) / ((1 - a) * (1 - c + c * x)), x) * (1 - a) * (1 - c + c * x) ** 2
    falls = sp.diff(stationarity(a, c, x), x) + way * a**x * sp.log(a) ** 2 * (1 - c + c * x)
    start = stationarity(a, c, sp.Integer(1)) - (a * (-sp.log(a) - (1 - a)) + (a - c) * (1 - a))
    tail = sp.exp(-u * x) * (u * (1 - c + c * x) + c)
    sample = {"alpha": "1/2", "c": "1/4", "gamma": "2"}
    return all_of(
        identity(slope - stationarity(a, c, x), "g' has the sign of F", samples=[sample]),
        identity(falls, "F' = -alpha**gamma (log alpha)**2 (1 - c + c gamma) < 0", samples=[sample]),
        identity(start, "F(1) = alpha (-log alpha - (1-alpha)) + (alpha - c)(1 - alpha)"),
        log_above_chord,
        sign("(alpha - s * alpha) * (1 - alpha)", "(alpha - c)(1 - alpha) > 0 for c = s alpha", unit=("alpha", "s")),
        lambda: exact_step(
            sp.limit(tail, x, sp.oo) == 0,
            "F + c = alpha**gamma (L (1 - c + c gamma) + c), L = -log(alpha) tends to 0",
            "symbolic",
        ),
    )


def _falls_somewhere(c: str) -> Evidence:
    """As the lemma asks of c2 only that it is below alpha2: at c2 = 0 no length is the last that gains."""
    if Fraction(c) > 0:
        return unimodal_proof()
    growth = "(1 - alpha**(k + 1)) / (1 - alpha) - (1 - alpha**k) / (1 - alpha) == alpha**k"
    endless = prove_identity(growth, what="g(k+1) - g(k) = alpha2**k > 0 for every k")
    if endless.verdict is not Verdict.PROVED:
        return endless
    return counterexample(
        f"g decreases after some point: at c2 = 0 it never does; {endless.detail}", {"alpha2": "1/2", "c2": "0"}
    )


def _integer_maximum() -> Evidence:
    """g(2) > g(1) whenever alpha > c."""
    return all_of(
        identity(
            "(1 - alpha2**2) / ((1 - alpha2) * (1 + c2)) == (1 + alpha2) / (1 + c2)",
            "g(2)/g(1) = (1 + alpha2)/(1 + c2)",
        ),
        sign("(1 + alpha) / (1 + s * alpha) > 1", "(1+alpha)/(1+c) > 1 for c = s alpha, s < 1", unit=("alpha", "s")),
    )


def _two_is_no_peak() -> Evidence:
    """F(2) <= 0 at a cost of at least c0 and no other; there (1 + alpha)/(1 + c0) is F of Lemma 6 at y = 1 - alpha."""
    a, rate, c = sp.symbols("alpha L c", positive=True)
    edge = a**2 * rate / (1 - a**2 - a**2 * rate)
    at_two = stationarity(sp.exp(-rate), c, sp.Integer(2)).subs(sp.exp(-rate), a)
    shown = a**2 * rate * (1 + c) - c * (1 - a**2)
    y = sp.Symbol("y", positive=True)
    ratio = ((1 + a) / (1 + edge)).subs(a, 1 - y).subs(rate, -sp.log(1 - y))
    return all_of(
        identity(sp.expand_log(sp.powsimp(at_two), force=True) - shown, "F(2) = alpha**2 L (1 + c) - c (1 - alpha**2)"),
        identity(shown.subs(c, edge), "F(2) vanishes at the cost c0 = alpha**2 L/(1 - alpha**2 - alpha**2 L)"),
        identity(sp.diff(shown, c) + (1 - a**2 - a**2 * rate), "F(2) changes with c by -(1 - alpha**2 - alpha**2 L)"),
        descent("exp(t) - 1 - t", "alpha**-2 - 1 - L > alpha**-2 - 1 - 2 L > 0", "t", order=2),
        identity(ratio - peak_function(y), "(1 + alpha)/(1 + c0) = F(y) of Lemma 6, y = 1 - alpha"),
    )


def _peak_below_two(alpha: Fraction, c: Fraction) -> bool:
    """F(2) < 0, and 2 is the best integer."""
    square, rate = point(alpha**2), -point(alpha).log()
    falls = bool(square * rate * point(1 + c) - point(c * (1 - alpha**2)) < 0)
    return falls and exact.argmax_g(alpha, c, 3) == 2


_BELOW_TWO = Cases(
    text="the integer maximiser is 2 and the real one is less",
    test=_peak_below_two,
    cases=rows({"alpha": Fraction(1, 2), "c": Fraction(2, 5)}),
    where="alpha = 1/2, c = 2/5",
)


def _beyond_two(bound: str) -> Evidence:
    """With r > bound the real maximiser exceeds 2: a search, then r <= F(y) < bound wherever it does not."""

    def holds(alpha: Fraction, c: Fraction) -> bool:
        return (1 + alpha) <= Fraction(bound) * (1 + c) or not _peak_below_two(alpha, c)

    near = [{"alpha": "43/100", "c": c} for c in ("1/5", "237/1000", "2368/10000", "2369/10000")]
    below = {"alpha": "1/2", "c": "2/5"}
    return screened(
        refute(holds, [below, *near], what=f"the real maximiser exceeds 2 wherever r > {bound}"),
        lambda: walked(_BELOW_TWO),
        _two_is_no_peak,
        lambda: below_peak(bound),
        unimodal_proof,
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-L2a",
        verify=lambda: async_monotone(0),
        mutants={"one further": partial(async_monotone, 1), "one earlier": partial(async_monotone, -1)},
    ),
    proved(
        "LR-L2b",
        verify=Given(prove_equalities),
        mutants={"sign": restated("LR-L2b", change=("+ c1 * (1 - alpha1**gamma))", "- c1 * (1 - alpha1**gamma))"))},
    ),
    refuted(
        "LR-L2c",
        fix=lambda: async_monotone(0),
        mutants={"corrected": restated("LR-L2c", premise="gamma < later and later < 1 / c1")},
    ),
    refuted("LR-L2d", fix=_gap_to_unsaturated, mutants={"corrected": _BELOW}),
    proved("LR-L2e", verify=Given(prove_equalities), mutants={"2/c1": restated("LR-L2e", change=("1 / c1", "2 / c1"))}),
    proved_with_fix(
        "LR-L3a",
        verify=lambda: with_fix(lambda: _falls_somewhere("0"), unimodal_proof),
        fix=unimodal_proof,
        mutants={
            "corrected": partial(_falls_somewhere, "1/1000"),
            "sign": partial(with_fix, lambda: _falls_somewhere("0"), lambda: unimodal_proof(-1)),
        },
    ),
    proved(
        "LR-L3b",
        verify=_integer_maximum,
        mutants={
            "weaker": restated("LR-L3b", premise="c2 / 2 < alpha2"),
            "slightly weaker": restated("LR-L3b", premise="0.99 * c2 < alpha2"),
        },
    ),
    repaired("LR-L3c", fix=Given(lambda statement: all_of(prove_equalities(statement), unimodal_proof))),
    proved(
        "LR-L3d",
        verify=lambda: _beyond_two("1.157"),
        mutants={"1.156": partial(_beyond_two, "1.156"), "speculation pays": partial(_beyond_two, "1")},
    ),
)
