"""Formulas: their reading, their domains, and proofs by cases."""

from dataclasses import replace
from fractions import Fraction

import pytest

from ledger import runner
from ledger.ledger import Evidence, Verdict, claim
from ledger.proving.cases import Cases, Predicate, grid, rows, searched, walked
from ledger.proving.formulas import Formula, between, one_of, whole
from ledger.proving.search.falsifier import falsified
from theory.errors import ParameterError

HALF, ONE_PERCENT = Fraction(1, 2), Fraction(1, 100)


def _formula(relation: str, **changed: object) -> Formula:
    record = {"relation": relation, "domain": {"x": between(0, 1)}} | changed
    return Formula(**record)  # type: ignore[arg-type]  # values of several types


def _square(*, below: bool = True) -> Formula:
    return _formula("x**2 < x" if below else "x**2 > x")


def test_holds_decides_exactly_and_margins_move_the_right_side() -> None:
    formula = _square()
    assert formula.holds({"x": HALF}) is True
    assert formula.holds({"x": 1 - Fraction(1, 10**40)}) is True
    assert formula.holds({"x": Fraction(99, 100)}, ONE_PERCENT) is None, "equal: not told"
    assert formula.holds({"x": Fraction(999, 1000)}, ONE_PERCENT) is False
    with pytest.raises(ParameterError, match="domain"):
        formula.holds({"x": Fraction(1)})


def test_an_equality_holds_to_thirty_digits_and_a_percent_is_noticed() -> None:
    formula = _formula("log(x**2) == 2 * log(x)")
    near = _formula("x + 1/10**40 == x")
    assert formula.holds({"x": HALF}) is True
    assert formula.holds({"x": HALF}, ONE_PERCENT) is False
    assert near.holds({"x": HALF}) is False, "disjoint balls, however near"


def test_an_edge_belongs_to_an_inequality_that_is_not_strict() -> None:
    at_one = {"domain": {"x": one_of(1)}}
    assert _formula("x**2 <= x", **at_one).holds({"x": Fraction(1)}) is True
    assert _formula("x**2 < x", **at_one).holds({"x": Fraction(1)}) is False


def test_and_needs_both_sides_or_one_of_them() -> None:
    both = _formula("x**2 < x and sqrt(x) / 2 > x")
    either = _formula("x**2 > x or sqrt(x) > x")
    assert [both.holds({"x": x}) for x in (Fraction(1, 9), Fraction(4, 9))] == [True, False]
    assert either.holds({"x": HALF}) is True


def test_sums_count_with_whole_numbers() -> None:
    either = _formula("Sum(1 / j, j, 1, b) > 100 or Sum(j, j, 1, b) >= b", domain={"b": whole(1, 9)})
    assert [either.holds({"b": Fraction(n)}) for n in (2, 9)] == [True, True]


def test_a_relation_that_sympy_would_decide_is_left_to_the_balls() -> None:
    """With positive symbols sympy takes ``x > 0`` for true."""
    assert _formula("x > 0").text == "x > 0"
    assert _formula("0 < x").holds({"x": HALF}) is True
    assert _formula("x < 0").holds({"x": HALF}) is False


@pytest.mark.parametrize("text", ["x <", "x ** 2", "lambert(x) < 1", "x.y < 1", "x != 1"])
def test_text_that_is_no_relation_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="relation"):
        _formula(text).holds({"x": HALF})


def test_a_formula_tells_its_domain_and_its_premise() -> None:
    formula = _formula("x**2 < x", premise="x < 1/2")
    assert (formula.where, formula.text, formula.latex) == ("x in (0, 1), x < 1/2", "x**2 < x", "x^{2} < x")
    assert [formula.admits({"x": Fraction(x, 4)}) for x in (1, 3)] == [True, False]


def test_both_sides_are_shown_exactly_or_to_six_digits() -> None:
    formula = _formula("x**2 < x and log(x) == Sum(x**i, i, 1, 2)")
    assert formula.sides({"x": Fraction(1, 3)}) == "-1.09861 == 4/9 and 1/9 < 1/3"


def test_a_proof_of_a_false_statement_does_not_pass() -> None:
    """Whatever the verifier says: the formula's counterexample decides."""
    proved = Evidence(verdict=Verdict.PROVED, method="test", detail="test")
    believed = replace(claim("LR-L6a"), verify=lambda: proved)
    assert runner.verify_claim(believed).agrees
    result = runner.verify_claim(replace(believed, formula=_square(below=False)))
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


def test_two_sides_that_are_one_expression_are_no_strict_inequality() -> None:
    """Where y = z balls of both sides overlap at any precision."""
    midpoint = "(log(y) + log(z)) / 2 {} log((y + z) / 2)"
    domain = {"y": between(0, 1), "z": between(0, 1)}
    tie, apart = ({"y": Fraction(1, 3), "z": Fraction(z, 6)} for z in (2, 3))
    assert [_formula(midpoint.format("<"), domain=domain).holds(point) for point in (tie, apart)] == [False, True]
    assert [_formula(midpoint.format("<="), domain=domain).holds(point) for point in (tie, apart)] == [True, True]
    assert not Formula(relation="y > 0", premise="exp(y) < exp(z)", domain=domain).admits(tie)


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
