"""Claims of ConfSpec that compare its own numbers: means, percentages and accuracies of Tables 2 to 5 and 7.

A printed number stands for every value that rounds to it, so a contradiction found here is one for every such value.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial

from ledger.confspec.cells import Failure, over
from ledger.ledger import Claim, Evidence, Verdict
from ledger.proving.cases import Cases
from ledger.proving.records import corrected, record, refuted
from ledger.proving.rounding import could_round_to, mean, printed, quotient
from ledger.proving.tools import numeric
from theory.published.confspec import BENCHMARKS, PROBLEMS, SAMPLES, TABLES, accuracies, speedups

__all__ = ["CLAIMS"]

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
    """The target's AIME24 accuracy is the same in Tables 2, 3 and 4."""
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
    """No ConfSpec cell of Table 2 above the target's, plus a slack in points."""

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


CLAIMS: tuple[Claim, ...] = (
    corrected("CS-N1", formula=_means(), holds={"two rows excepted": partial(_means, _WRONG_MEANS)}),
    refuted(
        "CS-N2",
        formula=_one_baseline(),
        correction_formula=_counts(_WRONG_COUNTS),
        mutants={"68.54": partial(_one_baseline, "68.54")},
    ),
    corrected("CS-N3", formula=_counts(), holds={"cells excepted": partial(_counts, _WRONG_COUNTS)}),
    refuted(
        "CS-N4",
        formula=_retains("99.7", "Target Model"),
        correction_formula=_retains("99.4", "Target Model"),
        mutants={"other row": partial(_retains, "99.7", "Target Verification")},
    ),
    corrected("CS-N8", formula=_upper_bound(), holds={"0.68 points": partial(_upper_bound, Fraction(68, 100))}),
    record(
        Verdict.NUMERIC,
        "CS-N10",
        verify=_matches_target,
        mutants={
            "SpecCoT": partial(_matches_target, "SpecCoT"),
            "one comparison": partial(_matches_target, threshold=1.96),
        },
    ),
)
