"""Claims of ConfSpec about its speedups: products, rankings, ranges."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial

from ledger.confspec.cells import Failure, over
from ledger.ledger import Claim
from ledger.proving.cases import Cases
from ledger.proving.records import corrected, proved, refuted
from ledger.proving.rounding import printed, product
from theory.published.confspec import BENCHMARKS, TABLES, accuracies, speedups

__all__ = ["CLAIMS"]

_FAMILIES = ("2 DeepSeek", "2 Qwen3")
_SETTINGS = tuple((table, i) for table in _FAMILIES for i in range(len(BENCHMARKS)))
"""(table, column) of every benchmark of Table 2."""
_COMBINED = (
    ("2 DeepSeek", "SD", "ConfSpec + SD"),
    ("2 Qwen3", "SD", "ConfSpec + SD"),
    ("5", "EAGLE-3", "ConfSpec + EAGLE-3"),
)
"""(table, token-level method, its combination with ConfSpec); PLD in Table 5 is SD of Table 2 for Qwen3."""


def _method_names() -> list[str]:
    """Step-level methods of Table 2."""
    return [m for m in TABLES["2 DeepSeek"] if m not in {"Target Model", "SD", "ConfSpec + SD"}]


def _product(factor: Fraction = Fraction(1)) -> Cases:
    """Combined speedup against the product of the two, per benchmark and for the mean."""

    def failure(cell: tuple[str, str, str, int]) -> Failure:
        table, alone, both, i = cell
        steps, tokens, combined = (speedups(table, method)[i] for method in ("ConfSpec", alone, both))
        possible = product(printed(steps), printed(tokens))
        if printed(combined)[1] >= factor * possible[0] and printed(combined)[0] <= possible[1]:
            return None
        where = (*BENCHMARKS, "Mean")[i]
        whole = float(Fraction(steps) * Fraction(tokens))
        text = f"{both}, {where}: {combined} against {whole:.2f} = {steps} x {tokens}"
        return text, {"ConfSpec": steps, alone: tokens, both: combined}

    cells = [(*names, i) for names in _COMBINED for i in (5, 0, 1, 2, 3, 4)]
    return over(cells, failure, f"the combined speedup is at least {factor} of the product of the two")


def _combination_gains() -> Cases:
    """Combination with SD is faster than either; with every method it is below the product."""

    def failure(cell: tuple[str, str, str, int]) -> Failure:
        table, alone, both, i = cell
        steps, tokens, combined = (printed(speedups(table, method)[i]) for method in ("ConfSpec", alone, both))
        below = combined[1] < product(steps, tokens)[0]
        faster = alone != "SD" or combined[0] > max(steps[1], tokens[1])
        return None if below and faster else (f"{both}, column {i}", {"combined": speedups(table, both)[i]})

    cells = [(*names, i) for names in _COMBINED for i in range(6)]
    return over(cells, failure, "combined speedups are below the product; with SD they are above either factor")


def _ranking(methods: tuple[str, ...] | None = None) -> Cases:
    """Order by speedup on every benchmark and family; equal or overlapping cells do not count as a change."""
    names = methods or _method_names()

    def order(pair: tuple[str, str], setting: tuple[str, int]) -> int:
        x, y = (printed(speedups(setting[0], method)[setting[1]]) for method in pair)
        return (x[0] > y[1]) - (x[1] < y[0])

    def failure(pair: tuple[str, str]) -> Failure:
        signs = {order(pair, s): s for s in _SETTINGS}
        if not {1, -1} <= signs.keys():
            return None
        shown = {
            f"{method} {BENCHMARKS[i]} ({table.split()[1]})": speedups(table, method)[i]
            for table, i in (signs[1], signs[-1])
            for method in pair
        }
        return f"{pair[0]} and {pair[1]}", shown

    return over(
        list(itertools.combinations(names, 2)), failure, "two methods have the same order of speed in all settings"
    )


def _undominated(ours: str = "ConfSpec") -> Cases:
    """No other step-level method is at least as accurate and at least as fast in any of the ten settings."""

    def failure(setting: tuple[str, int]) -> Failure:
        table, i = setting
        mine = Fraction(accuracies(table, ours)[i]), Fraction(speedups(table, ours)[i])
        for other in _method_names():
            theirs = Fraction(accuracies(table, other)[i]), Fraction(speedups(table, other)[i])
            if other != ours and all(x >= y for x, y in zip(theirs, mine, strict=True)):
                return f"{other} on {BENCHMARKS[i]} ({table})", {ours: str(mine), other: str(theirs)}
        return None

    return over(_SETTINGS, failure, f"no method is as accurate and as fast as {ours}")


def _ranges(best: str = "2.24") -> Cases:
    """Quoted extremes of Table 2: 1.53 to 1.83 and 1.18 to 1.42 for ConfSpec, 2.24 with SD."""
    quoted = {"2 DeepSeek": ("1.53", "1.83"), "2 Qwen3": ("1.18", "1.42")}

    def failure(table: str) -> Failure:
        cells = sorted(speedups(table, "ConfSpec")[:5], key=Fraction)
        top = max((x for t in _FAMILIES for x in speedups(t, "ConfSpec + SD")[:5]), key=Fraction)
        if (cells[0], cells[-1]) == quoted[table] and top == best:
            return None
        shown = {"lowest": cells[0], "highest": cells[-1], "top": top}
        return f"Table {table}: {cells[0]} to {cells[-1]}, {top} at most", shown

    return over(_FAMILIES, failure, f"quoted ranges of speedups, at most {best} with token-level speculation")


CLAIMS: tuple[Claim, ...] = (
    refuted(
        "CS-N5",
        formula=_product(),
        correction_formula=_combination_gains(),
        mutants={"three quarters": partial(_product, Fraction(3, 4))},
    ),
    corrected(
        "CS-N6", formula=_ranking(), holds={"two methods": partial(_ranking, ("ConfSpec", "LookaheadReasoning"))}
    ),
    proved("CS-N7", formula=_undominated(), mutants={"other method": partial(_undominated, "SpecCoT")}),
    proved("CS-N9", formula=_ranges(), mutants={"2.12": partial(_ranges, best="2.12")}),
)
