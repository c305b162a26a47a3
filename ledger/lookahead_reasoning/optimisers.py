"""Lookahead Reasoning, Section 3.3: what goes wrong in a search for the best split of a budget (`theory.budget`).

Two short cuts that the paper's text suggests: k1 k2 = M over the divisors of M, as in Lemma 5, and the switch of
f_async at floor(1/c1), as in the main text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.hybrid.points import Synchronous, speedup, split
from ledger.lookahead_reasoning.hybrid.theorem_3 import hybrid_proof
from ledger.lookahead_reasoning.hybrid.theorem_4 import distance_to_limit
from ledger.proving.cases import Cases, Predicate, rows, searched, walked
from ledger.proving.domains import Point
from ledger.proving.formulas import between, whole
from ledger.proving.margins import Margin, at_least, at_most
from ledger.proving.records import proved
from ledger.proving.tools import all_of, exhaustive, screened

__all__ = ["CLAIMS", "best_split"]

Pair = tuple[int, int]


def _divisors_miss(**at: Fraction) -> bool:
    """Some pair with k1 k2 <= M beats every pair with k1 k2 = M, where both levels gain and, if M > 3, (6) to (8)."""
    point = Synchronous(**at)
    widest = max(split(*point.first, *point.second, point.budget).values())
    given = min(point.r1, point.r2) > 1 and (point.budget <= 3 or (point.six() and point.met(strict=True)))
    return bool(given) and max(point.token_only, point.step_only, point.hybrid) > widest


_LEVEL_3 = {"alpha1": "4/9", "c1": "2/5", "alpha2": "4/9", "c2": "2/5"}
_LEVEL_6 = {"alpha1": "3/10", "c1": "1/10", "alpha2": "3/10", "c2": "1/10"}


def _missed_at(*points: dict[str, str]) -> Cases:
    return Cases(
        text="a pair with k1 k2 < M beats every pair with k1 k2 = M",
        test=_divisors_miss,
        cases=rows(*({name: Fraction(value) for name, value in point.items()} for point in points)),
        where="; ".join(", ".join(f"{name} = {value}" for name, value in point.items()) for point in points),
    )


_MISSED = _missed_at({**_LEVEL_3, "M": "3"}, {**_LEVEL_6, "M": "6"})


def _smallest(cases: Cases) -> Evidence:
    """Both points, and why no smaller budget has one."""
    return all_of(
        lambda: walked(cases),
        lambda: exhaustive(
            lambda M: [pair for pair in _pairs(M, M) if min(pair) > 1] == [(2, 2)] * (M == 4),  # noqa: N803
            {"M": (2, 4)},
            what="at M = 2 there is no hybrid, at M = 4 only (2, 2), whose product is M",
        ),
        hybrid_proof,
        detail="At M = 2, as f(2) and g(2) exceed 1, (1, 2) or (2, 1) is best, and at M = 4 by LR-T3b (2, 2) is",
    )


def _pairs(budget: int, widest: int) -> Iterator[Pair]:
    """All k1 <= widest and k2 with k1 k2 <= budget."""
    for k1 in range(1, min(budget, widest) + 1):
        yield from ((k1, k2) for k2 in range(1, budget // k1 + 1))


def best_split(
    alpha1: Fraction, c1: Fraction, alpha2: Fraction, c2: Fraction, budget: int, switch: str
) -> tuple[Fraction, Pair]:
    """The largest f_async(k1) g(k2) with min(ceil(1/c1), k1) k2 <= M, of all that have it the cheapest pair."""

    def value(pair: Pair) -> Fraction:
        return exact.f_async(alpha1, c1, pair[0], switch=switch) * speedup(alpha2, c2, pair[1])

    best = max(_pairs(budget, exact.ceil_inverse(c1)), key=lambda pair: (value(pair), -pair[0] * pair[1], -pair[0]))
    return value(best), best


def _got(point: Point, pair: Pair) -> Fraction:
    """What a pair is worth with the switch at the ceiling, as Theorem 2 has it."""
    value: Fraction = exact.f_async(point["alpha1"], point["c1"], pair[0]) * speedup(
        point["alpha2"], point["c2"], pair[1]
    )
    return value


def _loses(loss: Fraction, switch: str) -> Callable[..., bool]:
    def test(**at: Fraction) -> bool:
        levels = {name: at[name] for name in ("alpha1", "c1", "alpha2", "c2")}
        best, pair = best_split(**levels, budget=int(at["M"]), switch="ceil")
        _promised, chosen = best_split(**levels, budget=int(at["M"]), switch=switch)
        return chosen != pair and best > (1 + loss) * _got(levels, chosen)

    return test


def _losses(loss: str = "1/20", switch: str = "floor") -> Cases:
    small = {"alpha1": "7/10", "c1": "2/5", "alpha2": "3/4", "c2": "1/20", "M": "2"}
    inside = {"alpha1": "799/1000", "c1": "1000/3999", "alpha2": "721/1000", "c2": "7/250", "M": "32"}
    return Cases(
        text=f"the split chosen with the switch at {switch}(1/c1) is another, and more than {loss} is lost",
        test=_loses(Fraction(loss), switch),
        cases=rows(*({name: Fraction(value) for name, value in point.items()} for point in (small, inside))),
        where="a point at M = 2 and one in the box of Theorem 4 at M = 32",
    )


_LOSSES = _losses()


def _bounded(switch: str, slack: Fraction = Fraction(0)) -> Predicate:
    """The printed optimiser promises at least the optimum, and loses at most S1/S2(floor(1/c1))."""

    def test(M: Fraction, **levels: Fraction) -> Margin:  # noqa: N803
        best, _pair = best_split(**levels, budget=int(M), switch="ceil")
        promised, chosen = best_split(**levels, budget=int(M), switch=switch)
        alpha, c = levels["alpha1"], levels["c1"]
        depth = exact.floor_inverse(c)
        reached = depth <= M  # below, the two rules are one
        ratio = exact.f_unsaturated(alpha, c) / exact.f_saturated(alpha, c, depth) if reached else Fraction(1)
        return at_least(promised, best) & at_most(best, (ratio - slack) * _got(levels, chosen))

    return Predicate(
        text="promised >= best, and best <= S1/S2(floor(1/c1)) times what the chosen split is worth, and "
        "the two are equal where floor(1/c1) > M",
        test=test,
        domain={
            **{"alpha1": between(0, 1), "c1": between(0, "1/2", "(]")},
            **{"alpha2": between(0, 1), "c2": between(0, 1), "M": whole(2, 12)},
        },
    )


_BOUNDED = _bounded("floor")


def _floor_rule(losses: Cases, bounded: Predicate = _BOUNDED) -> Evidence:
    grid = itertools.product(("3/10", "7/10", "9/10"), ("2/5", "2/7", "1/3", "1/50"), ("1/2", "4/5"), (2, 4, 9))
    points = ({"alpha1": a, "c1": c, "alpha2": b, "c2": "1/20", "M": str(m)} for a, c, b, m in grid)
    return screened(
        searched(bounded, *points),
        lambda: walked(losses),
        distance_to_limit,
        detail="The two rules differ at k1 = floor(1/c1) < 1/c1 only, where S1 is promised and S2 < S1 is got. A "
        "chosen pair with another k1 is worth what is promised, so it is best; one with this k1 is worth S2/S1 of a "
        "promise that no pair exceeds",
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "LR-X1",
        _MISSED,
        verify=lambda: _smallest(_MISSED),
        mutants={
            "four": partial(_smallest, _missed_at({**_LEVEL_6, "M": "4"})),
            "two": partial(_smallest, _missed_at({**_LEVEL_3, "M": "2"})),
        },
    ),
    proved(
        "LR-X2",
        _BOUNDED,
        verify=lambda: _floor_rule(_LOSSES),
        mutants={
            "ceiling": partial(_floor_rule, _losses(switch="ceil")),
            "fifteen percent": partial(_floor_rule, _losses("3/20")),
            "less": partial(_floor_rule, _LOSSES, _bounded("floor", Fraction(1, 100))),
        },
    ),
)
