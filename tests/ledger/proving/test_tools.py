"""The proving tools: what they prove is true, what they refute is false, and they say so when they do not know."""

from fractions import Fraction

import pytest
import sympy as sp
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from ledger.ledger import Verdict
from ledger.proving.balls import ball, expm1_ratio, geometric_sum, log_ratio, point, power, power_gap, simplest_between
from ledger.proving.formulas import Formula, between, whole
from ledger.proving.tools import (
    exhaustive,
    prove_box,
    prove_by_induction,
    prove_descent,
    prove_identity,
    prove_positive,
    prove_sign,
    refute,
    rounds_to,
)
from theory.errors import ParameterError

UNIT = {"x": (0, 1)}
rationals = st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50), max_denominator=60)


def test_prove_positive_proves_a_tight_inequality() -> None:
    """x (1 - x) < 1/4 + 1/1000 needs many boxes around x = 1/2 (dependency of x on itself)."""
    evidence = prove_positive(lambda x: point("251/1000") - x * (1 - x), UNIT, what="parabola")
    assert evidence.verdict is Verdict.PROVED
    assert evidence.effort["boxes"] > 10


def test_prove_positive_refutes_with_a_point_that_fails() -> None:
    evidence = prove_positive(lambda x: point("249/1000") - x * (1 - x), UNIT, what="parabola")
    assert evidence.verdict is Verdict.FALSE
    assert evidence.counterexample is not None
    at = Fraction(evidence.counterexample["x"])
    assert at * (1 - at) > Fraction(249, 1000)


def test_prove_positive_leaves_what_is_not_strict_open() -> None:
    """(x - 1/3)**2 vanishes at a point that no dyadic box hits: undecided, not proved."""
    assert prove_positive(lambda x: (x - point("1/3")) ** 2, UNIT, what="square").verdict is Verdict.OPEN


def test_prove_identity() -> None:
    a, n = sp.symbols("a n", positive=True)
    assert prove_identity((1 - a ** (2 * n)) - (1 - a**n) * (1 + a**n), what="square").verdict is Verdict.PROVED
    wrong = prove_identity((1 - a ** (2 * n)) - (1 - a**n) ** 2, what="square")
    assert wrong.verdict is Verdict.FALSE
    assert wrong.counterexample
    assert prove_identity("(a + b)**2 == a**2 + 2 * a * b + b**2", what="read").verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("relation", "verdict"),
    [
        ("Sum(2 * i - 1, i, 1, n) == n**2", Verdict.PROVED),
        ("1 / (1 + Sum(x * i, i, 1, n)) == 2 / (2 + x * n * (n + 1))", Verdict.PROVED),
        ("Sum(i, i, 1, n) + Sum(2 * i - 1, i, 1, n) == n * (3 * n + 1) / 2", Verdict.PROVED),
        ("Sum(2 * i - 1, i, 1, n) == n**2 + 1", Verdict.OPEN),  # the step holds, the start does not
        ("Sum(i, i, 1, n) == n**2", Verdict.OPEN),  # true at n = 1
    ],
)
def test_prove_by_induction(relation: str, verdict: Verdict) -> None:
    """A step that fails is no counterexample, so what is false stays open."""
    statement = Formula(relation=relation, domain={"n": whole(1), "x": between(0, 1)})
    assert prove_by_induction(statement, "n").verdict is verdict


@pytest.mark.parametrize("relation", ["Sum(n * i + 1, i, 1, n) == n", "Sum(i, i, 1, 2 * n) == n * (2 * n + 1)"])
def test_induction_needs_sums_that_gain_one_term(relation: str) -> None:
    with pytest.raises(ParameterError, match="must end the sum"):
        prove_by_induction(Formula(relation=relation, domain={"n": whole(1)}), "n")


