"""The fit of Equations 5 and 7: what it was made from comes back, and its errors are honest under noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from theory.errors import ParameterError
from theory.lookahead_decoding.fit import fit_lookahead
from theory.lookahead_decoding.speedup import lookahead_compression

GRID_W, GRID_N = (array.ravel() for array in np.meshgrid([1, 2, 4, 8, 16, 32], [2, 3, 4, 5, 6]))


@settings(max_examples=8, deadline=None)
@given(st.floats(0.1, 0.95), st.floats(1.05, 6.0))
def test_finds_what_the_equations_were_given(alpha: float, f: float) -> None:
    s = lookahead_compression(alpha, f, window=GRID_W, ngram=GRID_N)
    fit = fit_lookahead(GRID_W, GRID_N, s)
    assert fit.alpha2 == pytest.approx(alpha, abs=1e-5)
    assert fit.steps_per_hit == pytest.approx(f, rel=1e-4)
    assert fit.rms < 1e-6


def test_standard_errors_cover() -> None:
    """Of 25 fits to noisy compressions, as many within two standard errors as should be; false alarm 1e-6 each."""
    rng = np.random.default_rng(3)
    exact = lookahead_compression(0.6, 2.0, window=GRID_W, ngram=GRID_N)
    inside = np.zeros(2)
    n = 25
    for _ in range(n):
        fit = fit_lookahead(GRID_W, GRID_N, np.maximum(exact + 0.02 * rng.standard_normal(exact.size), 1.0))
        inside += [
            abs(fit.alpha2 - 0.6) < 2 * fit.stderr_alpha2,
            abs(fit.steps_per_hit - 2) < 2 * fit.stderr_steps_per_hit,
        ]
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], n, 2 * stats.t.cdf(2, exact.size - 2) - 1)
    assert all(low <= one <= high for one in inside)


def test_weights() -> None:
    """A setting measured with a hundredth of the error decides."""
    s = np.array(lookahead_compression(0.5, 1.5, window=[4, 16, 4], ngram=[4, 4, 2]))
    s[2] += 0.3
    fit = fit_lookahead([4, 16, 4], [4, 4, 2], s, stderr=[0.001, 0.001, 1.0])
    assert fit.alpha2 == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"compression": [0.9, 1.2]}, "compression"),
        ({"stderr": 0.0}, "stderr"),
        ({"window": [4, 4], "ngram": [3, 3]}, "window"),
        ({"ngram": [1, 3]}, "window"),
        ({"window": [1, 2, 3]}, "shapes"),
    ],
)
def test_refuses(wrong: dict[str, object], name: str) -> None:
    good = {"window": [4, 8], "ngram": [3, 3], "compression": [1.3, 1.5]}
    with pytest.raises(ParameterError, match=name):
        fit_lookahead(**{**good, **wrong})
