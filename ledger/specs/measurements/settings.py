"""Claims of SPECS about its settings: fixed hyperparameters (D.7), share of the large model, accuracy."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Cases, grid, rows, walked
from ledger.proving.once import once
from ledger.proving.records import proved
from ledger.proving.tools import all_of
from ledger.specs.exact import decided
from theory.published.specs import BENCHMARKS, FAMILIES, TABLE_1, TABLE_3, TABLE_5, WIDTHS

__all__ = ["CLAIMS"]


def _fixed(benchmark: str, width: int, column: int) -> tuple[Fraction, Fraction]:
    """Table 5, Qwen pair: accuracy (column 0) or seconds (1) of the full search and with beta = 2 L."""
    at = 2 * BENCHMARKS.index(benchmark) + column
    cell = TABLE_1["Qwen2.5", benchmark, "SPECS", width]
    full = cell.seconds if column else cell.accuracy
    return Fraction(full), Fraction(TABLE_5[width][at])


def _kept(share: str = "89/100", slower: str = "6/5") -> Cases:
    """With beta = 2 L and three thresholds: the share of accuracy kept, and seconds added at most."""

    def holds(benchmark: str, width: int) -> bool:
        accuracy, fixed = _fixed(benchmark, width, 0)
        seconds, fixed_seconds = _fixed(benchmark, width, 1)
        return fixed >= Fraction(share) * accuracy and fixed_seconds <= seconds + Fraction(slower)

    return Cases(
        text=f"at least {share} of the accuracy, and at most {slower} s more",
        test=holds,
        cases=grid(benchmark=BENCHMARKS, width=WIDTHS),
        where="all nine settings",
    )


def _spread(qwen: int = 1250, llama: int = 100) -> Cases:
    """Largest over smallest beta that the full search chose for a pair of models."""

    def holds(family: str, factor: int) -> bool:
        betas = [TABLE_3[family, benchmark, width][0] for benchmark in BENCHMARKS for width in WIDTHS]
        return max(betas) >= factor * min(betas)

    return Cases(
        text=f"the betas chosen differ by a factor of {qwen} (Qwen2.5) and of {llama} (Llama3)",
        test=holds,
        cases=rows({"family": "Qwen2.5", "factor": qwen}, {"family": "Llama3", "factor": llama}),
        where="both pairs",
    )


def _share(method: str, family: str, benchmark: str, width: int) -> Fraction:
    return Fraction(TABLE_1[family, benchmark, method, width].share)


def _greater(easier: str = "MATH500", method: str = "SPECS") -> Cases:
    """The large model writes a greater share of the steps on every other benchmark than on `easier`."""
    others = [b for b in BENCHMARKS if b != easier]
    return Cases(
        text=f"{method}: a greater share on {' and '.join(others)} than on {easier}",
        test=lambda family, other, width: _share(method, family, other, width) > _share(method, family, easier, width),
        cases=grid(family=FAMILIES, other=others, width=WIDTHS),
        where="both pairs, each width",
    )


def _ahead(family: str, benchmark: str, width: int) -> Fraction:
    """Points of accuracy between SPECS and beam search with the large model."""
    own, beam = (TABLE_1[family, benchmark, method, width].accuracy for method in ("SPECS", "BS(B)"))
    return Fraction(own) - Fraction(beam)


@once
def _comparable(below: str = "2") -> Cases:
    return Cases(
        text=f"SPECS is at most {below} points below beam search with the large model",
        test=lambda family, benchmark, width: _ahead(family, benchmark, width) >= -Fraction(below),
        cases=grid(family=FAMILIES, benchmark=BENCHMARKS, width=WIDTHS),
        where="all 18 settings",
    )


def _verify_comparable(below: str = "2", fewest: int = 17) -> Evidence:
    """At most so far below, and not below at all in `fewest` settings."""
    level = sum(_ahead(*setting) >= 0 for setting in itertools.product(FAMILIES, BENCHMARKS, WIDTHS))
    return all_of(
        walked(_comparable(below)),
        decided(level >= fewest, what=f"and not below in {fewest}", method="exact enumeration"),
    )


CLAIMS: tuple[Claim, ...] = (
    proved(
        "SPECS-COMP",
        formula=_comparable(),
        verify=_verify_comparable,
        mutants={
            "never below": partial(_verify_comparable, fewest=18),
            "one point": partial(_verify_comparable, below="1"),
        },
    ),
    proved("SPECS-SHARE", formula=_greater(), mutants={"AMC23": partial(_greater, "AMC23")}),
    proved("SPECS-D7", formula=_kept(), mutants={"95 %": partial(_kept, "95/100"), "1 s": partial(_kept, slower="1")}),
    proved("SPECS-D7b", formula=_spread(), mutants={"2000": partial(_spread, 2000)}),
)
