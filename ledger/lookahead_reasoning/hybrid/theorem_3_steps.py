"""Lookahead Reasoning, Theorem 3: the steps of its proof that stand by themselves.

D(M) = (1 + alpha**(M/2))(1 - c + c M/2)/(1 - c + c M) is the ratio g(M)/g(M/2) of one level.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.forms import peak_function
from ledger.proving.balls import point
from ledger.proving.cases import Predicate
from ledger.proving.deferred import sp
from ledger.proving.formulas import between
from ledger.proving.records import proved, proved_with_fix
from ledger.proving.tools import all_of, identity, prove_identity, prove_sign, refute, screened, with_fix

__all__ = ["CLAIMS", "index_argument", "peak_identity", "threshold_at_two", "threshold_falls"]


def threshold_at_two(value: int = 2) -> Evidence:
    """D(2) = (1 + alpha)/(1 + c)."""
    from ledger.lookahead_reasoning import statements as st

    shown = (1 + st.ALPHA) / (1 + st.C)
    difference = st.doubling_ratio().subs(st.GAMMA, value) - shown
    return prove_identity(difference, what=f"D({value}) = (1+alpha)/(1+c)", samples=[{"alpha": "1/2", "c": "1/4"}])


def threshold_falls(sign: int = 1) -> Evidence:
    """Both factors of D fall strictly in M: alpha**(M/2) does, and so does the ratio of pass times."""

    def holds(alpha: Fraction, c: Fraction, M: Fraction) -> bool:  # noqa: N803
        here, later = (exact.doubling_ratio(alpha, c, int(M) // 2 + i) for i in (0, 1))
        return bool(sign * (here - later) > 0)

    grid = ({"alpha": a, "c": c, "M": m} for a in ("1/2", "9/10") for c in ("1/10", "1/2") for m in ("2", "8"))
    c, m = sp.symbols("c M", positive=True)
    times = (1 - c + c * m / 2) / (1 - c + c * m)
    a, n = sp.symbols("alpha n", positive=True)
    x = sp.Symbol("x", positive=True)
    both = exact.geometric_sum(x, 2)  # 1 + x with x = alpha**(M/2)
    ratio = (1 - x**2) / (1 - x) - both
    return screened(
        refute(holds, grid, what="D falls in M"),
        lambda: prove_sign(-sp.diff(times, m), unit=("c",), what="(1-c+c M/2)/(1-c+c M) falls in M for 0 < c < 1"),
        identity(sp.diff(a**n, n) - a**n * sp.log(a), "alpha**n falls in n, as log alpha < 0"),
        identity(ratio, "D(M) = g(M)/g(M/2)"),
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
        lambda: prove_identity(
            stationary.subs(c, cost), what="the cost at which gamma is the maximiser", samples=[sample]
        ),
        lambda: prove_identity(
            value.subs(c, cost) - peak_function(1 - p), what="D there is F of Lemma 6", samples=[sample]
        ),
    )


def index_argument() -> Evidence:
    """The index j = floor(gamma*/2) + 1 obeys x/2 < j <= x for the real maximiser x, for gamma* >= 3.

    By the single peak gamma* - 1 < x < gamma* + 1.
    Then g(gamma*)/g(j) <= g(x)/g(x/2) = F(y) < 1.157. Even M > gamma* gives 2 j <= M; gamma* = 2 needs no bound.
    """
    n, t = sp.symbols("n t", positive=True)
    even_x, odd_x = 2 * (n + 1) - 1 + 2 * t, 2 * n + 2 * t  # gamma* - 1 + 2 t with 0 < t < 1
    return all_of(
        lambda: prove_sign(sp.expand((n + 2) - even_x / 2), unit=("t",), what="gamma* = 2(n+1): j - x/2 > 0"),
        lambda: prove_sign(
            sp.expand(even_x - (n + 2)).subs(n, n + 1), unit=("t",), what="x - j > 0 from gamma* = 6 on"
        ),
        lambda: prove_sign(sp.expand((n + 1) - odd_x / 2), unit=("t",), what="gamma* = 2n+1: j - x/2 > 0"),
        lambda: prove_sign(sp.expand(odd_x - (n + 1)).subs(n, n + 1), unit=("t",), what="x - j > 0 from gamma* = 5 on"),
        lambda: prove_sign(sp.expand(even_x - (n + 2)).subs(n, 1), unit=("t",), what="x - j > 0 at gamma* = 4"),
        lambda: prove_sign(sp.expand(odd_x - (n + 1)).subs(n, 1), unit=("t",), what="x - j > 0 at gamma* = 3"),
    )


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


def _stationary_at_real(sign: int = 1) -> Evidence:
    """F of Lemma 3 is (1-alpha**x)(1-c+c x)/x times a(x) - c x/(1-c+c x), so both vanish together."""
    from ledger.lookahead_reasoning.statements import stationarity

    a, c, x = sp.symbols("alpha c x", positive=True)
    condition = -x * sp.log(a) * a**x / (1 - a**x) - sign * c * x / (1 - c + c * x)
    return prove_identity(
        stationarity(a, c, x) - condition * (1 - a**x) * (1 - c + c * x) / x,
        what="the stationarity condition at the real maximiser",
        samples=[{"alpha": "1/2", "c": "1/4", "x": "2"}],
    )


def _substitution(share: str) -> Evidence:
    """(1 + p)(1 - share a) = F(1 - p) with p = alpha**(gamma/2), a = -log(p**2) p**2/(1 - p**2)."""
    p = sp.Symbol("p", positive=True)
    a = -2 * sp.log(p) * p**2 / (1 - p**2)
    left = (1 + p) * (1 - sp.Rational(share) * a)
    return prove_identity(left - peak_function(1 - p), what="the substitution", samples=[{"p": "1/2"}])


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-T3g",
        verify=lambda: all_of(threshold_at_two, threshold_falls),
        mutants={"at four": partial(threshold_at_two, 4), "rises": partial(threshold_falls, -1)},
    ),
    proved_with_fix(
        "LR-T3i",
        formula=_STATIONARY,
        verify=lambda: _STATIONARY,
        correction_verify=_stationary_at_real,
        mutants={"sign": partial(with_fix, lambda: _STATIONARY, lambda: _stationary_at_real(-1))},
    ),
    proved(
        "LR-T3j",
        verify=lambda: all_of(lambda: _substitution("1/2"), peak_identity),
        mutants={"whole": partial(_substitution, "1")},
    ),
)
