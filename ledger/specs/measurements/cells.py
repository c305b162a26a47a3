"""Cells of the tables of SPECS by method, benchmark and beam width (Qwen pair)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from theory.published.specs import BENCHMARKS, TABLE_1, WIDTHS

__all__ = ["CELLS", "accuracy", "ahead", "main_accuracy", "main_seconds", "saved", "seconds"]

CELLS = tuple((benchmark, width) for benchmark in BENCHMARKS for width in WIDTHS)


def accuracy(table: Mapping[tuple[str, int], tuple[str, ...]], method: str, benchmark: str, width: int) -> Fraction:
    """Accuracy in Tables 2, 4 and 6, in percent."""
    return Fraction(table[method, width][2 * BENCHMARKS.index(benchmark)])


def main_accuracy(method: str, benchmark: str, width: int) -> Fraction:
    """Accuracy of Table 1, Qwen pair, in percent."""
    return Fraction(TABLE_1["Qwen2.5", benchmark, method, width].accuracy)


def ahead(family: str, benchmark: str, width: int, method: str = "BS(B)") -> Fraction:
    """Points of accuracy of SPECS above a baseline of Table 1, by default beam search with the large model."""
    own, other = (TABLE_1[family, benchmark, each, width].accuracy for each in ("SPECS", method))
    return Fraction(own) - Fraction(other)


def saved(specs_seconds: str, beam_seconds: str) -> Fraction:
    """Share of the seconds of beam search that SPECS saves."""
    return 1 - Fraction(specs_seconds) / Fraction(beam_seconds)


def main_seconds(method: str, benchmark: str, width: int) -> Fraction:
    """Seconds of Table 1, Qwen pair."""
    return Fraction(TABLE_1["Qwen2.5", benchmark, method, width].seconds)


def seconds(table: Mapping[tuple[str, int], tuple[str, ...]], method: str, benchmark: str, width: int) -> Fraction:
    """Seconds in Tables 2, 4 and 6."""
    return Fraction(table[method, width][2 * BENCHMARKS.index(benchmark) + 1])
