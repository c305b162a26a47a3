"""Lookahead Reasoning, Theorem 2: draft stages from their exact timeline, as tests, by search and by induction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final

from ledger.ledger import Evidence
from ledger.lookahead_reasoning import exact
from ledger.proving.cases import Predicate
from ledger.proving.domains import Domain, between, whole
from ledger.proving.tools import all_of, identity, refute, sign

__all__ = [
    "COSTS",
    "FIGURE_1",
    "LIMITED",
    "LONGER",
    "ONE_CASE",
    "StageTime",
    "check_saturated_speedup",
    "check_stage_times",
    "free_induction",
    "free_time",
    "in_flight",
    "limited_induction",
    "limited_time",
    "speedup_from_timeline",
    "switching_point",
]

COSTS: Final = ("2/5", "1/2", "1/4", "3/10", "2/7", "5/7", "1/10")
"""Costs c1 at which searches look for counterexamples."""
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
LONGER: Final = Predicate(
    text="k1 c1 >= 1 exactly when k1 >= ceil(1/c1)",
    test=lambda c1, k1: (k1 * c1 >= 1) is (k1 >= exact.ceil_inverse(c1)),
    domain={"c1": _UNIT, "k1": whole(1, 40)},
    at=[{"c1": c, "k1": k} for c in COSTS for k in range(1, 12)],
)
"""Its correction."""


ONE_CASE: Final = Predicate(
    text="the speedup of the timeline is S1 from ceil(1/c1) on and S2 below",
    test=lambda alpha1, c1, gamma: (
        speedup_from_timeline(alpha1, c1, int(gamma)) == exact.f_saturated(alpha1, c1, int(gamma))
        if gamma < exact.ceil_inverse(c1)
        else all(exact.stage_time(c1, int(gamma), x) == 1 + c1 * x for x in range(2 * int(gamma) + 2))
    ),
    domain={"alpha1": _UNIT, "c1": _UNIT, "gamma": whole(1, 12)},
    at=[{"alpha1": "1/2", "c1": c, "gamma": n} for c in COSTS for n in range(1, 12)],
)
"""Its correction."""


def _dimension(rule: str) -> Predicate:
    return Predicate(
        text=f"the parallel dimension of the target is min({rule}(1/c1), gamma)",
        test=lambda c1, gamma: in_flight(c1, int(gamma)) == min(switching_point(c1, rule), gamma),
        domain={"c1": _UNIT, "gamma": whole(1, 12)},
        at=[{"c1": c, "gamma": n} for c in COSTS for n in range(1, 12)],
        explain=lambda c1, gamma: f"{in_flight(c1, int(gamma))} targets are in flight at once",
    )


DIMENSION_FLOOR, DIMENSION = _dimension("floor"), _dimension("ceil")
"""LR-T2d as printed; its correction, which is LR-S8."""


_CHEAP = ("1/40", "1/200")
"""Drafts so cheap that batches are long; only the edges of a batch are tried."""

StageTime = Callable[[Fraction, int, int], Fraction]
"""(c1, gamma, accepted drafts X) -> stage time in units of T."""


def _stages(*, saturated: bool | None, rule: str = "ceil") -> Iterator[dict[str, str]]:
    """Stages (c1, gamma, X); only those with gamma below (True) or from (False) the switching point on."""
    for c in COSTS:
        limit = switching_point(Fraction(c), rule)
        for gamma in range(1, limit + 3):
            if saturated is None or (gamma < limit) is saturated:
                for accepted in range(3 * gamma + 2):
                    yield {"c1": c, "gamma": str(gamma), "accepted": str(accepted)}
    for c in _CHEAP:
        limit = switching_point(Fraction(c), rule)
        for gamma in (limit - 1, limit):
            if saturated is None or (gamma < limit) is saturated:
                for accepted in (gamma - 1, gamma, 2 * gamma - 1, 2 * gamma):
                    yield {"c1": c, "gamma": str(gamma), "accepted": str(accepted)}


def check_stage_times(formula: StageTime, what: str, *, saturated: bool | None, rule: str = "ceil") -> Evidence:
    """The formula gives the stage time of the timeline at every stage of the list."""

    def holds(c1: Fraction, gamma: Fraction, accepted: Fraction) -> bool:
        return formula(c1, int(gamma), int(accepted)) == exact.stage_time(c1, int(gamma), int(accepted))

    def explain(c1: Fraction, gamma: Fraction, accepted: Fraction) -> str:
        true = exact.stage_time(c1, int(gamma), int(accepted))
        return f"the timeline takes {true} T, the formula {formula(c1, int(gamma), int(accepted))} T"

    return refute(holds, _stages(saturated=saturated, rule=rule), what=what, explain=explain)


def check_saturated_speedup(shift: int = 0) -> Evidence:
    """S2 at depth gamma is the speedup of the timeline. `shift` asks for S2 at another depth."""

    def holds(alpha1: Fraction, c1: Fraction, gamma: Fraction) -> bool:
        depth = int(gamma)
        return bool(exact.f_saturated(alpha1, c1, depth + shift) == speedup_from_timeline(alpha1, c1, depth))

    points = (
        {"alpha1": alpha, "c1": c, "gamma": str(gamma)}
        for alpha in ("1/2", "1/100", "99/100")
        for c in (*COSTS, *_CHEAP)
        for gamma in range(1, min(exact.ceil_inverse(Fraction(c)), 12))
    )
    return refute(holds, points, what="S2 is the speedup of the timeline")


def free_time(c: Fraction, _gamma: int, accepted: int) -> Fraction:
    """Stage time where drafting never waits, in units of T."""
    return 1 + c * accepted


def limited_time(c: Fraction, gamma: int, accepted: int) -> Fraction:
    """Stage time where at most gamma targets run, in units of T."""
    return -(-(accepted + 1) // gamma) + c * (accepted % gamma)


def free_induction() -> Evidence:
    """Start times s_j = j c solve the recursion s_j = max(s_(j-1) + c, s_(j-gamma) + 1) when gamma c >= 1."""
    # gamma >= 1/c, written as gamma = 1/c + slack; at slack = 0 the two candidates are equal
    return all_of(
        identity("(j - 1) * c + c == j * c", "the draft of step j ends at j c"),
        sign("j * c - ((j - (1 / c + slack)) * c + 1)", "the slot frees before j c when gamma > 1/c"),
        identity("j * c == (j - 1 / c) * c + 1", "and exactly at j c when gamma = 1/c"),
        detail="Induction on j; the first rejection X ends at s_X + 1",
    )


def limited_induction() -> Evidence:
    """Start times m + r c (j = m gamma + r) solve the same recursion when gamma c < 1."""
    # gamma < ceil(1/c) means gamma c < 1 for an integer gamma; write c = s / gamma with 0 < s < 1
    return all_of(
        identity("m + (r - 1) * c + c == m + r * c", "r >= 1: the draft of step j ends at m + r c"),
        identity("m - 1 + r * c + 1 == m + r * c", "r >= 1: the slot frees at m + r c"),
        sign(
            "m - (m - 1 + (gamma - 1) * s / gamma + s / gamma)",
            "r = 0: the draft has ended before the slot frees",
            unit=("s",),
        ),
        detail="Induction on j = m gamma + r; ceil((X+1)/gamma) = m + 1 at X = m gamma + r",
    )
