"""Each claim in a form that a machine tries: true ones hold and fall close to sharp, false ones fail where shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest

from ledger.ledger import PAPERS, Claim, Verdict, claims
from ledger.proving.cases import Cases, Predicate, Statement
from ledger.proving.formulas import Formula
from ledger.runner import Verification

DRAWS = {Formula: 300, Predicate: 150}
"""Points asked for; a premise leaves some of them out."""
FEWEST = 20
"""Points that a premise must leave, or too little is tried."""
COMPLETE = ("lookahead_reasoning", "lookahead_decoding")
"""Folders of papers of which every claim has a formula, or says why not."""

HOLDING = [
    pytest.param(name, statement, id=name)
    for item in claims()
    for name, statement in (
        (item.id, None if item.needs_correction else item.formula),
        (f"{item.id} corrected", item.correction_formula),
    )
    if isinstance(statement, (Formula, Predicate))
]
SHARP = [each for each in HOLDING if isinstance(each.values[1], Formula)]
REFUTED = [item for item in claims() if item.needs_correction and item.formula is not None]
WALKED = [item for item in claims() if isinstance(item.formula, Cases)]
CORRECTED = [item for item in claims() if isinstance(item.correction_formula, Cases)]


def test_every_claim_has_a_formula_or_says_why_not() -> None:
    """Of the other papers some claims have neither yet."""
    papers = {PAPERS[folder] for folder in COMPLETE}
    mine = [item for item in claims() if item.paper in papers]
    assert [item.id for item in mine if item.formula is None and not item.no_formula] == []


@pytest.mark.parametrize(("name", "formula"), HOLDING)
def test_a_claim_holds_at_random_and_extreme_points(name: str, formula: Formula | Predicate) -> None:
    """Other points than `runner` tries; most of them decided."""
    told = [formula.holds(point) for point in formula.points(DRAWS[type(formula)], f"test {name}")]
    assert len(told) >= FEWEST, "the premise leaves too few points"
    assert False not in told
    assert told.count(True) > 0.8 * len(told)


@pytest.mark.parametrize(("name", "formula"), SHARP)
def test_a_margin_of_some_percent_falls_or_there_is_room(name: str, formula: Formula) -> None:
    assert (formula.sharp is None) is bool(formula.room), "a formula is sharp or says why there is room"
    failing = formula.fails_at(2 * DRAWS[Formula], name, formula.sharp or Fraction(1, 20))
    assert (failing is not None) is (formula.sharp is not None), formula.room
    assert formula.sharp is None or formula.sharp <= Fraction(1, 20)


@pytest.mark.parametrize("item", REFUTED, ids=lambda item: item.id)
def test_a_false_claim_fails_at_its_counterexample(item: Claim, verified: Callable[[str], Verification]) -> None:
    """The point that the verdict names lies in the domain of what is printed, and refutes it."""
    shown = verified(item.id).evidence.counterexample
    assert item.formula is not None
    assert shown is not None
    point = _point(item.formula, shown)
    assert point is not None, "the counterexample is none of the cases"
    assert isinstance(item.formula, Cases) or item.formula.admits(point)
    assert item.formula.holds(point) is False


def _point(formula: Statement, shown: Mapping[str, str]) -> Mapping[str, Fraction] | None:
    if isinstance(formula, Cases):
        return formula.found(shown)
    return {name: Fraction(value) for name, value in shown.items()}


@pytest.mark.parametrize("item", WALKED, ids=lambda item: item.id)
def test_a_verifier_walks_the_cases_of_its_claim(item: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other answer in every case gives another verdict: there is one test, not two."""
    _answer_otherwise(monkeypatch, item.formula, item.needs_correction)
    assert item.verify().verdict is not item.verdict


@pytest.mark.parametrize("item", CORRECTED, ids=lambda item: item.id)
def test_a_correction_walks_its_cases(item: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer_otherwise(monkeypatch, item.correction_formula, False)
    assert item.correction_verify is not None
    assert item.correction_verify().verdict not in {Verdict.PROVED, Verdict.VERIFIED}


def _answer_otherwise(monkeypatch: pytest.MonkeyPatch, cases: Statement | None, answer: bool) -> None:
    """One answer in every case of these, whatever their test says."""
    true = Cases.holds
    monkeypatch.setattr(Cases, "holds", lambda self, case: answer if self is cases else true(self, case))
