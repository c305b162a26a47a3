"""Lookahead Reasoning: the exact forms equal those in sympy, and the timeline is right by hand."""

from fractions import Fraction

import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from stated import stated

from ledger.lookahead_reasoning import exact

rationals = st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50), max_denominator=60)


@settings(max_examples=25)
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
