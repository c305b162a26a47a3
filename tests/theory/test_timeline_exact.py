"""The fixed-length timeline, by its recursion in exact fractions, decides what the closed forms must say."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest

from theory.parallelism import parallel_dim_f, saturation_depth
from theory.speedup import f_async, f_async_saturated, f_async_unsaturated, f_sync

RATIOS = sorted({Fraction(p, q) for q in (1, 2, 3, 5, 7, 10, 16, 49) for p in range(q + 1)})
STEPS = 40


def starts(c: Fraction, k: int, n: int) -> list[Fraction]:
    """Start of target j: after its draft, which follows target j - 1's start by c, and in one of k slots."""
    found = [Fraction(0)]
    for j in range(1, n):
        slot = found[j - k] + 1 if j >= k else Fraction(0)
        found.append(max(found[-1] + c, slot))
    return found


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 10, 11, 49, 50])
def test_stage_time_switches_at_k_c_equal_to_one(k: int) -> None:
    """S2's stage time holds exactly while k c <= 1 and S1's exactly while k c >= 1, at every X."""
    n = max(STEPS, 2 * k + 2)
    for c in RATIOS:
        ends = [s + 1 for s in starts(c, k, n)]
        s1 = [1 + c * x for x in range(n)]
        s2 = [x // k + 1 + c * (x % k) for x in range(n)]
        assert (ends == s2) == (k * c <= 1), (c, k)
        assert (ends == s1) == (k * c >= 1), (c, k)


def test_unlimited_prefetch_changes_nothing() -> None:
    """Drafts that run ahead without end (draft j ready at j c) give the same target starts: one prefetch is enough."""
    for c in RATIOS:
        for k in (1, 2, 3, 7):
            eager: list[Fraction] = []
            for j in range(STEPS):
                eager.append(max(j * c, eager[j - k] + 1 if j >= k else Fraction(0)))
            assert eager == starts(c, k, STEPS)


def test_floor_of_the_main_text_is_wrong() -> None:
    """c1 = 0.4, k1 = 2: floor(1 / c1) = 2 would choose S1, but the third target waits for a slot until 1.0."""
    c, k = Fraction(2, 5), 2
    assert k >= floor(1 / c)
    assert k < ceil(1 / c)
    assert starts(c, k, 3)[2] == 1 > 2 * c
    assert f_async(0.5, 0.4, 2) == f_async_saturated(0.5, 0.4, 2) < f_async_unsaturated(0.5, 0.4)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_speedup_is_steps_over_time_of_the_timeline(mode: str) -> None:
    """E[steps] / E[time] of a stage, summed over X with a geometric tail below 1e-18, for all k and c."""
    alpha = Fraction(5, 8)
    for c in RATIOS[::3]:
        for k in (1, 2, 3, 5, 9):
            n = 90
            if mode == "async":
                time = [s + 1 for s in starts(c, k, n)]
                steps = [x + 1 for x in range(n)]
            else:
                time = [1 + c * (k - 1)] * n
                steps = [min(x + 1, k) for x in range(n)]
            weight = [alpha**x * (1 - alpha) for x in range(n)]
            total = sum(w * s for w, s in zip(weight, steps, strict=True))
            ratio = total / sum(w * t for w, t in zip(weight, time, strict=True))
            formula = (f_sync if mode == "sync" else f_async)(float(alpha), float(c), k)
            # 90 terms leave out alpha**90 * 91 = 4e-17 of either sum; the rest is the rounding of c.
            assert formula == pytest.approx(float(ratio), rel=2e-15), (c, k)


def test_waste_is_what_the_timeline_starts() -> None:
    """Targets begun before the rejected step X ends number X + ParallelDim_f, whatever X, for every c > 0."""
    for c in RATIOS[1:]:
        for k in (1, 2, 3, 4, 7, 12):
            begun = starts(c, k, 4 * k + 120)
            width = int(parallel_dim_f(float(c), k, "async"))
            for x in (0, 1, k - 1, k, 2 * k + 1, 50):
                assert sum(s < begun[x] + 1 for s in begun) == x + width, (c, k, x)


def test_busiest_moment_of_the_timeline() -> None:
    for c in RATIOS:
        for k in (1, 2, 3, 4, 7):
            begun = starts(c, k, 30)
            busiest = max(sum(t - 1 < s <= t for s in begun) for t in begun[::2])
            assert busiest == parallel_dim_f(float(c), k, "async"), (c, k)


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
