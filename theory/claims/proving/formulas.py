"""A statement as one formula that a machine reads: its domain, whether it holds at a point, and points to try it at.

The verdict of a claim comes from its verifier. Where the claim is an inequality, the formula is tried besides: at
random points and at extreme ones, near every end of the domain and far out, so that no proof of a false statement
passes. Sixty digits decide; where they do not, nothing is said.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from theory.claims.proving.deferred import sp
from theory.errors import ParameterError

if TYPE_CHECKING:
    import sympy

__all__ = ["Formula", "Range", "between", "whole"]

_DIGITS: Final = 60
_UNDECIDED: Final = 40
"""Digits to which two sides may agree before their order is taken to be undecided."""
_NEAR: Final = (2, 3, 4, 6, 9)
"""Negative powers of ten: how near to an end of its range a value is tried."""
_FAR: Final = (10, 100, 10_000)
"""How far beyond the lower end of a range without an upper one."""

Point = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The values of one variable, its ends left out unless it is whole."""

    low: Fraction
    """Lower end."""
    high: Fraction | None
    """Upper end; None for none."""
    step: int = 0
    """Distance of whole numbers, both ends among them; 0 for real numbers."""

    def __contains__(self, value: Fraction) -> bool:
        if self.step:
            inside = self.low <= value and (self.high is None or value <= self.high)
            return inside and (value - self.low) % self.step == 0
        return self.low < value and (self.high is None or value < self.high)

    def extremes(self) -> list[Fraction]:
        """Values next to the ends."""
        if self.step:
            found = [self.low + self.step * i for i in (0, 1, 2, 5, 20)]
            return [x for x in found if x in self] + ([] if self.high is None else [self.high])
        width = Fraction(1) if self.high is None else self.high - self.low
        near = [self.low + width / 10**power for power in _NEAR]
        if self.high is None:
            return near + [self.low + far for far in _FAR]
        return near + [self.high - width / 10**power for power in _NEAR]

    def drawn(self, rng: random.Random) -> Fraction:
        """A value from the middle of the range."""
        if self.step:
            most = 40 if self.high is None else int((self.high - self.low) / self.step)
            return self.low + self.step * rng.randint(0, min(most, 40))
        width = Fraction(5) if self.high is None else self.high - self.low
        return self.low + width * Fraction(rng.randint(1, 999), 1000)


def between(low: str | int, high: str | int | None) -> Range:
    """Real numbers between two ends, ``'13/25'`` or 1; None: without an upper one."""
    return Range(low=Fraction(low), high=None if high is None else Fraction(high))


def whole(low: int, high: int | None = None, step: int = 1) -> Range:
    """Whole numbers from ``low`` on; ``step`` 2 for even or odd ones."""
    return Range(low=Fraction(low), high=None if high is None else Fraction(high), step=step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """An inequality, or several of which one holds, over a domain.

    Raises
    ------
    ParameterError : when its relation is read, a variable without a range.
    """

    relation: Callable[[], sympy.Basic]
    """Builds ``lhs < rhs`` and the like, or ``Or`` of them."""
    domain: Mapping[str, Range]
    """Variable to its values."""
    premise: Callable[..., bool] = lambda **_: True
    """What else is assumed of a point."""
    sharp: Fraction | None = None
    """The smallest tried margin, as a share of the right side, that the statement does not survive; None: it has room
    (`room` says why)."""
    room: str = ""
    """Why no small margin is noticed."""

    def __post_init__(self) -> None:
        """Refuse a formula that neither is sharp nor says why not."""
        if (self.sharp is None) is not bool(self.room):
            raise ParameterError("room", self.room, "must say why a formula without a sharp margin has room, only then")

    def holds(self, point: Point, margin: Fraction = Fraction(0)) -> bool | None:
        """Whether the statement holds at a point, by a margin; None where sixty digits do not tell.

        Raises
        ------
        ParameterError : a point outside the domain.
        """
        for name, values in self.domain.items():
            if name not in point or point[name] not in values:
                raise ParameterError(name, str(point.get(name)), f"must lie in the domain of the formula ({values})")
        import mpmath

        with mpmath.workdps(_DIGITS):
            at = [mpmath.mpf(point[name].numerator) / point[name].denominator for name in self.domain]
            told = [_told(side.func.__name__, *map(mpmath.mpf, both(*at)), margin) for side, both in self._sides()]
        return True if True in told else (None if None in told else False)

    def _sides(self) -> list[tuple[Any, Callable[..., tuple[Any, Any]]]]:
        """Each relation with its two sides as functions of the variables, in the order of the domain."""
        relation = self.relation()
        parts = relation.args if isinstance(relation, sp.Or) else (relation,)
        free = {str(symbol): symbol for symbol in relation.free_symbols}
        if not set(free) <= set(self.domain):
            raise ParameterError("domain", sorted(free), "must name every variable of the formula")
        names = [free.get(name, sp.Symbol(name)) for name in self.domain]
        return [(part, sp.lambdify(names, (part.lhs, part.rhs), modules="mpmath")) for part in parts]

    def points(self, n: int, seed: str) -> Iterator[dict[str, Fraction]]:
        """Points of the domain where the premise holds: a coin decides for each variable between extreme and random."""
        rng = random.Random(seed)
        extremes = {name: values.extremes() for name, values in self.domain.items()}
        for _ in range(n):
            point = {
                name: rng.choice(extremes[name]) if rng.random() < 0.6 else values.drawn(rng)
                for name, values in self.domain.items()
            }
            if self.premise(**point):
                yield point

    def fails_at(self, n: int, seed: str, margin: Fraction = Fraction(0)) -> dict[str, Fraction] | None:
        """The first of ``n`` points at which the statement, by a margin, certainly fails."""
        return next((point for point in self.points(n, seed) if self.holds(point, margin) is False), None)


def _told(name: str, left: Any, right: Any, margin: Fraction) -> bool | None:
    """Whether ``left`` and ``right`` are in the order of the relation, the right side moved against it by a margin."""
    moved = abs(right) * margin.numerator / margin.denominator
    greater = name in {"GreaterThan", "StrictGreaterThan"}
    difference = left - right - moved if greater else right - moved - left
    scale = max(abs(left), abs(right))
    if abs(difference) <= scale * 10.0**-_UNDECIDED:
        return None
    return bool(difference > 0)
