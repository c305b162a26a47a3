"""Streams of many answers are the streams of single ones."""

import numpy as np
from refusals import refused

from sim.random_streams import block_of_bits, block_of_normals, stream, streams, uniforms

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


def test_numbers_of_a_block_depend_neither_on_how_many_are_drawn_nor_on_who_else_is_asked() -> None:
    for drawn in (block_of_bits, block_of_normals):
        few, many = (drawn(3, "a", 7, n, 5) for n in (2, 9))
        assert few.shape == (2, 5)
        assert few.tolist() == many[:2].tolist()
        others = [drawn(3, "a", 8, 2, 5), drawn(4, "a", 7, 2, 5), drawn(3, "b", 7, 2, 5), drawn(3, "a", 7, 2, 6)]
        assert all(few[0, 0] != other[0, 0] for other in others)
    block = block_of_bits(3, "a", 7, 70, 5) * 2.0**-32
    assert [uniforms(3, "a", 37, n, 5).tolist() for n in (70, 3)] == [block[:, 2].tolist(), block[:3, 2].tolist()]
    assert uniforms(3, "a", 37, 4).tolist() == stream(3, "a", 37).random(4).tolist()


test_impossible_seeds_and_indices_are_refused = refused(
    lambda call, value: call(value),
    *((lambda index: next(streams(3, "a", [index])), index, "index") for index in (-1, 0.5)),
    *((lambda seed: block_of_bits(seed, "a", 0, 1, 2), seed, "seed=") for seed in (-1, True, 1.5)),
)
