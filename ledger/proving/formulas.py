"""A statement as one formula that a machine reads: its domain, whether it holds at a point, its text and its LaTeX.

The verdict of a claim comes from its verifier. Its formula is searched besides (`falsifier`), so that no proof of a
false statement passes. Balls decide: where they overlap, nothing is said, or, of an equality, that it holds to thirty
digits. Statements that no relation of sympy carries are `cases.Predicate` and `cases.Cases`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from flint import arb

from ledger.proving.balls import point as ball
from ledger.proving.balls import precision
from ledger.proving.deferred import sp
from ledger.proving.domains import Domain, Point, Range, between, checked, one_of, where, whole
from ledger.proving.margins import MET, Margin, at_least, at_most, below, equal
from ledger.proving.reading import read
from theory.errors import ParameterError

if TYPE_CHECKING:
    import sympy

__all__ = ["Formula", "Range", "between", "one_of", "whole"]

_BITS: Final = (256, 4096)
"""Precision of the balls, and the next one, where they do not decide and the point is extreme."""
_EXTREME: Final = 10**40
"""A value or its denominator beyond this is extreme."""
_READABLE: Final = 10**6
"""Denominators from here on are shown as decimals."""
_EQUAL_TO: Final = Fraction(1, 10**30)
"""Two sides are called equal when their balls overlap and are narrower than this share of the larger side."""
_GREATER: Final = frozenset({"GreaterThan", "StrictGreaterThan"})
_BALLS: Final[Mapping[str, Callable[..., Any]]] = {
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
_FLOATS: Final[Mapping[str, Callable[..., Any]]] = {
    **_BALLS,
    **{"mpf": float, "log": math.log, "exp": math.exp, "sqrt": math.sqrt, "gamma": math.gamma},
    **{"min": min, "max": max, "floor": math.floor, "ceil": math.ceil},
    "harmonic": lambda n: math.fsum(1 / k for k in range(1, n + 1)),
}
"""The same in floats, for a search."""


def _symbols() -> Mapping[str, Callable[..., Any]]:
    """The same in symbols, which know when two sides are one."""
    names = ("log", "exp", "sqrt", "gamma", "floor", "binomial", "harmonic")
    others = {"mpf": sp.Rational, "min": sp.Min, "max": sp.Max, "ceil": sp.ceiling, "sum": sum}
    return {**{name: getattr(sp, name) for name in names}, **others}


_COMPARED: Final[Mapping[str, Callable[[float, float], Margin]]] = {
    "StrictLessThan": below,
    "LessThan": at_most,
    "StrictGreaterThan": lambda left, right: below(right, left),
    "GreaterThan": at_least,
    "Equality": equal,
}
"""Relation of sympy -> how far two floats are from breaking it."""

Decide = Callable[[str, Any, Any], bool | None]
"""Whether two sides are in the order of a relation of sympy, given by its name; None where that is undecided."""
Sides = Callable[..., tuple[Any, Any]]
"""Both sides of a relation from the values of all variables."""


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
    at: Sequence[Mapping[str, Any]] = ()
    """Points at which a search looks for a counterexample, simplest first."""
    curves: Sequence[str] = ()
    """Curves ``x = t, y = 1 - t**2`` along which both sides meet as t falls to 0: a search follows them."""

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
        """Whether the statement holds at a point, by a margin; None where balls do not decide.

        Raises
        ------
        ParameterError : a point outside the domain.
        """
        checked(self.domain, point)
        return self._truth(self.relation, point, margin)

    def admits(self, point: Point) -> bool:
        """Whether a point of the ranges certainly meets the premise."""
        return not self.premise or self._truth(self.premise, point, Fraction(0)) is True

    def near(self, point: Mapping[str, Any]) -> Margin:
        """How far the statement is from failing, by balls at a point of fractions, and roughly at one of floats."""
        return self._near(self.relation, point)

    def assumed(self, point: Mapping[str, Any]) -> Margin:
        """How far the premise is from failing there."""
        return self._near(self.premise, point) if self.premise else MET

    def sides(self, point: Point) -> str:
        """Both sides at a point for a reader, exact where they are rational: ``49/81 >= 2/3``."""
        at = {sp.Symbol(name, positive=True): sp.Rational(str(value)) for name, value in point.items()}

        def shown(side: sympy.Expr) -> str:
            value = side.subs(at).doit()
            return str(value) if value.is_Rational and value.q < _READABLE else f"{float(value):.6g}"

        compared = sorted(self._built(self.relation).atoms(sp.Rel), key=sp.default_sort_key)
        return " and ".join(f"{shown(part.lhs)} {part.rel_op} {shown(part.rhs)}" for part in compared)

    def gaps(self) -> list[Callable[..., arb]]:
        """For each of its inequalities a function of balls by name, which is positive where the inequality is strict.

        Raises
        ------
        ParameterError : an equality, or relations joined by ``or``.
        """
        names, (_, built) = tuple(self.domain), self._compiled(self.relation, "balls")
        parts = built.parts if isinstance(built, _Joined) and not built.either else [built]
        compared = [part for part in parts if isinstance(part, _Compared) and part.kind != "Equality"]
        if len(compared) < len(parts):
            raise ParameterError(
                "relation", self.relation, "must be inequalities joined by 'and', to be proved by balls"
            )
        return [functools.partial(_gap, part, names) for part in compared]

    def differences(self) -> list[sympy.Expr]:
        """For each of its equalities the left side minus the right one."""
        built = self._built(self.relation)
        return [part.lhs - part.rhs for part in sp.And.make_args(built) if isinstance(part, sp.Eq)]

    def _built(self, text: str) -> sympy.Basic:
        return _built(text, self.forms)

    def _compiled(self, relation: str, numbers: str) -> tuple[frozenset[str], _Relation]:
        return _compiled(relation, tuple(self.domain), self.forms, numbers)

    def _truth(self, relation: str, point: Point, margin: Fraction) -> bool | None:
        counts, built = self._compiled(relation, "balls")
        for bits in _BITS if _beyond(_EXTREME, point) else _BITS[:1]:
            with precision(bits):
                at = [int(point[name]) if name in counts else ball(point[name]) for name in self.domain]
                is_true = built.truth(at, functools.partial(_compared, margin=margin))
            if is_true is not None:
                return is_true
        return None if margin else self._level(relation, point)

    def _level(self, relation: str, point: Point) -> bool | None:
        """Whether it holds where variables are equal and so two sides one expression, which balls never decide."""
        counts, built = self._compiled(relation, "symbols")
        free = [Fraction(point[name]) for name in self.domain if name not in counts]
        if len(set(free)) == len(free):
            return None
        symbols = {value: sp.Symbol(f"x{i}", positive=True) for i, value in enumerate(free)}
        return built.truth([int(point[n]) if n in counts else symbols[Fraction(point[n])] for n in self.domain], _level)

    def _near(self, relation: str, point: Mapping[str, Any]) -> Margin:
        if any(isinstance(value, float) for value in point.values()):
            return self._at(relation, point, "floats", float)
        with precision(_BITS[0]):
            return self._at(relation, point, "balls", ball)

    def _at(self, relation: str, point: Mapping[str, Any], numbers: str, number: Callable[[Any], Any]) -> Margin:
        counts, built = self._compiled(relation, numbers)
        return built.near([int(point[name]) if name in counts else number(point[name]) for name in self.domain])


_built = functools.cache(read)


def _beyond(most: int, point: Point) -> bool:
    """Whether some numerator or denominator is larger."""
    return any(max(value.denominator, abs(value.numerator)) > most for value in map(Fraction, point.values()))


@functools.cache
def _compiled(relation: str, variables: tuple[str, ...], forms: str, numbers: str) -> tuple[frozenset[str], _Relation]:
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
    functions = _symbols() if numbers == "symbols" else {"balls": _BALLS, "floats": _FLOATS}[numbers]
    return counts, _node([free.get(name, sp.Symbol(name)) for name in variables], built, functions)


def _node(names: list[sympy.Symbol], built: sympy.Basic, functions: Mapping[str, Callable[..., Any]]) -> _Relation:
    """A relation, or relations joined by ``And`` or ``Or``."""
    if not isinstance(built, (sp.And, sp.Or)):
        return _Compared(built.func.__name__, _function(names, (built.lhs, built.rhs), functions))
    return _Joined(isinstance(built, sp.Or), [_node(names, part, functions) for part in built.args])


@dataclass(frozen=True, slots=True)
class _Compared:
    """Two sides."""

    kind: str
    sides: Sides

    def truth(self, at: list[Any], decide: Decide) -> bool | None:
        """Decide about both sides."""
        return decide(self.kind, *self.sides(*at))

    def near(self, at: list[Any]) -> Margin:
        """Compare both sides."""
        return _COMPARED[self.kind](*self.sides(*at))


@dataclass(frozen=True, slots=True)
class _Joined:
    """Relations of which all must hold, or one."""

    either: bool
    parts: list[_Compared | _Joined]

    def truth(self, at: list[Any], decide: Decide) -> bool | None:
        """Decide by the parts."""
        truths = [part.truth(at, decide) for part in self.parts]
        return self.either if self.either in truths else (None if None in truths else not self.either)

    def near(self, at: list[Any]) -> Margin:
        """Take the part that decides."""
        join = operator.or_ if self.either else operator.and_
        return functools.reduce(join, (part.near(at) for part in self.parts))


_Relation = _Compared | _Joined


def _function(
    names: list[sympy.Symbol], sides: tuple[sympy.Expr, sympy.Expr], functions: Mapping[str, Callable[..., Any]]
) -> Sides:
    """Both sides as a function; constants are written as quotients of whole numbers, which balls take exactly."""
    from sympy.printing.pycode import MpmathPrinter

    printer = MpmathPrinter({"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True})
    # dummies for the names, for a variable may be called gamma, as a function is
    function: Sides = sp.lambdify(names, sides, modules=[dict(functions)], printer=printer, dummify=True)
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


def _level(kind: str, left: Any, right: Any) -> bool | None:
    """What a relation of two sides says that are one expression; None of others, and of floats, which round."""
    difference = sp.expand(sp.sympify(left) - right)
    return None if difference != 0 or difference.has(sp.Float) else not kind.startswith("Strict")


def _gap(part: _Compared, names: Sequence[str], **at: arb) -> arb:
    """Positive where the inequality is strict."""
    left, right = part.sides(*(at[name] for name in names))
    return arb(left - right if part.kind in _GREATER else right - left)
