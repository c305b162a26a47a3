"""Lookahead Decoding: its claims that are relations of closed forms, with their domains."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ledger.proving.deferred import sp
from ledger.proving.formulas import Formula, between, equal, less, whole

if TYPE_CHECKING:
    import sympy

__all__ = [
    "ALONE",
    "AVERAGED",
    "BAND",
    "CEILING",
    "COMPRESSION",
    "GROWTH",
    "ONE_SEQUENCE",
    "PRICE",
    "SINGLE",
    "TRUNCATED",
]

_ONE_PERCENT = Fraction(1, 100)
_UNIT = between(0, 1)


def _symbols() -> tuple[sympy.Symbol, ...]:
    """Alpha, gamma, b and a running index."""
    alpha = sp.Symbol("alpha", positive=True)
    return alpha, *sp.symbols("gamma b i", positive=True, integer=True)


def _single(alpha: sympy.Expr, gamma: sympy.Expr) -> sympy.Expr:
    """Equation 4."""
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


def _multi() -> sympy.Expr:
    """Equation 5."""
    alpha, gamma, b, i = _symbols()
    return gamma + 1 - sp.Sum((1 - alpha**i) ** b, (i, 1, gamma))


def _unbounded() -> sympy.Expr:
    """E(b): Equation 5 for unbounded n-grams, summed over all subsets of the b guesses."""
    alpha, _gamma, b, j = _symbols()
    return sp.Sum((-1) ** (j + 1) * sp.binomial(b, j) / (1 - alpha**j), (j, 1, b))


def _rate() -> sympy.Expr:
    return sp.log(1 / _symbols()[0])


def _mean_of_one() -> sympy.Basic:
    """The mean of the printed distribution: i tokens with (1 - alpha) alpha^(i-1), gamma + 1 with alpha^gamma."""
    alpha, gamma, _b, i = _symbols()
    mean = sp.Sum(i * (1 - alpha) * alpha ** (i - 1), (i, 1, gamma)) + (gamma + 1) * alpha**gamma
    return equal(mean, _single(alpha, gamma))


SINGLE: Final = Formula(relation=_mean_of_one, domain={"alpha": _UNIT, "gamma": whole(0, 60)}, sharp=_ONE_PERCENT)
"""LD-E4."""


def _below_ceiling() -> sympy.Basic:
    alpha, gamma, *_ = _symbols()
    tokens, ceiling = _single(alpha, gamma), 1 / (1 - alpha)
    return sp.And(less(tokens, ceiling), equal(tokens + alpha ** (gamma + 1) / (1 - alpha), ceiling))


CEILING: Final = Formula(relation=_below_ceiling, domain={"alpha": _UNIT, "gamma": whole(0, 60)}, sharp=_ONE_PERCENT)
"""LD-E4-ceiling: the distance to the ceiling falls by alpha per token."""


def _mean_of_longest() -> sympy.Basic:
    """No sequence passes its first i tokens with (1 - alpha^i)^b."""
    alpha, gamma, b, i = _symbols()

    def shorter(length: sympy.Expr) -> sympy.Expr:
        return (1 - alpha**length) ** b

    mean = sp.Sum(i * (shorter(i) - shorter(i - 1)), (i, 1, gamma)) + (gamma + 1) * (1 - shorter(gamma))
    return equal(mean, _multi())


AVERAGED: Final = Formula(
    relation=_mean_of_longest,
    domain={"alpha": _UNIT, "gamma": whole(1, 40), "b": whole(1, 40)},
    sharp=_ONE_PERCENT,
)
"""LD-E5."""


def _multi_of_one() -> sympy.Basic:
    alpha, gamma, b, _i = _symbols()
    return equal(_multi().subs(b, 1), _single(alpha, gamma))


ONE_SEQUENCE: Final = Formula(
    relation=_multi_of_one, domain={"alpha": _UNIT, "gamma": whole(0, 60)}, sharp=_ONE_PERCENT
)
"""LD-E5-one."""


def _mixed_steps() -> sympy.Basic:
    f, tokens = sp.symbols("f E", positive=True)
    return equal((f - 1 + tokens) / f, 1 / f * tokens + (1 - 1 / f))


_MANY = between(1, None, "[)")
COMPRESSION: Final = Formula(relation=_mixed_steps, domain={"f": _MANY, "E": _MANY}, sharp=_ONE_PERCENT)
"""LD-E7: a share 1/f of the steps emits E tokens, the others one."""


def _band() -> sympy.Basic:
    line = sp.harmonic(_symbols()[2]) / _rate()
    return sp.And(less(line, _unbounded()), less(_unbounded(), 1 + line))


_GUESSES: Final = {"alpha": _UNIT, "b": whole(1, 12)}
"""Guesses side by side up to twelve: the sum over their subsets alternates."""
BAND: Final = Formula(relation=_band, domain=_GUESSES, sharp=Fraction(1, 20))
"""LD-S1-band."""


def _lost_to_length() -> sympy.Basic:
    alpha, gamma, b, _i = _symbols()
    return less(_unbounded() - _multi(), b * alpha ** (gamma + 1) / (1 - alpha))


TRUNCATED: Final = Formula(
    relation=_lost_to_length,
    domain={"alpha": between("1/10", 1), "gamma": whole(1, 20), "b": whole(2, 12)},
    sharp=_ONE_PERCENT,
)
"""The correction of LD-S2; at b = 1 both sides are equal."""


def _growing() -> sympy.Basic:
    alpha, gamma, b, _i = _symbols()
    return less(1 + sp.Rational("0.63") * gamma, _multi().subs(b, alpha**-gamma))


GROWTH: Final = Formula(relation=_growing, domain={"alpha": _UNIT, "gamma": whole(1, 40)}, sharp=_ONE_PERCENT)
"""LD-S3, at b = alpha^(-gamma)."""


def _full_length() -> sympy.Basic:
    alpha, gamma, b, _i = _symbols()
    gap = gamma * (1 - alpha**gamma) ** b
    return sp.And(less(_multi(), gamma + 1), less(gamma + 1, _multi() + gap))


ALONE: Final = Formula(
    relation=_full_length,
    domain={"alpha": _UNIT, "gamma": whole(2, 20), "b": whole(1, 10_000)},
    sharp=_ONE_PERCENT,
)
"""LD-S4 for fixed gamma; at gamma = 1 the gap is the bound."""


def _dear() -> sympy.Basic:
    b = _symbols()[2]
    return less(_rate() * (_multi() - 1), sp.harmonic(b))


PRICE: Final = Formula(
    relation=_dear,
    domain={"alpha": _UNIT, "gamma": whole(1, 200), "b": whole(1, 200)},
    sharp=Fraction(1, 20),
)
"""LD-S5."""
