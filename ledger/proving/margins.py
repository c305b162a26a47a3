"""Comparisons that know by how much they hold, so that a search can walk towards a failure.

A test of a `cases.Predicate` returns a `Margin` where it compares two sides. Its truth is exact for fractions. Balls
compare as wanted unless they certainly do not, which is how a search for counterexamples uses them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from flint import arb

__all__ = ["MET", "Margin", "above", "at_least", "at_most", "below", "equal", "every", "exactly_when"]


@dataclass(frozen=True, slots=True)
class Margin:
    """Whether a comparison holds, and by how much."""

    holds: bool
    room: float
    """Distance of the two sides as a share of the larger one, in [-2, 2]; negative where the comparison fails."""

    def __bool__(self) -> bool:
        return self.holds

    def __and__(self, other: Margin) -> Margin:
        return Margin(self.holds and other.holds, min(self.room, other.room))

    def __or__(self, other: Margin) -> Margin:
        return Margin(self.holds or other.holds, max(self.room, other.room))

    def __invert__(self) -> Margin:
        return Margin(not self.holds, -self.room)


_ALL: Final = 2.0
MET: Final = Margin(True, _ALL)
"""Margin of a statement without a condition."""
_ROUNDING: Final = 1e-9
"""Share within which two floats are equal."""


def below(left: Any, right: Any) -> Margin:
    """``left < right``."""
    return _margin(not left >= right if _balls(left, right) else left < right, right, left)


def at_most(left: Any, right: Any) -> Margin:
    """``left <= right``."""
    return _margin(not left > right if _balls(left, right) else left <= right, right, left)


def above(left: Any, right: Any) -> Margin:
    """``left > right``."""
    return below(right, left)


def at_least(left: Any, right: Any) -> Margin:
    """``left >= right``."""
    return at_most(right, left)


def equal(left: Any, right: Any) -> Margin:
    """``left == right``, where rounding may stand between two floats."""
    apart = abs(_share(left, right))
    return Margin(apart < _ROUNDING, -apart)


def every(margins: Iterable[Margin]) -> Margin:
    """All of them hold; none are met."""
    return functools.reduce(operator.and_, margins, MET)


def exactly_when(left: Margin, right: Margin) -> Margin:
    """Both hold or neither does."""
    near = min(abs(left.room), abs(right.room))
    same = left.holds is right.holds
    return Margin(same, near if same else -near)


def _margin(holds: bool, more: Any, less: Any) -> Margin:
    """Two sides that both vanish have no share of them between them, and all the room there is."""
    return Margin(bool(holds), _share(more, less) if more or less else (_ALL if holds else -_ALL))


def _share(more: Any, less: Any) -> float:
    """``more - less`` as a share of the larger of the two sizes; 0 where both vanish."""
    scale = abs(arb(more)).max(abs(arb(less))).mid() if _balls(more, less) else max(abs(more), abs(less))
    return float((more - less) / scale) if scale else 0.0


def _balls(*values: Any) -> bool:
    return any(isinstance(value, arb) for value in values)
