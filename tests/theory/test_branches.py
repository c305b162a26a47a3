"""Draft trees: laws of acceptance, the speedup added up, and the optimum against every triple in 40 digits."""

from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from theory.branches import (
    MAX_TREE_BUDGET,
    TREE_TIE_RTOL,
    accepted_among,
    best_tree,
    h_tree,
    position_cost_at,
)
from theory.budget import best_hybrid
from theory.speedup import h
from theory.step_methods import any_of

MODES = ("sync", "async")
probabilities = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-12, 0.5, 1 - 1e-15, 1.0]))
ratios = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.25, 1 / 49, 1.0]))


def accepted(alpha: Decimal, rho: Decimal, width: int) -> Decimal:
    """Polya's urn with weights alpha (1 - rho) and (1 - alpha) (1 - rho), and rho more after each verdict."""
    refused = 1 - alpha
    for i in range(1, width):
        refused *= ((1 - alpha) * (1 - rho) + i * rho) / (1 - rho + i * rho)
    return 1 - refused


def window_of(c: float, k1: int, mode: str) -> int:
    """Positions of one path in flight: 1 / c of them are drafted before the first is written."""
    return k1 if mode == "sync" else next((n for n in range(1, k1) if 1 / n <= c), k1)


def step_speedup(p: Decimal, c: float, k: int, mode: str) -> Decimal:
    """Steps per stage over its time, both added up over the number of drafts accepted in a row."""
    cost = Decimal(c)
    if mode == "async" and window_of(c, k + 1, mode) <= k:
        return 1 / (1 - p + p * cost)
    powers = [Decimal(1)]
    for _ in range(k - 1):
        powers.append(powers[-1] * p)
    if mode == "sync":
        return sum(powers) / (1 + cost * (k - 1))
    # X accepted drafts cost X starts while the window slides, and the stage ends with the target's own step.
    return sum(powers) / (1 + cost * sum(x * power * (1 - p) for x, power in enumerate(powers)))


def speedup(sets: tuple[float, ...], mode: str, triple: tuple[int, int, int]) -> Decimal:
    """Speedup of (k1, k2, W), of the floats as they are."""
    c1 = sets[1]
    alpha1, _, alpha2, c2, rho, cost = map(Decimal, sets)
    k1, k2, width = triple
    g = sum((alpha2**i for i in range(1, k2)), Decimal(1)) / (1 + c2 * (k2 - 1))
    load = 1 + cost * (positions(c1, mode, triple) - 1)
    return step_speedup(accepted(alpha1, rho, width), c1, k1, mode) * g / load


def positions(c1: float, mode: str, triple: tuple[int, int, int]) -> int:
    """P k2, the prefixes added up by depth."""
    k1, k2, width = triple
    return k2 * sum(width**depth for depth in range(window_of(c1, k1, mode)))


@given(alpha=probabilities, rho=probabilities, width=st.integers(1, 40))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_acceptance_is_that_of_the_urn(alpha: float, rho: float, width: int) -> None:
    """To 40 digits, relative to what is accepted; from 1 to W branches it grows, up to that of independent ones."""
    curve = np.asarray(accepted_among(alpha, np.arange(1, width + 1), rho))
    with localcontext(prec=40):
        if rho < 1.0 - 1e-14 and alpha > 1e-20:  # else the 40 digits cancel
            true = accepted(Decimal(alpha), Decimal(rho), width)
            assert abs(Decimal(float(curve[-1])) - true) <= 40 * width * Decimal(2) ** -53 * true
    assert curve[0] == alpha
    assert (np.diff(curve) >= 0.0).all()
    assert curve[-1] <= float(any_of(alpha, width)) * (1 + 1e-13)


