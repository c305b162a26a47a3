"""Claims of SPECS about its tables and settings: latencies and accuracies of Table 1, fixed hyperparameters (D.7)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, partial
from typing import Final

from ledger.ledger import Claim, Evidence
from ledger.proving.cases import Case, Cases, grid, rows, walked
from ledger.proving.records import proved, refuted
from ledger.proving.tools import all_of
from ledger.specs.exact import enumerated
from ledger.specs.measurements.cells import ahead, saved
from theory.published.specs import BENCHMARKS, FAMILIES, TABLE_1, TABLE_2, TABLE_3, TABLE_5, TABLE_6, WIDTHS

__all__ = ["CLAIMS"]

_REPEATED: Final = ("Qwen2.5", "MATH500", 16)
"""The cell of SPECS in Table 1 whose seconds per step and share are those of width 8."""


def _latencies(family: str) -> list[tuple[str, int, str, str]]:
    """Table 1: dataset, width, seconds per problem of SPECS and of beam search with the large model."""
    return [
        (name, n, TABLE_1[family, name, "SPECS", n].seconds, TABLE_1[family, name, "BS(B)", n].seconds)
        for name in BENCHMARKS
        for n in WIDTHS
    ]


def _saving(limit: Fraction = Fraction(19, 100)) -> Cases:
    """The savings of Table 1 against the announced 18 % (19 % leaves room for rounding), width 16 first."""
    savings = sorted(_latencies("Qwen2.5"), key=lambda row: -row[1])
    return Cases(
        text="no latency of Table 1 (Qwen pair) is lower than beam search with the large model by more than 19 %",
        test=lambda specs_seconds, beam_seconds: saved(specs_seconds, beam_seconds) <= limit,
        cases=rows(*[{"specs_seconds": own, "beam_seconds": beam} for _name, _n, own, beam in savings]),
        where="nine rows of the Qwen pair",
        explain=lambda **row: f"a saving of {float(saved(**row)):.1%}",
    )


def _fix_saving() -> Evidence:
    savings = [(saved(own, beam), name, n) for name, n, own, beam in _latencies("Qwen2.5")]
    best, name, n = max(savings)
    at_best = (name, n) == ("MATH500", 16) and Fraction(258, 1000) < best < Fraction(259, 1000)
    slower = all(Fraction(own) > Fraction(beam) for _name, _n, own, beam in _latencies("Llama3"))
    return enumerated(
        at_best and min(savings)[0] == 0 and slower,
        what="savings of Table 1 run from 0 to 25.8 % with the Qwen pair, and all nine are negative with the Llama "
        "pair",
    )


_KEYS: Final = tuple(itertools.product(FAMILIES, BENCHMARKS, WIDTHS))
"""Rows of Table 1."""


def _steps(name: str, method: str, keys: Iterable[tuple[str, str, int]]) -> Callable[[], Iterable[Case]]:
    """Seconds per step of SPECS and, by its name, of a baseline."""
    columns = (("specs_step", "SPECS"), (name, method))
    return rows(
        *(
            {column: TABLE_1[family, benchmark, each, n].step_seconds for column, each in columns}
            for family, benchmark, n in keys
        )
    )


def _faster(family: str = "Llama3", slack: str = "1") -> Cases:
    return Cases(
        text=f"a step of SPECS takes at most {slack} times one of beam search with the large model ({family} pair)",
        test=lambda specs_step, beam_step: Fraction(specs_step) <= Fraction(beam_step) * Fraction(slack),
        cases=_steps("beam_step", "BS(B)", (key for key in _KEYS if key[0] == family)),
        where=f"nine rows of the {family} pair",
    )


def _fix_faster() -> Evidence:
    """How many rows of each pair are faster, and the slowest one."""
    steps = _steps("beam_step", "BS(B)", _KEYS)()
    ratios = {
        key: Fraction(row["specs_step"]) / Fraction(row["beam_step"]) for key, row in zip(_KEYS, steps, strict=True)
    }
    slower = {family: sum(x > 1 for key, x in ratios.items() if key[0] == family) for family in FAMILIES}
    worst = max(ratios, key=lambda key: ratios[key])
    good = slower == {"Qwen2.5": 0, "Llama3": 8} and worst == ("Llama3", "AMC23", 16)
    return enumerated(
        good and Fraction("1.25") < ratios[worst] < Fraction("1.26"),
        what="no row of the Qwen pair is slower per step and eight of nine of the Llama pair are, by up to 25.8 %",
    )


@cache
def _contains(skip: tuple[str, str, int] | None = None) -> Cases:
    """The repeated cell comes first."""
    keys = sorted((key for key in _KEYS if key != skip), key=lambda key: key != _REPEATED)
    return Cases(
        text="a step of SPECS takes at least as long as one of beam search with the small model",
        test=lambda specs_step, small_step: Fraction(specs_step) >= Fraction(small_step),
        cases=_steps("small_step", "BS(S)", keys),
        where="18 rows of both pairs" if skip is None else "the other 17 rows",
    )


def _fix_contains() -> Evidence:
    """Elsewhere it does, and the cell repeats its neighbour."""
    here, neighbour = (TABLE_1[*_REPEATED[:2], "SPECS", n] for n in (16, 8))
    repeats = (here.step_seconds, here.share) == (neighbour.step_seconds, neighbour.share) == ("1.31", "45.5")
    return all_of(
        enumerated(repeats, what="the cell has the seconds per step and the share of width 8"),
        walked(_contains(_REPEATED)),
    )


_OTHER: Final = ("MATH500", 16)
"""The row in which Table 2 differs from Table 1."""


@cache
def _repeats(skip: tuple[str, int] | None = None) -> Cases:
    """Seconds per problem of SPECS."""
    keys = [key for key in itertools.product(enumerate(BENCHMARKS), WIDTHS) if (key[0][1], key[1]) != skip]
    return Cases(
        text="Tables 1 and 2 report one latency for SPECS",
        test=lambda n, table1, table2: Fraction(table1) == Fraction(table2),
        cases=rows(
            *[
                {
                    "n": n,
                    "table1": TABLE_1["Qwen2.5", name, "SPECS", n].seconds,
                    "table2": TABLE_2["SPECS", n][2 * i + 1],
                }
                for (i, name), n in keys
            ]
        ),
        where="nine rows" if skip is None else "the other eight rows",
        explain=lambda n, table1, table2: f"{table1} and {table2} s on MATH500, width {n}",
    )


def _fix_tables() -> Evidence:
    """The other rows agree, and Table 6 repeats Table 1 for the row in question."""
    here = TABLE_6["SPECS", 16][2 * BENCHMARKS.index("MATH500") + 1]
    what = "Table 6 repeats the 15.8 s of Table 1"
    return all_of(walked(_repeats(_OTHER)), enumerated(here == "15.8", what=what))


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


@cache
def _comparable(below: str = "2") -> Cases:
    return Cases(
        text=f"SPECS is at most {below} points below beam search with the large model",
        test=lambda family, benchmark, width: ahead(family, benchmark, width) >= -Fraction(below),
        cases=grid(family=FAMILIES, benchmark=BENCHMARKS, width=WIDTHS),
        where="all 18 settings",
    )


def _verify_comparable(below: str = "2", fewest: int = 17) -> Evidence:
    """At most so far below, and not below at all in `fewest` settings."""
    level = sum(ahead(*key) >= 0 for key in _KEYS)
    return all_of(walked(_comparable(below)), enumerated(level >= fewest, what=f"and not below in {fewest}"))


CLAIMS: tuple[Claim, ...] = (
    refuted("SPECS-TAB1", _saving(), fix=_fix_saving, mutants={"26%": partial(_saving, Fraction(26, 100))}),
    refuted("SPECS-TAB2", _repeats(), instead=_repeats(_OTHER), fix=_fix_tables),
    refuted("SPECS-TAB1a", _contains(), instead=_contains(_REPEATED), fix=_fix_contains),
    refuted(
        "SPECS-TAB1b",
        _faster(),
        fix=_fix_faster,
        mutants={"other pair": partial(_faster, "Qwen2.5"), "1.27": partial(_faster, "Llama3", "1.27")},
    ),
    proved(
        "SPECS-COMP",
        _comparable("2"),
        verify=_verify_comparable,
        mutants={
            "never below": partial(_verify_comparable, fewest=18),
            "one point": partial(_verify_comparable, below="1"),
        },
    ),
    proved("SPECS-SHARE", _greater(), mutants={"AMC23": partial(_greater, "AMC23")}),
    proved("SPECS-D7", _kept(), mutants={"95 %": partial(_kept, "95/100"), "1 s": partial(_kept, slower="1")}),
    proved("SPECS-D7b", _spread(), mutants={"2000": partial(_spread, 2000)}),
)
