"""What runs next at a load, and what is known of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sim.configuration import Configuration
from specplan.live.comparing.comparison import Comparison, Verdict

OWN = Configuration.parse("lr-sync k1=2")


def blocks(comparison: Comparison, n: int, ratio: float) -> str:
    """Run so many blocks, P of plain decoding at 100 tokens/s and S at ``ratio`` times that; return what ran."""
    ran = ""
    for _ in range(n):
        speculating = comparison.speculating
        ran += "S" if speculating else "P"
        comparison.complete(speculating)
        comparison.measured(speculating, round(1000 * (ratio if speculating else 1.0)), 10.0, 5.0)
    return ran


def test_blocks_take_turns_until_it_gains_and_then_plain_ones_are_rare() -> None:
    comparison = Comparison(OWN, 0.05)
    learned = blocks(comparison, 24, 1.3)
    assert learned.startswith("PSPSPSPSPSPSPS")
    assert comparison.verdict is Verdict.GAINS
    assert comparison.decided[0].low > 1.0
    assert blocks(comparison, 260, 1.3).count("P") == 10
    assert comparison.seconds_per_token == pytest.approx(0.01)
    assert comparison.tokens_per_second.value == pytest.approx(1.3)


def test_where_it_loses_trials_become_rare_and_a_gain_brings_it_back() -> None:
    comparison = Comparison(OWN, 0.05)
    blocks(comparison, 24, 0.6)
    assert comparison.verdict is Verdict.LOSES
    ran = blocks(comparison, 1200, 0.6)
    trials = [i for i, one in enumerate(ran) if one == "S"]
    waits = [after - before for before, after in pairwise(trials)]
    assert waits == [101, 201, 401, 401]
    back = blocks(comparison, 450, 1.4)
    assert comparison.verdict is Verdict.GAINS
    assert back.count("S") > 15


def test_without_a_decision_it_is_tried_less_and_less() -> None:
    comparison = Comparison(OWN, 0.05)
    ran = blocks(comparison, 400, 1.0)
    assert comparison.verdict is Verdict.UNKNOWN
    assert ran[:100].count("S") > 2 * ran[-100:].count("S")


def test_losses_where_it_gained_make_it_unknown_the_second_time() -> None:
    comparison = Comparison(OWN, 0.05)
    blocks(comparison, 30, 1.3)
    assert comparison.broke_off() is None
    assert (comparison.verdict, comparison.speculating, comparison.n_pairs) == (Verdict.GAINS, False, 0)
    assert comparison.broke_off() is Verdict.UNKNOWN
    again = Comparison(OWN, 0.05)
    blocks(again, 30, 1.3)
    again.broke_off()
    blocks(again, 60, 1.3)  # it gains again in between
    assert again.broke_off() is None
    assert again.verdict is Verdict.GAINS


def test_longer_answers_outweigh_more_tokens_per_second() -> None:
    comparison = Comparison(OWN, 0.05)
    blocks(comparison, 40, 1.3)
    assert comparison.verdict is Verdict.GAINS
    for _ in range(40):
        comparison.ended(1000, 0)
        comparison.ended(0, 2000)
    assert comparison.answers_per_second.high < 1.0
    ran = blocks(comparison, 200, 1.3)
    assert comparison.verdict is Verdict.LOSES
    assert ran[60:].count("S") <= 3


def test_answers_of_both_sides_and_pieces_of_blocks_are_handled() -> None:
    comparison = Comparison(OWN, 0.05)
    comparison.ended(50, 50)
    comparison.ended(0, 0)
    assert comparison.measured(False, 100, 1.0, 5.0) is None
    assert comparison.seconds_per_token is None  # it waits for more
    comparison.measured(False, 100, 4.0, 5.0)
    assert comparison.seconds_per_token == pytest.approx(0.025)
    comparison.began(False, 0.1)
    comparison.began(True, 0.3)
    assert comparison.intervals["first_token_seconds"].value == pytest.approx(3.0)
    assert comparison.intervals["answers_per_second"].known == {}
    assert str(comparison.tokens_per_second) == "nan [, ]"
