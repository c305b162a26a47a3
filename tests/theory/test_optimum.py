"""The real and the integer maximiser of g and f_sync, against root finding at 50 digits, Lambert W and brute force."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from theory.optimum import IntegerOptimum, f_sync_argmax, g_argmax, real_maximiser

ALPHAS = [1e-300, 1e-100, 1e-8, 1e-3, 0.05, 0.2, 0.37, 0.5, 0.62, 0.8, 0.95, 0.999]
ALPHAS += [1 - 1e-6, 1 - 1e-10, 1 - 1e-15, float(np.nextafter(1, 0))]
COSTS = [5e-324, 1e-310, 1e-300, 1e-100, 1e-20, 1e-10, 1e-6, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-15]
POINTS = list(product(ALPHAS, COSTS))


@pytest.fixture(autouse=True)
def fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


def real_argmax(alpha: float, c: float) -> float:
    return float(real_maximiser(np.array(alpha), np.array(c)))


def slope(alpha: float, c: float) -> mp.mpf:
    """Sign of dg/dk at k = 1: interior optimum exactly where it is positive."""
    a = mp.mpf(alpha)
    return -a * mp.log(a) / (1 - a) - mp.mpf(c)


def root(alpha: float, c: float) -> mp.mpf:
    """The k >= 1 with dg/dk = 0: log of the ratio of its two terms, bracketed, then Illinois steps."""
    a, cost = mp.mpf(alpha), mp.mpf(c)
    rate = -mp.log(a)

    def balance(k: mp.mpf) -> mp.mpf:
        return mp.log(rate / mp.expm1(rate * k)) - mp.log(cost / (1 - cost + cost * k))

    low, high = mp.mpf(1), mp.mpf(2)
    while balance(high) > 0:
        low, high = high, 2 * high
    found = mp.findroot(balance, (low, high), solver="illinois", tol=1e-30, maxsteps=300)
    assert abs(balance(found)) < 1e-28
    return found


def test_real_optimum_against_mpmath() -> None:
    errors = []
    for alpha, c in POINTS:
        found = real_argmax(alpha, c)
        if slope(alpha, c) <= 0:
            assert found == 1.0
        else:
            errors.append(float(abs(mp.mpf(found) / root(alpha, c) - 1)))
    assert len(errors) > 150
    # Measured 4.8e-16, from c = 5e-324 to c = 1 - 1e-15.
    assert max(errors) <= 1e-15


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
