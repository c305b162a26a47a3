"""Adaptive verification: what was published of it, limits, and the rule on real batches against its closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from theory.adaptive.verification import best_budget, least_that_pays, survival, verified
from theory.checks import FloatArray

FIXED = (71.23, 51.70, 39.04, 30.51, 24.37, 20.00, 16.85, 14.41, 12.46, 10.94, 9.64, 8.56, 7.58, 6.67, 5.82, 4.98)
ADAPTIVE = (69.67, 46.42, 31.79, 23.45, 18.18, 14.94, 12.56, 10.79, 9.38, 8.17, 7.14, 6.20, 5.37, 4.65, 3.95, 3.25)
"""Accepted up to each position, % of rounds: GLM-5.2 with DSpark, 16 tokens, 64 at once (vllm-project/vllm#52992)."""
RATES = st.lists(st.floats(0.05, 0.98), min_size=1, max_size=8)
SPREADS = st.floats(0.0, 4.0)


def conditional(percent: tuple[float, ...]) -> FloatArray:
    """Acceptance of each position given those before it."""
    shares = np.array([100.0, *percent])
    return np.asarray(shares[1:] / shares[:-1])


def test_what_is_kept_of_each_position_is_what_was_published() -> None:
    wanted = 1.0 + sum(ADAPTIVE) / 100.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if verified(conditional(FIXED), middle).tokens > wanted else (low, middle)
    found = verified(conditional(FIXED), low)
    reached = 1.0 - np.cumsum(found.pmf)[:-1]
    kept, published = reached / (np.array(FIXED) / 100.0), np.array(ADAPTIVE) / np.array(FIXED)
    assert np.abs(kept / published - 1.0).mean() < 0.035
    assert np.abs(kept / published - 1.0).max() < 0.09
    assert found.rows < 6.0, "of 17: the tokens that were not accepted are the ones left out"
    blind = verified(conditional(FIXED), 0.21, spread=0.0)
    assert blind.rows == 6.0, "a drafter that knows nothing of its rounds cuts all drafts at one position"
    assert blind.pmf[6:] == (0.0,) * 11


@settings(max_examples=40)
@given(rates=RATES, spread=SPREADS)
def test_survival_is_what_counters_show_and_verifying_all_changes_nothing(rates: list[float], spread: float) -> None:
    alive = survival(rates, spread)
    assert np.all(np.diff(alive, axis=1) <= 0.0), "it falls along a draft"
    assert alive.mean(axis=0) == pytest.approx(np.cumprod(rates), rel=1e-5, abs=1e-6)
    found = verified(rates, 0.0, spread)
    assert found.rows == len(rates) + 1.0
    assert found.tokens == pytest.approx(1.0 + float(np.cumprod(rates).sum()), rel=1e-5)
    assert sum(found.pmf) == pytest.approx(1.0, abs=1e-12)


@settings(max_examples=40)
@given(rates=RATES, spread=SPREADS, low=st.floats(0.0, 1.0), high=st.floats(0.0, 1.0))
def test_a_higher_threshold_verifies_and_commits_less(
    rates: list[float], spread: float, low: float, high: float
) -> None:
    low, high = sorted((low, high))
    less, more = verified(rates, high, spread), verified(rates, low, spread)
    assert less.rows <= more.rows
    assert less.tokens <= more.tokens + 1e-12
    assert less.tokens - 1.0 >= (less.rows - 1.0) * high - 1e-9, "each chosen token survives likelier than that"


@settings(max_examples=30)
@given(rates=RATES, spread=SPREADS, slope=st.floats(0.0, 2.0))
def test_what_pays_is_at_least_as_fast_as_any_fixed_part_of_a_block(
    rates: list[float], spread: float, slope: float
) -> None:
    def seconds(rows: FloatArray) -> FloatArray:
        return 1.0 + slope * rows

    best = verified(rates, least_that_pays(rates, seconds, spread), spread)
    rate = best.tokens / float(seconds(np.array(best.rows)))
    for k in range(len(rates) + 1):
        fixed = 1.0 + float(np.cumprod(rates)[:k].sum())
        assert rate >= fixed / (1.0 + slope * (k + 1.0)) * (1.0 - 1e-4)


def test_free_tokens_are_all_verified_and_worthless_ones_never() -> None:
    assert least_that_pays([0.9, 0.5], np.ones_like) == 0.0
    assert least_that_pays([0.01, 0.01], lambda rows: rows, spread=0.0) == 1.0
    assert verified([0.5, 0.5], 1.0).rows == 1.0
    assert verified([0.5, 0.5], 1.0).pmf == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(("batch", "tolerance"), [(16, 0.03), (64, 0.015)])
def test_the_rule_on_batches_comes_near_its_closed_form(batch: int, tolerance: float) -> None:
    """Batches of rounds drawn at random, each with the budget that the rule gives it: 4096 rounds in all."""
    rates, slope = conditional(FIXED[:7]), 0.3

    def seconds(tokens: FloatArray) -> FloatArray:
        return 1.0 + slope * tokens / batch

    alive, rng = survival(rates), np.random.default_rng(1)
    committed = spent = 0.0
    for _ in range(4096 // batch):
        drawn = alive[rng.integers(len(alive), size=batch)]
        budget = best_budget(drawn, seconds)
        committed += batch + float(np.sort(drawn, axis=None)[::-1][:budget].sum())
        spent += float(seconds(np.array(batch + budget)))
    law = verified(rates, least_that_pays(rates, lambda rows: 1.0 + slope * rows))
    assert committed / batch / spent == pytest.approx(law.tokens / (1.0 + slope * law.rows), rel=tolerance)


test_impossible_arguments = refused(
    lambda arguments: verified(*arguments),
    (([1.2], 0.5), "conditional"),
    (([[0.5]], 0.5), "conditional"),
    (([0.5], 1.5), "least=1.5"),
    (([0.5], 0.5, -1.0), "spread=-1"),
)