def test_prove_sign() -> None:
    a, c = sp.symbols("a c", positive=True)
    assert prove_sign((1 + a) / (1 + c * a) - 1, unit=("a", "c"), what="gain").verdict is Verdict.PROVED
    assert prove_sign((1 + a) / (1 + c) - 1, unit=("a", "c"), what="gain").verdict is Verdict.FALSE
    assert prove_sign("1 < 1 + a", what="read").verdict is Verdict.PROVED
    assert prove_sign("1 + a > 1", what="read").verdict is Verdict.PROVED
    # true, but not visible in the coefficients: must stay open
    assert prove_sign(a**2 - a + 1, what="no real root").verdict is Verdict.OPEN


def test_prove_descent() -> None:
    u = sp.Symbol("u", positive=True)
    assert prove_descent(sp.exp(u) - 1 - u, u, what="tangent", order=2).verdict is Verdict.PROVED
    assert prove_descent("exp(u) - 1 - u", "u", what="read", order=2).verdict is Verdict.PROVED
    assert prove_descent(sp.exp(-u) - 1, u, what="wrong", order=1).verdict is Verdict.FALSE
    assert prove_descent(sp.exp(u), u, what="not zero at 0", order=1).verdict is Verdict.OPEN


def test_exhaustive_takes_the_verdict_of_its_tail() -> None:
    unknown = refute(lambda: True, [{}], what="nothing")
    assert exhaustive(lambda n: n < 5, {"n": range(5)}, what="n").verdict is Verdict.PROVED
    assert exhaustive(lambda n: n < 4, {"n": range(5)}, what="n").verdict is Verdict.FALSE
    assert exhaustive(lambda n: n < 5, {"n": range(5)}, what="n", tail=unknown).verdict is Verdict.OPEN


def test_rounds_to_is_half_a_unit() -> None:
    at = {"x": "1"}
    assert rounds_to(lambda: point("0.2649"), "0.26", "x", at).verdict is Verdict.PROVED
    assert rounds_to(lambda: point("0.2651"), "0.26", "x", at).verdict is Verdict.FALSE
    # exactly half way: neither certain
    assert rounds_to(lambda: point("0.265"), "0.26", "x", at).verdict is Verdict.OPEN


@given(low=rationals, width=rationals, exponent=st.integers(1, 6), share=rationals)
def test_balls_contain_the_function(low: Fraction, width: Fraction, exponent: int, share: Fraction) -> None:
    """A rational point of a box lies in the ball of every helper."""
    high = low + width * (1 - low)
    inside = low + share * (high - low)
    box, x = ball(low, high), point(inside)
    exponents = ball(Fraction(1, 2), exponent)
    assert power(box, exponents).overlaps(point(inside**exponent))
    assert power_gap(box, exponents).overlaps(point(Fraction(geometric_sum(inside, exponent))))
    assert log_ratio(box).overlaps(x.log() / (x - 1))
    assert expm1_ratio(-box).overlaps((-x).expm1() / -x)


def test_removable_singularities() -> None:
    assert power_gap(arb(1), arb(3)).overlaps(arb(3))
    assert log_ratio(ball("0.99", 1)).overlaps(arb(1))
    assert expm1_ratio(ball("-0.001", "0.001")).overlaps(arb(1))
    assert abs(expm1_ratio(point("1/1000")) - (point("1/1000").exp() - 1) * 1000) < arb("1e-12")


@given(low=rationals, high=rationals)
def test_simplest_between_lies_inside_and_is_simplest(low: Fraction, high: Fraction) -> None:
    if low >= high:
        return
    found = simplest_between(low, high)
    assert low < found < high
    smaller = [Fraction(n, d) for d in range(1, found.denominator) for n in range(d + 1) if low < Fraction(n, d) < high]
    assert smaller == []


def test_a_box_proves_inequalities_as_they_are_written() -> None:
    unit = {"x": between(0, 1)}
    assert prove_box(Formula(relation="x * (1 - x) < 251/1000 and 1 + x > 1/2", domain=unit)).verdict is Verdict.PROVED
    assert prove_box(Formula(relation="x * (1 - x) < 249/1000", domain=unit)).verdict is Verdict.OPEN
    for relation in ("x == x", "x < 2 or x > 3"):
        with pytest.raises(ParameterError, match="joined by 'and'"):
            prove_box(Formula(relation=relation, domain=unit))
