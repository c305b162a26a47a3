"""SPECS, Tables 1 and 4: seconds per step and per problem, from those of beam search with a single model.

Inputs are the paper's own seconds per step of beam search with the small and with the large model (generation and
reward together), at the same width; the share of steps that the large model generates; and the number of steps of beam
search with the large model. No latency of SPECS or RSD is an input. A step of SPECS is a step of either kind, as
`sim.algorithms.specs` schedules it, where the target weighs drafts by likelihood concurrently with the reward model; a
step of RSD with several beams is a step of the small model and, if its best draft is rejected, a step of the large one.

Each cell is predicted (a) with nothing fitted, and (b) with a constant of its pair and method, the median ratio of
published to (a) on the *other* data sets, whose spread gives the 95 % interval of (b).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final

from sim.estimate import student_quantile
from specplan.check.reproducing.cells import LeftOut, mean_error
from specplan.output import percent, table
from theory.published.specs import BENCHMARKS, FAMILIES, TABLE_1, TABLE_4, WIDTHS

__all__ = ["Cell", "cells", "rsd_step", "specs_step"]

N_STEPS: Final = 1
TITLE: Final = "SPECS, Tables 1 and 4"
HEADING: Final = "Reasons for the largest errors, and rows that are not predicted:"
BELOW: Final = "SPECS: with one constant / published; other cells: mean errors. All rows: -v."
REASONS: Final = (
    "MATH500, width 16, Qwen2.5: 1.31 s per step and a share of 45.5 % repeat the row of width 8. A step of SPECS "
    "contains a step of beam search with the small model, which takes 1.57 s there.",
    "Llama3: 78 to 98 % of the steps are the large model's, yet in 8 of 9 rows a step takes longer than with only "
    "that model (up to 1.26 times), and answers have more steps. No mixture of the two predicts that.",
    "RSD: a rejected draft costs a step of each model, but the printed seconds per step are lower in most rows.",
    "Tables 2, 5, 6 and 7: shares of the large model, or the number of steps of an answer, are not printed.",
)
"""Common properties of the rows with the largest errors, as far as they are published."""

_STEP: Final = "s/step"
_PROBLEM: Final = "s/problem"
_NOISY: Final = "SPECS, noisy rewards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(LeftOut):
    """A latency of the paper, s."""

    table: str
    family: str
    """The pair of models."""
    benchmark: str
    method: str
    width: int
    """Candidates per step."""
    quantity: str
    """``s/step`` or ``s/problem``."""


def specs_step(share: float, small: float, large: float) -> float:
    """Return the seconds of a step of SPECS.

    Parameters
    ----------
    share : share of the steps that the large model generates, in [0, 1].
    small, large : seconds of generating and rewarding the candidates of a step with either model, > 0.
    """
    return share * large + (1.0 - share) * small


def rsd_step(share: float, small: float, large: float) -> float:
    """Return the seconds of a step of RSD with several beams; parameters as in `specs_step`."""
    return small + share * large


def cells(step_done: Callable[[], None] = lambda: None) -> list[Cell]:
    """Return every latency whose inputs are printed; ``step_done`` is called once at the end."""
    results = [cell for family in FAMILIES for benchmark in BENCHMARKS for cell in _of_table_1(family, benchmark)]
    results += [_noisy(benchmark, width) for benchmark in BENCHMARKS for width in WIDTHS]
    step_done()
    return [_with_constant(cell, results) for cell in results]


def _of_table_1(family: str, benchmark: str) -> Iterator[Cell]:
    for width in WIDTHS:
        small, large = (TABLE_1[family, benchmark, name, width] for name in ("BS(S)", "BS(B)"))
        n_steps = float(large.seconds) / float(large.step_seconds)
        for method, step in (("SPECS", specs_step), ("RSD", rsd_step)):
            own = TABLE_1[family, benchmark, method, width]
            seconds = step(float(own.share) / 100.0, float(small.step_seconds), float(large.step_seconds))
            first = Cell(
                table="1",
                family=family,
                benchmark=benchmark,
                method=method,
                width=width,
                quantity=_STEP,
                predicted=seconds,
                published=float(own.step_seconds),
            )
            yield first
            yield replace(first, quantity=_PROBLEM, predicted=seconds * n_steps, published=float(own.seconds))


def _noisy(benchmark: str, width: int) -> Cell:
    """Table 4: its beam search, with the share and the ratio of steps of Table 1 (same settings, noise on rewards)."""
    small, large, own = (TABLE_1["Qwen2.5", benchmark, name, width] for name in ("BS(S)", "BS(B)", "SPECS"))
    ratio = specs_step(float(own.share) / 100.0, float(small.step_seconds) / float(large.step_seconds), 1.0)
    column = 2 * BENCHMARKS.index(benchmark) + 1
    return Cell(
        table="4",
        family="Qwen2.5",
        benchmark=benchmark,
        method=_NOISY,
        width=width,
        quantity=_PROBLEM,
        predicted=ratio * float(TABLE_4["BS(B)", width][column]),
        published=float(TABLE_4["SPECS", width][column]),
    )


def _with_constant(cell: Cell, results: Sequence[Cell]) -> Cell:
    """Add the prediction with a constant from the other data sets, never from the cell's own."""
    kind = cell.family, cell.method, cell.quantity
    alike = [c for c in results if (c.family, c.method, c.quantity) == kind and c.benchmark != cell.benchmark]
    others = [math.log(c.published / c.predicted) for c in alike]
    middle = median(others)
    # median and median deviation, since a cell of the table contradicts itself; 1.4826: normal errors
    spread = 1.4826 * median(abs(x - middle) for x in others)
    half = student_quantile(0.95, len(others) - 1) * spread * math.sqrt(1.0 + 1.0 / len(others))
    best = cell.predicted * math.exp(middle)
    return replace(cell, left_out=best, low=best * math.exp(-half), high=best * math.exp(half))


