"""Lookahead Reasoning: claims that are inequalities, as formulas with their domains."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from theory.claims.lookahead_reasoning.hybrid.lemma_6 import peak_function
from theory.claims.lookahead_reasoning.statements import speedup
from theory.claims.proving.deferred import sp
from theory.claims.proving.formulas import Formula, between, whole

if TYPE_CHECKING:
    import sympy

__all__ = ["FORMULAS"]

_UNIT = between(0, 1)
_ONE_PERCENT = Fraction(1, 100)
_BOX: Final = {
    **{"alpha1": between("1/2", "4/5"), "alpha2": between("1/2", "4/5")},
    **{"c1": between(0, "1/3"), "c2": between(0, "1/5"), "M": whole(16, None, 2)},
}
"""Lemma 1."""


def _symbols(names: str) -> tuple[sympy.Symbol, ...]:
    return tuple(sp.symbols(names, positive=True))


def _saturated(alpha: sympy.Expr, c: sympy.Expr, gamma: sympy.Expr) -> sympy.Expr:
    """S2."""
    power = alpha**gamma
    return (1 - power) / (1 - alpha + c * alpha * (1 - power) - c * gamma * power * (1 - alpha))


def _g(alpha: sympy.Expr, c: sympy.Expr, gamma: sympy.Expr) -> sympy.Expr:
    """The speedup of speculative decoding with gamma drafted tokens (section 2)."""
    return (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (1 + c * gamma))


def _ceiling() -> sympy.Basic:
    alpha, c, gamma = _symbols("alpha c gamma")
    return _g(alpha, c, gamma) < 1 / (1 - alpha)


def _asynchronous_is_faster() -> sympy.Basic:
    alpha, c, k = _symbols("alpha1 c1 k")
    return _saturated(alpha, c, k) > speedup(alpha, c, k)


def _d(alpha: sympy.Expr, c: sympy.Expr, budget: sympy.Expr) -> sympy.Expr:
    return (1 + alpha ** (budget / 2)) * (1 - c + c * budget / 2) / (1 - c + c * budget)


def _one_of_two() -> sympy.Basic:
    a1, a2, c1, c2, budget = _symbols("alpha1 alpha2 c1 c2 M")
    return sp.Or((1 + a1) / (1 + c1) >= _d(a2, c2, budget), (1 + a2) / (1 + c2) >= _d(a1, c1, budget))


def _above_the_constraint(alpha1: Fraction, alpha2: Fraction, c1: Fraction, c2: Fraction, **_: Fraction) -> bool:
    """(6)."""
    return min((1 + alpha1) / (1 + c1), (1 + alpha2) / (1 + c2)) > Fraction("1.157")


def _d_falls() -> sympy.Basic:
    alpha, c, budget = _symbols("alpha c M")
    return _d(alpha, c, budget + 1) < _d(alpha, c, budget)


def _w(gamma: sympy.Expr) -> sympy.Expr:
    a1, a2, c1, c2, budget = _symbols("alpha1 alpha2 c1 c2 M")
    return _saturated(a1, c1, gamma) * speedup(a2, c2, budget / gamma)


def _two_steps() -> sympy.Basic:
    return _w(sp.Integer(2)) > _w(sp.Integer(1))


def _two_tokens() -> sympy.Basic:
    (budget,) = _symbols("M,")
    return _w(budget / 2) > _w(budget)


def _deeper_is_faster() -> sympy.Basic:
    alpha, c, gamma = _symbols("alpha1 c1 gamma")
    return _saturated(alpha, c, gamma + 1) > _saturated(alpha, c, gamma)


def _second_token() -> sympy.Basic:
    alpha, c = _symbols("alpha2 c2")
    return speedup(alpha, c, sp.Integer(2)) > speedup(alpha, c, sp.Integer(1))


def _a(alpha: sympy.Expr, x: sympy.Expr) -> sympy.Expr:
    return -sp.log(alpha) * x * alpha**x / (1 - alpha**x)


def _a_falls() -> sympy.Basic:
    alpha, x, more = _symbols("alpha x more")
    return _a(alpha, x + more) < _a(alpha, x)


def _a_rises() -> sympy.Basic:
    alpha, x, more = _symbols("alpha x more")
    return _a(alpha + more * (sp.Rational(4, 5) - alpha), x) > _a(alpha, x)


def _a_from_ten() -> sympy.Basic:
    alpha, x = _symbols("alpha x")
    return _a(alpha, x) < _a(sp.Rational(4, 5), sp.Integer(10))


def _peak() -> sympy.Basic:
    (y,) = _symbols("y,")
    return peak_function(y) < sp.Rational("1.157")


FORMULAS: Final[Mapping[str, Formula]] = {
    "LR-B2": Formula(
        relation=_ceiling, domain={"alpha": _UNIT, "c": _UNIT, "gamma": between(0, None)}, sharp=_ONE_PERCENT
    ),
    "LR-S7": Formula(
        relation=_asynchronous_is_faster,
        domain={"alpha1": _UNIT, "c1": _UNIT, "k": whole(2, 60)},
        premise=lambda c1, k, **_: k < 1 / c1,
        sharp=_ONE_PERCENT,
    ),
    "LR-T3a": Formula(
        relation=_one_of_two,
        domain={"alpha1": _UNIT, "alpha2": _UNIT, "c1": _UNIT, "c2": _UNIT, "M": whole(4, None, 2)},
        premise=_above_the_constraint,
        sharp=_ONE_PERCENT,
    ),
    "LR-T3g": Formula(
        relation=_d_falls, domain={"alpha": _UNIT, "c": _UNIT, "M": between(2, None)}, sharp=_ONE_PERCENT
    ),
    "LR-L1a": Formula(
        relation=_two_steps,
        domain=_BOX,
        room="w(2) / w(1) is at least 1.186 where tried, at M = 16 and costs near their ends",
    ),
    "LR-L1b": Formula(
        relation=_two_tokens,
        domain=_BOX,
        room="w(M/2) / w(M) is at least 1.07 where tried, at M = 16, alpha1 near 4/5, alpha2 near 1/2 and c2 near 1/5",
    ),
    "LR-L2a": Formula(
        relation=_deeper_is_faster,
        domain={"alpha1": _UNIT, "c1": _UNIT, "gamma": whole(1, 60)},
        premise=lambda c1, gamma, **_: gamma + 1 <= 1 / c1,
        sharp=_ONE_PERCENT,
    ),
    "LR-L3b": Formula(
        relation=_second_token,
        domain={"alpha2": _UNIT, "c2": _UNIT},
        premise=lambda alpha2, c2: c2 < alpha2,
        sharp=_ONE_PERCENT,
    ),
    "LR-L4a": Formula(
        relation=_a_falls,
        domain={"alpha": between("1/2", "4/5"), "x": between(1, None), "more": between(0, 5)},
        sharp=_ONE_PERCENT,
    ),
    "LR-L4c": Formula(
        relation=_a_rises,
        domain={"alpha": between("1/2", "4/5"), "x": between(1, None), "more": _UNIT},
        sharp=_ONE_PERCENT,
    ),
    "LR-L4e": Formula(
        relation=_a_from_ten, domain={"alpha": between("1/2", "4/5"), "x": between(10, None)}, sharp=_ONE_PERCENT
    ),
    "LR-L6a": Formula(relation=_peak, domain={"y": _UNIT}, sharp=_ONE_PERCENT),
}
"""Claim to its formula."""
