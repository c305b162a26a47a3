"""A statement as one formula that a machine reads: its domain, whether it holds at a point, its text and its LaTeX.

The verdict of a claim comes from its verifier. Its formula is tried besides, at random points and at extreme ones, so
that no proof of a false statement passes. Balls decide: where they overlap, nothing is said, or, of an equality, that
it holds to thirty digits. Statements that no relation of sympy carries are `cases.Predicate` and `cases.Cases`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from flint import arb

from ledger.proving.balls import point as ball
from ledger.proving.balls import precision
from ledger.proving.deferred import sp
from ledger.proving.domains import Domain, Point, Range, between, checked, one_of, sampled, where, whole
from ledger.proving.reading import read
from theory.errors import ParameterError

if TYPE_CHECKING:
    import sympy

__all__ = ["Formula", "Range", "between", "one_of", "whole"]

_BITS: Final = 256
_EQUAL_TO: Final = Fraction(1, 10**30)
"""Two sides are called equal when their balls overlap and are narrower than this share of the larger side."""
_GREATER: Final = frozenset({"GreaterThan", "StrictGreaterThan"})
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "mpf": arb,
    "log": lambda x: arb(x).log(),
    "exp": lambda x: arb(x).exp(),
    "sqrt": lambda x: arb(x).sqrt(),
    "gamma": lambda x: arb(x).gamma(),
    "min": lambda *values: functools.reduce(lambda x, y: arb(x).min(arb(y)), values),
    "max": lambda *values: functools.reduce(lambda x, y: arb(x).max(arb(y)), values),
    "floor": lambda x: arb(x).floor(),
    "ceil": lambda x: arb(x).ceil(),
    "binomial": math.comb,
    "harmonic": lambda n: sum((arb(1) / k for k in range(1, n + 1)), arb(0)),
    "sum": sum,
}
"""What formulas may be made of, in balls."""

Told = Callable[[list[Any], Fraction], bool | None]
"""Values of all variables and a margin to whether a relation holds by it; None where balls do not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """Inequalities and equalities, joined by `And` and `Or`, over a domain."""

    relation: str
    """``lhs < rhs`` and the like, joined by ``and`` or ``or``; see `reading.read`."""
    domain: Domain
    """Variable to its values."""
    premise: str = ""
    """What else is assumed of a point, in the same notation."""
    forms: str = ""
    """Folder of the paper whose closed forms the relation may name."""
    sharp: Fraction | None = None
    """The smallest tried margin, as a share of the right side, that the statement does not survive; None: it has room
    (`room` says why), or it does not hold anyway."""
    room: str = ""
    """Why no small margin is noticed."""
    at: Sequence[Mapping[str, Any]] = ()
    """Points at which a search looks for a counterexample, simplest first."""

    def __post_init__(self) -> None:
        """Refuse a formula that is sharp and has room."""
        if self.sharp is not None and self.room:
            raise ParameterError("room", self.room, "must be left out for a formula with a sharp margin")

    @property
    def where(self) -> str:
        """The domain in words."""
        return where(self.domain, str(self._built(self.premise)) if self.premise else "")

    @property
    def text(self) -> str:
        """The relation in plain text."""
        return str(self._built(self.relation))

    @property
    def latex(self) -> str:
        """The relation in LaTeX."""
        return str(sp.latex(self._built(self.relation)))

    def holds(self, point: Point, margin: Fraction = Fraction(0)) -> bool | None:
        """Whether the statement holds at a point, by a margin; None where balls do not tell.

        Raises
        ------
        ParameterError : a point outside the domain.
        """
        checked(self.domain, point)
        return self._told(self.relation, point, margin)

    def admits(self, point: Point) -> bool:
        """Whether a point of the ranges certainly meets the premise."""
        return not self.premise or self._told(self.premise, point, Fraction(0)) is True

    def points(self, n: int, seed: str) -> Iterator[dict[str, Fraction]]:
        """Points of the domain, out of ``n`` draws those where the premise holds."""
        return (point for point in sampled(self.domain, n, seed) if self.admits(point))

    def fails_at(self, n: int, seed: str, margin: Fraction = Fraction(0)) -> dict[str, Fraction] | None:
        """The first of ``n`` points at which the statement, by a margin, certainly fails."""
        return next((point for point in self.points(n, seed) if self.holds(point, margin) is False), None)

    def _built(self, text: str) -> sympy.Basic:
        return _built(text, self.forms)

    def _told(self, relation: str, point: Point, margin: Fraction) -> bool | None:
        counts, told = _compiled(relation, tuple(self.domain), self.forms)
        with precision(_BITS):
            at = [int(point[name]) if name in counts else ball(point[name]) for name in self.domain]
            return told(at, margin)


