"""Claims of ConfSpec that compare its own numbers: means, percentages, ranges and rankings of Tables 2 to 5 and 7.

A printed number stands for every value that rounds to it, so a contradiction found here is one for every such value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from theory.claims.ledger import Claim, Evidence, Verdict
from theory.claims.proving.records import corrected, mutant, proved, refuted
from theory.claims.proving.rounding import could_round_to, mean, printed, product, quotient
from theory.claims.proving.tools import counterexample, numeric
from theory.published.confspec import BENCHMARKS, PROBLEMS, SAMPLES, TABLES, accuracies, speedups

__all__ = ["CLAIMS"]

_FAMILIES = ("2 DeepSeek", "2 Qwen3")
_ROWS = tuple((table, method) for table, methods in TABLES.items() for method in methods)
_WRONG_MEANS = frozenset({("2 DeepSeek", "Target Model"), ("3", "Target Model")})
_WRONG_COUNTS = frozenset({"68.46", "35.89"})
_SETTINGS = tuple((table, i) for table in _FAMILIES for i in range(len(BENCHMARKS)))
"""(table, column) of every benchmark of Table 2."""

_COMBINED = (
    ("2 DeepSeek", "SD", "ConfSpec + SD"),
    ("2 Qwen3", "SD", "ConfSpec + SD"),
    ("5", "EAGLE-3", "ConfSpec + EAGLE-3"),
)
"""(table, token-level method, its combination with ConfSpec); PLD in Table 5 is SD of Table 2 for Qwen3."""

_T = TypeVar("_T")
Failure = tuple[str, dict[str, str]] | None
"""What went wrong and the printed cells that show it; None when the check passes."""


def _over(items: Sequence[_T], failure: Callable[[_T], Failure], what: str) -> Evidence:
    """``false`` with the first failing item, else ``proved`` for the finite list."""
    for item in items:
        failing = failure(item)
        if failing is not None:
            return counterexample(f"{what}: fails for {failing[0]}", failing[1], {"items": len(items)})
    detail = f"{what}: all {len(items)} of them, for every value that rounds to the printed one"
    return Evidence(verdict=Verdict.PROVED, method="exact arithmetic", detail=detail, effort={"items": len(items)})


def _mean_failure(row: tuple[str, str]) -> Failure:
    for name, cells in (("accuracy", accuracies(*row)), ("speedup", speedups(*row))):
        if cells and not could_round_to(mean(cells[:5]), cells[5]):
            true = float(sum(map(Fraction, cells[:5])) / 5)
            where = f"{row[1]} in Table {row[0]}: mean {name} {true:.3f} of the cells against {cells[5]} printed"
            return where, dict(zip((*BENCHMARKS, "Mean"), cells, strict=True))
    return None


def _verify_means(skip: frozenset[tuple[str, str]] = frozenset()) -> Evidence:
    return _over(
        [row for row in _ROWS if row not in skip], _mean_failure, "the last column is the mean of the five before"
    )


def _verify_counts(skip: frozenset[str] = frozenset()) -> Evidence:
    """An accuracy over 30 problems with 16 samples each is a multiple of 100 / 480 percent."""
    total = SAMPLES * PROBLEMS["AIME24"]

    def failure(cell: tuple[str, str, str]) -> Failure:
        low, high = printed(cell[2])
        if any(low <= Fraction(100 * right, total) <= high for right in range(total + 1)):
            return None
        return f"{cell[1]} in Table {cell[0]}: {cell[2]} % is no multiple of 1/{total}", {"AIME24": cell[2]}

    cells = [(*row, accuracies(*row)[0]) for row in _ROWS if accuracies(*row)]
    kept = [cell for cell in cells if cell[2] not in skip]
    return _over(kept, failure, f"AIME24 accuracies are means of {total} results 0 or 1")


def _verify_one_baseline(value: str | None = None) -> Evidence:
    """The target's AIME24 accuracy is the same in Tables 2, 3 and 4."""
    cells = [(table, value or accuracies(table, "Target Model")[0]) for table in ("2 DeepSeek", "3", "4")]

    def failure(pair: tuple[tuple[str, str], tuple[str, str]]) -> Failure:
        (left, x), (right, y) = pair
        shown = {f"Table {left}": x, f"Table {right}": y}
        return None if x == y else (f"Tables {left} and {right}: {x} and {y}", shown)

    return _over(list(itertools.pairwise(cells)), failure, "the target has one accuracy on AIME24 in all tables")


def _retained(quoted: str, reference: str) -> Evidence:
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

    return _over(tables, failure, f"ConfSpec keeps {quoted} % of the accuracy of '{reference}'")


def _verify_product(factor: Fraction = Fraction(1)) -> Evidence:
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
    return _over(cells, failure, f"the combined speedup is at least {factor} of the product of the two")


