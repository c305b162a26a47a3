"""Acceptance conventions: round trips, closed cases, and impossible curves refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from calibrate.token_acceptance.curves import FIGURES, AcceptanceCurve
from theory.errors import ParameterError

RATE = st.floats(0.0, 1.0, allow_subnormal=False)
CURVES = st.lists(RATE, min_size=1, max_size=12).map(
    lambda rates: AcceptanceCurve.of(sorted(rates, reverse=True), "unconditional")
)


@given(CURVES)
def test_conditional_rates_lead_back_to_the_curve(curve: AcceptanceCurve) -> None:
    again = AcceptanceCurve.of(curve.conditional(), "conditional")
    # one division and one multiplication a position
    assert again.unconditional == pytest.approx(curve.unconditional, rel=4 * 2.3e-16 * curve.k, abs=1e-300)


@given(CURVES)
def test_lengths_lead_back_to_the_curve(curve: AcceptanceCurve) -> None:
    rounded = AcceptanceCurve.of([round(u, 6) for u in curve.unconditional], "unconditional")
    lengths = [rounded.figure("length-with-bonus", k) for k in range(1, rounded.k + 1)]
    again, off = AcceptanceCurve.fitted(lengths)
    assert again.unconditional == pytest.approx(rounded.unconditional, abs=1e-6)
    assert off < 1e-6


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8))
def test_noisy_lengths_give_the_nearest_curve(shares: list[float]) -> None:
    """No other curve is nearer: neither a single rate for all positions nor small changes of the fitted one."""
    lengths = [1.0 + share * k for k, share in enumerate(shares, 1)]

    def distance(curve: AcceptanceCurve) -> float:
        made = [curve.figure("length-with-bonus", k) for k in range(1, curve.k + 1)]
        return math.dist(made, lengths)

    found, off = AcceptanceCurve.fitted(lengths)
    assert off <= distance(found) + 1e-8
    for rate in (0.0, 0.3, 0.7, 1.0):
        other = AcceptanceCurve.of([rate] * found.k, "conditional")
        assert distance(found) <= distance(other) + 1e-6
        part = [0.99 * a + 0.01 * b for a, b in zip(found.unconditional, other.unconditional, strict=True)]
        assert distance(found) <= distance(AcceptanceCurve.of(part, "unconditional")) + 1e-6


def test_a_curve_by_hand() -> None:
    curve = AcceptanceCurve.of([0.8, 0.4, 0.0, 0.0], "unconditional", hit_rate=0.5)
    assert curve.conditional() == (0.8, 0.5, 0.0, None)
    assert [curve.figure(name) for name in FIGURES] == pytest.approx([2.2, 1.2, 0.3])
    assert curve.figure("length-with-bonus", 1) == 1.8
    assert curve.figure("length-with-bonus", 0) == 1.0
    assert curve.tokens_per_pass(4) == pytest.approx(1.6)
    assert AcceptanceCurve.of([0.8, 0.5, 0.0, None], "conditional", hit_rate=0.5) == curve
    with pytest.raises(ParameterError, match="hit_rate=None must be known"):
        AcceptanceCurve.of([0.5], "unconditional").tokens_per_pass(1)
    with pytest.raises(ParameterError, match="the curve ends there"):
        curve.figure("length-with-bonus", 5)


test_impossible_rates_are_refused = refused(
    AcceptanceCurve.of,
    ([], "unconditional", "at least one position"),
    ([0.5, 0.6], "unconditional", r"unconditional\[1\]=0.6 must not exceed .* are these conditional rates"),
    ([0.5, 1.2], "unconditional", r"unconditional\[1\]=1.2 must be a probability"),
    ([math.nan], "unconditional", "must be a probability"),
    ([0.5, None], "unconditional", "must be a probability"),
    ([-0.1], "conditional", "must be a probability"),
    ([0.5, None], "conditional", "after a rate of 0 only"),
    ([True], "conditional", "must be a probability"),
    ([0.5], "per-token", "must be one of unconditional, conditional"),
)


test_lengths_of_no_drafter_are_refused = refused(
    AcceptanceCurve.fitted, *((lengths, "lengths") for lengths in ([0.9], [2.5], [1.5, 3.2], [math.nan], []))
)