_built = functools.cache(read)


@functools.cache
def _compiled(relation: str, variables: tuple[str, ...], forms: str) -> tuple[frozenset[str], Told]:
    """The variables that must be whole because they bound a sum, and the relation as a function of all variables.

    Raises
    ------
    ParameterError : a text without a relation, or a variable without a range.
    """
    built = _built(relation, forms)
    if isinstance(built, sp.Expr):
        raise ParameterError("relation", relation, "must compare two sides, as 'x**2 < x' does")
    free = {str(symbol): symbol for symbol in built.free_symbols}
    if not set(free) <= set(variables):
        raise ParameterError("domain", sorted(free), "must name every variable of the formula")
    counts = frozenset(str(s) for each in built.atoms(sp.Sum) for limit in each.limits for s in limit[2].free_symbols)
    counts |= {str(s) for each in built.atoms(sp.binomial, sp.harmonic) for s in each.free_symbols & set(free.values())}
    return counts, _node([free.get(name, sp.Symbol(name)) for name in variables], built)


def _node(names: list[sympy.Symbol], built: sympy.Basic) -> Told:
    """A relation, or relations joined by ``And`` or ``Or``."""
    if not isinstance(built, (sp.And, sp.Or)):
        kind, both = built.func.__name__, _in_balls(names, (built.lhs, built.rhs))
        return lambda at, margin: _compared(kind, *both(*at), margin)
    parts, settled = [_node(names, part) for part in built.args], isinstance(built, sp.Or)

    def told(at: list[Any], margin: Fraction) -> bool | None:
        found = [part(at, margin) for part in parts]
        return settled if settled in found else (None if None in found else not settled)

    return told


def _in_balls(names: list[sympy.Symbol], sides: tuple[sympy.Expr, sympy.Expr]) -> Callable[..., tuple[arb, arb]]:
    """Both sides as a function of balls; constants are written as quotients of whole numbers, which are exact."""
    from sympy.printing.pycode import MpmathPrinter

    printer = MpmathPrinter({"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True})
    # dummies for the names, for a variable may be called gamma, as a function is
    function: Callable[..., tuple[arb, arb]] = sp.lambdify(
        names, sides, modules=[_FUNCTIONS], printer=printer, dummify=True
    )
    return function


def _compared(kind: str, left: arb | int, right: arb | int, margin: Fraction) -> bool | None:
    """Whether two sides are certainly in the order of the relation, the right one moved against it by a margin."""
    moved = arb(right) + abs(arb(right)) * ball(margin) * (1 if kind in _GREATER | {"Equality"} else -1)
    difference = arb(left) - moved
    if kind == "Equality":
        narrow = difference.rad() <= ball(_EQUAL_TO) * (abs(arb(left)) + abs(moved)).mid()
        return False if difference != 0 and not difference.contains(0) else (True if narrow else None)
    if kind not in _GREATER:
        difference = -difference
    if difference > 0:
        return True
    exact = difference == 0  # true only of a ball of radius 0
    return (not kind.startswith("Strict")) if exact else (False if difference < 0 else None)
