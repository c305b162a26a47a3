"""Laws of the closed forms, each on the domain where it is true."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from theory import speedup

# Each value is right to 6e-16 (ledger: test_numeric_functions.py), so an order between two can be off by twice that.
ULPS = 1.5e-15

probabilities = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-300, 0.5, 1 - 1e-15, 1.0]))
ratios = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-300, 0.1, 1 / 49, 1.0]))
depths = st.one_of(st.integers(1, 64), st.integers(1, 10**6))
modes = st.sampled_from(["sync", "async"])


def f(alpha: float, c: float, k: int, mode: str) -> float:
    return float((speedup.f_sync if mode == "sync" else speedup.f_async)(alpha, c, k))


@given(probabilities, ratios, depths)
def test_async_is_constant_once_unsaturated(alpha: float, c: float, k: int) -> None:
    assume(k * c > 1)
    assert f(alpha, c, k, "async") == f(alpha, c, 10 * k, "async") == speedup.f_async_unsaturated(alpha, c)


@given(ratios, depths)
def test_certain_acceptance_is_the_limit(c: float, k: int) -> None:
    """The geometric sum is k, and of an unsaturated window the draft alone takes time."""
    assert f(1.0, c, k, "sync") == speedup.g(1.0, c, k) == pytest.approx(k / (1.0 - c + c * k), rel=ULPS)
    assert speedup.walltime_leviathan_2023(1.0, c, k - 1) == pytest.approx(k / (1.0 + c * (k - 1)), rel=ULPS)
    assert f(1.0, c, k, "async") == pytest.approx(k if k * c < 1.0 else 1.0 / c, rel=ULPS)
    assert speedup.f_async_saturated(1.0, c, k) == speedup.expected_tokens(1.0, k - 1) == k
    assert speedup.expected_accepted_steps(1.0, k) == k
    assert speedup.expected_accepted_steps(1.0) == np.inf
    assert np.isinf(speedup.f_async_unsaturated(1.0, [0.0, 5e-324])).all()


@given(probabilities, ratios, depths, probabilities, ratios, depths, modes)
def test_levels_multiply(a1: float, c1: float, k1: int, a2: float, c2: float, k2: int, mode: str) -> None:
    assert speedup.h(a1, c1, k1, a2, c2, k2, mode) == f(a1, c1, k1, mode) * speedup.g(a2, c2, k2)


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
