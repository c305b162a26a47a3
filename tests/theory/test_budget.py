"""The hybrid-budget optimiser against brute force, its tie rule, its laws and its speed."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.budget import REGIMES, TIE_RTOL, HybridOptimum, best_hybrid, regime_map
from theory.parallelism import parallel_dim, parallel_dim_f
from theory.speedup import f_async, f_sync, g, h

MODES = ["sync", "async"]
LARGEST = 64
STEP = {"sync": f_sync, "async": f_async}

probabilities = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1 - 1e-15, 1.0]))
ratios = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-6, 0.1, 0.25, 1 / 49, 1.0]))


def parameter_sets() -> np.ndarray:
    """10,000 sets (alpha1, c1, alpha2, c2): a 10**4 grid with both ends, unit fractions and equal values."""
    alphas = [0.0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.99, 1.0]
    costs = [0.0, 0.01, 1 / 49, 0.05, 0.1, 0.2, 0.25, 0.4, 0.6, 1.0]
    return np.array(list(product(alphas, costs, alphas, costs)))


def brute_force(sets: np.ndarray, budget: int, mode: str) -> np.ndarray:
    """Largest speedup of each set under a budget: for each k1 the best k2, by a running maximum over all of them."""
    alpha1, c1, alpha2, c2 = sets.T[:, :, None]
    k = np.arange(1, budget + 1)
    token = np.maximum.accumulate(g(alpha2, c2, k), axis=1)
    most = budget // parallel_dim_f(c1, k, mode)
    return np.asarray(np.max(STEP[mode](alpha1, c1, k) * np.take_along_axis(token, most - 1, axis=1), axis=1))


def all_ties(point: tuple[float, ...], budget: int, mode: str) -> tuple[tuple[int, int], ...]:
    """The rule in words: equal value, fits, undercut by no other; cheapest first, then smallest k1."""
    alpha1, c1, alpha2, c2 = point
    k = np.arange(1, budget + 1)
    value = np.outer(STEP[mode](alpha1, c1, k), g(alpha2, c2, k))
    value[np.outer(parallel_dim_f(c1, k, mode), k) > budget] = 0.0
    pairs = [(int(i) + 1, int(j) + 1) for i, j in np.argwhere(value >= value.max() * (1 - TIE_RTOL))]
    minimal = [p for p in pairs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in pairs)]
    return tuple(sorted(minimal, key=lambda p: (p[0] * p[1], p[0])))


def random_sets() -> np.ndarray:
    """Rates near 1 and small costs, where the best k are large."""
    rng = np.random.default_rng(11)
    rates, costs = 1 - 10 ** rng.uniform(-5, -0.2, (2, 30)), 10 ** rng.uniform(-5, -0.3, (2, 30))
    return np.column_stack([rates[0], costs[0], rates[1], costs[1]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("sets", "budgets"),
    # all values of each axis: eleven and ten have no common divisor
    [(parameter_sets()[::11], range(1, LARGEST + 1)), (random_sets(), (1000, 2741, 4999))],
    ids=["grid", "large"],
)
def test_equals_brute_force(sets: np.ndarray, budgets: Iterable[int], mode: str) -> None:
    """The speedup, the budget kept and the answer's own value: on the grid for all M <= 64, and for M in the thousands.

    Of the formulas themselves `test_numeric_functions` has more; 2e-14 apart is equal.
    """
    alpha1, c1, alpha2, c2 = sets.T
    for budget in budgets:
        found, best = regime_map(*sets.T, budget, mode), brute_force(sets, budget, mode)
        np.testing.assert_allclose(found.speedup, best, rtol=2e-14)
        assert np.all(parallel_dim(c1, found.k1, found.k2, mode) <= budget)
        np.testing.assert_allclose(h(alpha1, c1, found.k1, alpha2, c2, found.k2, mode), best, rtol=2e-14)


@pytest.mark.parametrize("mode", MODES)
def test_ties_equal_brute_force(mode: str) -> None:
    """best_hybrid's k1, k2 and all ties by the rule, on every 61st set and a budget that varies with it.

    In front, the sets whose two levels are equal: their optima come in pairs wherever k1 != k2.
    """
    sets = parameter_sets()
    equal = sets[(sets[:, :2] == sets[:, 2:]).all(axis=1)]
    several = 0
    for row, point in enumerate(np.concatenate((equal, sets[::61])).tolist()):
        budget = 1 + (row * 29) % LARGEST
        expected = all_ties(point, budget, mode)
        found = best_hybrid(*point, budget, mode)
        assert found.ties == expected, (point, budget)
        assert (found.k1, found.k2) == expected[0]
        several += len(expected) > 1
    assert several >= (20 if mode == "sync" else 3), "the sample must hold ties"


def check_answer(found: HybridOptimum, point: tuple[float, float, float, float], budget: int, mode: str) -> None:
    """What holds of every answer, whatever the question."""
    alpha1, c1, alpha2, c2 = point
    assert found.ties[0] == (found.k1, found.k2)
    assert found.parallel_dim == parallel_dim(c1, found.k1, found.k2, mode) <= budget
    assert found.regime == REGIMES[(found.k2 > 1) + 2 * (found.k1 > 1)]
    assert found.speedup >= 1 - TIE_RTOL
    assert (found.regime == "autoregressive") == (found.speedup <= 1 + TIE_RTOL)
    for k1, k2 in found.ties:
        assert parallel_dim(c1, k1, k2, mode) <= budget
        assert h(alpha1, c1, k1, alpha2, c2, k2, mode) == pytest.approx(found.speedup, rel=2 * TIE_RTOL)


@given(probabilities, ratios, probabilities, ratios, st.integers(1, 10**6), st.sampled_from(MODES))
@settings(max_examples=100)
def test_every_answer_is_sound(a1: float, c1: float, a2: float, c2: float, budget: int, mode: str) -> None:
    check_answer(best_hybrid(a1, c1, a2, c2, budget, mode), (a1, c1, a2, c2), budget, mode)


@given(
    probabilities, ratios, probabilities, ratios,
    st.lists(st.integers(1, 3000), min_size=2, max_size=8), st.sampled_from(MODES),
)  # fmt: skip
@settings(max_examples=60)
def test_more_budget_never_hurts(a1: float, c1: float, a2: float, c2: float, budgets: list[int], mode: str) -> None:
    """Exactly, not up to rounding: the tie rule keeps it so."""
    speedups = [best_hybrid(a1, c1, a2, c2, budget, mode).speedup for budget in sorted(budgets)]
    assert speedups == sorted(speedups)


@pytest.mark.parametrize(
    ("point", "budget", "mode", "ties"),
    [
        # Nothing pays: no acceptance, a draft as slow as the target, or no budget.
        ((0.0, 0.1, 0.0, 0.1), 64, "async", ((1, 1),)),
        ((0.9, 1.0, 0.9, 1.0), 64, "async", ((1, 1),)),
        ((0.9, 1.0, 0.9, 1.0), 64, "sync", ((1, 1),)),
        ((0.9, 0.1, 0.9, 0.1), 1, "async", ((1, 1),)),
        # alpha = c ties 1 with 2, and the longer window is undercut.
        ((0.25, 0.25, 0.5, 0.5), 64, "sync", ((1, 1),)),
        # Perfect and free at both levels: every factorisation of the budget, smallest k1 first.
        ((1.0, 0.0, 1.0, 0.0), 12, "sync", ((1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1))),
        ((1.0, 0.0, 1.0, 0.0), 12, "async", ((1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1))),
        # Two equal levels and an odd budget.
        ((0.6, 0.1, 0.6, 0.1), 6, "sync", ((2, 3), (3, 2))),
        # A draft of 1/49: 49 targets in flight, no 50th, whatever the budget.
        ((0.99, 1 / 49, 0.0, 0.5), 1000, "async", ((49, 1),)),
        # f(2) = g(3) = 1.75 under M = 3: (2, 1) needs two positions, (1, 3) three, and fewer go first.
        ((6 / 7, 0.5, 0.5, 0.0), 3, "async", ((2, 1), (1, 3))),
        # A free async draft is limited by k1 alone.
        ((1.0, 0.0, 0.0, 0.5), 1000, "async", ((1000, 1),)),
    ],
)
def test_known_answers(
    point: tuple[float, float, float, float], budget: int, mode: str, ties: tuple[tuple[int, int], ...]
) -> None:
    found = best_hybrid(*point, budget, mode)
    assert found.ties == ties
    check_answer(found, point, budget, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("alpha1", "alpha2", "budget"), [(0.9, 0.5, 15_500), (0.9, 0.5, 18_000), (0.5, 0.7, 5_000), (0.5, 0.7, 5_300)]
)
def test_plateaus_list_every_undominated_tie(alpha1: float, alpha2: float, budget: int, mode: str) -> None:
    """Free drafts: both factors creep up to their limits, where a trade of k1 for k2 keeps the value."""
    k1, k2 = np.arange(1, 401), np.arange(1, 201)
    value = np.outer(STEP[mode](alpha1, 0.0, k1), g(alpha2, 0.0, k2))
    value[np.outer(k1, k2) > budget] = 0.0
    found = best_hybrid(alpha1, 0.0, alpha2, 0.0, budget, mode)
    tied = value >= value.max() * (1 - TIE_RTOL)
    # A tie is undercut by another just when a neighbour one step below is a tie too: both factors rise.
    minimal = tied.copy()
    minimal[1:] &= ~tied[:-1]
    minimal[:, 1:] &= ~tied[:, :-1]
    expected = {(int(i) + 1, int(j) + 1) for i, j in np.argwhere(minimal)}
    assert set(found.ties) == expected
    assert len(expected) >= 3


def test_free_tokens_stop_where_the_digits_do() -> None:
    """c2 = 0: g rises for ever, and the answer is the smallest k2 that no float64 tells from the limit 2."""
    found = best_hybrid(0.0, 0.5, 0.5, 0.0, 10**6, "sync")
    assert (found.k1, found.speedup) == (1, pytest.approx(2, rel=TIE_RTOL))
    gap = [1 - sum(Fraction(1, 2**i) for i in range(k)) / 2 for k in (found.k2 - 1, found.k2)]
    assert gap[0] > TIE_RTOL >= gap[1]


def test_regime_map_is_best_hybrid_at_each_point_also_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theory.budget._CHUNK", 500)
    alpha1, alpha2 = np.linspace(0, 1, 7)[:, None], np.linspace(0, 1, 6)
    for mode, budget in product(MODES, (1, 4, 16, 1000)):
        found = regime_map(alpha1, 0.2, alpha2, 0.05, budget, mode)
        assert found.regime.shape == (7, 6)
        for i, j in np.ndindex(7, 6):
            single = best_hybrid(float(alpha1[i, 0]), 0.2, float(alpha2[j]), 0.05, budget, mode)
            assert (single.k1, single.k2) == (found.k1[i, j], found.k2[i, j])
            assert single.speedup == pytest.approx(found.speedup[i, j], rel=2e-15)
            assert single.regime == REGIMES[found.regime[i, j]]
    assert regime_map(0.6, 0.2, 0.7, 0.1, 16, "async").k1.shape == ()
