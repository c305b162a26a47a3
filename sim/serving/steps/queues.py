"""Queues of requests, a row for each engine: few are in them at a time."""

from __future__ import annotations

from sim.serving.steps import records as r
from sim.serving.steps.records import State

__all__ = ["append", "first_of", "put_first", "take_out"]


def append(s: State, queue: int, engine: int, request: int) -> None:
    """Put a request at the end."""
    size = r.N_WAITING + (queue - r.WAITING) // 3
    s.i[queue + engine, s.i[size, engine]] = request
    s.i[size, engine] += 1


def first_of(s: State, queue: int, engine: int) -> int:
    """Take the first request out."""
    request = s.i[queue + engine, 0]
    take_out(s, queue, engine, request)
    return int(request)


def take_out(s: State, queue: int, engine: int, request: int) -> None:
    """Take a request out that is in it."""
    row, size = queue + engine, r.N_WAITING + (queue - r.WAITING) // 3
    at = 0
    while s.i[row, at] != request:
        at += 1
    s.i[size, engine] -= 1
    for place in range(at, s.i[size, engine]):
        s.i[row, place] = s.i[row, place + 1]


def put_first(s: State, queue: int, engine: int, request: int) -> None:
    """Put a request before all others."""
    row, size = queue + engine, r.N_WAITING + (queue - r.WAITING) // 3
    for place in range(s.i[size, engine], 0, -1):
        s.i[row, place] = s.i[row, place - 1]
    s.i[row, 0] = request
    s.i[size, engine] += 1
