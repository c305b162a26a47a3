"""A serving engine on arrays: `sim.serving.engine` and the device that it shares.

Where an iteration begins, the loop finds out its price and goes on with `begun`: only Python knows what it costs.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Any

from sim.engines.batching import RESTED_S
from sim.serving.steps import records as r
from sim.serving.steps.batches import cancel_in_batch, change_batch, read_next
from sim.serving.steps.places import decodes, makes_room, remove, take_in, takes, whole_of
from sim.serving.steps.queues import append, first_of, take_out
from sim.serving.steps.records import Prices, Rules, State
from sim.serving.steps.texts import grow, held
from sim.serving.steps.tree import free, node_at, step_at

__all__ = ["arrive", "begun", "beside", "cancel", "change", "price", "settle", "slot_of", "submit"]


def submit(rules: Rules, s: State, lists: Any, request: int) -> None:
    """Start a request."""
    place, position, role = s.i[r.PLACE, request], s.i[r.POSITION, request], s.i[r.ROLE, request]
    node, step, engine = node_at(rules, place, position), step_at(rules, place, position), s.i[r.ENGINE, role]
    if role == r.JUDGES:
        tokens, passes, text = 1, 0, 0
        context = new = rules.overhead + s.i[r.DRAFT_TOKENS, step] + s.i[r.OWN_TOKENS, step]
    else:
        tokens = s.i[r.OWN_TOKENS if role == r.WRITES else r.DRAFT_TOKENS, step]
        passes = s.i[r.PASSES, step] if role == r.WRITES else tokens - 1
        context = text = s.i[r.CONTEXT, node]
        new = 0 if s.i[r.BY, node] == role else s.i[r.LENGTH, node]
    depth = max(context, new)
    s.i[r.TEXT, request], s.i[r.NUMBER, request], s.i[r.FINISH, request] = text, 0, -1
    s.i[r.LEFT, request] = s.i[r.BEGAN, request] = passes
    s.f[r.PER_PASS, request] = (tokens - 1) / passes if passes > 0 else 0.0
    s.f[r.OWN, request], s.f[r.DEPTH, request] = 1.0 + depth - text, depth
    s.f[r.NEW, request], s.f[r.TO_READ, request] = new, 0.0
    s.f[r.MEAN, request] = context + tokens / 2
    if depth + tokens > s.f[r.CAPACITY, engine]:
        s.i[r.WHOLE, r.NO_ROOM] = 1  # the engine of events says so
    elif s.f[r.REQUEST_S, engine] > 0.0:
        at = s.f[r.REAL, r.NOW] + s.f[r.REQUEST_S, engine]
        schedule(s, lists, at, r.ARRIVES, request, s.i[r.KEY, request])
    else:
        arrive(s, lists, request)


def schedule(s: State, lists: Any, at: float, kind: int, ref: int, key: int) -> None:
    """Have something happen at a moment."""
    s.i[r.WHOLE, r.EVENTS] += 1
    heappush(lists[0], (at, s.i[r.WHOLE, r.EVENTS], kind, ref, key))


def arrive(s: State, lists: Any, request: int) -> None:
    """Let a request wait; an engine that rests begins with it."""
    engine = s.i[r.ENGINE, s.i[r.ROLE, request]]
    s.i[r.STATUS, request] = r.QUEUED
    s.f[r.SINCE, request] = s.f[r.REAL, r.NOW]
    append(s, r.WAITING, engine, request)
    if s.i[r.MIXED, engine] or s.i[r.N_WAITING, engine] > 1:
        return
    settle(s, engine)
    if s.i[r.BATCH, engine]:
        plan(s, lists, engine)
        return
    if s.i[r.SERVES, engine]:
        take_in(s, engine)
        start_iteration(s, engine)
    else:
        read_next(s, engine)
    s.i[r.WHOLE, r.ARRIVED] = 1


def cancel(s: State, lists: Any, request: int) -> None:
    """Stop working on a request: at once if it waits, else when the running iteration ends."""
    status, engine = s.i[r.STATUS, request], s.i[r.ENGINE, s.i[r.ROLE, request]]
    if status == r.LEAVING or status == r.OVER:  # noqa: PLR1714  # as fast as it gets
        return
    is_decoding = status == r.DECODING
    if s.i[r.SERVES, engine] or is_decoding:
        settle(s, engine)
    if not s.i[r.SERVES, engine]:
        if cancel_in_batch(s, lists, engine, request):
            plan(s, lists, engine)
    elif status == r.TRAVELLING:
        free(s, request)
    elif status == r.QUEUED:
        take_out(s, r.WAITING, engine, request)
        free(s, request)
        if s.i[r.BATCH, engine] and not s.i[r.MIXED, engine]:  # whoever is first now may find room
            plan(s, lists, engine)
    else:
        if status == r.READING:
            take_out(s, r.READS, engine, request)
        s.i[r.STATUS, request] = r.LEAVING
        append(s, r.GOES, engine, request)
        plan(s, lists, engine)


def settle(s: State, engine: int) -> None:
    """Account for the progress made since the last change."""
    now = s.f[r.REAL, r.NOW]
    elapsed = now - s.f[r.SETTLED, engine]
    s.f[r.SETTLED, engine] = now
    if elapsed <= 0.0:
        return
    if s.i[r.MIXED, engine]:
        s.f[r.BUSY, engine] += elapsed
        s.f[r.WORK, engine] -= elapsed * s.f[r.SPEED, engine]
    elif s.i[r.BATCH, engine]:
        s.f[r.BUSY, engine] += elapsed
        s.f[r.PROGRESS, engine] += elapsed * s.f[r.SPEED, engine] / s.f[r.TAU, engine]


def plan(s: State, lists: Any, engine: int) -> None:
    """Schedule what comes next: the end of an iteration with prompts, or the next boundary with a change."""
    s.i[r.PLAN, engine] += 1
    if s.i[r.MIXED, engine]:
        work = s.f[r.WORK, engine]
    elif not s.i[r.BATCH, engine]:
        return
    else:
        waits = s.i[r.N_WAITING, engine] > 0
        if s.i[r.N_GOES, engine] > 0 or (waits and takes(s, engine, s.i[r.WAITING + engine, 0])):
            s.i[r.BOUND, engine] = math.ceil(s.f[r.PROGRESS, engine] - r.BOUNDARY)
        else:
            s.i[r.BOUND, engine] = next_change(s, lists, engine)
        work = (s.i[r.BOUND, engine] - s.f[r.PROGRESS, engine]) * s.f[r.TAU, engine]
    delay = work / s.f[r.SPEED, engine] if work > 0.0 else 0.0
    schedule(s, lists, s.f[r.REAL, r.NOW] + delay, r.CHANGES, engine, s.i[r.PLAN, engine])


def next_change(s: State, lists: Any, engine: int) -> int:
    """Return the boundary at which a request ends, or the cache is too full to go on."""
    heap = lists[1][engine]
    while not decodes(s, heap[0]):
        heappop(heap)
    first = heap[0][0]
    capacity, growth = s.f[r.CAPACITY, engine], s.f[r.GROWTH, engine]
    if math.isinf(capacity) or s.i[r.BATCH, engine] < 2 or growth <= 0.0:
        return int(first)
    fit = math.floor((capacity - held(s, engine)) / growth + r.BOUNDARY)
    full = whole_of(s.f[r.GROWN_AT, engine]) + max(fit, 1)
    return int(min(first, max(full, math.ceil(s.f[r.PROGRESS, engine] - r.BOUNDARY))))


def change(s: State, lists: Any, engine: int) -> None:
    """End the iteration that is over and begin the next."""
    settle(s, engine)
    if not s.i[r.SERVES, engine]:
        change_batch(s, lists, engine)
        return
    has_read = s.i[r.MIXED, engine]
    if not has_read:
        s.f[r.PROGRESS, engine] = float(s.i[r.BOUND, engine])
    elif s.f[r.CHUNKED, engine] > 0.0:
        s.f[r.PROGRESS, engine] = whole_of(s.f[r.PROGRESS, engine]) + 1.0
    s.i[r.MIXED, engine] = 0
    grow(s, engine, s.f[r.GROWTH, engine] * (s.f[r.PROGRESS, engine] - s.f[r.GROWN_AT, engine]))
    s.f[r.GROWN_AT, engine] = s.f[r.PROGRESS, engine]
    heap, now = lists[1][engine], whole_of(s.f[r.PROGRESS, engine])
    while len(heap) > 0 and heap[0][0] <= now:
        entry = heappop(heap)
        if decodes(s, entry) and s.i[r.STATUS, entry[2]] == r.DECODING:
            remove(s, lists, engine, entry[2], True)
            append(s, r.OVERS, 0, entry[2])
    if has_read:
        end_chunks(s, lists, engine)
    while s.i[r.N_GOES, engine] > 0:
        request = first_of(s, r.GOES, engine)
        remove(s, lists, engine, request, False)
        free(s, request)
    if not makes_room(s, lists, engine):
        take_in(s, engine)
    start_iteration(s, engine)


def end_chunks(s: State, lists: Any, engine: int) -> None:
    """Count what was read; requests that are read to their end have their first token, and decode."""
    for at in range(s.i[r.N_CHUNKS, engine]):
        request = s.i[r.CHUNKS + engine, at]
        s.f[r.TO_READ, request] -= s.f[r.READ_TOKENS + engine, at]
        if s.i[r.STATUS, request] != r.READING or s.f[r.TO_READ, request] > 0.0:
            continue
        take_out(s, r.READS, engine, request)
        if s.i[r.LEFT, request] <= 0:
            remove(s, lists, engine, request, True)
            append(s, r.OVERS, 0, request)
            continue
        s.i[r.STATUS, request] = r.DECODING
        s.i[r.FINISH, request] = whole_of(s.f[r.PROGRESS, engine]) + s.i[r.LEFT, request]
        heappush(lists[1][engine], (s.i[r.FINISH, request], s.i[r.NUMBER, request], request))
        s.i[r.BATCH, engine] += 1
        s.f[r.CACHED, engine] += s.f[r.MEAN, request]
        s.f[r.GROWTH, engine] += s.f[r.PER_PASS, request]
    s.i[r.N_CHUNKS, engine] = 0


def start_iteration(s: State, engine: int) -> None:
    """Begin the next iteration, with prompts if there are any to read, cut to the rows that decoding leaves."""
    s.i[r.WHOLE, r.PRICED], s.i[r.WHOLE, r.ARRIVED], s.f[r.READ, engine] = engine, 0, 0.0
    if s.i[r.N_READS, engine] == 0:
        if not s.i[r.BATCH, engine]:
            s.f[r.RESTING, engine] = s.f[r.SETTLED, engine]
        return
    s.i[r.MIXED, engine] = 1
    if s.f[r.CHUNKED, engine] == 0.0:
        read_some(s, engine, s.i[r.READS + engine, 0], s.f[r.TO_READ, s.i[r.READS + engine, 0]])
        return
    decoding = math.ceil(s.f[r.ROWS, engine] * s.i[r.BATCH, engine])
    left = max(s.f[r.BATCHED, engine] - decoding, 1.0)
    for at in range(s.i[r.N_READS, engine]):
        request = s.i[r.READS + engine, at]
        tokens = min(s.f[r.TO_READ, request], left - s.f[r.READ, engine])
        if tokens <= 0.0 < s.f[r.TO_READ, request]:
            break
        read_some(s, engine, request, tokens)


def read_some(s: State, engine: int, request: int, tokens: float) -> None:
    """Have the iteration read so much of a prompt."""
    s.f[r.READ_TOKENS + engine, s.i[r.N_CHUNKS, engine]] = tokens
    append(s, r.CHUNKS, engine, request)
    s.f[r.READ, engine] += tokens


def slot_of(batch: int, read: float, size: int) -> int:
    """Return where `Prices` keep the reading of so many tokens beside a batch."""
    return int((batch * 7919 + int(read)) % size)


def beside(s: State, engine: int) -> int:
    """Sequences that decode in the iteration that has begun."""
    is_alone = s.i[r.MIXED, engine] != 0 and s.f[r.CHUNKED, engine] == 0.0
    return 0 if is_alone else int(s.i[r.BATCH, engine])


def price(s: State, prices: Prices, engine: int) -> int:
    """Find out what the iteration takes that has begun; return 1 or 2 where a line or a reading is not known, or 3."""
    mixed, batch, alone = s.i[r.MIXED, engine], beside(s, engine), 0.0
    if batch:
        if math.isnan(prices.lines[2 * engine, batch]):
            return 1
        alone = prices.lines[2 * engine, batch] + prices.lines[2 * engine + 1, batch] * s.f[r.CACHED, engine]
    if mixed:
        read = s.f[r.READ, engine]
        at, row = slot_of(batch, read, prices.readings.shape[1]), 3 * engine
        if prices.readings[row, at] != batch or prices.readings[row + 1, at] != read:
            return 2
        reading = prices.readings[row + 2, at] + s.f[r.SHARE, engine] * alone
        s.f[r.WORK, engine] = max(s.f[r.LEAST, engine] * alone, reading)
    elif batch:
        s.f[r.TAU, engine] = alone
        if not alone > 0.0:
            return 3
    return 0


def begun(s: State, lists: Any, engine: int) -> None:
    """Go on where an iteration has begun and has its price."""
    if s.i[r.WHOLE, r.ARRIVED] and s.f[r.SETTLED, engine] - s.f[r.RESTING, engine] >= RESTED_S:
        s.f[r.WORK, engine] += s.f[r.WAKING_S, engine]
    s.i[r.WHOLE, r.PRICED] = -1
    if s.i[r.IS_SHARED, engine]:
        tell_the_device(s, lists, engine)
    plan(s, lists, engine)


def tell_the_device(s: State, lists: Any, engine: int) -> None:
    """Let those on the engine's device have their speeds."""
    busy = 1 if s.i[r.MIXED, engine] or s.i[r.BATCH, engine] else 0
    if busy == s.i[r.WAS_BUSY, engine]:
        return
    s.i[r.WAS_BUSY, engine] = busy
    device = s.i[r.DEVICE, engine]
    s.i[r.N_BUSY, device] += 1 if busy else -1
    speed = 1.0 / max(s.i[r.N_BUSY, device], 1)
    for other in range(3):
        if s.i[r.DEVICE, other] != device or s.f[r.SPEED, other] == speed:
            continue
        if other != engine:
            settle(s, other)
        s.f[r.SPEED, other] = speed
        if other != engine:
            plan(s, lists, other)
