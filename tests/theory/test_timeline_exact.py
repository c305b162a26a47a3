"""The fixed-length timeline, by its recursion in exact fractions, says how much is in flight; ceilings and switches."""

from bisect import bisect_left
from fractions import Fraction
from math import ceil

import numpy as np

from theory.parallelism import parallel_dim_f, saturation_depth
from theory.speedup import f_async

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
