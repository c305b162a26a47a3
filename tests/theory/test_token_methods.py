"""Token-level methods: against 50 digits and exact fractions, against enumeration, and their limits and laws."""

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

probabilities = st.floats(0.0, 1.0, allow_subnormal=False)


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
def test_tokens_against_enumeration(vector: list[float]) -> None:
    """Sums of products of at most k2 factors, each rounded once: k2 + 1 units."""
    mean = sum((j + 1) * right for j, right in enumerate(enumerated(vector)))
    assert float(token_methods.vector_tokens(vector)) == pytest.approx(float(mean), rel=(len(vector) + 2) * EPS)


@pytest.mark.parametrize(("hit", "first", "continuation", "lengths"), LOOKUPS)
def test_lookup_against_50_digits(hit: float, first: float, continuation: float, lengths: list[float]) -> None:
    """The mean over drafts of every length, each enumerated position by position; 60 units cover 32 positions."""
    with mpmath.workdps(50):
        h, q1, q = (mpmath.mpf(v) for v in (hit, first, continuation))
        total = mpmath.mpf(1)
        for d, share in enumerate(lengths, start=1):
            vector = [q1, *[q] * (d - 1)]
            for i in range(1, d + 1):
                total += h * mpmath.mpf(share) * mpmath.fprod(vector[:i])
        got = float(token_methods.lookup_tokens(hit, first, continuation, lengths))
        assert abs(got / total - 1) <= 60 * EPS


@given(alpha=probabilities, k2=st.integers(2, 40), c2=st.floats(0.0, 1.0))
def test_constant_acceptance_is_the_papers_g(alpha: float, k2: int, c2: float) -> None:
    """Both sum the same k2 positive terms: 4 k2 units."""
    tokens = token_methods.vector_tokens([alpha] * (k2 - 1))
    assert float(token_methods.token_speedup(tokens, 1.0, (k2 - 1) * c2)) == pytest.approx(
        float(g(alpha, c2, k2)), rel=4 * k2 * EPS
    )
    full = [0.0] * (k2 - 2) + [1.0]
    assert float(token_methods.lookup_tokens(1.0, alpha, alpha, full)) == pytest.approx(float(tokens), rel=4 * k2 * EPS)


test_what_is_outside_its_domain_is_refused = refused(
    lambda call: call(),
    (lambda: token_methods.vector_tokens(0.5), "^conditional"),
    (lambda: token_methods.vector_tokens([0.5, 1.1]), "^conditional"),
    (lambda: token_methods.lookup_tokens(0.5, 0.5, 0.5, [0.5, 0.4]), "^lengths"),
    (lambda: token_methods.lookup_tokens(float("nan"), 0.5, 0.5, [1.0]), "^hit"),
    (lambda: token_methods.token_speedup(0.5), "^tokens"),
    (lambda: token_methods.token_speedup(1.5, 0.0), "^pass_cost"),
)
