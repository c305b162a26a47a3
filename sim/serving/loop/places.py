"""Who has a place on the engine, and what its cache keeps: as `sim.serving.engine` and `sim.serving.cache` have it.

Requests come in, decode, lose their places and end. An answer has one request at a time, so that the texts in the cache
are those of answers, in rings.
"""

from __future__ import annotations

import math
from heapq import heappush
from typing import Any

from sim.serving.loop import records as r
from sim.serving.loop.records import Requests, Rules, State

__all__ = ["append", "decodes", "end", "first_of", "grow", "join", "makes_room", "take_in", "takes"]


def decodes(s: State, entry: tuple[int, int, int]) -> bool:
    """Whether an entry of the heap is of a request that has not left it."""
    finish, number, answer = entry
    return bool(s.ints[r.FINISH][answer] == finish and s.ints[r.NUMBER][answer] == number)


def join(ask: Requests, s: State, answer: int, heap: Any) -> None:
    """Let a request decode from the next iteration on."""
    request = s.ints[r.STEP][answer]
    s.ints[r.FINISH][answer] = s.whole[r.PROGRESS] + s.ints[r.LEFT][answer]
    heappush(heap, (s.ints[r.FINISH][answer], s.ints[r.NUMBER][answer], answer))
    s.whole[r.BATCH] += 1
    s.real[r.CONTEXT] += ask.floats[r.MEAN][request]
    s.real[r.GROWTH] += ask.floats[r.PER_PASS][request]


def stop(ask: Requests, s: State, answer: int, heap: Any) -> float:
    """Take a request out of the batch, if it was there, and return the tokens that are its own."""
    if s.ints[r.FINISH][answer] < 0:
        return float(s.floats[r.OWN][answer])
    request = s.ints[r.STEP][answer]
    s.ints[r.LEFT][answer] = s.ints[r.FINISH][answer] - s.whole[r.PROGRESS]
    s.ints[r.FINISH][answer] = -1
    s.whole[r.BATCH] -= 1
    s.real[r.CONTEXT] -= ask.floats[r.MEAN][request]
    s.real[r.GROWTH] -= ask.floats[r.PER_PASS][request]
    if not s.whole[r.BATCH]:
        heap.clear()
        s.real[r.CONTEXT] = s.real[r.GROWTH] = 0.0  # forget what rounding has left
    done = s.ints[r.BEGAN][answer] - s.ints[r.LEFT][answer]
    return float(s.floats[r.OWN][answer] + done * ask.floats[r.PER_PASS][request])


def end(ask: Requests, rules: Rules, s: State, answer: int, heap: Any) -> None:
    """Take a request out that has ended; the answer's text has grown by what it wrote."""
    own = stop(ask, s, answer, heap)
    release(ask, rules, s, answer, own, s.floats[r.DEPTH][answer] + own - s.floats[r.OWN][answer] + 1.0)


def makes_room(ask: Requests, rules: Rules, s: State, heap: Any, reading: Any) -> bool:
    """Take the places of those that came last while the next iteration has no room; say whether anybody lost one."""
    before = s.whole[r.PREEMPTED]
    while s.real[r.HELD] + s.real[r.GROWTH] > rules.capacity and s.whole[r.BATCH] + len(reading) > 1:
        last = -1
        for entry in heap:
            if decodes(s, entry) and (last < 0 or s.ints[r.NUMBER][entry[2]] > s.ints[r.NUMBER][last]):
                last = entry[2]
        for answer in reading:
            if last < 0 or s.ints[r.NUMBER][answer] > s.ints[r.NUMBER][last]:
                last = answer
        preempt(ask, rules, s, last, heap, reading)
    return bool(s.whole[r.PREEMPTED] > before)


def preempt(ask: Requests, rules: Rules, s: State, answer: int, heap: Any, reading: Any) -> None:
    """Take a request's place and let it wait at the front; what it had is read again."""
    s.whole[r.PREEMPTED] += 1
    if s.ints[r.FINISH][answer] < 0:
        reading.remove(answer)
    own = stop(ask, s, answer, heap)
    release(ask, rules, s, answer, own, 0.0)
    if s.floats[r.UNUSED][answer] >= 0.0:
        drop(s, answer)
    s.floats[r.DEPTH][answer] += own - s.floats[r.OWN][answer]
    if s.ints[r.BEGAN][answer] != s.ints[r.LEFT][answer]:
        s.floats[r.NEW][answer] = own - 1.0  # its last token is computed when it decodes
    s.floats[r.OWN][answer], s.ints[r.BEGAN][answer] = own, s.ints[r.LEFT][answer]
    s.floats[r.SINCE][answer] = s.real[r.NOW]
    s.whole[r.HEAD] = (s.whole[r.HEAD] - 1) % len(s.ints[r.QUEUE])
    s.ints[r.QUEUE][s.whole[r.HEAD]] = answer
    s.whole[r.WAITING] += 1


