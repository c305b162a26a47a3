"""Closed forms against 50-digit arithmetic over all magnitudes, with the measured worst case beside each bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from theory import speedup

ALPHAS = (
    [0.0, 5e-324, 1e-310, 1e-300, 1e-100, 1e-16, 1e-10, 1e-5, 1e-3, 0.1, 0.3, 0.5, np.nextafter(0.5, 1), 0.52]
    + [0.7, 0.729496560983998, 0.9, 0.99, 0.997209935789211]
    + [1 - x for x in (1e-3, 1e-5, 1e-8, 1e-10, 1e-12, 1e-14, 1e-15)]
    + [float(np.nextafter(1, 0)), 1.0]
)
COSTS = [0.0, 5e-324, 1e-300, 1e-16, 1e-10, 1e-6, 1e-5, 1e-3, 1 / 49, 0.1, 0.25, 1 / 3, 0.4, 0.7]
COSTS += [1 - 1e-5, 1 - 1e-10, 1 - 1e-15, 1.0]
DEPTHS = [1, 2, 3, 4, 7, 30, 49, 1000, 10**5, 10**6]

# Worst cases are noted at each test; the rest of the bound is for numpy builds whose expm1 and log1p round otherwise.
BOUND = 1e-15

# 1 - alpha**k for alpha = 1e-300 needs some 300 digits before anything differs from 1.
DIGITS = 400


def exact_sum(alpha: float, k: int) -> mp.mpf:
    """The geometric sum from its definition as a quotient, exact enough for any alpha."""
    with mp.workdps(DIGITS):
        a = mp.mpf(alpha)
        return mp.mpf(k) if a == 1 else (1 - a**k) / (1 - a)


def exact_bracket(alpha: float, k: int) -> mp.mpf:
    """The bracket of S2 over 1 - alpha1, as printed in Theorem 2; its limit 0 at alpha = 1."""
    with mp.workdps(DIGITS):
        a = mp.mpf(alpha)
        return mp.mpf(0) if a == 1 else (a - a ** (k + 1) - k * (1 - a) * a**k) / (1 - a)


def exact_s1(alpha: float, c: float) -> mp.mpf:
    a, cost = mp.mpf(alpha), mp.mpf(c)
    return 1 / (cost + (1 - cost) * (1 - a))


@pytest.fixture(autouse=True)
def fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


@pytest.fixture(scope="module")
def sums() -> dict[tuple[float, int], tuple[mp.mpf, mp.mpf]]:
    return {(a, k): (exact_sum(a, k), exact_bracket(a, k)) for a, k in product(ALPHAS, DEPTHS)}


def worst(value: np.ndarray, exact: Callable[..., mp.mpf], *axes: list) -> float:
    """Largest relative error over the grid, whose points are in the order of itertools.product."""
    errors = []
    for got, point in zip(value.ravel(), product(*axes), strict=True):
        truth = exact(*point)
        errors.append(abs(mp.mpf(float(got)) / truth - 1) if truth else abs(mp.mpf(float(got))))
    return float(max(errors))


def grid(*axes: list) -> list[np.ndarray]:
    return list(np.meshgrid(*axes, indexing="ij"))


def test_f_sync_and_g_against_mpmath(sums: dict) -> None:
    axes = (ALPHAS, COSTS, DEPTHS)
    found = speedup.f_sync(*grid(*axes))
    assert np.array_equal(found, speedup.g(*grid(*axes)))
    # Measured 3.8e-16, and 3.9e-16 on 20,000 random points.
    assert worst(found, lambda a, c, k: sums[a, k][0] / (1 - mp.mpf(c) + mp.mpf(c) * k), *axes) <= BOUND


def test_f_async_against_mpmath(sums: dict) -> None:
    def exact(a: float, c: float, k: int) -> mp.mpf:
        total, bracket = sums[a, k]
        return total / (1 + mp.mpf(c) * bracket) if mp.mpf(c) * k < 1 else exact_s1(a, c)

    axes = (ALPHAS, COSTS, DEPTHS)
    # Measured 4.1e-16, 4.3e-16 on random points, the reading of fl(1 / 49) as 1 / 49 included.
    assert worst(speedup.f_async(*grid(*axes)), exact, *axes) <= BOUND


def test_f_async_saturated_against_mpmath(sums: dict) -> None:
    """S2 as an expression, far outside its schedule's domain too."""
    axes = (ALPHAS, COSTS, DEPTHS)

    def exact(a: float, c: float, k: int) -> mp.mpf:
        return sums[a, k][0] / (1 + mp.mpf(c) * sums[a, k][1])

    # Measured 4.1e-16, and 5.2e-16 on random points.
    assert worst(speedup.f_async_saturated(*grid(*axes)), exact, *axes) <= BOUND


def test_f_async_unsaturated_against_mpmath() -> None:
    axes = ([a for a in ALPHAS if a < 1], COSTS)
    # Measured 2.6e-16.
    assert worst(speedup.f_async_unsaturated(*grid(*axes)), exact_s1, *axes) <= BOUND
    assert speedup.f_async_unsaturated(1.0, 0.0) == np.inf
    assert speedup.f_async_unsaturated(1.0, 1e-300) == pytest.approx(1e300, rel=1e-15)


def test_expected_tokens_against_mpmath(sums: dict) -> None:
    axes = (ALPHAS, DEPTHS)
    found = speedup.expected_tokens(*grid(ALPHAS, [k - 1 for k in DEPTHS]))
    # Measured 2.6e-16.
    assert worst(found, lambda a, k: sums[a, k][0], *axes) <= BOUND


def test_walltime_leviathan_2023_against_mpmath(sums: dict) -> None:
    axes = (ALPHAS, COSTS, DEPTHS)
    found = speedup.walltime_leviathan_2023(*grid(ALPHAS, COSTS, [k - 1 for k in DEPTHS]))
    assert worst(found, lambda a, c, k: sums[a, k][0] / ((k - 1) * mp.mpf(c) + 1), *axes) <= BOUND


def test_expected_accepted_steps_against_mpmath(sums: dict) -> None:
    axes = (ALPHAS, DEPTHS)
    found = speedup.expected_accepted_steps(*grid(*axes))
    # The smallest alphas are subnormal, so one rounding of the product is absolute: 5e-324 there.
    assert worst(found, lambda a, k: mp.mpf(a) * sums[a, k][0], *axes) <= BOUND
    endless = speedup.expected_accepted_steps(ALPHAS[:-1])
    assert worst(np.asarray(endless), lambda a: mp.mpf(a) / (1 - mp.mpf(a)), ALPHAS[:-1]) <= BOUND
    assert speedup.expected_accepted_steps(1.0) == np.inf


def test_h_against_mpmath(sums: dict) -> None:
    """The product of both levels; its bound is what the tie rule of the optimiser rests on (8 eps = 1.8e-15)."""
    alphas, costs, depths = ALPHAS[::3], COSTS[::4], [1, 3, 49, 10**6]
    axes = (alphas, costs, depths, alphas, costs, depths)

    def exact(a1: float, c1: float, k1: int, a2: float, c2: float, k2: int) -> mp.mpf:
        both = ((a1, c1, k1), (a2, c2, k2))
        return mp.fprod(sums[a, k][0] / (1 - mp.mpf(c) + mp.mpf(c) * k) for a, c, k in both)

    # Measured 6.3e-16.
    assert worst(speedup.h(*grid(*axes), "sync"), exact, *axes) <= 8 * np.finfo(float).eps
