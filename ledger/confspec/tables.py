"""Claims of ConfSpec that compare its own numbers: means, percentages, accuracies and speedups of its tables.

A printed number stands for every value that rounds to it, so a contradiction here is one for every such value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ledger.ledger import Claim, Evidence, Verdict
from ledger.proving.cases import Case, Cases, rows, walked
from ledger.proving.combine import counterexample
from ledger.proving.records import proved, record, refuted
from ledger.proving.rounding import could_round_to, mean, printed, product, quotient
from ledger.proving.tools import numeric
from theory.published.confspec import BENCHMARKS, PROBLEMS, SAMPLES, TABLES, accuracies, speedups

__all__ = ["CLAIMS"]

Failure = tuple[str, dict[str, str]] | None
"""What went wrong and the printed cells that show it; None when the check passes."""


def over(items: Sequence[Any], failure: Callable[[Any], Failure], what: str) -> Cases:
    """A test of each item of a finite list; the item is shown by the printed cells that fail."""

    def shown(case: Case) -> dict[str, str]:
        failing = failure(case["item"])
        return {} if failing is None else failing[1]

    return Cases(
        text=what,
        test=lambda item: failure(item) is None,
        cases=rows(*[{"item": item} for item in items]),
        where=f"{len(items)} of them, for every value that rounds to the printed one",
        shown=shown,
        by=partial(_decided, failure),
    )


def _decided(failure: Callable[[Any], Failure], cases: Cases) -> Evidence:
    """``false`` with the first failing item, else ``proved`` for the finite list."""
    evidence = walked(cases)
    if evidence.verdict is Verdict.PROVED:
        return replace(evidence, method="exact arithmetic", detail=f"{cases.text}: all {cases.where}")
    item = next(case["item"] for case in cases.cases() if not cases.holds(case))
    name, cells = failure(item) or (str(item), {})
    return counterexample(f"{cases.text}: fails for {name}", cells, evidence.effort)


_FAMILIES = ("2 DeepSeek", "2 Qwen3")
_ROWS = tuple((table, method) for table, methods in TABLES.items() for method in methods)
_WRONG_MEANS = frozenset({("2 DeepSeek", "Target Model"), ("3", "Target Model")})
_WRONG_COUNTS = frozenset({"68.46", "35.89"})
_SETTINGS = tuple((table, i) for table in _FAMILIES for i in range(len(BENCHMARKS)))
"""(table, column) of every benchmark of Table 2."""


def _mean_failure(row: tuple[str, str]) -> Failure:
    for name, cells in (("accuracy", accuracies(*row)), ("speedup", speedups(*row))):
        if cells and not could_round_to(mean(cells[:5]), cells[5]):
            true = float(sum(map(Fraction, cells[:5])) / 5)
            where = f"{row[1]} in Table {row[0]}: mean {name} {true:.3f} of the cells against {cells[5]} printed"
            return where, dict(zip((*BENCHMARKS, "Mean"), cells, strict=True))
    return None


def _means(skip: frozenset[tuple[str, str]] = frozenset()) -> Cases:
    return over(
        [row for row in _ROWS if row not in skip], _mean_failure, "the last column is the mean of the five before"
    )


def _counts(skip: frozenset[str] = frozenset()) -> Cases:
    """An accuracy over 30 problems with 16 samples each is a multiple of 100 / 480 percent."""
    total = SAMPLES * PROBLEMS["AIME24"]

    def failure(cell: tuple[str, str, str]) -> Failure:
        low, high = printed(cell[2])
        if any(low <= Fraction(100 * right, total) <= high for right in range(total + 1)):
            return None
        return f"{cell[1]} in Table {cell[0]}: {cell[2]} % is no multiple of 1/{total}", {"AIME24": cell[2]}

    cells = [(*row, accuracies(*row)[0]) for row in _ROWS if accuracies(*row)]
    kept = [cell for cell in cells if cell[2] not in skip]
    return over(kept, failure, f"AIME24 accuracies are means of {total} results 0 or 1")


def _one_baseline(value: str | None = None) -> Cases:
    cells = [(table, value or accuracies(table, "Target Model")[0]) for table in ("2 DeepSeek", "3", "4")]

    def failure(pair: tuple[tuple[str, str], tuple[str, str]]) -> Failure:
        (left, x), (right, y) = pair
        shown = {f"Table {left}": x, f"Table {right}": y}
        return None if x == y else (f"Tables {left} and {right}: {x} and {y}", shown)

    return over(list(itertools.pairwise(cells)), failure, "the target has one accuracy on AIME24 in all tables")


def _retains(quoted: str, reference: str) -> Cases:
    """ConfSpec (gamma = 0.9) mean accuracy over the reference row's, for every table that prints the reference."""
    ours = printed(accuracies("3", "ConfSpec gamma=0.9")[5])
    tables = [t for t in ("2 DeepSeek", "3", "4") if reference in TABLES[t]]

    def failure(table: str) -> Failure:
        theirs = accuracies(table, reference)[5]
        low, high = (100 * x for x in quotient(ours, printed(theirs)))
        if could_round_to((low, high), quoted):
            return None
        text = f"Table {table}: 81.51 / {theirs} = {float(low):.2f} to {float(high):.2f} %, not {quoted} %"
        return text, {"ConfSpec": "81.51", "reference": theirs, "quoted": quoted}

    return over(tables, failure, f"ConfSpec keeps {quoted} % of the accuracy of '{reference}'")


