"""Who has a place on a serving engine: requests come in, lose their places and end, as in `sim.serving.engine`."""

from __future__ import annotations

import math
from typing import Any

from sim.serving.steps import records as r
from sim.serving.steps.queues import append, first_of, put_first, take_out
from sim.serving.steps.records import State
from sim.serving.steps.texts import admit, forget, held, is_lost, needs, release

__all__ = ["decodes", "makes_room", "remove", "stop", "take_in", "takes", "whole_of"]


def whole_of(number: float) -> int:
    """The whole number that is next to one."""
    return math.floor(number + 0.5)


def decodes(s: State, entry: Any) -> bool:
    """Whether an entry of the heap is of a request that has not left it."""
    return bool(s.i[r.FINISH, entry[2]] == entry[0] and s.i[r.NUMBER, entry[2]] == entry[1])


def remove(s: State, lists: Any, engine: int, request: int, ended: bool) -> None:
    """Take a request out that ends here, by itself or cancelled, and give back what it held in the cache."""
    own = stop(s, lists, engine, request)
    if not ended and s.f[r.TO_READ, request] > s.f[r.NEW, request]:
        forget(s, engine, request, own)  # it was to read a lost text, and has not come to its end
    else:
        goes_on = ended and s.i[r.ROLE, request] != r.JUDGES
        written = s.f[r.DEPTH, request] + own - s.f[r.OWN, request] + 1.0 if goes_on else 0.0
        release(s, engine, request, own, written)
    s.i[r.STATUS, request] = r.OVER


def stop(s: State, lists: Any, engine: int, request: int) -> float:
    """Take a request out of the batch, if it was there, and return the tokens that are its own."""
    if s.i[r.FINISH, request] < 0:
        return float(s.f[r.OWN, request])
    s.i[r.LEFT, request] = s.i[r.FINISH, request] - whole_of(s.f[r.PROGRESS, engine])
    s.i[r.FINISH, request] = -1
    s.i[r.BATCH, engine] -= 1
    s.f[r.CACHED, engine] -= s.f[r.MEAN, request]
    s.f[r.GROWTH, engine] -= s.f[r.PER_PASS, request]
    if not s.i[r.BATCH, engine]:
        lists[1][engine].clear()
        s.f[r.CACHED, engine] = s.f[r.GROWTH, engine] = 0.0  # forget what rounding has left
    done = s.i[r.BEGAN, request] - s.i[r.LEFT, request]
    return float(s.f[r.OWN, request] + done * s.f[r.PER_PASS, request])


def makes_room(s: State, lists: Any, engine: int) -> bool:
    """Make room for the next iteration; say whether a request had to lose its place."""
    before = s.i[r.PREEMPTED, engine]
    while is_over_full(s, engine) and s.i[r.BATCH, engine] + s.i[r.N_READS, engine] > 1:
        last = 0
        for entry in lists[1][engine]:
            if decodes(s, entry) and (not last or entry[1] > s.i[r.NUMBER, last]):
                last = entry[2]
        for at in range(s.i[r.N_READS, engine]):
            request = s.i[r.READS + engine, at]
            if not last or s.i[r.NUMBER, request] > s.i[r.NUMBER, last]:
                last = request
        preempt(s, lists, engine, last)
    return bool(s.i[r.PREEMPTED, engine] > before)


def is_over_full(s: State, engine: int) -> bool:
    """Whether the next iteration has no room."""
    return bool(held(s, engine) + s.f[r.GROWTH, engine] > s.f[r.CAPACITY, engine])


def preempt(s: State, lists: Any, engine: int, request: int) -> None:
    """Take a request's place and let it wait at the front; what it had is read again."""
    s.i[r.PREEMPTED, engine] += 1
    if s.i[r.STATUS, request] == r.READING:
        take_out(s, r.READS, engine, request)
    own = stop(s, lists, engine, request)
    forget(s, engine, request, own)
    s.f[r.DEPTH, request] += own - s.f[r.OWN, request]
    if s.i[r.BEGAN, request] != s.i[r.LEFT, request]:
        s.f[r.NEW, request] = own - 1.0  # its last token is computed when it decodes
    s.f[r.OWN, request], s.i[r.BEGAN, request] = own, s.i[r.LEFT, request]
    s.i[r.STATUS, request] = r.QUEUED
    s.f[r.SINCE, request] = s.f[r.REAL, r.NOW]
    put_first(s, r.WAITING, engine, request)


def takes(s: State, engine: int, request: int) -> bool:
    """Whether there is room for a request, and for what the next iteration adds."""
    placed = s.i[r.BATCH, engine] + s.i[r.N_READS, engine]
    if not s.i[r.SERVES, engine]:
        return bool(placed < s.f[r.MOST, engine])
    if not placed:
        return True
    if placed >= s.f[r.MOST, engine]:
        return False
    needed = needs(s, request) + s.f[r.PER_PASS, request] + s.f[r.GROWTH, engine]
    return bool(held(s, engine) + needed <= s.f[r.CAPACITY, engine])


def take_in(s: State, engine: int) -> None:
    """Give places to those who wait, in the order of their arrival, while there is room."""
    while s.i[r.N_WAITING, engine] > 0 and takes(s, engine, s.i[r.WAITING + engine, 0]):
        request = first_of(s, r.WAITING, engine)
        s.f[r.WAITED, engine] += s.f[r.REAL, r.NOW] - s.f[r.SINCE, request]
        s.f[r.TO_READ, request] = s.f[r.NEW, request]
        if is_lost(s, engine, request):
            s.f[r.TO_READ, request] = max(s.f[r.DEPTH, request], s.f[r.NEW, request])
        admit(s, engine, request)
        if not s.i[r.NUMBER, request]:
            s.i[r.NUMBERS, engine] += 1
            s.i[r.NUMBER, request] = s.i[r.NUMBERS, engine]
        s.i[r.STATUS, request] = r.READING
        append(s, r.READS, engine, request)
