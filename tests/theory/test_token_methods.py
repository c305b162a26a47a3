"""Token-level methods against enumeration and Leviathan's form; acceptance of blocks by their length."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from theory import g, token_methods
from theory.block_drafting import at_length

EPS = float(np.finfo(np.float64).eps)
VECTORS = ([0.5], [0.9, 0.8, 0.7], [1.0, 0.0, 0.3], [0.0, 1.0], [1e-9, 0.5], [1.0] * 5)

probabilities = st.floats(0.0, 1.0, allow_subnormal=False)


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_tokens_against_enumeration(vector: list[float]) -> None:
    """Every pattern of right and wrong positions; sums of products of k2 factors at most are right to k2 + 1 units."""
    mean = Fraction(0)
    for pattern in itertools.product((True, False), repeat=len(vector)):
        weight = Fraction(1)
        for right, a in zip(pattern, map(Fraction, vector), strict=True):
            weight *= a if right else 1 - a
        mean += weight * (1 + (*pattern, False).index(False))
    assert float(token_methods.vector_tokens(vector)) == pytest.approx(float(mean), rel=(len(vector) + 2) * EPS)


@given(
    hit=probabilities,
    first=probabilities,
    later=probabilities,
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=32).filter(any),
)
def test_lookup_commits_the_mean_over_drafts_of_every_length(
    hit: float, first: float, later: float, lengths: list[int]
) -> None:
    """60 units cover 32 positions."""
    shares = np.array(lengths) / sum(lengths)
    drafted = [float(token_methods.vector_tokens([first, *[later] * d])) - 1.0 for d in range(len(lengths))]
    found = token_methods.lookup_tokens(hit, first, later, shares)
    assert float(found) == pytest.approx(1.0 + hit * float(shares @ drafted), rel=60 * EPS)


@given(alpha=probabilities, k2=st.integers(2, 40), c2=st.floats(0.0, 1.0))
def test_constant_acceptance_is_the_papers_g(alpha: float, k2: int, c2: float) -> None:
    """Both sum the same k2 positive terms: 4 k2 units."""
    tokens = token_methods.vector_tokens([alpha] * (k2 - 1))
    assert float(token_methods.token_speedup(tokens, 1.0, (k2 - 1) * c2)) == pytest.approx(
        float(g(alpha, c2, k2)), rel=4 * k2 * EPS
    )


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
