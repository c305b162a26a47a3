"""Claims as formulas: each holds where tried, and falls close to sharp or says why not; the machinery by hand."""

from __future__ import annotations

import importlib
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp

from theory.claims import runner
from theory.claims.ledger import PAPERS, Claim, Evidence, Verdict, claim, claims
from theory.claims.proving.formulas import Formula, between, whole
from theory.errors import ParameterError

FORMULAS = [item for item in claims() if item.formula is not None]


def formula_of(item: Claim) -> Formula:
    assert item.formula is not None
    return item.formula


def test_formulas_are_of_claims() -> None:
    recorded = {
        key for folder in PAPERS for key in importlib.import_module(f"theory.claims.{folder}.formulas").FORMULAS
    }
    assert recorded == {item.id for item in FORMULAS}
    assert len(FORMULAS) >= 16


@pytest.mark.parametrize("item", FORMULAS, ids=lambda item: item.id)
def test_a_claim_holds_at_random_and_extreme_points(item: Claim) -> None:
    """Other points than `runner` tries; most of them decided."""
    formula = formula_of(item)
    told = [formula.holds(point) for point in formula.points(600, f"test {item.id}")]
    assert len(told) > 50, "the premise leaves too few points"
    assert False not in told
    assert told.count(True) > 0.8 * len(told)


@pytest.mark.parametrize("item", FORMULAS, ids=lambda item: item.id)
def test_a_margin_of_some_percent_falls_or_there_is_room(item: Claim) -> None:
    formula = formula_of(item)
    failing = formula.fails_at(600, item.id, formula.sharp or Fraction(1, 20))
    assert (failing is not None) is (formula.sharp is not None), formula.room
    assert formula.sharp is None or formula.sharp <= Fraction(1, 20)


def _square(*, below: bool = True) -> Formula:
    x = sp.Symbol("x", positive=True)
    return Formula(
        relation=lambda: x**2 < x if below else x**2 > x, domain={"x": between(0, 1)}, sharp=Fraction(1, 100)
    )


def test_holds_decides_exactly_and_margins_move_the_right_side() -> None:
    formula = _square()
    assert formula.holds({"x": Fraction(1, 2)}) is True
    assert formula.holds({"x": 1 - Fraction(1, 10**40)}) is True
    assert formula.holds({"x": Fraction(99, 100)}, Fraction(1, 100)) is None, "equal: not told"
    assert formula.holds({"x": Fraction(999, 1000)}, Fraction(1, 100)) is False
    with pytest.raises(ParameterError, match="domain"):
        formula.holds({"x": Fraction(1)})


def test_sums_count_with_whole_numbers_and_or_needs_one_side() -> None:
    b, j = sp.symbols("b j", positive=True, integer=True)
    either = Formula(
        relation=lambda: sp.Or(sp.Sum(1 / j, (j, 1, b)) > 100, sp.Sum(j, (j, 1, b)) >= b),
        domain={"b": whole(1, 9)},
        sharp=Fraction(1, 100),
    )
    assert [either.holds({"b": Fraction(n)}) for n in (2, 9)] == [True, True]


def test_points_lie_in_the_domain_and_reach_its_ends() -> None:
    domain = {"x": between("1/2", "4/5"), "y": between(1, None), "M": whole(4, None, 2)}
    formula = replace(_square(), domain=domain, premise=lambda M, **_: M != 6)
    found = list(formula.points(400, "seed"))
    assert found == list(formula.points(400, "seed"))
    assert all(point[name] in domain[name] for point in found for name in domain)
    assert {point["M"] for point in found} >= {Fraction(4), Fraction(8)}
    assert Fraction(6) not in {point["M"] for point in found}
    assert min(point["x"] for point in found) - Fraction(1, 2) < Fraction(1, 10**8)
    assert max(point["y"] for point in found) > 9999


def test_a_proof_of_a_false_statement_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the verifier says: the formula's counterexample decides."""
    item = claim("LR-L6a")
    proved = Evidence(verdict=Verdict.PROVED, method="test", detail="test")
    wrong = replace(item, verify=lambda: proved)
    assert runner.verify_claim(wrong).agrees
    monkeypatch.setattr(Claim, "formula", property(lambda self: _square(below=False)))
    result = runner.verify_claim(wrong)
    assert result.evidence.verdict is Verdict.FALSE
    assert result.evidence.counterexample
    assert not result.agrees
