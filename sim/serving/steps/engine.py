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
from sim.serving.steps.records import Prices, Rules, State
from sim.serving.steps.texts import grow, held
from sim.serving.steps.tree import free, node_at, step_at

__all__ = ["arrive", "begun", "beside", "cancel", "change", "price", "settle", "slot_of", "submit"]


def submit(rules: Rules, s: State, lists: Any, request: int) -> None:
    """Start a request."""
    place, position, role = s.requests[r.PLACE][request], s.requests[r.POSITION][request], s.requests[r.ROLE][request]
    node, step, engine = node_at(rules, place, position), step_at(rules, place, position), rules.engine[role]
    if role == r.JUDGES:
        tokens, passes, text = 1, 0, 0
        context = new = rules.overhead + s.steps[r.DRAFT_TOKENS][step] + s.steps[r.OWN_TOKENS][step]
    else:
        tokens = s.steps[r.OWN_TOKENS if role == r.WRITES else r.DRAFT_TOKENS][step]
        passes = s.steps[r.PASSES][step] if role == r.WRITES else tokens - 1
        context = text = s.nodes[r.CONTEXT][node]
        new = 0 if s.nodes[r.BY][node] == role else s.nodes[r.LENGTH][node]
    depth = max(context, new)
    s.requests[r.TEXT][request], s.requests[r.NUMBER][request], s.requests[r.FINISH][request] = text, 0, -1
    s.requests[r.LEFT][request] = s.requests[r.BEGAN][request] = passes
    s.sizes[r.PER_PASS][request] = (tokens - 1) / passes if passes > 0 else 0.0
    s.sizes[r.OWN][request], s.sizes[r.DEPTH][request] = 1.0 + depth - text, depth
    s.sizes[r.NEW][request], s.sizes[r.TO_READ][request] = new, 0.0
    s.sizes[r.MEAN][request] = context + tokens / 2
    if depth + tokens > rules.limits[r.CAPACITY][engine]:
        s.whole[r.NO_ROOM] = 1  # the engine of events says so
    elif rules.limits[r.REQUEST_S][engine] > 0.0:
        at = s.real[r.NOW] + rules.limits[r.REQUEST_S][engine]
        schedule(s, lists, at, r.ARRIVES, request, s.requests[r.KEY][request])
    else:
        arrive(rules, s, lists, request)


def schedule(s: State, lists: Any, at: float, kind: int, ref: int, key: int) -> None:
    """Have something happen at a moment."""
    s.whole[r.EVENTS] += 1
    heappush(lists[0], (at, s.whole[r.EVENTS], kind, ref, key))


def arrive(rules: Rules, s: State, lists: Any, request: int) -> None:
    """Let a request wait; an engine that rests begins with it."""
    engine = rules.engine[s.requests[r.ROLE][request]]
    waiting = lists[2][engine]
    s.requests[r.STATUS][request] = r.QUEUED
    s.sizes[r.SINCE][request] = s.real[r.NOW]
    waiting.append(request)
    if s.engines[r.MIXED][engine] or len(waiting) > 1:
        return
    settle(s, engine)
    if s.engines[r.BATCH][engine]:
        plan(rules, s, lists, engine)
        return
    if rules.serves[engine]:
        take_in(rules, s, lists, engine)
        start_iteration(rules, s, lists, engine)
    else:
        read_next(rules, s, lists, engine)
    s.whole[r.ARRIVED] = 1


def cancel(rules: Rules, s: State, lists: Any, request: int) -> None:
    """Stop working on a request: at once if it waits, else when the running iteration ends."""
    status, engine = s.requests[r.STATUS][request], rules.engine[s.requests[r.ROLE][request]]
    if status == r.LEAVING or status == r.OVER:  # noqa: PLR1714  # as fast as it gets
        return
    is_decoding = status == r.DECODING
    if rules.serves[engine] or is_decoding:
        settle(s, engine)
    if not rules.serves[engine]:
        if cancel_in_batch(s, lists, engine, request):
            plan(rules, s, lists, engine)
    elif status == r.TRAVELLING:
        free(s, request)
    elif status == r.QUEUED:
        lists[2][engine].remove(request)
        free(s, request)
        if s.engines[r.BATCH][engine] and not s.engines[r.MIXED][engine]:  # whoever is first now may find room
            plan(rules, s, lists, engine)
    else:
        if status == r.READING:
            lists[3][engine].remove(request)
        s.requests[r.STATUS][request] = r.LEAVING
        lists[4][engine].append(request)
        plan(rules, s, lists, engine)


