"""Which tree width pays: `theory.branches` with LR's Table 3 and ConfSpec's Table 4.

The time that a further position in flight adds to every step follows from Table 3: the median over its cells with
W > 1, for a row of that table over those of the other rows. ConfSpec's rows are predicted with it from their speedup at
W = 1, which says how many steps are accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Final

from specplan.check.reproducing.lookahead_reasoning import sibling_correlation
from theory.branches import h_tree, position_cost_at
from theory.published.confspec import BENCHMARKS, LATENCY_MS, speedups
from theory.published.lookahead_reasoning import TABLE_3, TREE_WIDTHS
from theory.speedup import f_async

__all__ = ["TreeRow", "confspec_rows", "lookahead_rows", "position_cost"]

_C1: Final = float(LATENCY_MS["draft step"]) / float(LATENCY_MS["target step"])
_LR_DEPTH, _CONFSPEC_DEPTH = 2, 5
_CONFSPEC_WIDTHS: Final = (1, 2, 4)
_SIBLINGS: Final = 0.63
"""Correlation of the verdicts on GSM8K with eight branches (LR, Table 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """Speedups of one setting by width, as shares of the speedup of one branch."""

    setting: str
    predicted: dict[int, float]
    """Width -> h with W branches / h with one, [-]."""
    published: dict[int, float]

    @property
    def best(self) -> int:
        """The width of the largest predicted speedup."""
        return max(self.predicted, key=self.predicted.__getitem__)

    @property
    def best_published(self) -> tuple[int, ...]:
        """The width of the largest published speedup, or the widths that share it."""
        return tuple(w for w, gain in self.published.items() if gain == max(self.published.values()))


def position_cost(without: tuple[str, str] | None = None) -> float:
    """Time that each further position in flight adds to every step, as a share of it: the median over Table 3.

    Parameters
    ----------
    without : data set and judge of a row to leave out.
    """
    return median(cost for row in TABLE_3 if row != without for cost in _costs(row))


def lookahead_rows() -> list[TreeRow]:
    """Return the four rows of LR's Table 3, each at the position cost of the other three."""
    return [
        TreeRow(
            setting=f"{row[0]}, {row[1]} judge",
            predicted={
                w: _gain(_alpha(row), w, _LR_DEPTH, _siblings(row, w), position_cost(without=row)) for w in TREE_WIDTHS
            },
            published=_published(TREE_WIDTHS, TABLE_3[row]["speedup"]),
        )
        for row in TABLE_3
    ]


def confspec_rows() -> list[TreeRow]:
    """Return the five benchmarks of ConfSpec's Table 4 at the position cost of LR's Table 3."""
    cells = [speedups("4", f"ConfSpec W={w}") for w in _CONFSPEC_WIDTHS]
    return [
        TreeRow(
            setting=benchmark,
            predicted={
                w: _gain(_alpha_of(float(column[0])), w, _CONFSPEC_DEPTH, _SIBLINGS, position_cost())
                for w in _CONFSPEC_WIDTHS
            },
            published=_published(_CONFSPEC_WIDTHS, column),
        )
        for benchmark, *column in zip(BENCHMARKS, *cells, strict=False)  # the last cell is their mean
    ]


def _published(widths: tuple[int, ...], cells: tuple[str, ...] | list[str]) -> dict[int, float]:
    return {w: float(cell) / float(cells[0]) for w, cell in zip(widths, cells, strict=True)}


def _alpha(row: tuple[str, str]) -> float:
    return float(TABLE_3[row]["acceptance"][0])


def _siblings(row: tuple[str, str], width: int) -> float:
    """Correlation of the verdicts that gives the printed acceptance."""
    return sibling_correlation(_alpha(row), float(TABLE_3[row]["acceptance"][TREE_WIDTHS.index(width)]), width)


def _gain(alpha: float, width: int, depth: int, siblings: float, cost: float) -> float:
    one, tree = (
        float(h_tree(alpha, _C1, depth, w, 0.0, 1.0, 1, "async", siblings=siblings, position_cost=cost))
        for w in (1, width)
    )
    return tree / one


@cache
def _costs(row: tuple[str, str]) -> list[float]:
    """Position costs of a row's cells with W > 1."""
    gains = _published(TREE_WIDTHS, TABLE_3[row]["speedup"])
    return [
        position_cost_at(_alpha(row), _C1, _LR_DEPTH, w, "async", siblings=_siblings(row, w), gain=gains[w])
        for w in TREE_WIDTHS[1:]
    ]


def _alpha_of(speedup: float) -> float:
    """Acceptance at which one branch has this speedup at ConfSpec's depth."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2.0
        low, high = (middle, high) if float(f_async(middle, _C1, _CONFSPEC_DEPTH)) < speedup else (low, middle)
    return low
