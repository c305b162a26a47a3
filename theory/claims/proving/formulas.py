"""A statement as one formula that a machine reads: its domain, whether it holds at a point, and points to try it at.

The verdict of a claim comes from its verifier. Where the claim is an inequality, the formula is tried besides: at
random points and at extreme ones, near every end of the domain and far out, so that no proof of a false statement
passes. Balls decide: where they overlap, nothing is said.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from flint import arb

from theory.claims.proving.balls import point as ball
from theory.claims.proving.balls import precision
from theory.claims.proving.deferred import sp
from theory.errors import ParameterError

if TYPE_CHECKING:
    import sympy

__all__ = ["Formula", "Range", "between", "whole"]

_BITS: Final = 256
_GREATER: Final = frozenset({"GreaterThan", "StrictGreaterThan"})
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "mpf": arb,
    "log": lambda x: arb(x).log(),
    "exp": lambda x: arb(x).exp(),
    "sqrt": lambda x: arb(x).sqrt(),
    "gamma": lambda x: arb(x).gamma(),
    "binomial": math.comb,
    "harmonic": lambda n: sum((arb(1) / k for k in range(1, n + 1)), arb(0)),
    "sum": sum,
}
"""What formulas may be made of, in balls."""
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

    def __str__(self) -> str:
        """Return ``in (0, 1)`` or ``in 4, 6, ...``."""
        if self.step:
            last = "" if self.high is None else f", {self.high}"
            return f"in {self.low}, {self.low + self.step}, ...{last}"
        return f"in ({self.low}, {'oo' if self.high is None else self.high})"

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
    """An inequality, or several of which one holds, over a domain."""

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

    @property
    def where(self) -> str:
        """The domain in words."""
        return ", ".join(f"{name} {values}" for name, values in self.domain.items())

    def holds(self, point: Point, margin: Fraction = Fraction(0)) -> bool | None:
        """Whether the statement holds at a point, by a margin; None where balls do not tell.

        Raises
        ------
        ParameterError : a point outside the domain.
        """
        for name, values in self.domain.items():
            if name not in point or point[name] not in values:
                raise ParameterError(name, str(point.get(name)), f"must lie in the domain of the formula ({values})")
        counts, sides = _compiled(self.relation, tuple(self.domain))
        with precision(_BITS):
            at = [int(point[name]) if name in counts else ball(point[name]) for name in self.domain]
            told = [_told(order, *both(*at), margin) for order, both in sides]
        return True if True in told else (None if None in told else False)

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


@functools.cache
def _compiled(
    relation: Callable[[], sympy.Basic], variables: tuple[str, ...]
) -> tuple[frozenset[str], list[tuple[str, Callable[..., tuple[Any, Any]]]]]:
    """The variables that bound a sum, and each relation with its two sides as functions of all variables.

    Raises
    ------
    ParameterError : a variable without a range.
    """
    built = relation()
    free = {str(symbol): symbol for symbol in built.free_symbols}
    if not set(free) <= set(variables):
        raise ParameterError("domain", sorted(free), "must name every variable of the formula")
    counts = frozenset(str(s) for each in built.atoms(sp.Sum) for limit in each.limits for s in limit[2].free_symbols)
    names = [free.get(name, sp.Symbol(name)) for name in variables]
    parts = built.args if isinstance(built, sp.Or) else (built,)
    return counts, [(part.func.__name__, _in_balls(names, (part.lhs, part.rhs))) for part in parts]


def _in_balls(names: list[sympy.Symbol], sides: tuple[sympy.Expr, sympy.Expr]) -> Callable[..., tuple[arb, arb]]:
    """Both sides as a function of balls; constants are written as quotients of whole numbers, which are exact."""
    from sympy.printing.pycode import MpmathPrinter

    printer = MpmathPrinter({"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True})
    function: Callable[..., tuple[arb, arb]] = sp.lambdify(names, sides, modules=[_FUNCTIONS], printer=printer)
    return function


def _told(name: str, left: arb | int, right: arb | int, margin: Fraction) -> bool | None:
    """Whether two sides are certainly in the order of the relation, the right one moved against it by a margin."""
    moved = arb(right) + abs(arb(right)) * ball(margin) * (1 if name in _GREATER else -1)
    difference = arb(left) - moved if name in _GREATER else moved - arb(left)
    if difference > 0:
        return True
    return False if difference < 0 else None
