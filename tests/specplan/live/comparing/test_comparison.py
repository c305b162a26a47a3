"""What runs next at a load, and what is known of it."""

from collections.abc import Callable
from itertools import groupby

import pytest

from sim.configuration import Configuration
from specplan.live.comparing.comparison import Comparison, Verdict

OWN = Configuration.parse("lr-sync k1=2")


def blocks(comparison: Comparison, n: int, ratio: float, pays: Callable[[float], bool] = lambda lost: True) -> str:
    """Run so many blocks, P of plain decoding at 100 tokens/s and S at ``ratio`` times that; return what ran."""
    ran = ""
    for _ in range(n):
        speculating = comparison.speculating
        ran += "S" if speculating else "P"
        comparison.complete(pays)
        comparison.measured(speculating, round(1000 * (ratio if speculating else 1.0)), 10.0, 5.0)
    return ran


def lengths(ran: str) -> list[int]:
    """Lengths of the runs of equal letters."""
    return [len(list(same)) for _, same in groupby(ran)]


@pytest.fixture
def comparison() -> Comparison:
    return Comparison(OWN)


def test_what_gains_runs_for_longer_and_longer_and_is_known_after_five_pairs(comparison: Comparison) -> None:
    assert lengths(blocks(comparison, 25, 1.3)) == [1, 5, 2, 10, 2, 5]
    assert comparison.verdict is Verdict.GAINS
    assert comparison.decided[0].low > 1.0
    assert comparison.decided[1] == 5
    assert blocks(comparison, 250, 1.3).count("P") == 2
    assert comparison.seconds_per_token == pytest.approx(0.01)
    assert comparison.tokens_per_second.value == pytest.approx(1.3)


def test_where_changes_cost_much_they_are_few_from_the_start(comparison: Comparison) -> None:
    comparison.changes.extend([100.0, 100.0])
    assert lengths(blocks(comparison, 170, 1.3)) == [1, 5, 2, 32, 2, 124, 1, 3]


def test_what_has_gained_is_not_left_to_be_measured_where_the_way_there_and_back_cannot_be_paid(
    comparison: Comparison,
) -> None:
    comparison.changes.append(2.0)
    assert comparison.change == 1.0  # the first, to a server that never ran, tells half
    assert blocks(comparison, 3, 1.3) == "PSS"
    assert blocks(comparison, 50, 1.3, lambda lost: lost < 2.0) == 50 * "S"
    assert blocks(comparison, 2, 1.3, lambda lost: lost < 3.0) == "SP"
    assert blocks(comparison, 9, 1.3, lambda lost: lost < 1.0) == 9 * "P"
    assert blocks(comparison, 2, 1.3, lambda lost: lost < 2.0) == "PS"  # one way is enough


def test_what_has_not_gained_is_tried_where_the_way_there_and_back_can_be_paid_and_left_in_any_case(
    comparison: Comparison,
) -> None:
    blocks(comparison, 2, 0.6)
    assert comparison.speculating
    assert blocks(comparison, 2, 0.6, lambda lost: False) == "SP"
    comparison.changes.extend([1.0, 1.0])
    assert blocks(comparison, 60, 0.6, lambda lost: lost < 2.0) == 60 * "P"
    assert blocks(comparison, 2, 0.6, lambda lost: lost < 3.0) == "PS"


def test_a_trial_that_was_broken_off_counts_once(comparison: Comparison) -> None:
    assert blocks(comparison, 2, 1.3) == "PS"
    comparison.broke_off()
    comparison.measured(True, 100, 10.0, 5.0)  # what was written until then
    assert blocks(comparison, 8, 1.3) == 7 * "P" + "S"


def test_where_it_loses_trials_become_rare_and_a_gain_brings_it_back(comparison: Comparison) -> None:
    assert lengths(blocks(comparison, 290, 0.6)) == [1, 2, 40, 2, 245]
    blocks(comparison, 3, 0.6)
    assert comparison.verdict is Verdict.LOSES
    back = blocks(comparison, 450, 1.4)
    assert comparison.verdict is Verdict.GAINS
    assert back.count("S") > 100


def test_after_losses_where_it_gained_that_is_unknown_again(comparison: Comparison) -> None:
    assert Comparison(OWN).broke_off() is None
    blocks(comparison, 21, 1.3)
    assert comparison.broke_off() is Verdict.UNKNOWN
    assert (comparison.verdict, comparison.speculating, comparison.n_pairs) == (Verdict.UNKNOWN, False, 0)
    assert lengths(blocks(comparison, 15, 1.3)) == [7, 2, 1, 5]


def test_longer_answers_outweigh_more_tokens_per_second(comparison: Comparison) -> None:
    blocks(comparison, 25, 1.3)
    assert comparison.verdict is Verdict.GAINS
    for _ in range(40):
        comparison.ended(1000, 0)
        comparison.ended(0, 2000)
    assert comparison.answers_per_second.high < 1.0
    ran = blocks(comparison, 500, 1.3)
    assert comparison.verdict is Verdict.LOSES
    assert ran[150:].count("S") <= 6


def test_answers_of_both_sides_and_pieces_of_blocks_are_handled(comparison: Comparison) -> None:
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
