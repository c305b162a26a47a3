"""Token-level methods against 50 digits, fractions and enumeration; acceptance of blocks by their length."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from theory import g, token_methods
from theory.block_drafting import at_length

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


PUBLISHED = {3: 0.88, 7: 0.81, 11: 0.78, 15: 0.77}
"""First positions of Qwen3.5-122B with DFlash on GSM8K by drafted tokens."""
RATES = st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8)
LENGTHS = st.integers(1, 32)


@pytest.mark.parametrize("measured", PUBLISHED)
@pytest.mark.parametrize("wanted", PUBLISHED)
def test_any_length_of_the_published_curve_gives_the_others(measured: int, wanted: int) -> None:
    predicted = at_length([PUBLISHED[measured]], measured, wanted)[0]
    assert predicted == pytest.approx(PUBLISHED[wanted], abs=0.012)


def test_a_run_that_was_not_fitted_to_is_predicted() -> None:
    first_three_of_15 = [0.77, 0.745, 0.745]  # 2.77 tokens; a chain would make as many with three drafted
    chain = 1.0 + float(np.cumprod(first_three_of_15).sum())
    block = 1.0 + float(np.cumprod(at_length(first_three_of_15, 15, 3)).sum())
    assert chain == pytest.approx(2.77, abs=0.01)
    assert block == pytest.approx(3.26, rel=0.08)


@given(RATES, LENGTHS, LENGTHS)
def test_there_and_back_and_monotone(rates: list[float], measured: int, wanted: int) -> None:
    there = at_length(rates, measured, wanted)
    assert at_length(there, wanted, measured) == pytest.approx(rates, rel=1e-6)
    assert (
        np.all(there <= np.asarray(rates) + 1e-12) if wanted >= measured else np.all(there >= np.asarray(rates) - 1e-12)
    )
    assert at_length(rates, measured, measured) == pytest.approx(rates)


def test_certainty_stays() -> None:
    assert at_length([0.0, 1.0], 15, 3).tolist() == [0.0, 1.0]


test_impossible_arguments = refused(
    lambda arguments: at_length(*arguments),
    (([1.2], 3, 3), "conditional"),
    (([0.5], 0, 3), "measured=0"),
    (([0.5], 3, 0), "wanted=0"),
)