def _upper_bound(slack: Fraction = Fraction(0)) -> Cases:
    def failure(cell: tuple[str, int]) -> Failure:
        table, i = cell
        ours, target = accuracies(table, "ConfSpec")[i], accuracies(table, "Target Model")[i]
        if printed(ours)[0] <= printed(target)[1] + slack:
            return None
        return f"{BENCHMARKS[i]} in Table {table}: {ours} against {target}", {"ConfSpec": ours, "Target Model": target}

    return over(_SETTINGS, failure, f"accuracy at most the target's plus {float(slack)} points")


def _matches_target(method: str = "ConfSpec", threshold: float = 2.81) -> Evidence:
    """Z of each difference, with the smallest standard error that 16 samples per problem can have hidden.

    The error of a mean over a fixed set of problems is at most that of as many independent trials, sqrt(p (1 - p) / n),
    so the true |z| is at least the one computed. 2.81 is the two-sided 5 % level for ten comparisons (Bonferroni).
    """
    worst, where = 0.0, ""
    for table, (i, name) in itertools.product(_FAMILIES, enumerate(BENCHMARKS)):
        p, q = (float(accuracies(table, row)[i]) / 100 for row in (method, "Target Model"))
        n = SAMPLES * PROBLEMS[name]
        z = (p - q) / math.sqrt((p * (1 - p) + q * (1 - q)) / n)
        if abs(z) > abs(worst):
            worst, where = z, f"{name}, Table {table}"
    what = f"largest |z| of the ten differences from the target {worst:.2f} ({where}) against {threshold}"
    return numeric(abs(worst) <= threshold, what=what, effort={"comparisons": 10})


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
    def failure(cell: tuple[str, str, str, int]) -> Failure:
        table, single, both, i = cell
        steps, tokens, combined = (speedups(table, method)[i] for method in ("ConfSpec", single, both))
        possible = product(printed(steps), printed(tokens))
        if printed(combined)[1] >= factor * possible[0] and printed(combined)[0] <= possible[1]:
            return None
        where = (*BENCHMARKS, "Mean")[i]
        whole = float(Fraction(steps) * Fraction(tokens))
        text = f"{both}, {where}: {combined} against {whole:.2f} = {steps} x {tokens}"
        return text, {"ConfSpec": steps, single: tokens, both: combined}

    cells = [(*names, i) for names in _COMBINED for i in (5, 0, 1, 2, 3, 4)]
    return over(cells, failure, f"the combined speedup is at least {factor} of the product of the two")


def _combination_gains() -> Cases:
    def failure(cell: tuple[str, str, str, int]) -> Failure:
        table, single, both, i = cell
        steps, tokens, combined = (printed(speedups(table, method)[i]) for method in ("ConfSpec", single, both))
        below = combined[1] < product(steps, tokens)[0]
        faster = single != "SD" or combined[0] > max(steps[1], tokens[1])
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
    refuted("CS-N1", _means(), fix=partial(_means, _WRONG_MEANS)),
    refuted(
        "CS-N2", _one_baseline(), instead=_counts(_WRONG_COUNTS), mutants={"68.54": partial(_one_baseline, "68.54")}
    ),
    refuted("CS-N3", _counts(), fix=partial(_counts, _WRONG_COUNTS)),
    refuted(
        "CS-N4",
        _retains("99.7", "Target Model"),
        instead=_retains("99.4", "Target Model"),
        mutants={"other row": partial(_retains, "99.7", "Target Verification")},
    ),
    refuted("CS-N8", _upper_bound(), fix=partial(_upper_bound, Fraction(68, 100))),
    record(
        Verdict.NUMERIC,
        "CS-N10",
        verify=_matches_target,
        mutants={
            "SpecCoT": partial(_matches_target, "SpecCoT"),
            "one comparison": partial(_matches_target, threshold=1.96),
        },
    ),
    refuted(
        "CS-N5", _product(), instead=_combination_gains(), mutants={"three quarters": partial(_product, Fraction(3, 4))}
    ),
    refuted("CS-N6", _ranking(), fix=partial(_ranking, ("ConfSpec", "LookaheadReasoning"))),
    proved("CS-N7", _undominated(), mutants={"other method": partial(_undominated, "SpecCoT")}),
    proved("CS-N9", _ranges(), mutants={"2.12": partial(_ranges, best="2.12")}),
)
