"""Who has a place on the engine, and what its cache keeps: as `sim.serving.engine` and `sim.serving.cache` have it.

Requests come in, decode, lose their places and end. An answer has one request at a time, so that the texts in the cache
are those of answers, in rings.
"""

from __future__ import annotations

import math
from heapq import heappush
from typing import Any

from sim.serving.loop.records import (
    BATCH,
    BEFORE,
    BEGAN,
    BEHIND,
    CONTEXT,
    DEPTH,
    FINISH,
    GROWTH,
    HEAD,
    HELD,
    IDLE,
    KEPT,
    LEFT,
    LOST,
    MEAN,
    NEW,
    NOW,
    NUMBER,
    NUMBERS,
    OWN,
    PEAK,
    PER_PASS,
    PREEMPTED,
    PROGRESS,
    QUEUE,
    SINCE,
    STEP,
    TEXT,
    TO_READ,
    UNUSED,
    USED,
    WAITED,
    WAITING,
    Requests,
    Rules,
    State,
)

__all__ = ["append", "decodes", "end", "first_of", "grow", "join", "makes_room", "take_in", "takes"]


def decodes(s: State, entry: tuple[int, int, int]) -> bool:
    """Whether an entry of the heap is of a request that has not left it."""
    finish, number, answer = entry
    return bool(s.ints[FINISH][answer] == finish and s.ints[NUMBER][answer] == number)


def join(ask: Requests, s: State, answer: int, heap: Any) -> None:
    """Let a request decode from the next iteration on."""
    request = s.ints[STEP][answer]
    s.ints[FINISH][answer] = s.whole[PROGRESS] + s.ints[LEFT][answer]
    heappush(heap, (s.ints[FINISH][answer], s.ints[NUMBER][answer], answer))
    s.whole[BATCH] += 1
    s.real[CONTEXT] += ask.floats[MEAN][request]
    s.real[GROWTH] += ask.floats[PER_PASS][request]


def stop(ask: Requests, s: State, answer: int, heap: Any) -> float:
    """Take a request out of the batch, if it was there, and return the tokens that are its own."""
    if s.ints[FINISH][answer] < 0:
        return float(s.floats[OWN][answer])
    request = s.ints[STEP][answer]
    s.ints[LEFT][answer] = s.ints[FINISH][answer] - s.whole[PROGRESS]
    s.ints[FINISH][answer] = -1
    s.whole[BATCH] -= 1
    s.real[CONTEXT] -= ask.floats[MEAN][request]
    s.real[GROWTH] -= ask.floats[PER_PASS][request]
    if not s.whole[BATCH]:
        heap.clear()
        s.real[CONTEXT] = s.real[GROWTH] = 0.0  # forget what rounding has left
    return float(s.floats[OWN][answer] + (s.ints[BEGAN][answer] - s.ints[LEFT][answer]) * ask.floats[PER_PASS][request])


def end(ask: Requests, rules: Rules, s: State, answer: int, heap: Any) -> None:
    """Take a request out that has ended; the answer's text has grown by what it wrote."""
    own = stop(ask, s, answer, heap)
    release(ask, rules, s, answer, own, s.floats[DEPTH][answer] + own - s.floats[OWN][answer] + 1.0)


def makes_room(ask: Requests, rules: Rules, s: State, heap: Any, reading: Any) -> bool:
    """Take the places of those that came last while the next iteration has no room; say whether anybody lost one."""
    before = s.whole[PREEMPTED]
    while s.real[HELD] + s.real[GROWTH] > rules.capacity and s.whole[BATCH] + len(reading) > 1:
        last = -1
        for entry in heap:
            if decodes(s, entry) and (last < 0 or s.ints[NUMBER][entry[2]] > s.ints[NUMBER][last]):
                last = entry[2]
        for answer in reading:
            if last < 0 or s.ints[NUMBER][answer] > s.ints[NUMBER][last]:
                last = answer
        preempt(ask, rules, s, last, heap, reading)
    return bool(s.whole[PREEMPTED] > before)


def preempt(ask: Requests, rules: Rules, s: State, answer: int, heap: Any, reading: Any) -> None:
    """Take a request's place and let it wait at the front; what it had is read again."""
    s.whole[PREEMPTED] += 1
    if s.ints[FINISH][answer] < 0:
        reading.remove(answer)
    own = stop(ask, s, answer, heap)
    release(ask, rules, s, answer, own, 0.0)
    if s.floats[UNUSED][answer] >= 0.0:
        drop(s, answer)
    s.floats[DEPTH][answer] += own - s.floats[OWN][answer]
    if s.ints[BEGAN][answer] != s.ints[LEFT][answer]:
        s.floats[NEW][answer] = own - 1.0  # its last token is computed when it decodes
    s.floats[OWN][answer], s.ints[BEGAN][answer], s.floats[SINCE][answer] = own, s.ints[LEFT][answer], s.real[NOW]
    s.whole[HEAD] = (s.whole[HEAD] - 1) % len(s.ints[QUEUE])
    s.ints[QUEUE][s.whole[HEAD]] = answer
    s.whole[WAITING] += 1


