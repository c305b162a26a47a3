"""Which work of answers is in which block, by hand."""

import random

import pytest

from sim.configuration import Configuration
from specplan.live.comparing.blocks import Block, Meter

PLAIN, OWN = Configuration.parse("autoregressive"), Configuration.parse("lr-sync k1=2")


def blocks() -> tuple[Meter, list[tuple[str, int, float]]]:
    """A meter, and what it says of the blocks that ended: method, tokens, seconds."""
    ended: list[tuple[str, int, float]] = []
    meter = Meter(lambda block: ended.append((block.configuration.method, block.tokens, round(block.seconds, 9))))
    return meter, ended


def test_time_counts_between_the_first_pieces_in_and_after_a_block() -> None:
    meter, ended = blocks()
    meter.aim(2, PLAIN)
    meter.starts("a", PLAIN, 0.0)
    meter.starts("b", PLAIN, 1.0)
    meter.wrote("a", 1, 2.0)
    meter.wrote("b", 1, 3.0)
    meter.aim(2, OWN)  # at 3.5; both go on to the end of their steps
    assert ended == []
    meter.wrote("a", 1, 4.0)  # counts to here: 4 s, 2 tokens
    meter.wrote("b", 1, 5.0)  # and to here: 4 s, 2 tokens
    meter.wrote("b", 1, 5.5)
    meter.stops("a", 4.5)
    meter.starts("a", OWN, 4.5)
    assert ended == []
    meter.stops("b", 6.0)
    assert ended == [("autoregressive", 4, 8.0)]
    meter.starts("b", OWN, 6.0)
    meter.wrote("a", 10, 7.0)
    meter.wrote("a", 20, 9.0)
    assert not meter.together
    meter.wrote("b", 10, 10.0)  # now all have written: the time of each counts from here or its next piece on
    meter.wrote("a", 20, 11.0)
    meter.aim(2, PLAIN)
    meter.wrote("a", 20, 12.0)
    meter.stops("a", 12.0)
    meter.starts("a", PLAIN, 12.0)
    meter.wrote("b", 15, 13.0)
    meter.stops("b", 13.0)
    assert ended[1:] == [("lr-sync", 35, 1.0 + 3.0)]


def test_an_answer_that_begins_in_a_block_counts_from_its_start_and_is_told_its_first_piece() -> None:
    meter, ended = blocks()

    def wrote(answer: str, n_tokens: int, now: float) -> tuple[float | None, bool]:
        piece = meter.wrote(answer, n_tokens, now)
        assert piece is not None
        return piece.first_s, piece.together

    meter.aim(1, PLAIN)
    meter.starts("a", PLAIN, 0.0)
    assert wrote("a", 2, 3.0) == (3.0, True)
    assert wrote("a", 2, 4.0) == (None, True)
    assert meter.ends("a", 4.0) == [(PLAIN, 4)]
    meter.starts("b", OWN, 5.0)  # another configuration than the block's: not counted
    assert not meter.together
    assert wrote("b", 7, 6.0) == (None, False)
    assert meter.ends("b", 6.0) == [(OWN, 7)]
    meter.aim(2, PLAIN)
    assert ended == [("autoregressive", 4, 4.0)]
    assert meter.wrote("c", 1, 7.0) is None


def changed(meter: Meter, answer: str, now: float) -> None:
    """Let an answer go on with speculation."""
    meter.stops(answer, now)
    meter.starts(answer, OWN, now)


def test_steps_that_are_committed_together_are_one_piece() -> None:
    meter, ended = blocks()
    meter.aim(1, PLAIN)
    meter.starts("a", PLAIN, 0.0)
    meter.aim(1, OWN)
    changed(meter, "a", 0.0)
    for moment in (1.0, 1.0, 2.0, 2.0, 2.0):
        meter.wrote("a", 10, moment)
    meter.aim(1, PLAIN)
    meter.wrote("a", 10, 4.0)
    meter.stops("a", 4.0)
    assert ended[-1] == ("lr-sync", 40, 3.0)  # the first two open it


def test_a_block_that_follows_itself_goes_on_at_the_next_piece() -> None:
    meter, ended = blocks()
    meter.aim(1, PLAIN)
    meter.starts("a", PLAIN, 0.0)
    for moment in range(1, 11):
        meter.wrote("a", 1, float(moment))
        if moment % 4 == 0:
            meter.aim(1, PLAIN, anew=True)
    meter.ends("a", 10.0)
    meter.aim(1, OWN)
    assert ended == [("autoregressive", 5, 5.0), ("autoregressive", 4, 4.0), ("autoregressive", 1, 1.0)]


def test_a_broken_off_block_still_knows_all_of_its_work() -> None:
    kept: list[Block] = []
    meter = Meter(kept.append)
    meter.aim(1, OWN)
    for answer in "ab":
        meter.starts(answer, PLAIN, 0.0)
        changed(meter, answer, 1.0)
    meter.wrote("a", 10, 3.0)
    meter.aim(1, PLAIN)
    meter.stops("a", 4.0)
    assert kept == []
    meter.stops("b", 5.0)
    (block,) = kept
    assert (block.all_tokens, block.all_seconds) == (10, 7.0)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_pieces_of_whole_steps_do_not_bias_short_blocks(spread: float) -> None:
    """Blocks of two steps or so; steps take a time in proportion to their tokens, equal or very unequal ones."""
    rng, tokens, seconds = random.Random(4), 0, 0.0

    def add(block: Block) -> None:
        nonlocal tokens, seconds
        if block.configuration == OWN:
            tokens, seconds = tokens + block.tokens, seconds + block.seconds

    meter, now = Meter(add), 0.0
    for number in range(2000):
        meter.aim(1, PLAIN)
        meter.starts(number, PLAIN, now)
        meter.aim(1, OWN)
        meter.stops(number, now)
        meter.starts(number, OWN, now)
        until = now + rng.uniform(2.0, 4.0)
        while meter.block is not None and meter.block.configuration == OWN:
            n = 10 if rng.random() > 0.5 * spread else 40
            now += 0.1 * n * rng.expovariate(1.0)
            meter.wrote(number, n, now)
            if now > until:
                meter.aim(1, PLAIN)
                now += 0.1 * n
                meter.wrote(number, n, now)
        meter.ends(number, now)
    assert tokens / seconds == pytest.approx(10.0, rel=0.05)
