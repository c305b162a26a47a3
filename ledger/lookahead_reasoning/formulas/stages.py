"""Lookahead Reasoning, Theorem 2 and Appendix C, as formulas: stages from their exact timeline, and their means."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.formulas.forms import symbols
from ledger.proving.cases import Predicate
from ledger.proving.deferred import sp
from ledger.proving.domains import Domain
from ledger.proving.formulas import Formula, between, equal, whole

if TYPE_CHECKING:
    import sympy

__all__ = [
    "ACCEPTED",
    "BOTH_CASES",
    "DIMENSION",
    "DIMENSION_FLOOR",
    "FIGURE_1",
    "FREE",
    "FREE_FLOOR",
    "INTERVAL",
    "INTERVALS",
    "LIMITED",
    "LONGER",
    "LONGER_FLOOR",
    "ONE_CASE",
    "REMAINDER",
    "REMAINDERS",
    "SATURATED",
    "SATURATED_PRINTED",
    "in_flight",
    "speedup_from_timeline",
    "switching_point",
]

_UNIT = between(0, 1)
_ONE_PERCENT = Fraction(1, 100)


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


def _law() -> tuple[sympy.Symbol, sympy.Symbol, sympy.Symbol]:
    """Alpha, the depth and a running index."""
    alpha, k = symbols("alpha1 k1")
    return alpha, k, sp.Symbol("r", integer=True, nonnegative=True)


def _remainder_mean() -> sympy.Expr:
    alpha, k, r = _law()
    return sp.Sum(r * (1 - alpha) * alpha**r / (1 - alpha**k), (r, 0, k - 1))


def _saturated_by_means(exponent: str) -> sympy.Basic:
    """S2 with an exponent as printed against (1 + E[X]) / (E[ceil((X+1)/k1)] + c1 E[X mod k1])."""
    alpha, k, _r = _law()
    c, other = symbols(f"c1 {exponent}")
    bracket = alpha - alpha ** (other + 1) - k * (1 - alpha) * alpha**k
    mean_time = 1 / (1 - alpha**k) + c * _remainder_mean()
    return equal((1 - alpha**k) / ((1 - alpha) + c * bracket), 1 / (1 - alpha) / mean_time)


def _printed_exponent() -> sympy.Basic:
    return _saturated_by_means("k")


def _meant_exponent() -> sympy.Basic:
    return _saturated_by_means("k1")


_SATURATED: Final[Domain] = {"alpha1": _UNIT, "c1": _UNIT, "k1": whole(1, 40)}
SATURATED_PRINTED: Final = Formula(relation=_printed_exponent, domain={**_SATURATED, "k": whole(1, 40)})
"""LR-S6 as printed."""
SATURATED: Final = Formula(relation=_meant_exponent, domain=_SATURATED, sharp=_ONE_PERCENT)
"""Its correction."""


def _accepted() -> sympy.Basic:
    alpha, k, j = _law()
    partial_mean = sp.Sum(j * (1 - alpha) * alpha**j, (j, 0, k - 1))
    rest = alpha**k * (k + alpha / (1 - alpha))
    return equal(partial_mean + rest, alpha / (1 - alpha))


ACCEPTED: Final = Formula(relation=_accepted, domain={"alpha1": _UNIT, "k1": whole(1, 60)}, sharp=_ONE_PERCENT)
"""LR-C1: the first k1 terms of the mean, and by the lack of memory the others."""


def _interval() -> sympy.Basic:
    alpha, m, gamma = symbols("alpha1 m gamma")
    i = sp.Symbol("i", integer=True, nonnegative=True)
    mass = sp.Sum(alpha**i * (1 - alpha), (i, m * gamma, (m + 1) * gamma - 1))
    return equal(mass, alpha ** (m * gamma) * (1 - alpha**gamma))


INTERVAL: Final = Formula(
    relation=_interval, domain={"alpha1": _UNIT, "m": whole(0, 6), "gamma": whole(1, 8)}, sharp=_ONE_PERCENT
)
"""LR-C2."""


def _intervals() -> sympy.Basic:
    alpha, gamma, n = symbols("alpha1 gamma n")
    m = sp.Symbol("m", integer=True, nonnegative=True)
    q = alpha**gamma
    head = sp.Sum((m + 1) * q**m * (1 - q), (m, 0, n - 1))
    return equal(head + q**n * (n + 1 / (1 - q)), 1 / (1 - q))


INTERVALS: Final = Formula(
    relation=_intervals, domain={"alpha1": _UNIT, "gamma": whole(1, 12), "n": whole(1, 40)}, sharp=_ONE_PERCENT
)
"""LR-C3: the first n terms of the mean, and by the lack of memory the others."""


def _remainder() -> sympy.Basic:
    """A shift of X by gamma solves p = (1 - alpha) alpha^r + alpha^gamma p; here with n periods written out."""
    alpha, gamma, r, n = symbols("alpha1 gamma r n")
    m = sp.Symbol("m", integer=True, nonnegative=True)
    p = (1 - alpha) * alpha**r / (1 - alpha**gamma)
    periods = sp.Sum((1 - alpha) * alpha ** (r + m * gamma), (m, 0, n - 1))
    return equal(periods + alpha ** (n * gamma) * p, p)


REMAINDER: Final = Formula(
    relation=_remainder,
    domain={"alpha1": _UNIT, "gamma": whole(1, 12), "r": whole(0, 11), "n": whole(1, 20)},
    sharp=_ONE_PERCENT,
)
"""LR-C4; beyond r < gamma it holds as an identity."""


def _remainders() -> sympy.Basic:
    alpha, k, _r = _law()
    top = alpha - alpha ** (k + 1) - k * (1 - alpha) * alpha**k
    return equal(_remainder_mean(), top / ((1 - alpha) * (1 - alpha**k)))


REMAINDERS: Final = Formula(relation=_remainders, domain={"alpha1": _UNIT, "k1": whole(5, 60)}, sharp=_ONE_PERCENT)
"""LR-C5."""
