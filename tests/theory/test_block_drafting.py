"""Acceptance of blocks by their length: the published curve, and laws that every shift obeys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from theory.block_drafting import at_length

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