def _verify_combination_gains() -> Evidence:
    """Combination with SD is faster than either; with every method it is below the product."""

    def failure(cell: tuple[str, str, str, int]) -> Failure:
        table, alone, both, i = cell
        steps, tokens, combined = (printed(speedups(table, method)[i]) for method in ("ConfSpec", alone, both))
        below = combined[1] < product(steps, tokens)[0]
        faster = alone != "SD" or combined[0] > max(steps[1], tokens[1])
        return None if below and faster else (f"{both}, column {i}", {"combined": speedups(table, both)[i]})

    cells = [(*names, i) for names in _COMBINED for i in range(6)]
    return _over(cells, failure, "combined speedups are below the product; with SD they are above either factor")


def _method_names() -> list[str]:
    """Step-level methods of Table 2."""
    return [m for m in TABLES["2 DeepSeek"] if m not in {"Target Model", "SD", "ConfSpec + SD"}]


def _verify_ranking(methods: list[str] | None = None) -> Evidence:
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

    return _over(
        list(itertools.combinations(names, 2)), failure, "two methods have the same order of speed in all settings"
    )


def _verify_undominated(ours: str = "ConfSpec") -> Evidence:
    """No other step-level method is at least as accurate and at least as fast in any of the ten settings."""

    def failure(setting: tuple[str, int]) -> Failure:
        table, i = setting
        mine = Fraction(accuracies(table, ours)[i]), Fraction(speedups(table, ours)[i])
        for other in _method_names():
            theirs = Fraction(accuracies(table, other)[i]), Fraction(speedups(table, other)[i])
            if other != ours and all(x >= y for x, y in zip(theirs, mine, strict=True)):
                return f"{other} on {BENCHMARKS[i]} ({table})", {ours: str(mine), other: str(theirs)}
        return None

    return _over(_SETTINGS, failure, f"no method is as accurate and as fast as {ours}")


def _verify_upper_bound(slack: Fraction = Fraction(0)) -> Evidence:
    """No ConfSpec cell of Table 2 above the target's, plus a slack in points."""

    def failure(cell: tuple[str, int]) -> Failure:
        table, i = cell
        ours, target = accuracies(table, "ConfSpec")[i], accuracies(table, "Target Model")[i]
        if printed(ours)[0] <= printed(target)[1] + slack:
            return None
        return f"{BENCHMARKS[i]} in Table {table}: {ours} against {target}", {"ConfSpec": ours, "Target Model": target}

    return _over(_SETTINGS, failure, f"accuracy at most the target's plus {float(slack)} points")


