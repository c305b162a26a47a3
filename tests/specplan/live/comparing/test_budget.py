"""The account of what speculation may lose."""

import random

import pytest

from specplan.live.comparing.budget import FULL, STRETCH, Budget


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_tried_no_stretch_loses_more_than_is_stated(seed: int) -> None:
    """An adversary chooses gains and losses of up to a twentieth of an answer; it speculates whenever it may."""
    rng, budget, most = random.Random(seed), Budget(), 0.05
    losses, n = [0.0], round(STRETCH / 0.1)
    for _ in range(8000):
        may = budget.check(1)
        lost = rng.choice((most, most, -0.5 * most)) if may and rng.random() < 0.9 else 0.0
        budget.book(lost, 0.1)
        losses.append(losses[-1] + lost)
    stretches = (losses[i] - min(losses[max(i - n, 0) : i + 1]) for i in range(len(losses)))
    assert max(stretches) <= FULL + most + 1e-9
    assert losses[-1] > 0.5 * FULL * len(losses) / n  # what may be lost is used


def test_what_is_booked_is_the_largest_loss_of_a_stretch_that_ends_now() -> None:
    rng, budget, losses = random.Random(1), Budget(), [0.0]
    for _ in range(1000):
        lost = rng.gauss(0.0, 1.0)
        budget.book(lost, 1.0)
        losses.append(losses[-1] + lost)
        assert budget.lost == pytest.approx(losses[-1] - min(losses[-2 - round(STRETCH) :]), abs=1e-9)


def booked(*losses: tuple[float, float], **how: bool) -> Budget:
    """An account with so much of it lost, as shares of it, each in so much work."""
    budget = Budget()
    budget.begins()
    for lost, work in losses:
        budget.book(lost * FULL, work, **how)
    return budget


def test_it_is_full_until_a_third_is_older_than_a_stretch_and_gains_are_no_credit() -> None:
    budget = booked((-1.25, 1.0), (0.4, 50.0), (0.6, 50.0))
    assert not budget.check(1)
    budget.book(0.0, STRETCH - 101.0)
    assert not budget.check(1)
    budget.book(0.0, 60.0)
    assert budget.lost == pytest.approx(0.6 * FULL)
    assert budget.check(1)


def test_a_trial_that_met_a_stall_leaves_room_for_another_but_not_for_a_third() -> None:
    budget = booked((0.4, 1.0))
    assert not budget.check(1, share=0.4)
    budget.book(0.0, 1.0)
    assert not budget.check(1, share=0.4)  # not before it begins again
    budget.begins()
    assert budget.check(1, share=0.4)
    budget.book(0.4 * FULL, 1.0)
    assert not budget.check(1, share=0.4)
    budget.begins()
    assert not budget.check(1, share=0.4)
    budget.book(0.0, STRETCH)
    assert budget.check(1, share=0.4)


def test_what_a_change_costs_ends_no_trial_but_counts_in_all() -> None:
    budget = booked((0.5, 1.0), sunk=True)
    budget.book(0.3 * FULL, 1.0)
    assert budget.check(1, share=0.4)
    budget.book(0.1 * FULL, 1.0)
    assert not budget.check(1, share=0.4)
    assert not booked((1.0, 1.0), sunk=True).check(1)


def test_a_loss_is_paid_where_there_is_room_or_nothing_was_lost() -> None:
    assert booked().pays(2.0 * FULL, 1)  # or what was once expensive would never be tried again
    budget = booked((0.5, 1.0))
    assert budget.pays(0.4 * FULL, 1)
    assert [budget.pays(0.5 * FULL, in_flight) for in_flight in (8, 16)] == [False, True]


def test_what_is_in_progress_counts_and_many_answers_have_more_room() -> None:
    budget = booked((0.7, 0.0))
    assert budget.check(8)
    assert budget.over(8, silent=0.5 * FULL)
    assert not budget.check(8)  # it is full as of then
    assert budget.check(16)
    assert budget.over(16, silent=0.5 * FULL, most=0.5)
    crowd = booked((1.5, 0.0))
    assert crowd.check(16)
    assert not crowd.check(16, share=0.5)
    assert not crowd.check(8)
