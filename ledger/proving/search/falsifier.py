"""A directed search for a point at which a statement fails, and the room that the search leaves it.

First exact points: joint corners of the domain down to 1e-300, edges, ties between variables. Then a search in floats,
from the best of many points downhill on one number, the larger of the room of the statement and the distance from its
premise: below zero the statement fails where its premise holds. What floats suggest counts only once fractions or balls
confirm it.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from ledger.ledger import Evidence, Verdict
from ledger.proving.balls import simplest_between
from ledger.proving.cases import Predicate
from ledger.proving.combine import counterexample
from ledger.proving.domains import Range
from ledger.proving.formulas import Formula
from ledger.proving.search import families

__all__ = ["QUICK", "THOROUGH", "Effort", "Finding", "falsified", "judged"]

_SEEN: Final = -1e-11
"""Room below which floats suggest a failure: above it rounding decides."""
_NOTHING: Final = 1e-6
"""Room below which a statement fails if it claims any more."""
_CONFIRMED: Final = 12
"""Suggestions of floats that are tried exactly after each descent, deepest first; half as many others follow."""
_DRAWS: Final = 12
"""Points drawn for each that is to meet a premise, which may be seldom."""
_CHEAP: Final = 5
"""How many times as many edges of a formula are tried as of a test, which may enumerate."""
_HALVINGS: Final = 50
"""Steps towards the edge of a premise; an edge at 0 is never reached."""
_MEASURED: Final = 3
"""Points of the least room in floats whose room is measured exactly after each descent."""
_WIDE: Final = (Fraction(1, 10**3), Fraction(1, 10**20), families.EXTREME)
"""Distances from an end that one point mixes."""
_NUDGE: Final = Fraction(1, 10**12)
"""How far inside a value is put that floats place on an open end, as a share of the width."""
_FAR: Final = 40.0
"""Largest coordinate of a search: beyond it a float is an end of its range."""

_REFUTED: Final = frozenset({Verdict.FALSE, Verdict.PROVED_WITH_FIX})

Tryable = Formula | Predicate
Floats = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to search."""

    exact: int
    """Exact points of each family, >= 1."""
    floats: int
    """Points in floats of each family, >= 1."""
    starts: int
    """Points from which to go downhill."""
    steps: int
    """Evaluations of each descent for each variable."""
    seconds: float
    """Processor time after which no new descent begins."""


