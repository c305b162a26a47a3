"""Lookahead Reasoning, sections 2 and 3 and Theorem 1, as formulas: drafts in cycles, one level by itself."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.formulas.forms import drafted, saturated, speedup, stationarity, symbols
from ledger.proving.cases import Predicate
from ledger.proving.deferred import sp
from ledger.proving.formulas import Formula, between, equal, less, whole

if TYPE_CHECKING:
    import sympy

__all__ = [
    "ASYNCHRONOUS_IS_FASTER",
    "CEILING",
    "CYCLE",
    "CYCLE_OF_DRAFTS",
    "FALLS_PAST_ITS_PEAK",
    "GAP_AT_A_COST",
    "NEUTRAL",
    "NEUTRAL_FLOOR",
    "SPEEDUP_OF_DRAFTS",
    "SPEEDUP_OF_TARGETS",
    "TOKENS_ADDED",
    "TOKENS_SCORED",
    "WHOLE_SEQUENCE",
]

_UNIT = between(0, 1)
_COST = between(0, 1, "[)")
_ONE_PERCENT = Fraction(1, 100)


def _cycle(alpha: sympy.Expr, c: sympy.Expr, drafts: sympy.Expr) -> sympy.Expr:
    """Algorithm 1: a first rejection at draft j emits j + 1 steps, no rejection emits drafts + 1."""
    j = sp.Symbol("j", integer=True, nonnegative=True)
    emitted = sp.Sum((j + 1) * alpha**j * (1 - alpha), (j, 0, drafts - 1)) + (drafts + 1) * alpha**drafts
    return emitted / (1 + c * drafts)


def _drafted_is_cycle() -> sympy.Basic:
    alpha, c, gamma = symbols("alpha c gamma")
    return equal(_cycle(alpha, c, gamma), drafted(alpha, c, gamma))


CYCLE: Final = Formula(
    relation=_drafted_is_cycle, domain={"alpha": _UNIT, "c": _COST, "gamma": whole(0, 40)}, sharp=_ONE_PERCENT
)
"""LR-B1."""


def _ceiling() -> sympy.Basic:
    alpha, c, gamma = symbols("alpha c gamma")
    return less(drafted(alpha, c, gamma), 1 / (1 - alpha))


CEILING: Final = Formula(
    relation=_ceiling,
    domain={"alpha": _UNIT, "c": _COST, "gamma": between(0, None, "[)")},
    sharp=_ONE_PERCENT,
)
"""LR-B2."""


def _gap() -> sympy.Basic:
    alpha, c, gamma = symbols("alpha c gamma")
    return drafted(alpha, c, gamma) <= sp.Max(1 - alpha**2, 1 / (1 + c)) / (1 - alpha)


GAP_AT_A_COST: Final = Formula(
    relation=_gap, domain={"alpha": _UNIT, "c": _UNIT, "gamma": between(0, None)}, sharp=_ONE_PERCENT
)
"""LR-B3: a bound below 1/(1 - alpha) for every c > 0."""


def _all_accepted(gamma: sympy.Expr) -> sympy.Expr:
    """From the law of the first rejection."""
    (alpha,) = symbols("alpha")
    j = sp.Symbol("j", integer=True, nonnegative=True)
    return 1 - sp.Sum(alpha**j * (1 - alpha), (j, 0, gamma - 1))


def _geometric() -> sympy.Basic:
    alpha, gamma = symbols("alpha gamma")
    return equal(_all_accepted(gamma + 1), alpha * _all_accepted(gamma))


WHOLE_SEQUENCE: Final = Formula(relation=_geometric, domain={"alpha": _UNIT, "gamma": whole(0, 4)}, sharp=_ONE_PERCENT)
"""LR-B4; of longer sequences a small alpha leaves less than balls tell from nothing."""


def _falls() -> sympy.Basic:
    alpha, c, x, more = symbols("alpha c x more")
    return less(speedup(alpha, c, x + more), speedup(alpha, c, x))


def _past_its_peak() -> sympy.Basic:
    alpha, c, x = symbols("alpha c x")
    return less(stationarity(alpha, c, x), sp.Integer(0))


FALLS_PAST_ITS_PEAK: Final = Formula(
    relation=_falls,
    domain={"alpha": _UNIT, "c": _UNIT, "x": between(1, None), "more": between(0, 5)},
    premise=_past_its_peak,
    sharp=_ONE_PERCENT,
)
"""LR-B5."""


def _speedup_of_drafts(offset: int) -> sympy.Basic:
    alpha, c, gamma = symbols("alpha c gamma1")
    return equal(speedup(alpha, c, gamma + offset), _cycle(alpha, c, gamma))


_DRAFTS: Final = {"alpha": _UNIT, "c": _UNIT, "gamma1": whole(1, 40)}


def _as_printed() -> sympy.Basic:
    return _speedup_of_drafts(0)


def _one_more() -> sympy.Basic:
    return _speedup_of_drafts(1)


SPEEDUP_OF_DRAFTS: Final = Formula(relation=_as_printed, domain=_DRAFTS)
"""LR-S1 as printed."""
CYCLE_OF_DRAFTS: Final = Formula(relation=_one_more, domain=_DRAFTS, sharp=_ONE_PERCENT)
"""Its correction."""


def _speedup_of_targets() -> sympy.Basic:
    alpha, c, k = symbols("alpha c k")
    return equal(speedup(alpha, c, k), _cycle(alpha, c, k - 1))


SPEEDUP_OF_TARGETS: Final = Formula(
    relation=_speedup_of_targets, domain={"alpha": _UNIT, "c": _UNIT, "k": whole(1, 40)}, sharp=_ONE_PERCENT
)
"""LR-T1."""


def _tokens(offset: int) -> sympy.Basic:
    alpha, c, k = symbols("alpha c k2")
    return equal(speedup(alpha, c, k + offset), drafted(alpha, c, k))


def _added() -> sympy.Basic:
    return _tokens(0)


def _scored() -> sympy.Basic:
    return _tokens(1)


_TOKENS: Final = {"alpha": _UNIT, "c": _COST, "k2": whole(1, 40)}
TOKENS_ADDED: Final = Formula(relation=_added, domain=_TOKENS)
"""LR-S2 as printed."""
TOKENS_SCORED: Final = Formula(relation=_scored, domain=_TOKENS, sharp=_ONE_PERCENT)
"""Its correction."""


def _neutral(switch: str) -> Predicate:
    def all_one(alpha: Fraction, c: Fraction) -> bool:
        return bool(exact.f_async(alpha, c, 1, switch=switch) == exact.f_sync(alpha, c, 1) == exact.g(alpha, c, 1) == 1)

    return Predicate(
        text=f"f(1) = g(1) = 1 with the switching point {switch}(1/c1)",
        test=all_one,
        domain={"alpha": _UNIT, "c": _UNIT},
    )


NEUTRAL_FLOOR, NEUTRAL = _neutral("floor"), _neutral("ceil")
"""LR-S3 as printed, and its correction."""


def _asynchronous_is_faster() -> sympy.Basic:
    alpha, c, k = symbols("alpha1 c1 k")
    return less(speedup(alpha, c, k), saturated(alpha, c, k))


def _limited() -> sympy.Basic:
    c, k = symbols("c1 k")
    return less(k, 1 / c)


ASYNCHRONOUS_IS_FASTER: Final = Formula(
    relation=_asynchronous_is_faster,
    domain={"alpha1": _UNIT, "c1": _UNIT, "k": whole(2, 60)},
    premise=_limited,
    sharp=_ONE_PERCENT,
)
"""LR-S7, where the depth is limited."""
