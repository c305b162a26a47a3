"""Who has a place on a serving engine: requests come in, lose their places and end, as in `sim.serving.engine`."""

from __future__ import annotations

import math
from typing import Any

from sim.serving.steps import records as r
from sim.serving.steps.records import Rules, State
from sim.serving.steps.texts import admit, forget, held, is_lost, needs, release

__all__ = ["decodes", "makes_room", "remove", "stop", "take_in", "takes", "whole_of"]


def whole_of(number: float) -> int:
    """The whole number that is next to one."""
    return math.floor(number + 0.5)


def decodes(s: State, entry: Any) -> bool:
    """Whether an entry of the heap is of a request that has not left it."""
    return bool(s.requests[r.FINISH][entry[2]] == entry[0] and s.requests[r.NUMBER][entry[2]] == entry[1])


def remove(rules: Rules, s: State, lists: Any, engine: int, request: int, ended: bool) -> None:
    """Take a request out that ends here, by itself or cancelled, and give back what it held in the cache."""
    own = stop(s, lists, engine, request)
    if not ended and s.sizes[r.TO_READ][request] > s.sizes[r.NEW][request]:
        forget(rules, s, engine, request, own)  # it was to read a lost text, and has not come to its end
    else:
        goes_on = ended and s.requests[r.ROLE][request] != r.JUDGES
        written = s.sizes[r.DEPTH][request] + own - s.sizes[r.OWN][request] + 1.0 if goes_on else 0.0
        release(rules, s, engine, request, own, written)
    s.requests[r.STATUS][request] = r.OVER


def stop(s: State, lists: Any, engine: int, request: int) -> float:
    """Take a request out of the batch, if it was there, and return the tokens that are its own."""
    if s.requests[r.FINISH][request] < 0:
        return float(s.sizes[r.OWN][request])
    s.requests[r.LEFT][request] = s.requests[r.FINISH][request] - whole_of(s.work[r.PROGRESS][engine])
    s.requests[r.FINISH][request] = -1
    s.engines[r.BATCH][engine] -= 1
    s.work[r.CACHED][engine] -= s.sizes[r.MEAN][request]
    s.work[r.GROWTH][engine] -= s.sizes[r.PER_PASS][request]
    if not s.engines[r.BATCH][engine]:
        lists[1][engine].clear()
        s.work[r.CACHED][engine] = s.work[r.GROWTH][engine] = 0.0  # forget what rounding has left
    done = s.requests[r.BEGAN][request] - s.requests[r.LEFT][request]
    return float(s.sizes[r.OWN][request] + done * s.sizes[r.PER_PASS][request])


def makes_room(rules: Rules, s: State, lists: Any, engine: int) -> bool:
    """Make room for the next iteration; say whether a request had to lose its place."""
    before, reading = s.engines[r.PREEMPTED][engine], lists[3][engine]
    while is_over_full(rules, s, engine) and s.engines[r.BATCH][engine] + len(reading) > 1:
        last = 0
        for entry in lists[1][engine]:
            if decodes(s, entry) and (not last or entry[1] > s.requests[r.NUMBER][last]):
                last = entry[2]
        for request in reading:
            if not last or s.requests[r.NUMBER][request] > s.requests[r.NUMBER][last]:
                last = request
        preempt(rules, s, lists, engine, last)
    return bool(s.engines[r.PREEMPTED][engine] > before)


def is_over_full(rules: Rules, s: State, engine: int) -> bool:
    """Whether the next iteration has no room."""
    return bool(held(rules, s, engine) + s.work[r.GROWTH][engine] > rules.limits[r.CAPACITY][engine])


def preempt(rules: Rules, s: State, lists: Any, engine: int, request: int) -> None:
    """Take a request's place and let it wait at the front; what it had is read again."""
    s.engines[r.PREEMPTED][engine] += 1
    if s.requests[r.STATUS][request] == r.READING:
        lists[3][engine].remove(request)
    own = stop(s, lists, engine, request)
    forget(rules, s, engine, request, own)
    s.sizes[r.DEPTH][request] += own - s.sizes[r.OWN][request]
    if s.requests[r.BEGAN][request] != s.requests[r.LEFT][request]:
        s.sizes[r.NEW][request] = own - 1.0  # its last token is computed when it decodes
    s.sizes[r.OWN][request], s.requests[r.BEGAN][request] = own, s.requests[r.LEFT][request]
    s.requests[r.STATUS][request] = r.QUEUED
    s.sizes[r.SINCE][request] = s.real[r.NOW]
    lists[2][engine].insert(0, request)


def takes(rules: Rules, s: State, lists: Any, engine: int, request: int) -> bool:
    """Whether there is room for a request, and for what the next iteration adds."""
    placed = s.engines[r.BATCH][engine] + len(lists[3][engine])
    if not rules.serves[engine]:
        return bool(placed < rules.limits[r.MOST][engine])
    if not placed:
        return True
    if placed >= rules.limits[r.MOST][engine]:
        return False
    needed = needs(s, request) + s.sizes[r.PER_PASS][request] + s.work[r.GROWTH][engine]
    return bool(held(rules, s, engine) + needed <= rules.limits[r.CAPACITY][engine])


def take_in(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """Give places to those who wait, in the order of their arrival, while there is room."""
    waiting, reading = lists[2][engine], lists[3][engine]
    while len(waiting) > 0 and takes(rules, s, lists, engine, waiting[0]):
        request = waiting.pop(0)
        s.work[r.WAITED][engine] += s.real[r.NOW] - s.sizes[r.SINCE][request]
        s.sizes[r.TO_READ][request] = s.sizes[r.NEW][request]
        if is_lost(rules, s, engine, request):
            s.sizes[r.TO_READ][request] = max(s.sizes[r.DEPTH][request], s.sizes[r.NEW][request])
        admit(rules, s, engine, request)
        if not s.requests[r.NUMBER][request]:
            s.engines[r.NUMBERS][engine] += 1
            s.requests[r.NUMBER][request] = s.engines[r.NUMBERS][engine]
        s.requests[r.STATUS][request] = r.READING
        reading.append(request)
