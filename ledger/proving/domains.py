"""Where a statement is to hold: ranges of its variables, as a record writes them."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from theory.errors import ParameterError

__all__ = ["Domain", "Point", "Range", "between", "checked", "closed", "domain_of", "one_of", "where", "whole"]

_MANY: Final = 20
"""Steps of whole numbers beyond which an unbounded range is not tried."""
_NAMES: Final = re.compile(r"((?:[A-Za-z]\w*, )*[A-Za-z]\w*) in ")

Point = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The values of one variable."""

    low: Fraction = Fraction(0)
    """Lower end."""
    high: Fraction | None = None
    """Upper end; None for none."""
    ends: str = "()"
    """Which ends belong to it, as a mathematician writes it: ``'[)'``; whole numbers have both."""
    step: int = 0
    """Distance of whole numbers; 0 for real numbers."""
    listed: tuple[Fraction, ...] = ()
    """All values, where there are only these; the other fields say nothing then."""

    def __contains__(self, value: Fraction) -> bool:
        if self.listed:
            return value in self.listed
        if self.step:
            inside = self.low <= value and (self.high is None or value <= self.high)
            return inside and (value - self.low) % self.step == 0
        above = value > self.low or (value == self.low and self.ends[0] == "[")
        below = self.high is None or value < self.high or (value == self.high and self.ends[1] == "]")
        return above and below

    def __str__(self) -> str:
        """Return ``in (0, 1)``, ``in 4, 6, ...`` or ``in 1/2, 3/4``."""
        if self.listed:
            return "in " + ", ".join(map(str, self.listed))
        if self.step:
            last = "" if self.high is None else f", {self.high}"
            return f"in {self.low}, {self.low + self.step}, ...{last}"
        high, closing = ("oo", ")") if self.high is None else (str(self.high), self.ends[1])
        return f"in {self.ends[0]}{self.low}, {high}{closing}"

    @property
    def real(self) -> bool:
        """All numbers between two ends."""
        return not (self.step or self.listed)

    @property
    def width(self) -> Fraction:
        """Distance of the ends; 1 without an upper one, where the distance from the lower end has no scale."""
        return Fraction(1) if self.high is None else self.high - self.low

    def ends_near(self, distance: Fraction) -> list[Fraction]:
        """Both ends where they belong to the range, and values at a distance from them, a share of the width."""
        if self.listed:
            return list(self.listed)
        if self.step:
            last = self.low + self.step * _MANY if self.high is None else self.high
            return [x for x in dict.fromkeys((self.low, self.low + self.step, last)) if x in self]
        far = self.low + 1 / distance if self.high is None else self.high - self.width * distance
        closed = [end for end in (self.low, self.high) if end is not None and end in self]
        return [*closed, self.low + self.width * distance, far]

    def drawn(self, rng: random.Random) -> Fraction:
        """A value from the middle of the range."""
        if self.listed:
            return rng.choice(self.listed)
        if self.step:
            most = _MANY if self.high is None else int((self.high - self.low) / self.step)
            return self.low + self.step * rng.randint(0, min(most, 2 * _MANY))
        return self.low + (5 if self.high is None else self.width) * Fraction(rng.randint(1, 999), 1000)


Domain = Mapping[str, Range]
"""Variable to its values."""


def between(low: str | int, high: str | int | None, ends: str = "()") -> Range:
    """Real numbers between two ends, ``'13/25'`` or 1; None: without an upper one."""
    return Range(low=Fraction(low), high=None if high is None else Fraction(high), ends=ends)


def whole(low: int, high: int | None = None, step: int = 1) -> Range:
    """Whole numbers from ``low`` on; ``step`` 2 for even or odd ones."""
    return Range(low=Fraction(low), high=None if high is None else Fraction(high), step=step)


def one_of(*values: str | int | Fraction) -> Range:
    """These values and no other."""
    return Range(listed=tuple(Fraction(value) for value in values))


def domain_of(text: str) -> dict[str, Range]:
    """The domain that is written as `where` writes it; names may share their values.

    >>> {name: str(values) for name, values in domain_of("a, c in (0, 1/2], n in 4, 6, ..., M in 3, 5").items()}
    {'a': 'in (0, 1/2]', 'c': 'in (0, 1/2]', 'n': 'in 4, 6, ...', 'M': 'in 3, 5'}
    """
    _, *parts = _NAMES.split(text)
    return {
        name: _range(values.rstrip(", "))
        for names, values in zip(parts[::2], parts[1::2], strict=True)
        for name in names.split(", ")
    }


def _range(text: str) -> Range:
    """``(0, oo)``, ``1, 2, ..., 40``, or a list of values."""
    parts = text.strip("[]()").split(", ")
    if text[0] in "[(":
        return between(parts[0], None if parts[1] == "oo" else parts[1], text[0] + text[-1])
    if "..." in parts:
        low, second, _, *last = parts
        return whole(int(low), int(last[0]) if last else None, int(second) - int(low))
    return one_of(*parts)


def where(domain: Domain, *more: str) -> str:
    """The domain in words, with what else is assumed."""
    return ", ".join([*(f"{name} {values}" for name, values in domain.items()), *filter(None, more)])


def closed(domain: Domain, *names: str) -> dict[str, tuple[Fraction, Fraction]]:
    """The closed ranges of variables, which a proof by balls covers.

    Raises
    ------
    ParameterError : a range without an upper end.
    """
    for name in names:
        if domain[name].high is None:
            raise ParameterError(name, str(domain[name]), "must have an upper end, for a proof by balls")
    return {name: (domain[name].low, domain[name].high or domain[name].low) for name in names}


def checked(domain: Domain, point: Point) -> None:
    """Refuse a point outside the domain.

    Raises
    ------
    ParameterError : naming the variable and its range.
    """
    for name, values in domain.items():
        if name not in point or point[name] not in values:
            raise ParameterError(name, str(point.get(name)), f"must lie in the domain of the formula ({values})")
