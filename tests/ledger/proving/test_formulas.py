"""Formulas: their reading, their domains, and proofs by cases."""

from dataclasses import replace
from fractions import Fraction

import pytest

from ledger import runner
from ledger.ledger import Evidence, Verdict, claim
from ledger.proving.cases import Cases, Predicate, grid, rows, searched, walked
from ledger.proving.domains import Domain, Point
from ledger.proving.formulas import Formula, between, one_of, whole
from ledger.proving.search.falsifier import falsified
from theory.errors import ParameterError

HALF, UNIT = Fraction(1, 2), {"x": between(0, 1)}
TWO, ONE, COUNT = {"y": between(0, 1), "z": between(0, 1)}, {"x": one_of(1)}, {"b": whole(1, 9)}
MIDPOINT = "(log(y) + log(z)) / 2 {} log((y + z) / 2)"
TIE, APART = ({"y": Fraction(1, 3), "z": Fraction(z, 6)} for z in (2, 3))


def _formula(relation: str, **changed: object) -> Formula:
    return Formula(**{"relation": relation, "domain": UNIT, **changed})  # type: ignore[arg-type]  # of several types


@pytest.mark.parametrize(
    ("relation", "domain", "point", "wanted"),
    [
        ("x**2 < x", UNIT, {"x": HALF}, True),
        ("x**2 < x", UNIT, {"x": 1 - Fraction(1, 10**40)}, True),
        ("log(x**2) == 2 * log(x)", UNIT, {"x": HALF}, True),  # to thirty digits
        ("x + 1/10**40 == x", UNIT, {"x": HALF}, False),  # disjoint balls, however near
        ("x**2 <= x", ONE, {"x": Fraction(1)}, True),  # an edge belongs to what is not strict
        ("x**2 < x", ONE, {"x": Fraction(1)}, False),
        ("x**2 < x and sqrt(x) / 2 > x", UNIT, {"x": Fraction(1, 9)}, True),
        ("x**2 < x and sqrt(x) / 2 > x", UNIT, {"x": Fraction(4, 9)}, False),
        ("x**2 > x or sqrt(x) > x", UNIT, {"x": HALF}, True),
        *[
            ("Sum(1 / j, j, 1, b) > 100 or Sum(j, j, 1, b) >= b", COUNT, {"b": Fraction(n)}, True) for n in (2, 9)
        ],  # sums count with whole numbers
        ("0 < x", UNIT, {"x": HALF}, True),  # sympy would decide both by the sign of its symbol
        ("x < 0", UNIT, {"x": HALF}, False),
        *[(MIDPOINT.format(sign), TWO, TIE, sign == "<=") for sign in ("<", "<=")],  # one expression: balls overlap
        *[(MIDPOINT.format(sign), TWO, APART, True) for sign in ("<", "<=")],
    ],
)
def test_a_formula_is_decided_at_a_point(relation: str, domain: Domain, point: Point, wanted: bool) -> None:
    assert _formula(relation, domain=domain).holds(point) is wanted


@pytest.mark.parametrize(
    ("relation", "x", "wanted"),
    [
        ("x**2 < x", Fraction(99, 100), None),  # equal: not told
        ("x**2 < x", Fraction(999, 1000), False),
        ("log(x**2) == 2 * log(x)", HALF, False),
    ],
)
def test_a_margin_of_a_percent_moves_the_right_side(relation: str, x: Fraction, wanted: bool | None) -> None:
    assert _formula(relation).holds({"x": x}, Fraction(1, 100)) is wanted


@pytest.mark.parametrize("text", ["x <", "x ** 2", "lambert(x) < 1", "x.y < 1", "x != 1"])
def test_text_that_is_no_relation_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="relation"):
        _formula(text).holds({"x": HALF})


def test_a_formula_tells_its_domain_its_premise_and_both_sides() -> None:
    """Sides are shown exactly, or to six digits; what sympy would take for true is left as it is."""
    formula = _formula("x**2 < x", premise="x < 1/2")
    assert (formula.where, formula.text, formula.latex) == ("x in (0, 1), x < 1/2", "x**2 < x", "x^{2} < x")
    assert [formula.admits({"x": Fraction(x, 4)}) for x in (1, 3)] == [True, False]
    with pytest.raises(ParameterError, match="domain"):
        formula.holds({"x": Fraction(1)})
    assert not Formula(relation="y > 0", premise="exp(y) < exp(z)", domain=TWO).admits(TIE)
    assert _formula("x > 0").text == "x > 0"
    both = _formula("x**2 < x and log(x) == Sum(x**i, i, 1, 2)")
    assert both.sides({"x": Fraction(1, 3)}) == "-1.09861 == 4/9 and 1/9 < 1/3"


def test_a_proof_of_a_false_statement_does_not_pass() -> None:
    """Whatever the verifier says: the formula's counterexample decides."""
    proved = Evidence(verdict=Verdict.PROVED, method="test", detail="test")
    believed = replace(claim("LR-L6a"), verify=lambda: proved)
    assert runner.verify_claim(believed).agrees
    result = runner.verify_claim(replace(believed, formula=_formula("x**2 > x")))
    assert result.evidence.verdict is Verdict.FALSE
    assert result.evidence.counterexample
    assert not result.agrees


def test_a_correction_that_fails_at_a_point_does_not_pass() -> None:
    """SPECS-L6b holds for p <= 1/2; its proof still passes where the formula claims it for p <= 7/10."""
    item = claim("SPECS-L6b")
    assert isinstance(item.correction_formula, Formula)
    assert runner.verify_claim(item).agrees
    wider = replace(item.correction_formula, domain={"p": between(0, "7/10", "[]")})
    result = runner.verify_claim(replace(item, correction_formula=wider))
    assert result.correction is not None
    assert result.correction.verdict is Verdict.FALSE
    assert not result.agrees


SQUARES = Cases(
    text="m^2 >= n", test=lambda m, n: m * m >= n, cases=grid(m=range(1, 4), n=(0, 1)), where="m <= 3, n <= 1"
)
SMALL = Predicate(text="x^2 < x", test=lambda x: x * x < x, domain={"x": between(0, 1, "[)")})


def test_a_walk_proves_all_cases_verifies_some_and_stops_at_the_first_that_fails() -> None:
    assert walked(SQUARES).verdict is Verdict.PROVED
    evidence = walked(replace(SQUARES, partial=True))
    assert evidence.verdict is Verdict.VERIFIED
    assert "m <= 3" in evidence.detail
    assert evidence.effort == {"points": 6}
    failing = rows({"m": 2, "n": 4}, {"m": 1, "n": 2}, {"m": 1, "n": 3})
    evidence = walked(replace(SQUARES, cases=failing, shown=lambda case: {"side": case["m"], "area": case["n"]}))
    assert evidence.verdict is Verdict.FALSE
    assert evidence.counterexample == {"side": "1", "area": "2"}
    tail = Evidence(verdict=Verdict.OPEN, method="test", detail="nothing")
    assert walked(SQUARES, tail=tail).verdict is Verdict.OPEN


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
    assert searched(replace(SMALL, premise=lambda x: x > 0), {"x": 0}).verdict is Verdict.OPEN
