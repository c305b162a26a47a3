"""Lookahead Reasoning, Theorem 2, as exact tests: draft stages from their timeline."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from ledger.lookahead_reasoning import exact
from ledger.proving.cases import Predicate
from ledger.proving.domains import Domain, between, whole

__all__ = [
    "BOTH_CASES",
    "DIMENSION",
    "DIMENSION_FLOOR",
    "FIGURE_1",
    "FREE",
    "FREE_FLOOR",
    "LIMITED",
    "LONGER",
    "LONGER_FLOOR",
    "ONE_CASE",
    "in_flight",
    "speedup_from_timeline",
    "switching_point",
]

_UNIT = between(0, 1)


def switching_point(c1: Fraction, rule: str) -> int:
    """``ceil(1/c1)`` or ``floor(1/c1)``."""
    return exact.ceil_inverse(c1) if rule == "ceil" else exact.floor_inverse(c1)


def speedup_from_timeline(alpha1: Fraction, c1: Fraction, gamma: int) -> Fraction:
    """(1 + E[X]) / E[stage time], X geometric.

    A stage with gamma more accepted drafts lasts T longer, so its mean over the first gamma lengths, A, gives the mean
    over all: (A + alpha^gamma) / (1 - alpha^gamma).
    """
    times = [exact.stage_time(c1, gamma, accepted) for accepted in range(gamma)]
    first = sum(((1 - alpha1) * alpha1**x * time for x, time in enumerate(times)), Fraction(0))
    mean = (first + alpha1**gamma) / (1 - alpha1**gamma)
    return 1 / (1 - alpha1) / mean


def in_flight(c: Fraction, gamma: int) -> int:
    """Most target generations that run at once in a long stage."""
    starts = exact.stage_steps(c, gamma, 4 * gamma + 4)
    return max(sum(start <= now < start + 1 for start in starts) for now in starts)


FIGURE_1: Final = Predicate(
    text="three drafts, the third rejected: done after 2 t + T",
    test=lambda c1: exact.stage_time(c1, 3, 2) == 1 + 2 * c1,
    domain={"c1": between(0, "1/3", "(]")},
)
"""LR-F1."""
_STAGE: Final[Domain] = {"c1": _UNIT, "gamma": whole(1, 12), "accepted": whole(0, 40)}


def _from(rule: str, name: str) -> Callable[..., bool]:
    """The depth reaches the switching point."""
    return lambda **at: bool(at[name] >= switching_point(at["c1"], rule))


def _free(rule: str) -> Predicate:
    return Predicate(
        text="a stage lasts T + c1 T X",
        test=lambda c1, gamma, accepted: exact.stage_time(c1, int(gamma), int(accepted)) == 1 + c1 * accepted,
        domain=_STAGE,
        premise=_from(rule, "gamma"),
        given=f"gamma >= {rule}(1/c1)",
    )


FREE_FLOOR, FREE = _free("floor"), _free("ceil")
"""LR-S4 as printed; its correction, which is LR-T2a."""


def _limited_stage(alpha1: Fraction, c1: Fraction, gamma: Fraction) -> bool:
    depth = int(gamma)
    lasts = all(exact.stage_time(c1, depth, x) == -(-(x + 1) // depth) + c1 * (x % depth) for x in range(2 * depth + 2))
    return lasts and exact.f_saturated(alpha1, c1, depth) == speedup_from_timeline(alpha1, c1, depth)


LIMITED: Final = Predicate(
    text="a stage lasts ceil((X+1)/gamma) T + c1 T (X mod gamma), and the speedup of the timeline is S2",
    test=_limited_stage,
    domain={"alpha1": _UNIT, "c1": _UNIT, "gamma": whole(1, 12)},
    premise=lambda alpha1, c1, gamma: gamma < exact.ceil_inverse(c1),
    given="gamma < ceil(1/c1)",
)
"""LR-T2b."""
_DEPTH: Final[Domain] = {"c1": _UNIT, "k1": whole(1, 40)}
LONGER_FLOOR: Final = Predicate(
    text="generating k1 drafts takes at least T",
    test=lambda c1, k1: k1 * c1 >= 1,
    domain=_DEPTH,
    premise=_from("floor", "k1"),
    given="k1 >= floor(1/c1)",
)
"""LR-S5 as printed."""
LONGER: Final = Predicate(
    text="k1 c1 >= 1 exactly when k1 >= ceil(1/c1)",
    test=lambda c1, k1: (k1 * c1 >= 1) is (k1 >= exact.ceil_inverse(c1)),
    domain=_DEPTH,
)
"""Its correction."""


def _both_cases(first: str) -> Predicate:
    def agree(alpha1: Fraction, c1: Fraction, gamma: Fraction) -> bool:
        return bool(exact.f_unsaturated(alpha1, c1) == exact.f_saturated(alpha1, c1, int(gamma)))

    def where_both(alpha1: Fraction, c1: Fraction, gamma: Fraction) -> bool:
        return switching_point(c1, first) <= gamma < exact.ceil_inverse(c1)

    return Predicate(
        text="S1 = S2 where both cases apply",
        test=agree,
        domain={"alpha1": _UNIT, "c1": _UNIT, "gamma": whole(1, 40)},
        premise=where_both,
        given=f"{first}(1/c1) <= gamma < ceil(1/c1)",
    )


BOTH_CASES: Final = _both_cases("floor")
"""LR-T2c as printed."""
ONE_CASE: Final = Predicate(
    text="the speedup of the timeline is S1 from ceil(1/c1) on and S2 below",
    test=lambda alpha1, c1, gamma: (
        speedup_from_timeline(alpha1, c1, int(gamma)) == exact.f_saturated(alpha1, c1, int(gamma))
        if gamma < exact.ceil_inverse(c1)
        else all(exact.stage_time(c1, int(gamma), x) == 1 + c1 * x for x in range(2 * int(gamma) + 2))
    ),
    domain={"alpha1": _UNIT, "c1": _UNIT, "gamma": whole(1, 12)},
)
"""Its correction."""


def _dimension(rule: str) -> Predicate:
    return Predicate(
        text=f"the parallel dimension of the target is min({rule}(1/c1), gamma)",
        test=lambda c1, gamma: in_flight(c1, int(gamma)) == min(switching_point(c1, rule), gamma),
        domain={"c1": _UNIT, "gamma": whole(1, 12)},
    )


DIMENSION_FLOOR, DIMENSION = _dimension("floor"), _dimension("ceil")
"""LR-T2d as printed; its correction, which is LR-S8."""
