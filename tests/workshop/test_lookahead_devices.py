"""Sharing a pass among devices: against every way to share it, and at its limits."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.lookahead_decoding.speedup import step_tokens
from workshop.lookahead_devices import device_rows


def context(column: int, size: int) -> set[tuple[int, int]]:
    """Window tokens that a column computes: the oldest row up to itself (the current token is its first), its own."""
    return {(0, c) for c in range(1, column + 1)} | {(row, column) for row in range(1, size - 1)}


def shared_every_way(window: int, ngram: int, guesses: int, n_devices: int) -> int:
    best = 10**9
    for columns in product(range(n_devices), repeat=window):
        loads = []
        for device in range(n_devices):
            rows = {(0, 1)}.union(*(context(c + 1, ngram) for c in range(window) if columns[c] == device))
            loads.append(len(rows))
        for grams in product(range(n_devices), repeat=guesses):
            totals = [load + (ngram - 1) * grams.count(device) for device, load in enumerate(loads)]
            best = min(best, max(totals))
    return best


@pytest.mark.parametrize(("window", "ngram", "guesses"), [(1, 2, 0), (4, 2, 3), (3, 3, 3), (4, 4, 2), (2, 5, 4)])
def test_against_every_way_to_share(window: int, ngram: int, guesses: int) -> None:
    for n in (1, 2, 3):
        assert device_rows(window, ngram, guesses, n) == shared_every_way(window, ngram, guesses, n)


@given(st.integers(1, 20), st.integers(2, 7), st.integers(0, 20), st.integers(1, 10))
def test_laws(window: int, ngram: int, guesses: int, n_devices: int) -> None:
    """More devices never feed more; the last column keeps W + N - 2 rows; no device does less than its share."""
    rows = device_rows(window, ngram, guesses, n_devices)
    whole = int(step_tokens(window, ngram, guesses))
    assert device_rows(window, ngram, guesses, n_devices + 1) <= rows
    assert max(window + ngram - 2, -(-whole // n_devices)) <= rows <= whole
    assert device_rows(window, ngram, guesses, 1) == whole


@pytest.mark.parametrize(("window", "ngram"), [(7, 3), (15, 5), (32, 4)])
def test_limit_of_the_gain(window: int, ngram: int) -> None:
    """With G = W: less than a factor 2 (N - 1) in rows, however many devices; the last column's device is the limit."""
    least = window + ngram - 2
    assert device_rows(window, ngram, window, 2 * window) == least
    assert step_tokens(window, ngram, window) / least < 2 * (ngram - 1)