def settle(s: State, engine: int) -> None:
    """Account for the progress made since the last change."""
    now = s.real[r.NOW]
    elapsed = now - s.work[r.SETTLED][engine]
    s.work[r.SETTLED][engine] = now
    if elapsed <= 0.0:
        return
    if s.engines[r.MIXED][engine]:
        s.work[r.BUSY][engine] += elapsed
        s.work[r.WORK][engine] -= elapsed * s.work[r.SPEED][engine]
    elif s.engines[r.BATCH][engine]:
        s.work[r.BUSY][engine] += elapsed
        s.work[r.PROGRESS][engine] += elapsed * s.work[r.SPEED][engine] / s.work[r.TAU][engine]


def plan(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """Schedule what comes next: the end of an iteration with prompts, or the next boundary with a change."""
    s.engines[r.PLAN][engine] += 1
    if s.engines[r.MIXED][engine]:
        work = s.work[r.WORK][engine]
    elif not s.engines[r.BATCH][engine]:
        return
    else:
        waiting = lists[2][engine]
        changes = len(lists[4][engine]) > 0
        if changes or (len(waiting) > 0 and takes(rules, s, lists, engine, waiting[0])):
            s.engines[r.BOUND][engine] = math.ceil(s.work[r.PROGRESS][engine] - r.BOUNDARY)
        else:
            s.engines[r.BOUND][engine] = next_change(rules, s, lists, engine)
        work = (s.engines[r.BOUND][engine] - s.work[r.PROGRESS][engine]) * s.work[r.TAU][engine]
    delay = work / s.work[r.SPEED][engine] if work > 0.0 else 0.0
    schedule(s, lists, s.real[r.NOW] + delay, r.CHANGES, engine, s.engines[r.PLAN][engine])


def next_change(rules: Rules, s: State, lists: Any, engine: int) -> int:
    """Return the boundary at which a request ends, or the cache is too full to go on."""
    heap = lists[1][engine]
    while not decodes(s, heap[0]):
        heappop(heap)
    first = heap[0][0]
    capacity, growth = rules.limits[r.CAPACITY][engine], s.work[r.GROWTH][engine]
    if math.isinf(capacity) or s.engines[r.BATCH][engine] < 2 or growth <= 0.0:
        return int(first)
    fit = math.floor((capacity - held(rules, s, engine)) / growth + r.BOUNDARY)
    full = whole_of(s.work[r.GROWN_AT][engine]) + max(fit, 1)
    return int(min(first, max(full, math.ceil(s.work[r.PROGRESS][engine] - r.BOUNDARY))))


def change(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """End the iteration that is over and begin the next."""
    settle(s, engine)
    if not rules.serves[engine]:
        change_batch(rules, s, lists, engine)
        return
    has_read = s.engines[r.MIXED][engine]
    if not has_read:
        s.work[r.PROGRESS][engine] = float(s.engines[r.BOUND][engine])
    elif rules.limits[r.CHUNKED][engine] > 0.0:
        s.work[r.PROGRESS][engine] = whole_of(s.work[r.PROGRESS][engine]) + 1.0
    s.engines[r.MIXED][engine] = 0
    grow(rules, s, engine, s.work[r.GROWTH][engine] * (s.work[r.PROGRESS][engine] - s.work[r.GROWN_AT][engine]))
    s.work[r.GROWN_AT][engine] = s.work[r.PROGRESS][engine]
    heap, over, now = lists[1][engine], lists[6], whole_of(s.work[r.PROGRESS][engine])
    while len(heap) > 0 and heap[0][0] <= now:
        entry = heappop(heap)
        if decodes(s, entry) and s.requests[r.STATUS][entry[2]] == r.DECODING:
            remove(rules, s, lists, engine, entry[2], True)
            over.append(entry[2])
    if has_read:
        end_chunks(rules, s, lists, engine)
    going = lists[4][engine]
    for request in going:
        remove(rules, s, lists, engine, request, False)
        free(s, request)
    going.clear()
    if not makes_room(rules, s, lists, engine):
        take_in(rules, s, lists, engine)
    start_iteration(rules, s, lists, engine)


def end_chunks(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """Count what was read; requests that are read to their end have their first token, and decode."""
    chunks, reading = lists[5][engine], lists[3][engine]
    for request, tokens in chunks:
        s.sizes[r.TO_READ][request] -= tokens
        if s.requests[r.STATUS][request] != r.READING or s.sizes[r.TO_READ][request] > 0.0:
            continue
        reading.remove(request)
        if s.requests[r.LEFT][request] <= 0:
            remove(rules, s, lists, engine, request, True)
            lists[6].append(request)
            continue
        s.requests[r.STATUS][request] = r.DECODING
        s.requests[r.FINISH][request] = whole_of(s.work[r.PROGRESS][engine]) + s.requests[r.LEFT][request]
        heappush(lists[1][engine], (s.requests[r.FINISH][request], s.requests[r.NUMBER][request], request))
        s.engines[r.BATCH][engine] += 1
        s.work[r.CACHED][engine] += s.sizes[r.MEAN][request]
        s.work[r.GROWTH][engine] += s.sizes[r.PER_PASS][request]
    chunks.clear()


def start_iteration(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """Begin the next iteration, with prompts if there are any to read, cut to the rows that decoding leaves."""
    reading, chunks = lists[3][engine], lists[5][engine]
    s.whole[r.PRICED], s.whole[r.ARRIVED], s.work[r.READ][engine] = engine, 0, 0.0
    if len(reading) == 0:
        if not s.engines[r.BATCH][engine]:
            s.work[r.RESTING][engine] = s.work[r.SETTLED][engine]
        return
    s.engines[r.MIXED][engine] = 1
    if rules.limits[r.CHUNKED][engine] == 0.0:
        first = reading[0]
        chunks.append((first, s.sizes[r.TO_READ][first]))
        s.work[r.READ][engine] = s.sizes[r.TO_READ][first]
        return
    decoding = math.ceil(rules.limits[r.ROWS][engine] * s.engines[r.BATCH][engine])
    left = max(rules.limits[r.BATCHED][engine] - decoding, 1.0)
    for request in reading:
        tokens = min(s.sizes[r.TO_READ][request], left - s.work[r.READ][engine])
        if tokens <= 0.0 < s.sizes[r.TO_READ][request]:
            break
        chunks.append((request, tokens))
        s.work[r.READ][engine] += tokens


def slot_of(batch: int, read: float, size: int) -> int:
    """Return where `Prices` keep the reading of so many tokens beside a batch."""
    return int((batch * 7919 + int(read)) % size)


def beside(rules: Rules, s: State, engine: int) -> int:
    """Sequences that decode in the iteration that has begun."""
    is_alone = s.engines[r.MIXED][engine] != 0 and rules.limits[r.CHUNKED][engine] == 0.0
    return 0 if is_alone else int(s.engines[r.BATCH][engine])


def price(rules: Rules, s: State, prices: Prices, engine: int) -> int:
    """Find out what the iteration takes that has begun; return 1 or 2 where a line or a reading is not known, or 3."""
    mixed, batch, alone = s.engines[r.MIXED][engine], beside(rules, s, engine), 0.0
    if batch:
        if math.isnan(prices.lines[2 * engine][batch]):
            return 1
        alone = prices.lines[2 * engine][batch] + prices.lines[2 * engine + 1][batch] * s.work[r.CACHED][engine]
    if mixed:
        read = s.work[r.READ][engine]
        at, row = slot_of(batch, read, len(prices.readings[0])), 3 * engine
        if prices.readings[row][at] != batch or prices.readings[row + 1][at] != read:
            return 2
        reading = prices.readings[row + 2][at] + rules.limits[r.SHARE][engine] * alone
        s.work[r.WORK][engine] = max(rules.limits[r.LEAST][engine] * alone, reading)
    elif batch:
        s.work[r.TAU][engine] = alone
        if not alone > 0.0:
            return 3
    return 0


def begun(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """Go on where an iteration has begun and has its price."""
    if s.whole[r.ARRIVED] and s.work[r.SETTLED][engine] - s.work[r.RESTING][engine] >= RESTED_S:
        s.work[r.WORK][engine] += rules.limits[r.WAKING_S][engine]
    s.whole[r.PRICED] = -1
    if rules.shared[engine]:
        tell_the_device(rules, s, lists, engine)
    plan(rules, s, lists, engine)


def tell_the_device(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """Let those on the engine's device have their speeds."""
    busy = 1 if s.engines[r.MIXED][engine] or s.engines[r.BATCH][engine] else 0
    if busy == s.engines[r.WAS_BUSY][engine]:
        return
    s.engines[r.WAS_BUSY][engine] = busy
    device = rules.device[engine]
    s.engines[r.N_BUSY][device] += 1 if busy else -1
    speed = 1.0 / max(s.engines[r.N_BUSY][device], 1)
    for other in range(len(rules.device)):
        if rules.device[other] != device or s.work[r.SPEED][other] == speed:
            continue
        if other != engine:
            settle(s, other)
        s.work[r.SPEED][other] = speed
        if other != engine:
            plan(rules, s, lists, other)