QUICK: Final = Effort(exact=40, floats=60, starts=5, steps=50, seconds=0.6)
THOROUGH: Final = Effort(exact=400, floats=1000, starts=40, steps=200, seconds=20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a search came to."""

    failing: Mapping[str, Fraction] | None = None
    """An exact point at which the premise holds and the statement does not."""
    room: float | None = None
    """The least distance of the two sides, as a share of the larger, where the premise holds; None: no sides."""
    at: Mapping[str, Fraction] | None = None
    """Where that is."""
    points: int = 0
    """Points that were tried, exactly or in floats."""

    def __str__(self) -> str:
        """Return ``fails if it claims 0.4 % more, near x = 0.8``."""
        if not self.slack or self.at is None:
            return f"no failure at {self.points} points"
        return f"fails if it claims {self.slack}, near " + ", ".join(
            f"{name} = {x:.4g}" for name, x in _floats(self.at).items()
        )

    @property
    def slack(self) -> str:
        """``0.4 % more``; empty where no sides were compared."""
        if self.room is None or self.at is None:
            return ""
        return "any more" if self.room < _NOTHING else f"{100 * self.room:.2g} % more"

    def as_json(self) -> dict[str, object]:
        """Plain values only."""
        return {"points": self.points, "room": self.room, "at": None if self.at is None else _floats(self.at)}


def _floats(point: Mapping[str, Fraction]) -> dict[str, float]:
    return {name: float(value) for name, value in point.items()}


def falsified(statement: Tryable, seed: str, effort: Effort = QUICK) -> Finding:
    """Search for a point at which the statement certainly fails.

    Parameters
    ----------
    statement : its domain and its premise bound the search.
    seed : another one draws other points.
    effort : how long to search.
    """
    search = _Search(statement, random.Random(seed), effort)
    failing = search.exact() or search.downhill()
    room, at = search.least or (None, None)
    return Finding(failing=failing, room=room, at=at, points=search.points)


def judged(statement: object, evidence: Evidence, seed: str, effort: Effort = QUICK) -> tuple[Evidence, Finding | None]:
    """Evidence for a statement after a search: one that fails at a point is false whatever its proof says.

    What is refuted already needs no search; the cases of a claim are walked by its verifier.
    """
    if not isinstance(statement, (Formula, Predicate)) or evidence.verdict in _REFUTED:
        return evidence, None
    finding = falsified(statement, seed, effort)
    if finding.failing is None:
        return evidence, finding
    at = {name: str(value) for name, value in finding.failing.items()}
    detail = f"{statement.text}: fails at {', '.join(f'{name} = {value}' for name, value in at.items())}"
    if evidence.verdict is not Verdict.OPEN:
        detail += f", where the proof passes ({evidence.detail})"
    return counterexample(detail, at, {"points": finding.points}), finding


class _Search:
    """One search, with the best points so far."""

    def __init__(self, statement: Tryable, rng: random.Random, effort: Effort) -> None:
        self.statement, self.rng, self.effort = statement, rng, effort
        self.points = 0
        self.least: tuple[float, dict[str, Fraction]] | None = None
        self._until = 0.0
        self._real = [name for name, values in statement.domain.items() if values.real]
        self._whole = [name for name, values in statement.domain.items() if values.step]
        self._suggested: list[tuple[float, Floats]] = []
        self._lowest: list[tuple[float, Floats]] = []

    def exact(self) -> dict[str, Fraction] | None:
        """The first of the exact points at which the statement fails."""
        return next(filter(self._fails, self._exact_points()), None)

    def _exact_points(self) -> Iterator[dict[str, Fraction]]:
        domain, n = self.statement.domain, self.effort.exact
        first = next(families.inside(domain, 1, self.rng))
        yield first
        if isinstance(self.statement, Formula):
            yield from families.along(domain, self.statement.curves)
        for distance, most in ((Fraction(1, 10**6), n), (families.EXTREME, n // 2)):
            yield from families.corners(domain, distance, most, self.rng)
        yield from families.scattered(domain, n // 2, self.rng, _WIDE)
        yield from self._edges(_CHEAP * n if isinstance(self.statement, Formula) else n)
        yield from families.tied(domain, n // 2, self.rng)
        if self.statement.near(first) is None:  # no floats will follow
            yield from families.corners(domain, Fraction(1, 250), n, self.rng)
            yield from families.tied(domain, n, self.rng)
            yield from families.inside(domain, n, self.rng)

    def _edges(self, n: int) -> Iterator[dict[str, Fraction]]:
        """Points where the premise holds and, if some real variables move a little, does not."""
        if not (self._real and self.statement.premise):
            return
        both = (families.inside, families.scattered)
        drawn = itertools.chain.from_iterable(
            zip(*(family(self.statement.domain, _DRAWS * n, self.rng) for family in both), strict=True)
        )
        for point in itertools.islice(filter(self._admitted, drawn), n):
            for name in self.rng.sample(self._real, self.rng.randint(1, len(self._real))):
                point[name] = self._edge(point, name)
            yield point

    def _edge(self, point: dict[str, Fraction], name: str) -> Fraction:
        """The value of a variable next to where the premise ends, towards an end of its range or far out."""
        floats = self._floats(point)
        start = good = floats[name]
        ends = map(float, self.statement.domain[name].ends_near(Fraction(1, 10**4)))
        outside = [end for end in ends if not self._meets({**floats, name: end})]
        if not outside:
            return point[name]
        bad = self.rng.choice(outside)
        near = self.rng.choice((1 / 200, 1e-4, 1e-9))
        for _ in range(_HALVINGS):
            if abs(bad - good) <= near * abs(good):
                break
            middle = (good + bad) / 2
            good, bad = (middle, bad) if self._meets({**floats, name: middle}) else (good, middle)
        return point[name] if good == start else Fraction(good)

    def _admitted(self, point: Mapping[str, Fraction]) -> bool:
        return self._meets(self._floats(point))

    def _meets(self, point: Floats) -> bool:
        try:
            return self.statement.assumed(point).holds
        except (ArithmeticError, ValueError):
            return False

    def _fails(self, point: Mapping[str, Fraction]) -> bool:
        """Whether it certainly fails; what cannot be computed decides nothing."""
        self.points += 1
        try:
            return self.statement.admits(point) and self.statement.holds(point) is False
        except (ArithmeticError, ValueError):
            return False

    def downhill(self) -> dict[str, Fraction] | None:
        """Descend in floats from the best points, and confirm exactly what they suggest."""
        self._until = time.process_time() + self.effort.seconds
        starts = self._starts()
        if not starts:
            return None
        failing = self._confirmed()
        for _, start in starts:
            if failing or time.process_time() > self._until:
                break
            self._descend(start)
            failing = self._confirmed()
        return failing

    def _starts(self) -> list[tuple[float, Floats]]:
        """The best points, each of another choice of whole numbers first."""
        domain, n = self.statement.domain, self.effort.floats
        drawn: Iterable[Mapping[str, Fraction]] = itertools.chain(
            families.corners(domain, Fraction(1, 100), n, self.rng),
            families.scattered(domain, n, self.rng),
            families.tied(domain, n, self.rng),
            families.inside(domain, n, self.rng),
        )
        valued = [(self._value(point), point) for point in map(self._floats, drawn)]
        ranked = sorted((each for each in valued if each[0] < math.inf), key=lambda each: each[0])
        first: dict[tuple[Any, ...], tuple[float, Floats]] = {}
        for each in ranked:
            first.setdefault(tuple(value for name, value in each[1].items() if name not in self._real), each)
        rest = [each for each in ranked if each not in first.values()]
        varied = list(first.values())[: max(1, 2 * self.effort.starts // 3)]
        return [*varied, *rest][: self.effort.starts]

    def _floats(self, point: Mapping[str, Fraction]) -> Floats:
        return {name: float(value) if name in self._real else value for name, value in point.items()}

    def _value(self, point: Floats) -> float:
        """The larger of the room and the distance from the premise; infinite where neither is known."""
        self.points += 1
        try:
            assumed, near = self.statement.assumed(point), self.statement.near(point)
        except (ArithmeticError, ValueError):
            return math.inf
        if near is None or math.isnan(near.room) or math.isnan(assumed.room):
            return math.inf
        if near.room < _SEEN and assumed.room > _SEEN:
            self._suggested.append((near.room, point))
        elif assumed.holds:
            self._lowest.append((near.room, point))
        return max(near.room, -assumed.room)

    def _descend(self, start: Floats) -> None:
        """Change the real variables by the method of Nelder and Mead, then the whole ones step by step."""
        from scipy.optimize import minimize

        domain, point = self.statement.domain, dict(start)

        def at(coordinates: Iterable[float]) -> Floats:
            placed = (_placed(domain[name], u) for name, u in zip(self._real, coordinates, strict=True))
            return {**point, **dict(zip(self._real, placed, strict=True))}

        if self._real:
            origin = [_coordinate(domain[name], point[name]) for name in self._real]
            steps = self.effort.steps * len(self._real)
            simplex = [origin, *([*origin[:i], u + 0.5, *origin[i + 1 :]] for i, u in enumerate(origin))]
            options = {"maxfev": steps, "initial_simplex": simplex, "xatol": 1e-9, "fatol": 1e-13}
            best = minimize(lambda u: min(self._value(at(u)), 9.0), origin, method="Nelder-Mead", options=options)
            point = at(best.x)
        self._walk(point)

    def _walk(self, point: Floats) -> None:
        """Move one whole variable by one step as long as that brings the statement nearer to a failure."""
        here, moved = self._value(point), True
        while moved and time.process_time() < self._until:
            moved = False
            for name, sign in itertools.product(self._whole, (1, -1)):
                values = self.statement.domain[name]
                other = {**point, name: point[name] + sign * values.step}
                if other[name] in values and (value := self._value(other)) < here:
                    point, here, moved = other, value, True

    def _confirmed(self) -> dict[str, Fraction] | None:
        """A suggested point at which the statement fails exactly, in simple fractions if it can."""
        suggested, lowest = (sorted(each, key=lambda one: one[0]) for each in (self._suggested, self._lowest))
        self._suggested, self._lowest = [], []
        for _, point in lowest[:_MEASURED]:
            self._measure(self._exactly(point, simple=False))
        for _, point in [*suggested[:_CONFIRMED], *self.rng.sample(suggested, min(len(suggested), _CONFIRMED // 2))]:
            for simple in (True, False):
                exact = self._exactly(point, simple=simple)
                if self._fails(exact):
                    return exact
        return None

    def _exactly(self, point: Floats, *, simple: bool) -> dict[str, Fraction]:
        return {name: _exact(self.statement.domain[name], value, simple=simple) for name, value in point.items()}

    def _measure(self, point: dict[str, Fraction]) -> None:
        """Note the exact room at a point, if it is the least: floats of two sides that nearly vanish are noise."""
        try:
            near = self.statement.near(point) if self.statement.admits(point) else None
        except (ArithmeticError, ValueError):
            return
        if near is not None and near.holds and (self.least is None or near.room < self.least[0]):
            self.least = max(near.room, 0.0), point


def _exact(values: Range, value: float | Fraction, *, simple: bool) -> Fraction:
    """A fraction of the range for a float: itself or the simplest one next to it, moved off an open end."""
    exact = Fraction(value)
    if isinstance(value, Fraction):
        return exact
    if simple and value:
        exact = simplest_between(*sorted((exact * (1 - Fraction(1, 10**6)), exact * (1 + Fraction(1, 10**6)))))
    if exact not in values:
        low, high = values.low, values.high
        exact = (
            low + _NUDGE * values.width if high is None or exact - low < high - exact else high - _NUDGE * values.width
        )
    return exact


def _placed(values: Range, u: float) -> float:
    """The value at a coordinate: a logistic curve between two ends, an exponential one without an upper end."""
    u = max(-_FAR, min(_FAR, u))
    low = float(values.low)
    if values.high is None:
        return low + math.exp(u)
    return (
        low + float(values.width) / (1 + math.exp(-u))
        if u < 0
        else float(values.high) - float(values.width) / (1 + math.exp(u))
    )


def _coordinate(values: Range, x: float) -> float:
    """The inverse of `_placed`."""
    above = max((x - float(values.low)) / float(values.width), 1e-17)
    if values.high is None:
        return math.log(above)
    return math.log(above / max((float(values.high) - x) / float(values.width), 1e-17))
