"""Lookahead Reasoning, Appendix B.1.1: how long a draft stage lasts, from its exact timeline and by induction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from ledger.ledger import Evidence
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.timelines import speedup_from_timeline, switching_point
from ledger.proving.deferred import sp
from ledger.proving.tools import all_of, identity, prove_sign, refute

__all__ = [
    "COSTS",
    "StageTime",
    "check_saturated_speedup",
    "check_stage_times",
    "free_induction",
    "free_time",
    "limited_induction",
    "limited_time",
]

COSTS = ("2/5", "1/2", "1/4", "3/10", "2/7", "5/7", "1/10")
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
    j, c, g, slack = sp.symbols("j c gamma slack", positive=True)
    # gamma >= 1/c, written as gamma = 1/c + slack; at slack = 0 the two candidates are equal
    wait = (j * c) - ((j - g) * c + 1)
    return all_of(
        identity((j - 1) * c + c - j * c, "the draft of step j ends at j c"),
        lambda: prove_sign(sp.expand(wait.subs(g, 1 / c + slack)), what="the slot frees before j c when gamma > 1/c"),
        identity(wait.subs(g, 1 / c), "and exactly at j c when gamma = 1/c"),
        detail="Induction on j; the first rejection X ends at s_X + 1",
    )


def limited_induction() -> Evidence:
    """Start times m + r c (j = m gamma + r) solve the same recursion when gamma c < 1."""
    m, r, c, g, s = sp.symbols("m r c gamma s", positive=True)
    # gamma < ceil(1/c) means gamma c < 1 for an integer gamma; write c = s / gamma with 0 < s < 1
    ready = (m - 1) + (g - 1) * c + c
    return all_of(
        identity(m + (r - 1) * c + c - (m + r * c), "r >= 1: the draft of step j ends at m + r c"),
        identity((m - 1) + r * c + 1 - (m + r * c), "r >= 1: the slot frees at m + r c"),
        lambda: prove_sign(
            (m - ready).subs(c, s / g), unit=("s",), what="r = 0: the draft has ended before the slot frees"
        ),
        detail="Induction on j = m gamma + r; ceil((X+1)/gamma) = m + 1 at X = m gamma + r",
    )