@given(sets=st.tuples(probabilities, ratios, probabilities, ratios, probabilities, st.floats(0, 1)))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_h_tree_against_forty_digits(sets: tuple[float, ...]) -> None:
    """Relative error below a quarter of the distance at which two triples tie."""
    alpha1, c1, alpha2, c2, rho, cost = sets
    for mode, triple in product(MODES, ((1, 3, 1), (2, 2, 2), (4, 1, 3), (3, 5, 17))):
        k1, k2, width = triple
        value = h_tree(alpha1, c1, k1, width, alpha2, c2, k2, mode, siblings=rho, position_cost=cost)
        with localcontext(prec=40):
            true = speedup(sets, mode, triple)
            assert abs(Decimal(float(value)) - true) <= Decimal(TREE_TIE_RTOL) / 4 * true


@pytest.mark.parametrize("mode", MODES)
def test_widest_trees_of_the_largest_budget_are_as_exact(mode: str) -> None:
    """W = 16,383 in 40 digits."""
    width = MAX_TREE_BUDGET - 1
    for alpha, rho in product((0.01, 0.63), (0.0, 1e-6, 0.05, 0.63)):
        value = h_tree(alpha, 0.25, 2, width, 0.0, 1.0, 1, mode, siblings=rho)
        with localcontext(prec=40):
            true = step_speedup(accepted(Decimal(alpha), Decimal(rho), width), 0.25, 2, mode)
            assert abs(Decimal(float(value)) / true - 1) <= Decimal(TREE_TIE_RTOL) / 4


SETS = [
    (alpha1, c1, alpha2, c2, rho, cost)
    for alpha1, c1, (alpha2, c2), rho, cost in product(
        (0.1, 0.63, 0.95, 1.0), (0.0, 0.1, 0.28, 0.5), ((0.0, 1.0), (0.8, 0.05)), (0.0, 0.63, 1.0), (0.0, 0.01, 0.06)
    )
]


@pytest.mark.parametrize("mode", MODES)
def test_optimum_against_every_triple_in_40_digits(mode: str) -> None:
    """Every budget up to 20: the best triple there is, and none as good within rounding has fewer positions."""
    budgets = range(1, 21)
    triples = [(k1, k2, w) for k1, k2, w in product(budgets, repeat=3) if k2 * (w + (k1 > 1)) <= 20]
    for sets in SETS[::23]:  # 23 and the lengths of the lists have no common factor, so every value occurs
        alpha1, c1, alpha2, c2, rho, cost = sets
        needs = {triple: need for triple in triples if (need := positions(c1, mode, triple)) <= budgets[-1]}
        with localcontext(prec=40):
            table = [(speedup(sets, mode, triple), need, triple) for triple, need in needs.items()]
        for budget in budgets:
            found = best_tree(alpha1, c1, alpha2, c2, budget, mode, siblings=rho, position_cost=cost)
            within = [row for row in table if row[1] <= budget]
            best = max(value for value, *_ in within)
            assert abs(Decimal(found.speedup) - best) <= Decimal(TREE_TIE_RTOL) * best
            least = best * (1 - Decimal(TREE_TIE_RTOL))
            ties = [(need, width, k1, k2) for value, need, (k1, k2, width) in within if value >= least]
            assert (found.positions, found.width, found.k1, found.k2) == min(ties)
            assert found.accepted == accepted_among(alpha1, found.width, rho)


