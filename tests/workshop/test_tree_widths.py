"""Which tree width pays, by closed form, beside LR's Table 3 and ConfSpec's Table 4."""

from statistics import fmean

from theory.branches import best_tree
from theory.published.confspec import LATENCY_MS
from theory.published.lookahead_reasoning import TABLE_3
from workshop.tree_widths import confspec_rows, lookahead_rows, position_cost


def test_the_best_width_is_the_published_one() -> None:
    """Two branches at depth 2 (LR), one at depth 5 (ConfSpec); AIME24 with the 32B judge has one and two equal."""
    rows = [*lookahead_rows(), *confspec_rows()]
    assert len(rows) == 9
    assert all(row.best in row.best_published for row in rows)
    assert [row.best for row in rows] == [2] * 4 + [1] * 5


def test_gains_of_lookahead_reasoning_from_its_other_rows() -> None:
    """Within .11 everywhere (AIME24, W = 8), .03 on average, without the row that is predicted."""
    errors = [abs(row.predicted[w] - row.published[w]) for row in lookahead_rows() for w in (2, 4, 8)]
    assert max(errors) < 0.11
    assert fmean(errors) < 0.03


def test_wide_trees_of_confspec_lose_less_than_predicted() -> None:
    """A depth and widths that no constant was taken from: the order is right, the loss up to .28 too large."""
    for row in confspec_rows():
        assert row.predicted[1] > row.predicted[2] > row.predicted[4]
        assert row.published[1] > row.published[2] > row.published[4]
        assert all(0.0 < row.published[w] - row.predicted[w] < 0.28 for w in (2, 4))


def test_a_third_step_is_worth_more_than_a_second_branch() -> None:
    """In all four settings of LR, with steps alone and more positions than are of use."""
    c1 = float(LATENCY_MS["draft step"]) / float(LATENCY_MS["target step"])
    for row in TABLE_3.values():
        alpha = float(row["acceptance"][0])
        best = best_tree(alpha, c1, 0.0, 1.0, 64, "async", siblings=0.63, position_cost=position_cost())
        assert (best.k1, best.width) == (3, 1)


def test_the_position_cost_hardly_depends_on_the_row_left_out() -> None:
    """A twentieth of a step's time for each further position."""
    costs = [position_cost(without=row) for row in TABLE_3]
    assert 0.045 < min(costs) <= position_cost() <= max(costs) < 0.06