def _verify_ranges(best: str = "2.24") -> Evidence:
    """Quoted extremes of Table 2: 1.53 to 1.83 and 1.18 to 1.42 for ConfSpec, 2.24 with SD."""
    quoted = {"2 DeepSeek": ("1.53", "1.83"), "2 Qwen3": ("1.18", "1.42")}

    def failure(table: str) -> Failure:
        cells = sorted(speedups(table, "ConfSpec")[:5], key=Fraction)
        top = max((x for t in _FAMILIES for x in speedups(t, "ConfSpec + SD")[:5]), key=Fraction)
        if (cells[0], cells[-1]) == quoted[table] and top == best:
            return None
        shown = {"lowest": cells[0], "highest": cells[-1], "top": top}
        return f"Table {table}: {cells[0]} to {cells[-1]}, {top} at most", shown

    return _over(_FAMILIES, failure, f"quoted ranges of speedups, at most {best} with token-level speculation")


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
    corrected(
        id="CS-N1",
        source="ConfSpec, Tables 2 to 5 and 7",
        statement="The mean column is the mean of the five benchmarks.",
        assumptions="cells rounded as printed",
        verify=_verify_means,
        correction="The target's mean for DeepSeek is 82.00 (Table 4), not 81.99 (Table 2), and with 68.46 on AIME24 "
        "it would be 81.99, not 82.03 (Table 3). All other rows are right.",
        holds=mutant("two rows excepted", "without the two rows named", _verify_means, _WRONG_MEANS),
    ),
    refuted(
        id="CS-N2",
        source="ConfSpec, Tables 2, 3 and 4, section 5.2",
        statement="The DeepSeek target has one AIME24 accuracy throughout.",
        assumptions="same model, same runs",
        verify=_verify_one_baseline,
        correction="68.54 (Tables 2 and 4) is possible with 16 samples of 30 problems; 68.46 (Table 3, section 5.2) is "
        "not, see CS-N3.",
        correction_verify=lambda: _verify_counts(_WRONG_COUNTS),
        mutants=(mutant("68.54", "68.54 everywhere", _verify_one_baseline, "68.54"),),
    ),
    corrected(
        id="CS-N3",
        source="ConfSpec, Tables 2 to 5 and 7, section 5.1",
        statement="AIME24 accuracies are means over 16 samples of each of 30 problems.",
        assumptions="each sample is right or wrong; rounding as printed",
        verify=_verify_counts,
        correction="True of all AIME24 cells but 68.46 (target, and gamma = 0.95) and 35.89 (draft verification), all "
        "in Table 3.",
        holds=mutant("cells excepted", "without 68.46 and 35.89", _verify_counts, _WRONG_COUNTS),
        notes="On HumanEval and GPQA many cells fail the same test, so another number of samples or problems may have "
        "been used there.",
    ),
    refuted(
        id="CS-N4",
        source="ConfSpec, section 5.3 (threshold)",
        statement="At gamma = 0.9 ConfSpec keeps 99.7 % of the target model's accuracy.",
        assumptions="mean accuracies of Tables 2, 3 and 4",
        verify=lambda: _retained("99.7", "Target Model"),
        correction="99.4 % of the target model's (for each of its three printed means); 99.7 % is the ratio to the row "
        "'Target Verification'.",
        correction_verify=lambda: _retained("99.4", "Target Model"),
        mutants=(mutant("other row", "against 'Target Verification'", _retained, "99.7", "Target Verification"),),
    ),
    refuted(
        id="CS-N5",
        source="ConfSpec, sections 1, 4.4, 5.2 and Appendix A",
        statement="Speedups of ConfSpec and of token-level speculation multiply.",
        assumptions="Tables 2 and 5, rounding as printed",
        verify=_verify_product,
        correction="Every combined speedup is below the product, the mean by 16 % (DeepSeek + SD), 7 % (Qwen3 + SD) "
        "and 13 % (Qwen3 + EAGLE-3); with SD it is above either factor in every cell.",
        correction_verify=_verify_combination_gains,
        mutants=(mutant("three quarters", "at least 3/4 of the product", _verify_product, Fraction(3, 4)),),
        notes="Token-level speculation speeds up the target more than the draft and the checks, so the cost ratio "
        "changes with it.",
    ),
    corrected(
        id="CS-N6",
        source="ConfSpec, section 5.2 (generalization)",
        statement="The ranking of the methods is the same in all settings.",
        assumptions="order by speedup over two families and five benchmarks; overlapping cells count as equal",
        verify=_verify_ranking,
        correction="ConfSpec is above LookaheadReasoning in speed in every setting; other pairs change places.",
        holds=mutant(
            "two methods",
            "only ConfSpec and LookaheadReasoning",
            _verify_ranking,
            ["ConfSpec", "LookaheadReasoning"],
        ),
    ),
    proved(
        id="CS-N7",
        source="ConfSpec, section 5.2 (Pareto frontier)",
        statement="No other step-level method is as accurate and as fast as ConfSpec in any of the ten settings.",
        assumptions="Table 2 as printed",
        verify=_verify_undominated,
        mutants=(mutant("other method", "SpecCoT in place of ConfSpec", _verify_undominated, "SpecCoT"),),
    ),
    corrected(
        id="CS-N8",
        source="ConfSpec, captions of Tables 2 and 5",
        statement="The target model is the upper bound for accuracy.",
        assumptions="Table 2, rounding as printed",
        verify=_verify_upper_bound,
        correction="ConfSpec is above the target in three cells of Table 2, by at most 0.68 points.",
        holds=mutant("0.68 points", "0.68 points of slack", _verify_upper_bound, Fraction(68, 100)),
        notes="A sampling target is a reference, not a bound; differences of this size are within sampling noise "
        "(CS-N10).",
    ),
    proved(
        id="CS-N9",
        source="ConfSpec, abstract and section 5.2",
        statement="Speedups run from 1.53 to 1.83 (DeepSeek) and 1.18 to 1.42 (Qwen3), 2.24 at most with token-level "
        "speculation.",
        assumptions="Table 2 as printed",
        verify=_verify_ranges,
        mutants=(mutant("2.12", "2.12 at most", _verify_ranges, best="2.12"),),
    ),
    Claim(
        id="CS-N10",
        source="ConfSpec, abstract, sections 1 and 5.2",
        statement="ConfSpec matches the accuracy of the target model.",
        assumptions="Table 2; 16 independent samples per problem; no standard errors are given",
        verdict=Verdict.NUMERIC,
        verify=_matches_target,
        mutants=(
            mutant("SpecCoT", "another method", _matches_target, "SpecCoT"),
            mutant("one comparison", "5 % level of a single test", _matches_target, threshold=1.96),
        ),
        notes="Not refuted, which is weak: on HumanEval (DeepSeek) accuracy falls by 1.8 points, 2.4 standard errors "
        "or more. The errors used are upper bounds, so a paired test on the raw samples could still find a difference.",
    ),
)
