"""Claims of ConfSpec about Equations 1 and 2, and about trends over the threshold (Table 3) and the draft (Table 7)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, grid, rows
from ledger.proving.records import proved, refuted, verified
from ledger.proving.tools import exhaustive
from theory.published.confspec import BENCHMARKS, accuracies, speedups

__all__ = ["CLAIMS"]

_GATES = ("ConfSpec gamma=0.8", "ConfSpec gamma=0.9", "ConfSpec gamma=0.95")
_DRAFTS = ("ConfSpec 0.6B", "ConfSpec 1.7B", "ConfSpec 4B")
_COLUMNS = range(len(BENCHMARKS))

_Numbers = Callable[[str, str], Sequence[str]]


def _next(drafts: Sequence[int]) -> Fraction:
    """Chance that the next draft step is 1: a model that has seen `drafts` repeats what is frequent (Polya's urn)."""
    return Fraction(1 + sum(drafts), 2 + len(drafts))


def _chance(steps: Sequence[int], *, seen: bool) -> Fraction:
    """Steps generated one after the other, each given those before it or (not `seen`) the committed ones only."""
    whole = Fraction(1)
    for j, step in enumerate(steps):
        one = _next(steps[:j] if seen else ())
        whole *= one if step else 1 - one
    return whole


def _joint(seen: bool = True) -> Cases:
    """The joint law of k steps of the urn is 1 / ((k + 1) binom(k, ones)), known without the chain rule."""

    def holds(k: int) -> bool:
        sequences = itertools.product((0, 1), repeat=k)
        return all(_chance(s, seen=seen) == Fraction(1, (k + 1) * math.comb(k, sum(s))) for s in sequences)

    return Cases(
        text="k steps in turn have the joint law of the draft",
        test=holds,
        cases=grid(k=range(1, 8)),
        where="k <= 7",
        partial=True,
    )


def _decides(answers: int = 2) -> Cases:
    """Every answer of draft and target, confident or not: the cascade accepts or rejects."""
    names = ("accept", "reject", "neither")

    def holds(draft: int, target: int, confident: int) -> bool:
        return names[draft if confident else target] in {"accept", "reject"}

    return Cases(
        text="Equation 4 is one of the two decisions of Equation 2",
        test=holds,
        cases=grid(draft=range(answers), target=range(answers), confident=(0, 1)),
        where="every answer of both verifiers",
    )


_MONOTONE: Final = Cases(
    text="a higher threshold is at least as accurate on each benchmark",
    test=lambda column, lower, higher: Fraction(higher) >= Fraction(lower),
    cases=rows(
        *[
            {"column": i + 1, "lower": accuracies("3", low)[i], "higher": accuracies("3", high)[i]}
            for low, high in itertools.pairwise(_GATES)
            for i in _COLUMNS
        ]
    ),
    where="thresholds 0.8, 0.9, 0.95 of Table 3",
    explain=lambda column, lower, higher: (
        f"{BENCHMARKS[column - 1]} has {higher} after {lower} % at the threshold before"
    ),
)


def _fix_monotone(largest_fall: str = "0.29") -> Evidence:
    def mean(row: str) -> Fraction:
        return Fraction(accuracies("3", row)[-1])

    def at(row: str, i: int) -> Fraction:
        return Fraction(accuracies("3", row)[i])

    low, middle, high = _GATES
    facts = [mean(low) < mean(middle) < mean(high), *[at(low, i) < at(middle, i) for i in _COLUMNS]]
    facts += [at(middle, i) - at(high, i) <= Fraction(largest_fall) for i in _COLUMNS]
    what = f"means rise, each benchmark rises from 0.8 to 0.9, none falls by more than {largest_fall} after"
    return exhaustive(lambda fact: facts[fact], {"fact": range(len(facts))}, what=what)


def _falling(table: str, names: tuple[str, ...], numbers: _Numbers, what: str) -> Cases:
    """Numbers of a table fall from row to row on every benchmark."""
    pairs = itertools.pairwise(names)
    return Cases(
        text=what,
        test=lambda benchmark, before, after: Fraction(before) > Fraction(after),
        cases=rows(
            *[
                {"benchmark": BENCHMARKS[i], "before": numbers(table, first)[i], "after": numbers(table, second)[i]}
                for first, second in pairs
                for i in _COLUMNS
            ]
        ),
        where=f"Table {table}",
    )


def _lost(draft: str, column: int) -> Fraction:
    """Points of accuracy below the target in Table 7."""
    return Fraction(accuracies("7", "Target Model")[column]) - Fraction(accuracies("7", draft)[column])


def _loses(points: str, draft: str, *, at_least: bool) -> Cases:
    return Cases(
        text=f"{draft} loses at {'least' if at_least else 'most'} {points} points on each benchmark",
        test=lambda column: (
            (_lost(draft, column) >= Fraction(points)) if at_least else (_lost(draft, column) <= Fraction(points))
        ),
        cases=grid(column=_COLUMNS),
        where="Table 7",
    )


CLAIMS: tuple[Claim, ...] = (
    verified("CS-E1", _joint(), mutants={"apart": partial(_joint, seen=False)}),
    proved("CS-E2", _decides(), mutants={"neither": partial(_decides, 3)}),
    refuted("CS-N11", _MONOTONE, fix=_fix_monotone),
    proved(
        "CS-N12",
        _falling("3", _GATES, speedups, "speedups fall as the threshold rises"),
        mutants={
            "reversed": partial(_falling, "3", _GATES[::-1], speedups, "speedups rise with the threshold"),
            "accuracy": partial(_falling, "3", _GATES, accuracies, "accuracy falls with the threshold"),
        },
    ),
    proved(
        "CS-N13",
        _falling("7", _DRAFTS, speedups, "speedups fall as the draft grows"),
        mutants={
            "accuracy": partial(_falling, "7", _DRAFTS, accuracies, "accuracy falls as the draft grows"),
            "larger": partial(_falling, "7", _DRAFTS[::-1], accuracies, "accuracy rises with the draft"),
        },
    ),
    proved(
        "CS-N14",
        _loses("20", "ConfSpec 0.6B", at_least=True),
        mutants={
            "30": _loses("30", "ConfSpec 0.6B", at_least=True),
            "1.7B": _loses("20", "ConfSpec 1.7B", at_least=True),
        },
    ),
    proved(
        "CS-N15",
        _loses("0.93", "ConfSpec 1.7B", at_least=False),
        mutants={
            "half": _loses("0.5", "ConfSpec 1.7B", at_least=False),
            "0.6B": _loses("1", "ConfSpec 0.6B", at_least=False),
        },
    ),
)