def summary(cells: Sequence[Cell]) -> str:
    """State the errors of every method that is predicted: SPECS, its noisy rewards, and RSD."""
    errors = {
        key: [c for c in cells if (c.method, c.quantity) == key]
        for key in dict.fromkeys((c.method, c.quantity) for c in cells)
    }
    steps, problems = errors["SPECS", _STEP], errors["SPECS", _PROBLEM]
    rsd_steps, rsd_problems = errors["RSD", _STEP], errors["RSD", _PROBLEM]
    noisy = errors[_NOISY, _PROBLEM]
    worst = max((c.error for c in (*rsd_steps, *rsd_problems)), key=abs)
    return (
        f"SPECS: mean absolute errors with nothing fitted are {mean_error([c.error for c in steps])} for {len(steps)} "
        f"seconds per step ({mean_error([c.left_out_error for c in steps])} with one constant from a pair's other data "
        f"sets), {mean_error([c.error for c in problems])} for {len(problems)} seconds per problem "
        f"({mean_error([c.left_out_error for c in problems])}), {mean_error([c.error for c in noisy])} for "
        f"{len(noisy)} with noisy rewards. RSD is not explained: {len(rsd_steps) + len(rsd_problems)} latencies, "
        f"{mean_error([c.error for c in rsd_steps])} (per step) and {mean_error([c.error for c in rsd_problems])} (per "
        f"problem) off, worst {percent(worst, 0, signed=True)}."
    )


def short_table(cells: Sequence[Cell]) -> str:
    """SPECS of Table 1, a data set in each line with its widths next to each other; the other methods in the mean."""
    lines = []
    rows = dict.fromkeys((c.quantity, c.family, c.benchmark) for c in cells if c.method == "SPECS")
    for row in sorted(rows, key=lambda key: (key[0] != _STEP, FAMILIES.index(key[1]))):
        own = [c for c in cells if c.method == "SPECS" and (c.quantity, c.family, c.benchmark) == row]
        lines.append([*row, *(f"{c.left_out:.3g}/{c.published:g}" for c in own), _mean_of(own)])
    for method, quantity in dict.fromkeys((c.method, c.quantity) for c in cells if c.method != "SPECS"):
        own = [c for c in cells if (c.method, c.quantity) == (method, quantity)]
        widths = (_mean_of([c for c in own if c.width == width]) for width in WIDTHS)
        pairs = "both" if len({c.family for c in own}) > 1 else own[0].family
        lines.append([quantity, pairs, f"{method.removeprefix('SPECS, ')}, all", *widths, _mean_of(own)])
    return table(["unit", "pair", "data set", *(f"n = {width}" for width in WIDTHS), "off"], lines)


def _mean_of(cells: Sequence[Cell]) -> str:
    return percent(fmean(abs(c.left_out_error) for c in cells), 0)