def takes(ask: Requests, rules: Rules, s: State, answer: int, n_reading: int) -> bool:
    """Whether there is room for a request, and for what the next iteration adds."""
    placed = s.whole[r.BATCH] + n_reading
    if not placed:
        return True
    needed = needs(ask, s, answer) + ask.floats[r.PER_PASS][s.ints[r.STEP][answer]] + s.real[r.GROWTH]
    return bool(placed < rules.most and s.real[r.HELD] + needed <= rules.capacity)


def take_in(ask: Requests, rules: Rules, s: State, reading: Any) -> None:
    """Give places to those who wait, in the order of their arrival, while there is room."""
    while s.whole[r.WAITING] and takes(ask, rules, s, s.ints[r.QUEUE][s.whole[r.HEAD]], len(reading)):
        answer = first_of(s.ints[r.QUEUE], s.whole, r.HEAD)
        s.real[r.WAITED] += s.real[r.NOW] - s.floats[r.SINCE][answer]
        s.floats[r.TO_READ][answer] = s.floats[r.NEW][answer]
        if s.ints[r.LOST][answer]:
            s.floats[r.TO_READ][answer] = max(s.floats[r.DEPTH][answer], s.floats[r.NEW][answer])
        admit(ask, rules, s, answer)
        if not s.ints[r.NUMBER][answer]:
            s.whole[r.NUMBERS] += 1
            s.ints[r.NUMBER][answer] = s.whole[r.NUMBERS]
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
    text, own = float(ask.ints[r.TEXT][s.ints[r.STEP][answer]]), float(s.floats[r.OWN][answer])
    return own + max(text, float(s.floats[r.UNUSED][answer])) if text > 0.0 else own


def admit(ask: Requests, rules: Rules, s: State, answer: int) -> None:
    """Take in a request, and the text before it."""
    grown, text = needs(ask, s, answer), float(ask.ints[r.TEXT][s.ints[r.STEP][answer]])
    if text > 0.0:
        s.floats[r.KEPT][answer] = max(text, s.floats[r.UNUSED][answer])
        if s.floats[r.UNUSED][answer] >= 0.0:
            unlink(s, answer)
        s.whole[r.USED] += 1
        s.ints[r.LOST][answer] = 0
    grow(rules, s, grown)


def grow(rules: Rules, s: State, tokens: float) -> None:
    """Count tokens that requests have added."""
    s.real[r.HELD] += tokens
    s.real[r.PEAK] = max(s.real[r.PEAK], s.real[r.HELD])
    evict(rules, s)


def release(ask: Requests, rules: Rules, s: State, answer: int, own: float, written: float) -> None:
    """Let a request go; its answer's text is now so many tokens long at least."""
    s.real[r.HELD] -= own
    if not ask.ints[r.TEXT][s.ints[r.STEP][answer]]:
        return
    s.whole[r.USED] -= 1
    if written > s.floats[r.KEPT][answer]:
        s.real[r.HELD] += written - s.floats[r.KEPT][answer]
        s.floats[r.KEPT][answer] = written
    s.real[r.HELD] -= s.floats[r.KEPT][answer]
    if not math.isinf(rules.capacity):
        link(s, answer)
        evict(rules, s)
    if not s.whole[r.USED]:
        s.real[r.HELD] = max(s.real[r.HELD], 0.0)  # of rounding


def link(s: State, answer: int) -> None:
    """Put an answer's text behind those that are idle."""
    last = len(s.ints[r.BEFORE]) - 1
    s.floats[r.UNUSED][answer] = s.floats[r.KEPT][answer]
    s.real[r.IDLE] += s.floats[r.UNUSED][answer]
    s.ints[r.BEFORE][answer], s.ints[r.BEHIND][answer] = s.ints[r.BEFORE][last], last
    s.ints[r.BEHIND][s.ints[r.BEFORE][last]] = answer
    s.ints[r.BEFORE][last] = answer


def unlink(s: State, answer: int) -> None:
    """Take an answer's text out of those that are idle."""
    s.real[r.IDLE] -= s.floats[r.UNUSED][answer]
    s.floats[r.UNUSED][answer] = -1.0
    before, behind = s.ints[r.BEFORE][answer], s.ints[r.BEHIND][answer]
    s.ints[r.BEHIND][before], s.ints[r.BEFORE][behind] = behind, before


def evict(rules: Rules, s: State) -> None:
    """Drop texts that no request uses until the rest fits, the least recently used first."""
    last = len(s.ints[r.BEFORE]) - 1
    while s.ints[r.BEHIND][last] != last and s.real[r.HELD] + s.real[r.IDLE] > rules.capacity:
        drop(s, s.ints[r.BEHIND][last])


def drop(s: State, answer: int) -> None:
    """Evict the text of an answer."""
    unlink(s, answer)
    s.ints[r.LOST][answer] = 1
    last = len(s.ints[r.BEFORE]) - 1
    if s.ints[r.BEHIND][last] == last:
        s.real[r.IDLE] = 0.0  # forget what rounding has left
