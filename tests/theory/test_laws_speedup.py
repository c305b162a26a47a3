"""Laws of the closed forms, each where it is true, and the fixed-length timeline in exact fractions."""

from bisect import bisect_left
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory import speedup
from theory.parallelism import parallel_dim_f, saturation_depth
from theory.speedup import f_async

# Each value is right to 6e-16 (ledger: test_numeric_functions.py), so an order between two can be off by twice that.
ULPS = 1.5e-15

ratios = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-300, 0.1, 1 / 49, 1.0]))
depths = st.one_of(st.integers(1, 64), st.integers(1, 10**6))


@given(ratios, depths)
def test_certain_acceptance_is_the_limit(c: float, k: int) -> None:
    """The geometric sum is k, and of an unsaturated window the draft alone takes time."""
    assert speedup.f_sync(1.0, c, k) == speedup.g(1.0, c, k) == pytest.approx(k / (1.0 - c + c * k), rel=ULPS)
    assert speedup.walltime_leviathan_2023(1.0, c, k - 1) == pytest.approx(k / (1.0 + c * (k - 1)), rel=ULPS)
    assert f_async(1.0, c, k) == pytest.approx(k if k * c < 1.0 else 1.0 / c, rel=ULPS)
    assert speedup.f_async_saturated(1.0, c, k) == speedup.expected_tokens(1.0, k - 1) == k
    assert speedup.expected_accepted_steps(1.0, k) == k
    assert speedup.expected_accepted_steps(1.0) == np.inf
    assert np.isinf(speedup.f_async_unsaturated(1.0, [0.0, 5e-324])).all()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_broadcasting_equals_the_loop(mode: str) -> None:
    alpha, c = np.array([0.0, 0.3, 0.999, 1.0])[:, None, None], np.array([0.0, 0.1, 1.0])[:, None]
    k = np.array([1, 2, 10, 11, 10**6])
    whole = speedup.h(alpha, c, k, 0.5, 0.1, 3, mode)
    assert whole.shape == (4, 3, 5)
    for i, j, n in np.ndindex(whole.shape):
        single = speedup.h(alpha[i, 0, 0], c[j, 0], int(k[n]), 0.5, 0.1, 3, mode)
        # numpy's vector and scalar loops of expm1 and log1p may round differently.
        assert whole[i, j, n] == pytest.approx(single, rel=ULPS)


RATIOS = sorted({Fraction(p, q) for q in (1, 2, 3, 5, 7, 10, 16, 49) for p in range(q + 1)})


def starts(c: Fraction, k: int, n: int) -> list[int]:
    """Start of target j in parts of c's denominator: c after target j - 1's start, and in one of k slots."""
    begun = [0]
    for j in range(1, n):
        slot = begun[j - k] + c.denominator if j >= k else 0
        begun.append(max(begun[-1] + c.numerator, slot))
    return begun


def test_waste_is_what_the_timeline_starts() -> None:
    """Targets begun before the rejected step X ends number X + ParallelDim_f, whatever X, for every c > 0."""
    for c in RATIOS[1:]:
        for k in (1, 2, 3, 4, 7, 12):
            begun = starts(c, k, k + 60)
            width = int(parallel_dim_f(float(c), k, "async"))
            for x in (0, 1, k - 1, k, 2 * k + 1, 50):
                assert bisect_left(begun, begun[x] + c.denominator) == x + width, (c, k, x)


def test_ceiling_of_every_unit_fraction() -> None:
    """fl(1 / n) gives n although many of them are stored too small; the next floats on either side do not cross it."""
    n = np.arange(1, 1_000_001)
    c = 1.0 / n
    assert np.array_equal(saturation_depth(c), n)
    assert np.array_equal(saturation_depth(np.nextafter(c, 0)), n + 1)
    assert np.array_equal(saturation_depth(np.nextafter(c[1:], 1)), n[1:])
    assert 1 / Fraction(1 / 49) > 49, "1/49 is stored too small, or this test shows nothing"


def test_ceiling_against_exact_fractions() -> None:
    rng = np.random.default_rng(7)
    for c in np.concatenate((rng.random(500), 10.0 ** rng.uniform(-12, 0, 500))):
        assert saturation_depth(c) == ceil(1 / Fraction(float(c)))
    assert saturation_depth(0.0) == np.inf
    assert saturation_depth(5e-324) == np.inf
    assert saturation_depth(1.0) == 1


def test_no_jump_at_the_switch() -> None:
    """Across k c = 1 neighbouring floats give neighbouring values, for every k to 2000."""
    k = np.arange(1, 2001)
    at = 1.0 / k
    for alpha in (0.1, 0.6, 0.999, 1 - 1e-12):
        values = [f_async(alpha, c, k) for c in (np.nextafter(at, 0), at, np.minimum(np.nextafter(at, 1), 1))]
        # Each side has its own rounding error (6e-16) and a slope of at most 1 per ulp.
        assert np.max(np.abs(np.diff(np.log(values), axis=0))) <= 2e-15
