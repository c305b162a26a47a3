"""The real maximiser of g and f_sync against the ledger's Lambert W, the integer one against brute force."""

from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from stated import stated

from theory.optimum import IntegerOptimum, f_sync_argmax, g_argmax, real_maximiser

ALPHAS = [1e-300, 1e-100, 1e-8, 1e-3, 0.05, 0.2, 0.37, 0.5, 0.62, 0.8, 0.95, 0.999]
ALPHAS += [1 - 1e-6, 1 - 1e-10, 1 - 1e-15, float(np.nextafter(1, 0))]
COSTS = [5e-324, 1e-310, 1e-300, 1e-100, 1e-20, 1e-10, 1e-6, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-15]


def real_argmax(alpha: float, c: float) -> float:
    return float(real_maximiser(np.array(alpha), np.array(c)))


def test_real_optimum_is_that_of_the_statement_or_one() -> None:
    """As many digits as cancel, 324 at c = 5e-324, and 60 more. Measured 4.8e-16, from there to c = 1 - 1e-15."""
    statement = stated("lambert_optimum")
    exact = sp.lambdify(sorted(statement.free_symbols, key=str), statement, "mpmath")
    interior = 0
    for alpha, c in product(ALPHAS, COSTS):
        with mp.workdps(60 + int(-np.log10(c))):
            wanted = mp.re(exact(mp.mpf(alpha), mp.mpf(c)))
            if wanted <= 1:
                assert real_argmax(alpha, c) == 1.0
            else:
                interior += 1
                assert abs(real_argmax(alpha, c) / wanted - 1) <= 1e-15, (alpha, c)
    assert interior > 150


@pytest.mark.parametrize(
    ("alpha", "c", "expected"),
    [(0.0, 0.0, 1.0), (0.0, 0.3, 1.0), (0.5, 1.0, 1.0), (1.0, 1.0, 1.0), (0.5, 0.0, np.inf), (1.0, 0.5, np.inf)],
)
def test_edges(alpha: float, c: float, expected: float) -> None:
    assert real_argmax(alpha, c) == expected


def test_real_condition_is_weaker_than_the_integer_one() -> None:
    """At alpha = 0.5, c = 0.6 the real peak lies between 1 and 2, and 1 beats 2."""
    assert 1 < real_argmax(0.5, 0.6) < 2
    assert g_argmax(0.5, 0.6).k == 1


def exact_g(alpha: float, c: float, k: int) -> Fraction:
    a, cost = Fraction(alpha), Fraction(c)
    return sum((a**i for i in range(k)), Fraction(0)) / (1 - cost + cost * k)


def test_integer_optimum_against_exact_brute_force() -> None:
    """All maximisers among 1..24 in rational arithmetic, ties included."""
    ratios = [0.0, 0.015625, 0.0625, 0.1, 0.125, 0.25, 0.3, 0.5, 0.75, 0.9, 1.0]
    ties = 0
    for alpha, c in product(ratios, ratios):
        values = [exact_g(alpha, c, k) for k in range(1, 25)]
        expected = tuple(k for k, v in enumerate(values, 1) if v == max(values))
        found = g_argmax(alpha, c, k_max=24)
        if alpha == c and alpha in (0.0, 1.0):
            assert (found, len(expected)) == (IntegerOptimum(k=1, speedup=1.0, ties=(1,)), 24)
            continue
        assert found.ties == expected, (alpha, c)
        assert found.k == expected[0]
        assert found.speedup == pytest.approx(float(max(values)), rel=1e-15)
        ties += len(expected) == 2
    assert ties == 9, "alpha = c ties 1 with 2 at every ratio inside (0, 1)"


def test_ties_are_told_from_near_ties() -> None:
    assert g_argmax(0.3, 0.3).ties == (1, 2)
    assert g_argmax(0.3, float(np.nextafter(0.3, 1))).ties == (1,)
    assert g_argmax(0.3, float(np.nextafter(0.3, 0))).ties == (2,)


def test_integer_optimum_on_a_flat_peak() -> None:
    """k near 1e8, where neighbours agree to 32 digits: the decision needs more than float64 and gets it."""
    alpha, c = 1 - 1e-15, 0.1
    found = g_argmax(alpha, c)
    with mp.workdps(120):
        a, cost = mp.mpf(alpha), mp.mpf(c)

        def value(k: int) -> mp.mpf:
            return (1 - a**k) / (1 - a) / (1 - cost + cost * k)

        assert value(found.k - 1) < value(found.k) > value(found.k + 1)
    assert found.k > 10**7


def test_limit() -> None:
    assert g_argmax(0.8, 0.1, k_max=4).ties == (4,)
    assert g_argmax(0.3, 0.3, k_max=1).ties == (1,)
    assert g_argmax(0.5, 0.0, k_max=1000).k == 1000
    assert g_argmax(1.0, 0.5, k_max=10**6).k == 10**6
    assert f_sync_argmax(0.8, 0.1, k_max=4) == g_argmax(0.8, 0.1, k_max=4)
