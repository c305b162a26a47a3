"""The search for failures: corners, thin bands, edges, ties, extremes, rounding, and the room that it measures."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from ledger.proving.cases import Predicate
from ledger.proving.domains import between, closed, one_of, whole
from ledger.proving.formulas import Formula
from ledger.proving.margins import above, at_least, at_most, below, equal, every, exactly_when
from ledger.proving.search import families
from ledger.proving.search.falsifier import Finding, falsified
from theory.errors import ParameterError

UNIT = {"x": between(0, 1), "y": between(0, 1)}


def _of(relation: str, premise: str = "", **domain: object) -> Finding:
    return falsified(Formula(relation=relation, premise=premise, domain={**UNIT, **domain}), "seed")  # type: ignore[dict-item]


def test_all_joint_corners_and_whole_numbers_are_tried() -> None:
    domain = {**UNIT, "n": whole(2, 9), "p": one_of(1, 3)}
    corners = list(families.corners(domain, Fraction(1, 100), 1000, random.Random(1)))
    assert len(corners) == 2 * 2 * 3 * 2
    assert {(p["x"], p["y"]) for p in corners} == {
        (Fraction(a, 100), Fraction(b, 100)) for a in (1, 99) for b in (1, 99)
    }
    assert len(list(families.corners(domain, Fraction(1, 100), 7, random.Random(1)))) == 7
    found = _of("(n - 137)**2 + x > 1", n=whole(1, 200))
    assert found.failing is not None
    assert abs(found.failing["n"] - 137) <= 1


def test_points_of_all_families_and_of_curves_lie_in_the_domain() -> None:
    domain = {"x": between("1/2", "4/5"), "y": between(1, None, "[)"), "M": whole(4, None, 2), "p": one_of("1/3", 2)}
    rng = random.Random(2)
    drawn = [
        *families.corners(domain, families.EXTREME, 50, rng),
        *families.scattered(domain, 50, rng),
        *families.tied(domain, 50, rng),
        *families.inside(domain, 50, rng),
    ]
    assert all(point[name] in domain[name] for point in drawn for name in domain)
    curve = list(families.along(UNIT, ["x = 20 * t, y = 1 - t"]))
    assert curve[0] == {"x": Fraction(1, 5), "y": Fraction(99, 100)}
    assert all(0 < value < 1 for point in curve for value in point.values())


@pytest.mark.parametrize(
    ("relation", "premise"),
    [
        ("x * y < 99/100", ""),  # a joint corner
        ("(x - 1/3)**2 + (y - 2/3)**2 > 1/10**9", ""),  # a small disk inside
        ("x + y < 3/2 or x - y > 1/10**6 or y - x > 1/10**6", ""),  # a tie
        ("x + y < 1999/1000", "x + y < 2001/1000 and x > 9/10"),  # a band next to the edge of the premise
        ("x > 1/10**200", ""),  # nothing but extremes
        ("x * (1 - x) * y < 0.2499", ""),  # downhill
    ],
)
def test_a_false_statement_is_refuted_where_it_fails(relation: str, premise: str) -> None:
    formula = Formula(relation=relation, premise=premise, domain=UNIT)
    failing = falsified(formula, "seed").failing
    assert failing is not None
    assert formula.admits(failing)
    assert formula.holds(failing) is False


def test_rounding_is_no_counterexample() -> None:
    """Near 1 floats put the two sides of the identity in any order."""
    found = _of("(1 - x)**3 >= 1 - 3*x + 3*x**2 - x**3")
    assert found.failing is None
    assert found.slack == "any more"


def test_the_room_is_the_least_distance_of_the_sides() -> None:
    found = _of("x * (1 - x) < 26/100")
    assert found.room == pytest.approx(1 / 26, rel=1e-4)
    assert str(found).startswith("fails if it claims 3.8 % more, near x = 0.5")
    assert found.as_json()["room"] == found.room


def test_a_test_without_margin_is_tried_and_has_no_room() -> None:
    plain = Predicate(text="x < 1", test=lambda x, y: x < 1, domain=UNIT)
    found = falsified(plain, "seed")
    assert (found.failing, found.slack) == (None, "")
    assert "no failure at" in str(found)


def test_margins_compare_and_join() -> None:
    assert below(1, 2).room == at_least(2, 1).room == 0.5
    assert not above(1, 1)
    assert at_most(1, 1).room == 0
    assert at_most(0, 0).room > 1, "two sides that vanish have no share between them"
    assert (below(1, 2) & below(2, 1)).room == -0.5
    assert below(1, 2) | below(2, 1)
    assert not ~below(1, 2)
    assert every([])
    assert exactly_when(below(2, 1), below(4, 1)).room == 0.5
    assert not exactly_when(below(2, 1), below(1, 4))
    assert equal(1.0, 1.0 + 1e-12)
    assert not equal(1.0, 1.01)


def test_a_proof_by_balls_needs_an_upper_end() -> None:
    assert closed(UNIT, "x") == {"x": (0, 1)}
    with pytest.raises(ParameterError, match="upper end"):
        closed({"x": between(0, None)}, "x")


def test_a_curve_leads_to_a_failure_that_no_other_point_shows() -> None:
    """False only where y lies between x**2 and x**2 / 2 below 1e-20."""
    band = Formula(relation="y > x**2 or y < x**2 / 2 or x > 1/10**20", domain=UNIT)
    assert falsified(band, "seed").failing is None
    assert falsified(replace(band, curves=["x = t, y = 3/4 * t**2"]), "seed").failing is not None
