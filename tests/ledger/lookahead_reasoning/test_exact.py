"""Lookahead Reasoning's statements at exact values, and what a note of the ledger says of odd budgets."""

import itertools
from fractions import Fraction

import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from stated import stated

from ledger.lookahead_reasoning import exact

rationals = st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50), max_denominator=60)


@settings(max_examples=15)
@given(alpha=rationals, c=rationals, k=st.integers(1, 9))
def test_exact_forms_equal_the_statements(alpha: Fraction, c: Fraction, k: int) -> None:
    """The forms that the proofs use are the sympy statements, exactly."""

    def at(name: str, **values: Fraction | int) -> Fraction:
        expression = stated(name)
        value = expression.subs({s: sp.Rational(str(values[s.name])) for s in expression.free_symbols})
        return Fraction(str(value))

    step = {"alpha1": alpha, "c1": c, "k1": k}
    assert exact.f_sync(alpha, c, k) == at("f_sync", **step)
    assert exact.f_saturated(alpha, c, k) == at("f_async_saturated", **step)
    assert exact.f_async(alpha, c, k) == at("f_async", **step)
    assert exact.g(alpha, c, k) == at("g", alpha2=alpha, c2=c, k2=k)
    assert exact.g_background(alpha, c, k) == at("walltime_leviathan_2023", alpha=alpha, c=c, gamma=k)


def test_stage_time_by_hand() -> None:
    """c = 2/5, two slots: starts at 0, 2/5, then T (slot), 7/5, 2 T; unlimited depth: every 2/5."""
    two_fifths = Fraction(2, 5)
    assert exact.stage_steps(two_fifths, 2, 5) == [0, Fraction(2, 5), 1, Fraction(7, 5), 2]
    assert exact.stage_steps(two_fifths, 9, 4) == [0, Fraction(2, 5), Fraction(4, 5), Fraction(6, 5)]


def _gap_at_corner(budget: int, alpha2: Fraction) -> Fraction:
    """Best hybrid minus step-level only at alpha1 = 4/5, c1 = 0, c2 = 1/5."""
    f = {k: exact.f_sync(Fraction(4, 5), Fraction(0), k) for k in range(1, budget + 1)}
    pairs = ((i, j) for i, j in itertools.product(range(2, budget), repeat=2) if i * j <= budget)
    return max(f[i] * exact.g(alpha2, Fraction(1, 5), j) for i, j in pairs) - f[budget]


def test_larger_budgets_than_17_have_lower_limits_below_that_of_17() -> None:
    """About 0.4094, as the note of LR-T4d says."""
    assert _gap_at_corner(17, Fraction(4094, 10000)) < 0 < _gap_at_corner(17, Fraction(4095, 10000))
    assert all(_gap_at_corner(m, Fraction(4095, 10000)) > 0 for m in range(18, 41))
