"""Statements that no formula of sympy carries: an exact test over ranges, or over cases that can be listed.

A verifier walks the same cases that the record of its claim shows: there is one list and one test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from ledger.ledger import Evidence, Verdict
from ledger.proving.combine import Part, counterexample, made
from ledger.proving.domains import Domain, Point, checked, where
from ledger.proving.formulas import Formula
from ledger.proving.margins import MET, Margin

__all__ = ["Case", "Cases", "Predicate", "Statement", "exactly", "grid", "rows", "searched", "walked"]

Case = Mapping[str, Any]
"""Name to value: whole numbers, fractions, printed decimals, or what a test is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """An exact test in fractions over ranges."""

    text: str
    """The statement in words and plain formulas."""
    test: Callable[..., Margin | bool]
    """Takes the variables by name, and the numbers: exact of fractions; a `Margin` also guides a search in floats."""
    domain: Domain
    """Variable to its values."""
    premise: Callable[..., Margin | bool] | None = None
    """What else is assumed of a point; takes the same."""
    numbers: Mapping[str, Fraction] = field(default_factory=dict)
    """Constants of the statement by name, which its verifier reads here."""
    given: str = ""
    """The premise in words."""
    at: Sequence[Mapping[str, Any]] = ()
    """Points at which a search looks for a counterexample, simplest first."""
    explain: Callable[..., str] | None = None
    """Words about a point at which it fails."""
    latex: ClassVar[str] = ""
    """Empty: it stands in words."""

    @property
    def where(self) -> str:
        """The domain in words."""
        return where(self.domain, self.given)

    def holds(self, point: Point) -> bool:
        """Whether the statement holds at a point.

        Raises
        ------
        ParameterError : a point outside the domain.
        """
        checked(self.domain, point)
        return bool(self.test(**{name: Fraction(point[name]) for name in self.domain}, **self.numbers))

    def admits(self, point: Point) -> bool:
        """Whether a point of the ranges meets the premise."""
        return self.premise is None or bool(self.premise(**point, **self.numbers))

    def near(self, point: Mapping[str, Any]) -> Margin | None:
        """How far the statement is from failing, roughly at a point of floats; None of a test that gives no margin."""
        margin = self.test(**point, **self.numbers)
        return margin if isinstance(margin, Margin) else None

    def assumed(self, point: Mapping[str, Any]) -> Margin:
        """How far the premise is from failing there."""
        margin = self.premise is None or self.premise(**point, **self.numbers)
        return margin if isinstance(margin, Margin) else (MET if margin else ~MET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """An exact test over cases that are listed: runs of an algorithm, rows of a table, whole numbers."""

    text: str
    """The statement about one case in words."""
    test: Callable[..., Margin | bool]
    """Takes the values of a case by name."""
    cases: Callable[[], Iterable[Case]]
    """Lists the cases; see `grid` and `rows`."""
    where: str
    """The cases in words."""
    partial: bool = False
    """Other cases lie beyond these, so that a walk proves nothing about them."""
    shown: Callable[[Case], Mapping[str, object]] = dict
    """The case for a reader, where its values are no numbers."""
    explain: Callable[..., str] | None = None
    """Words about a case in which it fails."""
    by: Callable[[Cases], Evidence] | None = None
    """Comes to the evidence for a record; None: a walk through the cases."""
    latex: ClassVar[str] = ""
    """Empty: it stands in words."""

    def holds(self, case: Case) -> bool:
        """Whether the statement holds in a case."""
        return bool(self.test(**case))


Statement = Formula | Predicate | Cases
"""What the record of a claim carries."""


def grid(**ranges: Iterable[Any]) -> Callable[[], Iterator[dict[str, Any]]]:
    """Every combination of the values, the last name running fastest."""
    values = [tuple(each) for each in ranges.values()]
    return lambda: (dict(zip(ranges, each, strict=True)) for each in itertools.product(*values))


def rows(*cases: Case) -> Callable[[], Iterable[Case]]:
    """These cases."""
    return lambda: cases


def walked(cases: Cases, *, tail: Part | None = None) -> Evidence:
    """Try every case, then close those beyond them by ``tail``.

    Returns
    -------
    ``false`` with the first case that fails; otherwise the verdict of the tail. Without a tail ``proved``, or
    ``verified`` where the cases are `partial`.
    """
    count = 0
    for case in cases.cases():
        count += 1
        if not cases.holds(case):
            return _failing(cases, case, count)
    closed = None if tail is None else made(tail)
    which = "its one case" if count == 1 else f"all {count} cases"
    text = f"{cases.text}: holds in {which}" + (f", that is, for {cases.where}" if cases.partial else "")
    if closed is None:
        verdict = Verdict.VERIFIED if cases.partial else Verdict.PROVED
        return Evidence(verdict=verdict, method="exhaustive", detail=text, effort={"points": count})
    return Evidence(
        verdict=closed.verdict,
        method=f"exhaustive and {closed.method}",
        detail=f"{text}; beyond them, {closed.detail}",
        counterexample=closed.counterexample,
        effort={"points": count, **closed.effort},
    )


def searched(statement: Statement, *points: Mapping[str, Any]) -> Evidence:
    """Look for a counterexample among points of the statement's domain, simplest first; of `Cases`, among all of them.

    Points default to those of the statement. Values are exact: fractions, or strings of them. Points outside the domain
    are refused, those that do not meet the premise are passed over.

    Returns
    -------
    ``false`` with the first point at which the statement certainly fails; ``open`` when there is none.
    """
    tried = 0
    for case in statement.cases() if isinstance(statement, Cases) else exactly(points or statement.at):
        tried += 1
        if isinstance(statement, Cases):
            fails = not statement.holds(case)
        else:
            checked(statement.domain, case)
            fails = statement.admits(case) and statement.holds(case) is False
        if fails:
            return _failing(statement, case, tried)
    return Evidence(
        verdict=Verdict.OPEN,
        method="exact counterexample",
        detail=f"{statement.text}: no counterexample among {tried} exact points",
        effort={"points": tried},
    )


def exactly(points: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Fraction]]:
    """Points in fractions."""
    return ({name: Fraction(value) for name, value in point.items()} for point in points)


def _failing(statement: Statement, case: Case, tried: int) -> Evidence:
    """Evidence ``false`` at a case."""
    shown = _words(statement, case)
    at = ", ".join(f"{name} = {value}" for name, value in shown.items())
    explain = None if isinstance(statement, Formula) else statement.explain
    why = statement.sides(case) if isinstance(statement, Formula) else explain(**case) if explain else ""
    return counterexample(f"{statement.text}: fails at {at}{why and f': {why}'}", shown, {"points": tried})


def _words(statement: Statement, case: Case) -> dict[str, str]:
    shown = statement.shown(case) if isinstance(statement, Cases) else case
    return {name: str(value) for name, value in shown.items()}