def takes(ask: Requests, rules: Rules, s: State, answer: int, n_reading: int) -> bool:
    """Whether there is room for a request, and for what the next iteration adds."""
    placed = s.whole[BATCH] + n_reading
    if not placed:
        return True
    needed = needs(ask, s, answer) + ask.floats[PER_PASS][s.ints[STEP][answer]] + s.real[GROWTH]
    return bool(placed < rules.most and s.real[HELD] + needed <= rules.capacity)


def take_in(ask: Requests, rules: Rules, s: State, reading: Any) -> None:
    """Give places to those who wait, in the order of their arrival, while there is room."""
    while s.whole[WAITING] and takes(ask, rules, s, s.ints[QUEUE][s.whole[HEAD]], len(reading)):
        answer = first_of(s.ints[QUEUE], s.whole, HEAD)
        s.real[WAITED] += s.real[NOW] - s.floats[SINCE][answer]
        s.floats[TO_READ][answer] = s.floats[NEW][answer]
        if s.ints[LOST][answer]:
            s.floats[TO_READ][answer] = max(s.floats[DEPTH][answer], s.floats[NEW][answer])
        admit(ask, rules, s, answer)
        if not s.ints[NUMBER][answer]:
            s.whole[NUMBERS] += 1
            s.ints[NUMBER][answer] = s.whole[NUMBERS]
        reading.append(answer)


def first_of(ring: Any, whole: Any, head: int) -> int:
    """Take the first answer out of a ring."""
    answer = ring[whole[head]]
    whole[head] = (whole[head] + 1) % len(ring)
    whole[head + 1] -= 1
    return int(answer)


def append(ring: Any, whole: Any, head: int, answer: int) -> None:
    """Put an answer at the end of a ring."""
    ring[(whole[head] + whole[head + 1]) % len(ring)] = answer
    whole[head + 1] += 1


def needs(ask: Requests, s: State, answer: int) -> float:
    """Tokens by which what is held grows when a request comes in."""
    text, own = float(ask.ints[TEXT][s.ints[STEP][answer]]), float(s.floats[OWN][answer])
    return own + max(text, float(s.floats[UNUSED][answer])) if text > 0.0 else own


def admit(ask: Requests, rules: Rules, s: State, answer: int) -> None:
    """Take in a request, and the text before it."""
    grown, text = needs(ask, s, answer), float(ask.ints[TEXT][s.ints[STEP][answer]])
    if text > 0.0:
        s.floats[KEPT][answer] = max(text, s.floats[UNUSED][answer])
        if s.floats[UNUSED][answer] >= 0.0:
            unlink(s, answer)
        s.whole[USED] += 1
        s.ints[LOST][answer] = 0
    grow(rules, s, grown)


def grow(rules: Rules, s: State, tokens: float) -> None:
    """Count tokens that requests have added."""
    s.real[HELD] += tokens
    s.real[PEAK] = max(s.real[PEAK], s.real[HELD])
    evict(rules, s)


def release(ask: Requests, rules: Rules, s: State, answer: int, own: float, written: float) -> None:
    """Let a request go; its answer's text is now so many tokens long at least."""
    s.real[HELD] -= own
    if not ask.ints[TEXT][s.ints[STEP][answer]]:
        return
    s.whole[USED] -= 1
    if written > s.floats[KEPT][answer]:
        s.real[HELD] += written - s.floats[KEPT][answer]
        s.floats[KEPT][answer] = written
    s.real[HELD] -= s.floats[KEPT][answer]
    if not math.isinf(rules.capacity):
        link(s, answer)
        evict(rules, s)
    if not s.whole[USED]:
        s.real[HELD] = max(s.real[HELD], 0.0)  # of rounding


def link(s: State, answer: int) -> None:
    """Put an answer's text behind those that are idle."""
    last = len(s.ints[BEFORE]) - 1
    s.floats[UNUSED][answer] = s.floats[KEPT][answer]
    s.real[IDLE] += s.floats[UNUSED][answer]
    s.ints[BEFORE][answer], s.ints[BEHIND][answer] = s.ints[BEFORE][last], last
    s.ints[BEHIND][s.ints[BEFORE][last]] = answer
    s.ints[BEFORE][last] = answer


def unlink(s: State, answer: int) -> None:
    """Take an answer's text out of those that are idle."""
    s.real[IDLE] -= s.floats[UNUSED][answer]
    s.floats[UNUSED][answer] = -1.0
    before, behind = s.ints[BEFORE][answer], s.ints[BEHIND][answer]
    s.ints[BEHIND][before], s.ints[BEFORE][behind] = behind, before


def evict(rules: Rules, s: State) -> None:
    """Drop texts that no request uses until the rest fits, the least recently used first."""
    last = len(s.ints[BEFORE]) - 1
    while s.ints[BEHIND][last] != last and s.real[HELD] + s.real[IDLE] > rules.capacity:
        drop(s, s.ints[BEHIND][last])


def drop(s: State, answer: int) -> None:
    """Evict the text of an answer."""
    unlink(s, answer)
    s.ints[LOST][answer] = 1
    last = len(s.ints[BEFORE]) - 1
    if s.ints[BEHIND][last] == last:
        s.real[IDLE] = 0.0  # forget what rounding has left
