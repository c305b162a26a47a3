"""Lookahead Reasoning's statements at exact values, and the results that its texts quote."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from stated import stated

from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.tables import measured

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


HALF = Fraction(1, 2)


def test_theorem_3_tie() -> None:
    """alpha1 = 16/25, c1 = 1/5, alpha2 = 4/5, c2 = 1/9, M = 4: (7) holds with equality and (2, 2) ties with (1, 4)."""
    r1 = (1 + Fraction(16, 25)) / (1 + Fraction(1, 5))
    assert r1 == exact.doubling_ratio(Fraction(4, 5), Fraction(1, 9), 2) == Fraction(41, 30)
    token_only = exact.g(Fraction(4, 5), Fraction(1, 9), 4)
    hybrid = exact.f_sync(Fraction(16, 25), Fraction(1, 5), 2) * exact.g(Fraction(4, 5), Fraction(1, 9), 2)
    assert token_only == hybrid == Fraction(1107, 500)


def _gap_at_corner(budget: int, alpha2: Fraction) -> Fraction:
    """Best hybrid minus step-level only at alpha1 = 4/5, c1 = 0, c2 = 1/5."""
    f = {k: exact.f_sync(Fraction(4, 5), Fraction(0), k) for k in range(1, budget + 1)}
    pairs = ((i, j) for i, j in itertools.product(range(2, budget), repeat=2) if i * j <= budget)
    return max(f[i] * exact.g(alpha2, Fraction(1, 5), j) for i, j in pairs) - f[budget]


def test_sharp_lower_limits_of_theorem_4() -> None:
    """0.401326592 at M = 16, and, as the note says, about 0.4094 at M = 17; larger budgets are easier."""
    sharp = Fraction(401326592, 10**9)
    assert _gap_at_corner(16, sharp) == 0
    assert _gap_at_corner(17, Fraction(4094, 10000)) < 0 < _gap_at_corner(17, Fraction(4095, 10000))
    assert all(_gap_at_corner(m, Fraction(4095, 10000)) > 0 for m in range(18, 41))


def test_products_of_table_1() -> None:
    """Measured over product: 0.87 to 0.99; one cell agrees within rounding."""
    ratios = {name: cell["both"] / (cell["step"] * cell["token"]) for name, cell in measured()}
    assert 0.87 < min(ratios.values()) < 0.88
    assert 0.98 < max(ratios.values()) < 0.99
    unit = Fraction(1, 200)
    agreeing = [
        name for name, cell in measured() if (cell["step"] - unit) * (cell["token"] - unit) <= cell["both"] + unit
    ]
    assert agreeing == ["GPQA, Qwen3"]


@pytest.mark.parametrize(("budget", "least"), [(4, (5 * 5**0.5 - 9) / 2), (6, 1.1143), (8, 1.1255), (12, 1.1362)])
def test_the_least_constant_of_6_on_a_grid(budget: int, least: float) -> None:
    """LR-T3k: how far a single method can be ahead of h(1, M/2) while (7) may hold; a grid stays just below."""
    alpha, c = np.meshgrid(np.linspace(0.4, 0.95, 221), np.geomspace(0.01, 0.4, 800))
    g = {k: (1 - alpha**k) / (1 - alpha) / (1 - c + c * k) for k in range(1, budget + 1)}
    best = np.max([g[k] for k in range(budget // 2, budget)], axis=0)
    reached = np.max((best / g[budget // 2])[best > g[budget]])
    assert least - 1e-3 < reached < least
