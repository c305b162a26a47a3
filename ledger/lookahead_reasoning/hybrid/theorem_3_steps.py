"""Lookahead Reasoning, Theorem 3: the steps of its proof that stand by themselves, and the least constant in (6).

D(M) = (1 + alpha**(M/2))(1 - c + c M/2)/(1 - c + c M) is the ratio g(M)/g(M/2) of one level.

At M = 2 n token-level only can beat h(2, n) while (7) holds only if its best length k lies in n < k < M. The ratio
g(k)/g(n) falls in c2, and c2 must exceed the cost c0 at which M - 1 and M tie. So f(2) has to exceed at most

    R_n(alpha) = (A(M - 1) - (n - 1) alpha**(M - 1)) / A(n),    A(k) = 1 + alpha + ... + alpha**(k - 1),

which is g(M - 1)/g(n) at c0, and comes as close to it as wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.forms import peak_function
from ledger.lookahead_reasoning.hybrid.lemmas_2_and_3 import unimodal_proof
from ledger.lookahead_reasoning.hybrid.lemmas_5_and_6 import below_peak
from ledger.lookahead_reasoning.hybrid.points import Synchronous, speedup, synchronous, threshold
from ledger.proving.balls import point, simplest_between
from ledger.proving.cases import Cases, Predicate, rows, searched, walked
from ledger.proving.combine import exact_step, refutation
from ledger.proving.deferred import sp
from ledger.proving.formulas import between
from ledger.proving.records import Given, formula_of, proved, proved_with_fix, restated
from ledger.proving.tools import all_of, descent, identity, prove_equalities, prove_sign, sign, with_fix

__all__ = ["CLAIMS", "index_argument", "peak_identity", "threshold_at_two", "threshold_falls"]


def threshold_at_two(value: int = 2) -> Evidence:
    """D(2) = (1 + alpha)/(1 + c)."""
    relation = f"doubling(alpha, c, {value}) == (1 + alpha) / (1 + c)"
    return prove_equalities(restated("LR-T3g", relation=relation, alpha="1/2", c="1/4"))


def threshold_falls() -> Evidence:
    """Both factors of D fall strictly in M: alpha**(M/2) does, and so does the ratio of pass times."""
    return all_of(
        sign(
            "-diff((1 - c + c * M / 2) / (1 - c + c * M), M)",
            "(1-c+c M/2)/(1-c+c M) falls in M for 0 < c < 1",
            unit=("c",),
        ),
        identity("diff(alpha**n, n) == alpha**n * log(alpha)", "alpha**n falls in n, as log alpha < 0"),
        identity("(1 - x**2) / (1 - x) == 1 + x", "D(M) = g(M)/g(M/2), x = alpha**(M/2)"),
    )


def peak_identity() -> Evidence:
    """At the real maximiser, where F of Lemma 3 vanishes, D(gamma) = F(y) of Lemma 6, y = 1 - alpha**(gamma/2)."""
    p, x = sp.symbols("p gamma", positive=True)
    rate = -2 * sp.log(p) / x  # -log(alpha), with p = alpha**(gamma/2)
    q = p**2
    c = sp.Symbol("c", positive=True)
    stationary = q * rate * (1 - c + c * x) - c * (1 - q)
    cost = q * rate / (1 - q - q * rate * (x - 1))  # its root in c
    value = (1 + p) * (1 - c + c * x / 2) / (1 - c + c * x)
    sample = {"p": "1/2", "gamma": "4"}
    return all_of(
        identity(stationary.subs(c, cost), "the cost at which gamma is the maximiser", samples=[sample]),
        identity(value.subs(c, cost) - peak_function(1 - p), "D there is F of Lemma 6", samples=[sample]),
    )


def index_argument() -> Evidence:
    """The index j = floor(gamma*/2) + 1 obeys x/2 < j <= x for the real maximiser x, for gamma* >= 3.

    By the single peak gamma* - 1 < x < gamma* + 1.
    Then g(gamma*)/g(j) <= g(x)/g(x/2) = F(y) < 1.157. Even M > gamma* gives 2 j <= M; gamma* = 2 needs no bound.
    """
    # x is gamma* - 1 + 2 t with 0 < t < 1
    sides = {
        "n + 2 > (2 * (n + 1) - 1 + 2 * t) / 2": "gamma* = 2(n+1): j - x/2 > 0",
        "2 * (n + 2) - 1 + 2 * t > n + 3": "x - j > 0 from gamma* = 6 on",
        "n + 1 > (2 * n + 2 * t) / 2": "gamma* = 2n+1: j - x/2 > 0",
        "2 * (n + 1) + 2 * t > n + 2": "x - j > 0 from gamma* = 5 on",
        "3 + 2 * t > 3": "x - j > 0 at gamma* = 4",
        "2 + 2 * t > 2": "x - j > 0 at gamma* = 3",
    }
    return all_of(*[sign(relation, what, unit=("t",)) for relation, what in sides.items()])


def _near_stationary(alpha2: Fraction, c2: Fraction) -> bool:
    """Balls of both sides at the integer maximiser, looked for up to 40, are not apart."""
    peak = exact.argmax_g(alpha2, c2, 40)
    power = point(alpha2**peak)
    left = -point(alpha2).log() * peak * power / (1 - power)
    return bool(left.overlaps(point(c2 * peak / (1 - c2 + c2 * peak))))


_STATIONARY = Predicate(
    text="a2(gamma2*) = c2 gamma2*/(1 - c2 + c2 gamma2*) at the integer maximiser gamma2*",
    test=_near_stationary,
    domain={"alpha2": between(0, 1), "c2": between(0, 1)},
    premise=lambda alpha2, c2: c2 < alpha2,
    given="c2 < alpha2",
    at=[{"alpha2": "1/2", "c2": "1/26"}],
)


_AT_REAL = formula_of("LR-T3i", "correction_formula")
"""F of Lemma 3 is (1-alpha**x)(1-c+c x)/x times a(x) - c x/(1-c+c x), so both vanish together."""


_LEAST: Final = {4: "1.0902", 6: "1.1143", 8: "1.1255", 10: "1.1320", 12: "1.1362", 16: "1.1414"}
"""Even budget -> least constant, rounded up to four digits."""
_WHERE: Final = {4: "618/1000", 6: "737/1000", 8: "799/1000", 10: "838/1000", 12: "864/1000", 16: "897/1000"}
"""Even budget -> an acceptance rate next to the maximum of R_n."""
_UNIT_OF_PRINT: Final = Fraction(1, 10_000)


def _edge(budget: int, alpha2: Fraction) -> Synchronous:
    """A point at which (7) and (8) hold strictly, f(2) is next to R_n, and token-level only is not beaten.

    Its c2 is a millionth above c0; at alpha1 = 2/5 a third step does not pay, so that no other hybrid helps.
    """
    power, total = alpha2 ** (budget - 1), exact.geometric_sum(alpha2, budget - 1)
    c2 = power / (total - (budget - 2) * power) * (1 + Fraction(1, 10**6))
    ratio = speedup(alpha2, c2, budget - 1) / speedup(alpha2, c2, budget // 2)
    alpha1 = Fraction(2, 5)
    c1 = (1 + alpha1) / simplest_between(threshold(alpha2, c2, budget), ratio) - 1
    return Synchronous(alpha1, c1, alpha2, c2, Fraction(budget))


def _not_enough(budgets: Mapping[int, Fraction], rates: Mapping[int, str]) -> Cases:
    """One unit of the last digit below the constant (6) does not do."""

    def fails(M: int, alpha2: Fraction, constant: Fraction) -> bool:  # noqa: N803
        at = _edge(M, alpha2)
        return bool(at.met(strict=True) & at.six(constant - _UNIT_OF_PRINT) & ~at.hybrid_wins)

    return Cases(
        text="strict (7) and (8) hold, and (6) with 0.0001 less than the constant, and no hybrid wins",
        test=fails,
        cases=rows(*({"M": m, "alpha2": Fraction(rates[m]), "constant": least} for m, least in budgets.items())),
        where="a point for each budget " + ", ".join(map(str, budgets)),
    )


def _largest_ratio(budget: int, constant: Fraction) -> Evidence:
    """R_n < constant on (0, 1): constant A(n) - A(M - 1) + (n - 1) alpha**(M - 1) is positive once and has no root."""
    alpha, n, rate = sp.Symbol("alpha"), budget // 2, Fraction(_WHERE[budget])
    short, long = exact.geometric_sum(alpha, n), exact.geometric_sum(alpha, budget - 1)
    slack = sp.Poly(
        sp.Rational(constant.numerator, constant.denominator) * short - long + (n - 1) * alpha ** (budget - 1), alpha
    )
    what = f"R_{n} < {float(constant):.4f} at M = {budget}"
    if slack.eval(sp.Rational(rate.numerator, rate.denominator)) <= 0:
        return refutation(what, {"alpha": rate}, {})
    roots = slack.count_roots(0, 1)
    return exact_step(
        not roots, f"{what} ({roots} roots in [0, 1] of a polynomial of degree {slack.degree()})", "symbolic"
    )


def _at_the_tie() -> Evidence:
    """c0 and R_n, and that more cost brings the ratio down; p is alpha**n."""
    a, p, n, c, k = sp.symbols("alpha p n c k", positive=True)
    power = p**2 / a  # alpha**(2 n - 1)
    last, before, half = (1 - p**2) / (1 - a), (1 - power) / (1 - a), (1 - p) / (1 - a)
    rest = before - (2 * n - 2) * power
    gain = last * (1 + c * (2 * n - 2)) - before * (1 + c * (2 * n - 1))
    tie = power / rest
    ratio = before / (1 + tie * (2 * n - 2)) / (half / (1 + tie * (n - 1)))
    cost = (1 + c * (n - 1)) / (1 + c * (n + k - 1))
    return all_of(
        identity(
            gain - (power - c * rest), "g(M) > g(M - 1) exactly if c < c0 = alpha**(M-1)/(A(M-1) - (M-2) alpha**(M-1))"
        ),
        identity(ratio - (before - (n - 1) * power) / half, "g(M - 1)/g(M/2) = R_n at c0"),
        sign(-sp.diff(cost, c).subs(n, n + 1), "(1 + c (n-1))/(1 + c (n+k-1)), so g(n + k)/g(n), falls in c"),
    )


def _third_step_does_not_pay() -> Evidence:
    """At alpha1 = 2/5 and f(2) = rho <= 1.157, f(3) < f(2): so past 2 f falls, and h(i, j) <= f(2) g(n)."""
    rho = "(1 + s * 0.157)"
    gap = f"{rho} - (1 + 2/5 + (2/5)**2) / (1 + 2 * ((1 + 2/5) / {rho} - 1))"
    return prove_sign(gap, unit=("s",), what="f(2) - f(3) > 0 at alpha1 = 2/5 for 1 < f(2) < 1.157")


def _constants(statement: Predicate) -> Evidence:
    """The constants of the statement, each by its name."""
    least = {int(name.removeprefix("at_")): value for name, value in statement.numbers.items()}
    parts = [lambda m=m, value=value: _largest_ratio(m, value) for m, value in least.items()]
    return all_of(
        lambda: walked(_not_enough(least, _WHERE)),
        *parts,
        _at_the_tie,
        unimodal_proof,
        detail="For a best length k <= M/2 h(2, k) > g(k), for k >= M (7) decides, and between, where c2 > c0, "
        "g(k)/g(M/2) falls in c2 from R_n on, so f(2) > max R_n gives h(2, M/2) > g(k); step-level only is its mirror",
    )


def _gap(share: int = 1) -> Evidence:
    u, p, n = sp.symbols("u p n", positive=True)
    a = sp.exp(-u)  # and alpha**n = p, so n log(alpha) = log(p)
    power = p**2 / a
    bound = (1 - power - (n - 1) * power * (1 - a)) / (1 - p)
    gap = share * power * (n * (1 - a) + a * sp.log(p)) / (1 - p)
    return all_of(
        identity(
            peak_function(1 - p) - bound - gap,
            "F(1 - alpha**n) - R_n = n alpha**(2n-1) (1 - alpha + alpha log alpha)/(1 - alpha**n)",
        ),
        descent("exp(u) - 1 - u", "(1 - alpha)/alpha + log(alpha) > 0, alpha = exp(-u)", "u", order=2),
    )


def _gap_vanishes() -> Evidence:
    """With p = alpha**n held and n growing, n (e**u - 1 - u) with u = -log(p)/n tends to 0."""
    n, v = sp.symbols("n v", positive=True)
    value = sp.limit(n * (sp.exp(v / n) - 1 - v / n), n, sp.oo)
    return exact_step(value == 0, f"at any fixed alpha**n F - R_n tends to {value} as n grows", "symbolic")


def _asymptotic(bound: str = "1.1563", share: int = 1) -> Evidence:
    return all_of(
        lambda: walked(_NOT_AT_32),
        lambda: _gap(share),
        lambda: below_peak(bound),
        _gap_vanishes,
        _at_the_tie,
        _third_step_does_not_pay,
        threshold_falls,
        unimodal_proof,
        peak_identity,
        detail="R_n < F <= max F bounds each constant. The points that show it sharp exist at every even M: alpha1 = "
        "2/5, c2 just above c0, f(2) just below R_n; then (8) holds as f falls past 2, and (1+alpha2)/(1+c2) = D2(2) > "
        "D2(x) >= g(M-1)/g(M/2) at the real maximiser x",
    )


_NOT_AT_32 = _not_enough({32: Fraction("1.1489")}, {32: "948/1000"})
_ENOUGH = synchronous(
    "the best hybrid beats both single methods",
    lambda at: at.hybrid_wins,
    lambda at, **least: at.met(strict=True) & at.six(least[f"at_{at.budget}"]),
    "(7) and (8) strictly, min r > " + ", ".join(f"{least} at M = {m}" for m, least in _LEAST.items() if m <= 12),
    numbers={f"at_{m}": Fraction(least) for m, least in _LEAST.items()},
)


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-T3g",
        verify=lambda: all_of(threshold_at_two, threshold_falls),
        mutants={
            "at four": partial(threshold_at_two, 4),
            "rises": restated("LR-T3g", relation="doubling(alpha, c, M + 1) > doubling(alpha, c, M)"),
        },
    ),
    proved_with_fix(
        "LR-T3i",
        _STATIONARY,
        verify=lambda: with_fix(searched(_STATIONARY), prove_equalities(_AT_REAL)),
        fix=Given(prove_equalities),
        mutants={
            "sign": lambda: with_fix(
                searched(_STATIONARY),
                prove_equalities(replace(_AT_REAL, relation=_AT_REAL.relation.replace("- c * x", "+ c * x"))),
            )
        },
    ),
    proved(
        "LR-T3j",
        verify=Given(lambda statement: all_of(prove_equalities(statement), peak_identity)),
        mutants={"whole": restated("LR-T3j", change=("log(p) * p**2", "2 * log(p) * p**2"))},
    ),
    proved(
        "LR-T3k",
        _ENOUGH,
        verify=Given(_constants),
        mutants={
            name: partial(_constants, replace(_ENOUGH, numbers={m: x + shift for m, x in _ENOUGH.numbers.items()}))
            for name, shift in (("less", -_UNIT_OF_PRINT), ("more", _UNIT_OF_PRINT))
        },
    ),
    proved(
        "LR-T3l",
        verify=_asymptotic,
        mutants={"1.1562": partial(_asymptotic, "1.1562"), "twice the gap": partial(_asymptotic, "1.1563", 2)},
    ),
)
