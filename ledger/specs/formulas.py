"""SPECS: claims that are inequalities or equalities, as formulas with their domains.

Two letters: target probability ``t`` of letter 1, exponentiated reward ``w`` of letter 2 (1 of letter 1), a policy that
gives letter 1 probability ``p`` and the optimum, which gives it ``t / (t + (1 - t) w)``.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ledger.proving.deferred import sp
from ledger.proving.formulas import Formula, between, equal, whole

if TYPE_CHECKING:
    import sympy

__all__ = [
    "BEST_OBJECTIVE",
    "DRIFT_OF_OPTIMUM",
    "HALVED_FACTOR",
    "HITS_ITS_MEAN",
    "KL_BELOW_CHI2",
    "LAST_FACTOR",
    "OBJECTIVE_GAP",
    "OBJECTIVE_OF_OPTIMUM",
    "OVER_CEILING",
    "POWER_PRINTED",
    "POWER_TURNED",
    "TWO_INTEGRALS",
    "TWO_LETTER_TRANSFORM",
]

_ONE_PERCENT: Final = Fraction(1, 100)
_UNIT: Final = between(0, 1)
_POSITIVE: Final = between(0, None)


def _symbols(names: str) -> tuple[sympy.Symbol, ...]:
    return tuple(sp.symbols(names, positive=True))


def _divergence(p: sympy.Expr, q: sympy.Expr) -> sympy.Expr:
    """Of (p, 1 - p) from (q, 1 - q)."""
    return p * sp.log(p / q) + (1 - p) * sp.log((1 - p) / (1 - q))


def _optimum(t: sympy.Expr, w: sympy.Expr) -> sympy.Expr:
    return t / (t + (1 - t) * w)


def _objective(p: sympy.Expr, t: sympy.Expr, w: sympy.Expr) -> sympy.Expr:
    """Beta times Equation 2."""
    return (1 - p) * sp.log(w) - _divergence(p, t)


def _objective_of_optimum() -> sympy.Basic:
    t, w = _symbols("t w")
    return equal(_objective(_optimum(t, w), t, w), sp.log(t + (1 - t) * w))


def _best_objective() -> sympy.Basic:
    """Policies between the optimum (u = 0) and an even one (u = 1)."""
    t, w, u = _symbols("t w u")
    policy = (1 - u) * _optimum(t, w) + u / 2
    return sp.Le(_objective(policy, t, w), sp.log(t + (1 - t) * w), evaluate=False)


def _objective_gap() -> sympy.Basic:
    beta, t, w, p = _symbols("beta t w p")
    gap = sp.log(t + (1 - t) * w) - _objective(p, t, w)
    return equal(gap / beta, _divergence(p, _optimum(t, w)) / beta)


def _kl_below_chi2() -> sympy.Basic:
    p, q = _symbols("p q")
    return sp.Le(_divergence(p, q), sp.log(p**2 / q + (1 - p) ** 2 / (1 - q)), evaluate=False)


def _drift_of_optimum() -> sympy.Basic:
    """What a policy p loses where the optimum moves from ``own`` to q: at most the largest ratio of the two."""
    p, q, own = _symbols("p q own")
    largest = sp.Max(sp.log(own / q), sp.log((1 - own) / (1 - q)))
    return sp.Le(_divergence(p, q) - _divergence(p, own), largest, evaluate=False)


def _over_ceiling() -> sympy.Basic:
    beta, n = _symbols("beta n")
    return sp.exp(2 * beta) / n ** sp.Rational(3, 2) > beta


def _factor(half: int) -> Callable[[], sympy.Basic]:
    """The last line of the proof of Lemma 6: the factor left over is at most one."""

    def built() -> sympy.Basic:
        (p,) = _symbols("p,")
        return sp.Le(1 / (half * (1 - p) ** 2), sp.Integer(1), evaluate=False)

    return built


def _two_letter_transform() -> sympy.Basic:
    """Equation 22: letters of weight 1 and theta, the first one theta times as likely."""
    theta, s = _symbols("theta s")
    first = theta / (1 + theta)
    return equal(
        first * sp.exp(-s) + (1 - first) * sp.exp(-s * theta), (theta * sp.exp(-s) + sp.exp(-s * theta)) / (1 + theta)
    )


def _power(kind: str) -> Callable[[], sympy.Basic]:
    """Before the end of the proof of Theorem 5."""

    def built() -> sympy.Basic:
        theta, n = _symbols("theta n")
        left = (1 - (1 + theta) / (2 * theta * n)) ** (theta - 1)
        relation: sympy.Basic = getattr(sp, kind)(left, 1 - (1 + theta) / (4 * n), evaluate=False)
        return relation

    return built


def _at_least_theta() -> sympy.Basic:
    theta, n = _symbols("theta n")
    return n >= theta


def _hits_its_mean() -> sympy.Basic:
    n = sp.Symbol("n", positive=True)
    return n**n * sp.exp(-n) / sp.gamma(n + 1) >= sp.exp(-1) / sp.sqrt(n)


def _two_integrals() -> sympy.Basic:
    """Lemmas 6 and 7 together: log(1 + sum of the two bounds)."""
    n, kappa = sp.symbols("n kappa", positive=True)
    p = 4 * sp.log(n) / n
    return sp.log(sp.exp(p**2 * (kappa - 1) ** 2) + 4 * kappa / n**2) <= 8 * p**2 * kappa**2


OBJECTIVE_OF_OPTIMUM: Final = Formula(
    relation=_objective_of_optimum, domain={"t": _UNIT, "w": _POSITIVE}, sharp=_ONE_PERCENT
)
BEST_OBJECTIVE: Final = Formula(
    relation=_best_objective, domain={"t": _UNIT, "w": _POSITIVE, "u": _UNIT}, sharp=_ONE_PERCENT
)
OBJECTIVE_GAP: Final = Formula(
    relation=_objective_gap,
    domain={"beta": _POSITIVE, "t": _UNIT, "w": _POSITIVE, "p": _UNIT},
    sharp=_ONE_PERCENT,
)
KL_BELOW_CHI2: Final = Formula(relation=_kl_below_chi2, domain={"p": _UNIT, "q": _UNIT}, sharp=_ONE_PERCENT)
DRIFT_OF_OPTIMUM: Final = Formula(
    relation=_drift_of_optimum, domain={"p": _UNIT, "q": _UNIT, "own": _UNIT}, sharp=_ONE_PERCENT
)
OVER_CEILING: Final = Formula(
    relation=_over_ceiling,
    domain={"beta": between(8, None, "[)"), "n": whole(1, 16)},
    room="the bound is at least 17,000 times the ceiling",
)
LAST_FACTOR: Final = Formula(relation=_factor(2), domain={"p": between(0, "7/10", "[]")})
HALVED_FACTOR: Final = Formula(relation=_factor(4), domain={"p": between(0, "1/2", "[]")}, sharp=_ONE_PERCENT)
TWO_LETTER_TRANSFORM: Final = Formula(
    relation=_two_letter_transform, domain={"theta": between(1, None, "[)"), "s": _POSITIVE}, sharp=_ONE_PERCENT
)
_LARGE: Final = {"theta": between(2, None, "[)"), "n": between(2, None, "[)")}
POWER_PRINTED: Final = Formula(relation=_power("Ge"), domain=_LARGE, premise=_at_least_theta)
POWER_TURNED: Final = Formula(relation=_power("Le"), domain=_LARGE, premise=_at_least_theta, sharp=_ONE_PERCENT)
HITS_ITS_MEAN: Final = Formula(relation=_hits_its_mean, domain={"n": whole(1, 400)}, sharp=_ONE_PERCENT)
TWO_INTEGRALS: Final = Formula(
    relation=_two_integrals,
    domain={"n": whole(3, 10_000), "kappa": between(1, 200)},
    room="8 is generous: where tried, to kappa = 10^5, the quotient stays below 1, which it nears as kappa grows",
)
