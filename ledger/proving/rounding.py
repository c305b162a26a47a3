"""Exact arithmetic with printed numbers: a number in a table stands for every value that rounds to it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

__all__ = ["Interval", "could_round_to", "mean", "printed", "product", "quotient"]

Interval = tuple[Fraction, Fraction]
"""Closed interval; closed on both sides because the rounding rule of a paper (half up, half even) is not known."""


def printed(text: str) -> Interval:
    """All values that a decimal could have been rounded from.

    >>> [str(x) for x in printed("1.68")]
    ['67/40', '337/200']
    """
    digits = len(text.partition(".")[2])
    value, half = Fraction(text), Fraction(1, 2 * 10**digits)
    return value - half, value + half


def mean(cells: Sequence[str]) -> Interval:
    """All values that the mean of printed numbers can have."""
    bounds = [printed(cell) for cell in cells]
    n = len(bounds)
    return sum((low for low, _ in bounds), Fraction(0)) / n, sum((high for _, high in bounds), Fraction(0)) / n


def product(x: Interval, y: Interval) -> Interval:
    """For intervals of positive numbers."""
    return x[0] * y[0], x[1] * y[1]


def quotient(x: Interval, y: Interval) -> Interval:
    """For intervals of positive numbers."""
    return x[0] / y[1], x[1] / y[0]


def could_round_to(values: Interval, text: str) -> bool:
    """Whether some value of the interval rounds to the printed number."""
    low, high = printed(text)
    return values[0] <= high and low <= values[1]