@given(
    sets=st.tuples(probabilities, ratios, probabilities, ratios),
    budget=st.integers(1, 300),
    mode=st.sampled_from(MODES),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_branches_that_agree_leave_the_optimum_of_two_levels(
    sets: tuple[float, float, float, float], budget: int, mode: str
) -> None:
    """With rho = 1, and free positions, W = 1 is best and its speedup that of `best_hybrid`."""
    alpha1, c1, alpha2, c2 = sets
    found = best_tree(alpha1, c1, alpha2, c2, budget, mode, siblings=1.0)
    expected = best_hybrid(alpha1, c1, alpha2, c2, budget, mode)
    assert found.width == 1
    assert found.speedup == pytest.approx(expected.speedup, rel=1e-11)
    assert found.positions <= expected.parallel_dim
    assert found.speedup == pytest.approx(float(h(alpha1, c1, found.k1, alpha2, c2, found.k2, mode)), rel=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gain", [0.8, 1.0, 1.01])
def test_position_cost_at_a_gain_gives_that_gain(mode: str, gain: float) -> None:
    """By h of the two trees; and at the break-even the branches cease to pay."""
    for alpha, c1, k1, width in product((0.3, 0.63), (0.1, 0.28), (2, 3), (2, 4)):
        cost = position_cost_at(alpha, c1, k1, width, mode, siblings=0.63, gain=gain)
        assert cost > 0.0

        def ratio(cost: float, one: tuple[float, float, int, int] = (alpha, c1, k1, width)) -> float:
            alpha, c1, k1, width = one
            tree, path = np.asarray(
                h_tree(alpha, c1, k1, [width, 1], 0.0, 1.0, 1, mode, siblings=0.63, position_cost=cost)
            )
            return float(tree / path)

        assert ratio(cost) == pytest.approx(gain, rel=1e-12)
        assert ratio(cost * 1.01) < gain < ratio(cost * 0.99)


def test_a_gain_beyond_that_of_acceptance_has_no_cost() -> None:
    assert position_cost_at(0.63, 0.28, 2, 2, "sync", siblings=0.63, gain=2.0) < 0.0
    assert position_cost_at(0.63, 0.28, 2, 2, "sync", siblings=1.0) == 0.0


def test_infinitely_many_positions() -> None:
    """Free, they leave the speedup as it is; at a cost they leave none."""
    deep = {"k1": 5000, "width": 2, "alpha2": 0.5, "c2": 0.1, "k2": 3, "mode": "sync", "siblings": 0.5}
    assert 1.0 < h_tree(0.5, 0.0, **deep) < np.inf  # type: ignore[arg-type]
    assert h_tree(0.5, 0.0, **deep, position_cost=0.1) == 0.0  # type: ignore[arg-type]


test_bad_arguments = refused(
    lambda call: call(),
    (lambda: accepted_among(1.2, 2, 0.5), "alpha1=1.2"),
    (lambda: accepted_among(0.5, 0, 0.5), "width=0"),
    (lambda: accepted_among(0.5, MAX_TREE_BUDGET + 1, 0.5), "width=16385"),
    (lambda: accepted_among(0.5, 2, -0.1), "siblings=-0.1"),
    (lambda: accepted_among([0.5, 0.6], [1, 2, 3], 0.5), "must broadcast together"),
    (lambda: h_tree(0.5, 0.1, 0, 2, 0.5, 0.1, 2, "sync", siblings=0.5), "k1=0"),
    (lambda: h_tree(0.5, 0.1, 2, 2, 0.5, 0.1, 2, "both", siblings=0.5), "mode='both'"),
    (lambda: h_tree(0.5, 0.1, 2, 2, 0.5, 0.1, 2, "sync", siblings=0.5, position_cost=-1.0), "position_cost=-1.0"),
    (lambda: best_tree(0.5, 0.1, 0.5, 0.1, 0, "sync", siblings=0.5), "budget=0"),
    (lambda: best_tree(0.5, 0.1, 0.5, 0.1, MAX_TREE_BUDGET + 1, "sync", siblings=0.5), "budget=16385"),
    (lambda: best_tree(0.5, 0.1, 0.5, 0.1, 4, "sync", siblings=float("nan")), "siblings=nan"),
    (lambda: position_cost_at(0.5, 0.1, 1, 2, "sync", siblings=0.5), "k1=1"),
    (lambda: position_cost_at(0.5, 0.1, 2, 1, "sync", siblings=0.5), "width=1"),
    (lambda: position_cost_at(0.5, 0.1, 2, 2, "sync", siblings=0.5, gain=0.0), "gain=0.0"),
)
