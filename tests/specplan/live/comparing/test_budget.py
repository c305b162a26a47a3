"""The account of what speculation may lose."""

from __future__ import annotations

import random

import pytest

from specplan.live.comparing.budget import CREDIT, FORGIVEN, FULL, Budget


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_tried_no_stretch_loses_more_than_is_stated(seed: int) -> None:
    """An adversary chooses gains and losses of up to a twentieth of an answer; it speculates whenever it may."""
    rng, budget, most = random.Random(seed), Budget(), 0.05
    losses, works = [0.0], [0.0]
    for _ in range(4000):
        may = budget.check(1)
        lost = rng.choice((most, most, -0.5 * most)) if may and rng.random() < 0.9 else 0.0
        budget.book(lost, 0.1)
        losses.append(losses[-1] + lost)
        works.append(works[-1] + 0.1)
    least = float("inf")
    for loss, work in zip(losses, works, strict=True):
        least = min(least, loss - FORGIVEN * work)
        assert loss - FORGIVEN * work - least <= FULL + CREDIT + most + 1e-9
    assert losses[-1] > 0.5 * FORGIVEN * works[-1]  # what is forgiven is used


def test_it_is_full_until_half_is_forgiven_and_gains_are_little_credit() -> None:
    budget = Budget()
    budget.book(-5.0, 0.0)
    assert budget.lost == -CREDIT
    budget.book(CREDIT + FULL, 0.0)
    assert not budget.check(1)
    budget.book(0.0, 0.4 * FULL / FORGIVEN)
    assert not budget.check(1)
    budget.book(0.0, 0.2 * FULL / FORGIVEN)
    assert budget.check(1)


def test_what_is_pending_counts_and_many_answers_have_more_room() -> None:
    budget = Budget()
    budget.book(0.6 * FULL, 0.0)
    assert budget.check(8)
    assert not budget.check(8, pending=0.5 * FULL)
    crowd = Budget()
    crowd.book(1.5 * FULL, 0.0)
    assert crowd.check(16)
    assert not crowd.check(8)
