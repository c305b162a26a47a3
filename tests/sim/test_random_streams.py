"""Streams of many answers are the streams of single ones."""

from __future__ import annotations

import numpy as np
import pytest

from sim.random_streams import stream, streams
from theory.errors import ParameterError

INDICES = (7, 0, 7, 2**40, 2**64 - 1)


def test_one_generator_that_moves_on_draws_what_single_ones_draw() -> None:
    """Whatever was drawn before: half a block of Philox's buffer, or half a word."""
    for index, moved in zip(INDICES, streams(3, "a", INDICES), strict=True):
        single = stream(3, "a", index)
        for draw in (lambda g: g.random(3), lambda g: g.standard_normal(2), lambda g: g.integers(9, dtype=np.uint32)):
            assert np.array_equal(draw(moved), draw(single))


def test_neighbours_at_the_end_of_the_range_differ() -> None:
    """Indices that a float cannot tell apart."""
    assert stream(3, "a", 2**64 - 1).random() != stream(3, "a", 2**64 - 2).random()


@pytest.mark.parametrize("index", [-1, 0.5])
def test_an_index_is_an_integer_from_zero_on(index: int) -> None:
    with pytest.raises(ParameterError, match="index"):
        next(streams(3, "a", [index]))
