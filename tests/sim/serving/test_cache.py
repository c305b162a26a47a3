"""The cache of an engine: texts count once, idle ones make room, and what was evicted is known to be lost."""

import math

from hypothesis import given
from hypothesis import strategies as st

from sim.serving.cache import TokenCache


def test_requests_of_an_answer_share_its_text() -> None:
    cache = TokenCache(1000.0)
    assert cache.needs("a", 100, 1) == 101
    cache.admit("a", 100, 1)
    assert cache.needs("a", 130, 20) == 50
    cache.admit("a", 130, 20)
    assert cache.held == 151
    cache.release("a", 130, 20, written=150)
    assert (cache.held, cache.idle) == (151, 0)  # the other request keeps the text
    cache.release("a", 100, 1)
    assert (cache.held, cache.idle, cache.peak) == (0, 150, 151)
    assert cache.needs("a", 140, 1) == 151  # what is longer than asked stays


def test_without_a_limit_nothing_is_kept_of_answers_that_are_over() -> None:
    cache = TokenCache(math.inf)
    cache.admit("a", 40, 2)
    cache.release("a", 40, 2, written=50)
    assert (cache.held, cache.idle, cache.has_lost("a")) == (0, 0, False)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 9), st.booleans()), max_size=40))
def test_held_and_idle_keep_to_the_capacity(actions: list[tuple[int, int, int, bool]]) -> None:
    """Requests come while they fit and go in the order in which they came."""
    cache = TokenCache(100.0)
    there: list[tuple[int, int, int]] = []
    for owner, text, own, is_forgotten in actions:
        while there and cache.held + cache.needs(owner, text, own) > cache.capacity:
            last = there.pop()
            (cache.forget if is_forgotten else cache.release)(*last)
        cache.admit(owner, text, own)
        there.append((owner, text, own))
        assert cache.held + cache.idle <= cache.capacity
        shared = {one: max(t for o, t, _ in there if o == one) for one, _, _ in there}
        assert cache.held >= sum(shared.values()) + sum(mine for _, _, mine in there)
    while there:
        cache.release(*there.pop())
    assert cache.held == 0
    assert cache.idle <= cache.capacity
