"""Claims of SPECS about when the large model writes, and about its place among the baselines (Table 1, Figure 4)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim
from ledger.proving.cases import Cases, grid, rows
from ledger.proving.records import proved, refuted
from ledger.specs.measurements.cells import accuracy, ahead, seconds
from theory.published.specs import BENCHMARKS, FAMILIES, TABLE_1, TABLE_2, TABLE_6, WIDTHS

__all__ = ["CLAIMS"]

_TAU: Final = Fraction(1, 2)
_LEVELS: Final = (Fraction(1, 10), Fraction(3, 5))
"""Largest reward among the candidates of a block: low (a hard step) and above tau."""


def _generators(rewards: tuple[Fraction, ...]) -> Iterator[str]:
    """Who writes each block by Algorithm 1, lines 4 and 9 to 10."""
    generator = "target"
    for reward in rewards:
        yield generator
        if reward > _TAU:
            generator = "draft"


def _rewards() -> Iterator[dict[str, Fraction]]:
    """Largest rewards of three blocks, those after a high one low first."""
    yield from (
        dict(zip(("first", "second", "third"), each, strict=True)) for each in itertools.product(_LEVELS, repeat=3)
    )


def _hard_steps(*, defers: bool) -> Cases:
    """The target writes the block after a low reward (printed), or all blocks up to the first high one and no other."""

    def holds(first: Fraction, second: Fraction, third: Fraction) -> bool:
        rewards = (first, second, third)
        written = tuple(_generators(rewards))
        if defers:
            return all(who == "target" for who, before in zip(written[1:], rewards, strict=False) if before <= _TAU)
        switch = next((i for i, reward in enumerate(rewards) if reward > _TAU), 3)
        return written == ("target",) * min(switch + 1, 3) + ("draft",) * max(2 - switch, 0)

    return Cases(
        text="after a reward of at most tau the target model writes the next block"
        if defers
        else "the target model writes the blocks up to the first reward above tau, and the draft model all others",
        test=holds,
        cases=_rewards,
        where="rewards 1/10 and 3/5 of three blocks, tau = 1/2",
        explain=lambda first, second, third: (
            f"the blocks are written by {', '.join(_generators((first, second, third)))}"
        ),
    )


def _on_par(below: str = "2", methods: tuple[str, ...] = ("BS(S)", "BS(B)", "RSD")) -> Cases:
    return Cases(
        text=f"SPECS is at most {below} points less accurate than {', '.join(methods)}",
        test=lambda family, benchmark, width, method: ahead(family, benchmark, width, method) >= -Fraction(below),
        cases=grid(family=FAMILIES, benchmark=BENCHMARKS, width=WIDTHS, method=methods),
        where="18 settings of Table 1",
    )


def _undominated(method: str = "RSD") -> Cases:
    """A baseline that is at least as accurate takes longer."""

    def slower(family: str, benchmark: str, width: int) -> bool:
        mine, other = (TABLE_1[family, benchmark, each, width] for each in ("SPECS", method))
        faster = Fraction(other.seconds) <= Fraction(mine.seconds)
        return not (faster and Fraction(other.accuracy) >= Fraction(mine.accuracy))

    return Cases(
        text=f"{method} is nowhere both as accurate and as fast as SPECS",
        test=slower,
        cases=grid(family=FAMILIES, benchmark=BENCHMARKS, width=WIDTHS),
        where="18 settings of Table 1",
    )


def _points() -> list[tuple[Fraction, Fraction]]:
    """Seconds and accuracy of every printed variant of SPECS on MATH500 with the Qwen pair, and its limit tau = 1."""
    rows_of = (
        (TABLE_2, "SPECS"),
        (TABLE_2, "No Target"),
        (TABLE_6, "SPECS"),
        (TABLE_6, "SPECS (start with small model)"),
    )
    points = [
        (seconds(table, method, "MATH500", n), accuracy(table, method, "MATH500", n))
        for table, method in rows_of
        for n in WIDTHS
    ]
    large = (TABLE_1["Qwen2.5", "MATH500", "BS(B)", n] for n in WIDTHS)
    return points + [(Fraction(each.seconds), Fraction(each.accuracy)) for each in large]


def _top(at: Fraction) -> Fraction:
    """The upper edge of the convex hull of the points at so many seconds."""
    edges = (
        y1 + (y2 - y1) * (at - x1) / (x2 - x1)
        for (x1, y1), (x2, y2) in itertools.permutations(_points(), 2)
        if x1 <= at <= x2 and x1 < x2
    )
    return max(edges, default=Fraction(0))


def _inside(widths: tuple[int, ...] = WIDTHS) -> Cases:
    printed_rows = [TABLE_1["Qwen2.5", "MATH500", "RSD", n] for n in widths]
    return Cases(
        text="RSD is not above the convex hull of the points of SPECS",
        test=lambda seconds, accuracy: Fraction(accuracy) <= _top(Fraction(seconds)),
        cases=rows(*({"seconds": each.seconds, "accuracy": each.accuracy} for each in printed_rows)),
        where="MATH500, Qwen pair, widths " + ", ".join(map(str, widths)),
        explain=lambda seconds, accuracy: f"the hull reaches {float(_top(Fraction(seconds))):.2f} % there",
    )


CLAIMS: tuple[Claim, ...] = (
    refuted("SPECS-DEFER", _hard_steps(defers=True), instead=_hard_steps(defers=False)),
    proved(
        "SPECS-BASE",
        _on_par(),
        mutants={"never below RSD": partial(_on_par, "0", ("RSD",)), "one point": partial(_on_par, "1")},
    ),
    proved("SPECS-RSD", _undominated(), mutants={"BS(B)": partial(_undominated, "BS(B)")}),
    refuted("SPECS-FIG4", _inside(), instead=_inside((8, 16))),
)
