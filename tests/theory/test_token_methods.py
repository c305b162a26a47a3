"""Token-level methods: against 50 digits and exact fractions, against enumeration, and their limits and laws."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from theory import g, token_methods

EPS = float(np.finfo(np.float64).eps)
VECTORS = ([0.5], [0.9, 0.8, 0.7], [1.0, 0.0, 0.3], [0.0, 1.0], [1e-9, 0.5], [1 - 1e-12] * 12, [1.0] * 5)
LOOKUPS = (
    (0.6, 0.7, 0.9, [0.1, 0.2, 0.7]),
    (1.0, 0.4, 0.4, [0.0, 0.0, 0.0, 1.0]),
    (0.0, 1.0, 1.0, [1.0]),
    (0.3, 1.0, 1.0, [0.5, 0.5]),
    (1e-6, 0.5, 1 - 1e-12, [0.0] * 31 + [1.0]),
)
PMFS = ([1.0], [0.5, 0.5], [0.1, 0.2, 0.3, 0.4], [0.0, 1.0], [0.25, 0.0, 0.75])

probabilities = st.floats(0.0, 1.0, allow_subnormal=False)
vectors = st.lists(probabilities, min_size=1, max_size=8)


def exact(value: float) -> Fraction:
    return Fraction(*float(value).as_integer_ratio())


def enumerated(vector: list[float]) -> list[Fraction]:
    """P(tau = 1), ..., P(tau = k2): every pattern of right and wrong positions, as if all were checked."""
    chances = [exact(a) for a in vector]
    found = [Fraction(0)] * (len(vector) + 1)
    for pattern in itertools.product((True, False), repeat=len(vector)):
        weight = Fraction(1)
        for right, a in zip(pattern, chances, strict=True):
            weight *= a if right else 1 - a
        found[pattern.index(False) if False in pattern else len(vector)] += weight
    return found


@pytest.mark.parametrize("vector", [*VECTORS[:-2], VECTORS[-1]], ids=str)
def test_distribution_against_enumeration(vector: list[float]) -> None:
    """Each probability is a product of at most k2 factors, each rounded once: k2 + 1 units."""
    truth = enumerated(vector)
    got = token_methods.tokens_pmf(vector)
    for value, right in zip(got, truth, strict=True):
        assert abs(float(value) - right) <= (len(vector) + 1) * EPS * right
    mean = sum((j + 1) * right for j, right in enumerate(truth))
    assert float(token_methods.vector_tokens(vector)) == pytest.approx(float(mean), rel=(len(vector) + 2) * EPS)


@pytest.mark.parametrize(("hit", "first", "continuation", "lengths"), LOOKUPS)
def test_lookup_against_50_digits(hit: float, first: float, continuation: float, lengths: list[float]) -> None:
    """The mean over drafts of every length, each enumerated position by position; 60 units cover 32 positions."""
    with mpmath.workdps(50):
        h, q1, q = (mpmath.mpf(v) for v in (hit, first, continuation))
        total, pmf = mpmath.mpf(1), [mpmath.mpf(0)] * (len(lengths) + 1)
        for d, share in enumerate(lengths, start=1):
            vector = [q1, *[q] * (d - 1)]
            for i in range(1, d + 1):
                total += h * mpmath.mpf(share) * mpmath.fprod(vector[:i])
            for j in range(1, d + 1):
                pmf[j] += h * mpmath.mpf(share) * mpmath.fprod(vector[:j]) * (1 - q if j < d else 1)
        pmf[0] = 1 - h * q1
        got = float(token_methods.lookup_tokens(hit, first, continuation, lengths))
        assert abs(got / total - 1) <= 60 * EPS
        for value, right in zip(token_methods.lookup_pmf(hit, first, continuation, lengths), pmf, strict=True):
            assert abs(mpmath.mpf(float(value)) - right) <= 60 * EPS * right + EPS * (1 - q)


@pytest.mark.parametrize("pmf", PMFS, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 40])
def test_expected_passes_against_fractions(pmf: list[float], n: int) -> None:
    """The renewal equation in exact fractions; every step rounds k2 + 1 times, so n (k2 + 1) units are safe."""
    chances = [exact(p) for p in pmf]
    table = [Fraction(0)]
    for m in range(1, n + 1):
        table.append(1 + sum(p * table[m - j] for j, p in enumerate(chances, start=1) if j <= m))
    got = float(token_methods.expected_passes(n, pmf))
    assert abs(got - table[n]) <= max(n, 1) * (len(pmf) + 1) * EPS * table[n]


@given(alpha=probabilities, k2=st.integers(2, 40), c2=st.floats(0.0, 1.0))
def test_constant_acceptance_is_the_papers_g(alpha: float, k2: int, c2: float) -> None:
    """Both sum the same k2 positive terms: 4 k2 units."""
    tokens = token_methods.vector_tokens([alpha] * (k2 - 1))
    assert float(token_methods.token_speedup(tokens, 1.0, (k2 - 1) * c2)) == pytest.approx(
        float(g(alpha, c2, k2)), rel=4 * k2 * EPS
    )
    full = [0.0] * (k2 - 2) + [1.0]
    assert float(token_methods.lookup_tokens(1.0, alpha, alpha, full)) == pytest.approx(float(tokens), rel=4 * k2 * EPS)


@given(vector=vectors)
def test_the_two_countings_are_inverse(vector: list[float]) -> None:
    once = np.cumprod(vector)
    np.testing.assert_allclose(np.cumprod(token_methods.conditional_of(once)), once, rtol=1e-14)


@given(vector=vectors, n=st.integers(1, 60))
def test_passes_lie_between_their_bounds(vector: list[float], n: int) -> None:
    """ceil(n / k2) <= N <= n and N >= n / E[tau] (Wald: the passes begun cover n), up to 4 n k2 units."""
    pmf = token_methods.tokens_pmf(vector)
    passes = float(token_methods.expected_passes(n, pmf / pmf.sum()))
    slack = 4 * n * pmf.size * EPS
    assert max(-(-n // pmf.size), n / float(token_methods.vector_tokens(vector))) * (1 - slack) <= passes
    assert passes <= n * (1 + slack)


test_what_is_outside_its_domain_is_refused = refused(
    lambda call: call(),
    (lambda: token_methods.vector_tokens(0.5), "^conditional"),
    (lambda: token_methods.vector_tokens([0.5, 1.1]), "^conditional"),
    (lambda: token_methods.conditional_of([0.5, 0.6]), "^unconditional"),
    (lambda: token_methods.lookup_tokens(0.5, 0.5, 0.5, [0.5, 0.4]), "^lengths"),
    (lambda: token_methods.lookup_pmf(float("nan"), 0.5, 0.5, [1.0]), "^hit"),
    (lambda: token_methods.expected_passes(-1, [1.0]), "^n_tokens"),
    (lambda: token_methods.expected_passes(3, [0.2, 0.2]), "^pmf"),
    (lambda: token_methods.token_speedup(0.5), "^tokens"),
    (lambda: token_methods.token_speedup(1.5, 0.0), "^pass_cost"),
)
