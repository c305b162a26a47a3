"""Iteration times between and beyond the batch sizes that were measured."""

from dataclasses import replace

import pytest

from sim.engines.costs import TableCost
from theory.errors import ParameterError


def cost(**seconds: float) -> TableCost:
    return TableCost(batches=tuple(int(name[1:]) for name in seconds), seconds=tuple(seconds.values()))


def test_between_sizes_it_is_interpolated() -> None:
    assert cost(b1=1.0, b4=4.0).iteration(3, 0.0) == pytest.approx(3.0)


def test_beyond_the_largest_the_slope_of_the_upper_half_goes_on() -> None:
    """Sizes 4, 6 and 8: the least-squares slope of 10.5, 9.7 and 11.9 is 0.35, that of the last two 1.1."""
    found = cost(b1=1.0, b2=2.0, b4=10.5, b6=9.7, b8=11.9)
    assert found.iteration(8, 0.0) == pytest.approx(11.9)
    assert found.iteration(16, 0.0) == pytest.approx(11.9 + 8 * 0.35)


def test_sizes_that_double_keep_their_last_slope() -> None:
    assert cost(b1=1.0, b2=1.1, b4=1.5).iteration(8, 0.0) == pytest.approx(1.5 + 4 * 0.2)
    assert cost(b1=1.0, b16=2.5).iteration(31, 0.0) == pytest.approx(4.0)


def test_times_do_not_fall_and_one_size_says_nothing_of_growth() -> None:
    assert cost(b1=2.0, b2=1.0).iteration(9, 0.0) == pytest.approx(1.0)
    assert cost(b1=2.0).iteration(9, 0.0) == pytest.approx(2.0)


def test_a_prefill_takes_more_for_each_token_beyond_a_bend() -> None:
    found = replace(cost(b1=1.0), prefill_s=4.0, prefill_token_s=0.25, bends=((16.0, 0.5), (64.0, 1.0)))
    assert [found.prefill(n) for n in (0, 16, 20, 64, 66)] == [4.0, 8.0, 11.0, 44.0, 47.5]
    with pytest.raises(ParameterError, match="bends"):
        replace(found, bends=((16.0, -0.5),))
