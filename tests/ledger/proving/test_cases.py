"""Exact tests over ranges and over listed cases, and the evidence that a walk or a search gives."""

from dataclasses import replace
from fractions import Fraction

import pytest

from ledger.ledger import Evidence, Verdict
from ledger.proving.cases import Cases, Predicate, grid, rows, searched, walked
from ledger.proving.formulas import Formula, between
from ledger.proving.search.falsifier import falsified
from theory.errors import ParameterError

SQUARES = Cases(
    text="m^2 >= n", test=lambda m, n: m * m >= n, cases=grid(m=range(1, 4), n=(0, 1)), where="m <= 3, n <= 1"
)
SMALL = Predicate(text="x^2 < x", test=lambda x: x * x < x, domain={"x": between(0, 1, "[)")})


def test_a_walk_proves_what_has_no_other_cases_and_verifies_what_has() -> None:
    assert walked(SQUARES).verdict is Verdict.PROVED
    evidence = walked(replace(SQUARES, partial=True))
    assert evidence.verdict is Verdict.VERIFIED
    assert "m <= 3" in evidence.detail
    assert evidence.effort == {"points": 6}


def test_a_walk_stops_at_the_first_case_that_fails() -> None:
    evidence = walked(replace(SQUARES, cases=rows({"m": 2, "n": 4}, {"m": 1, "n": 2}, {"m": 1, "n": 3})))
    assert evidence.verdict is Verdict.FALSE
    assert evidence.counterexample == {"m": "1", "n": "2"}


def test_a_tail_decides_about_the_cases_beyond() -> None:
    tail = Evidence(verdict=Verdict.OPEN, method="test", detail="nothing")
    assert walked(SQUARES, tail=tail).verdict is Verdict.OPEN


def test_a_case_is_found_by_how_it_is_shown() -> None:
    named = replace(SQUARES, shown=lambda case: {"side": case["m"], "area": case["n"]})
    assert named.shown_as({"side": "2", "area": "1"}) == {"m": 2, "n": 1}
    assert named.shown_as({"side": "9", "area": "1"}) is None


def test_a_predicate_refuses_points_outside_and_searches_inside() -> None:
    assert SMALL.holds({"x": Fraction(1, 2)}) is True
    with pytest.raises(ParameterError, match="domain"):
        SMALL.holds({"x": Fraction(2)})
    assert falsified(SMALL, "seed").failing == {"x": Fraction(0)}
    assert falsified(replace(SMALL, premise=lambda x: x > 0, given="x > 0"), "seed").failing is None
    assert replace(SMALL, given="x > 0").where == "x in [0, 1), x > 0"


def test_a_search_refutes_or_says_nothing() -> None:
    assert searched(SMALL, {"x": "1/2"}).verdict is Verdict.OPEN
    explained = replace(SMALL, explain=lambda x: f"{x} is no less than itself")
    evidence = searched(explained, {"x": "1/2"}, {"x": 0})
    assert evidence.verdict is Verdict.FALSE
    assert evidence.counterexample == {"x": "0"}
    assert "itself" in evidence.detail
    assert searched(replace(SQUARES, test=lambda m, n: m > n)).counterexample == {"m": "1", "n": "1"}
    with pytest.raises(ParameterError, match="domain"):
        searched(SMALL, {"x": 2})


def test_a_search_passes_over_what_does_not_meet_the_premise() -> None:
    assert searched(replace(SMALL, premise=lambda x: x > 0), {"x": 0}).verdict is Verdict.OPEN
    assert isinstance(SMALL, Predicate | Formula)
