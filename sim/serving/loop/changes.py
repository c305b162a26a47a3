"""Plain decoding on one serving engine as a loop over arrays: what `sim.serving.engine` does, without events.

An answer is a sequence of requests (one where the whole answer is one request); nothing is cancelled, and only the
target works. Then the time from one change of the batch to the next is known when the first of them comes, and the loop
goes from change to change: it ends requests, counts what was read, takes places away while the cache is too full, gives
places to those who wait, and begins the next iteration. `sim.serving.engine` is the specification: a test compares when
each answer begins and ends over hundreds of settings.

The functions run on lists in Python, and on arrays where numba compiles them (`sim.serving.loop.running`): the same
operations in the same order, so that both give the same numbers. What an iteration costs, only Python knows: the loop
asks for it by a `yield` and finds it in `Prices` from then on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heappop
from typing import Any

from sim.engines.batching import BOUNDARY, RESTED_S
from sim.serving.loop.places import append, decodes, end, first_of, grow, join, makes_room, take_in, takes
from sim.serving.loop.records import (
    ARRIVES,
    BATCH,
    BEGAN,
    BEGUN,
    BUSY,
    BUSY_AT,
    CHANGE,
    CONTEXT,
    DEPTH,
    DONE_AT,
    ENDED,
    ENDED_AT,
    ENDED_S,
    EXTRA,
    FINISH,
    FIRST_S,
    FRESH,
    FRONT,
    GROWTH,
    HAS_BEGUN,
    HEAD,
    HELD,
    LEFT,
    MARK,
    MIXED,
    MOMENT,
    NEW,
    NEXT,
    NOW,
    NUMBER,
    ORDER,
    OVERLOADED,
    OWN,
    PASSES,
    PLANNED,
    PROGRESS,
    QUEUE,
    READ,
    RESTED,
    SECONDS_AT,
    SINCE,
    STARTED,
    STEP,
    STEP_AT,
    STEPS,
    TAU,
    TEXT,
    TO_READ,
    TOKENS_AT,
    TRAVELLING,
    UNPLANNED,
    WAITING,
    WAY,
    WORK,
    WRITTEN,
    Prices,
    Requests,
    Rules,
    State,
)

__all__ = ["loop", "slot"]

ASKS_LINE, ASKS_READING, STANDS_STILL = 1, 2, 3
"""What the loop yields, with a batch and the tokens read: it needs an entry of `Prices.lines`, or of `readings`; or an
iteration takes no time."""


def slot(batch: int, read: float, size: int) -> int:
    """Return where `Prices` keep the time of reading so many tokens while a batch decodes."""
    return int((batch * 7919 + int(read)) % size)


def price(rules: Rules, s: State, prices: Prices) -> int:
    """Find out what the iteration takes that has begun; return what is not known for it, or 0."""
    batch, decoding = 0 if rules.apart and s.whole[MIXED] else s.whole[BATCH], 0.0
    if batch:
        if math.isnan(prices.lines[0][batch]):
            return ASKS_LINE
        decoding = prices.lines[0][batch] + prices.lines[1][batch] * s.real[CONTEXT]
    if s.whole[MIXED]:
        at = slot(batch, s.real[READ], len(prices.readings[0]))
        if prices.readings[0][at] != batch or prices.readings[1][at] != s.real[READ]:
            return ASKS_READING
        reading = prices.readings[2][at] + rules.share * decoding
        s.real[WORK] = max(rules.least * decoding, reading, 0.0) + s.real[EXTRA]
    elif batch:
        s.real[TAU] = decoding
        if not decoding > 0.0:
            return STANDS_STILL
    return 0


def plan(ask: Requests, rules: Rules, s: State, heap: Any) -> None:
    """Say when the next change comes: where prompts are read at the iteration's end, else at a boundary."""
    s.whole[UNPLANNED] = 0
    if s.whole[MIXED]:
        s.real[CHANGE] = s.real[NOW] + s.real[WORK]
        return
    if not s.whole[BATCH]:
        s.real[CHANGE] = math.inf
        return
    soonest = math.ceil((s.real[PLANNED] - s.real[NOW]) / s.real[TAU] - BOUNDARY)
    if s.whole[WAITING] and takes(ask, rules, s, s.ints[QUEUE][s.whole[HEAD]], 0):
        s.whole[STEPS] = soonest
    else:
        while not decodes(s, heap[0]):
            heappop(heap)
        s.whole[STEPS] = heap[0][0] - s.whole[PROGRESS]
        if not math.isinf(rules.capacity) and s.whole[BATCH] > 1 and s.real[GROWTH] > 0.0:
            fit = math.floor((rules.capacity - s.real[HELD]) / s.real[GROWTH] + BOUNDARY)
            s.whole[STEPS] = min(s.whole[STEPS], max(fit, 1, soonest))
    s.real[CHANGE] = s.real[NOW] + s.whole[STEPS] * s.real[TAU]


def launch(ask: Requests, rules: Rules, s: State, answer: int, now: float, reading: Any, cut: Any) -> None:
    """Begin an answer."""
    if s.whole[BEGUN] - s.whole[ENDED] >= rules.in_flight:
        s.whole[OVERLOADED] = 1
        return
    s.whole[BEGUN] += 1
    s.floats[STARTED][answer] = now
    s.ints[STEP][answer] = ask.first[answer]
    submit(ask, rules, s, answer, now, reading, cut)
    if not rules.replaces and answer == rules.warmup:
        elapsed = 0.0 if s.whole[MIXED] or not s.whole[BATCH] else (now - s.real[NOW]) / s.real[TAU]
        mark(ask, s, now, math.floor(elapsed + BOUNDARY))


def submit(ask: Requests, rules: Rules, s: State, answer: int, now: float, reading: Any, cut: Any) -> None:
    """Ask for what comes next of an answer."""
    request = s.ints[STEP][answer]
    s.floats[DEPTH][answer], s.floats[NEW][answer] = ask.ints[TEXT][request], ask.ints[FRESH][request]
    s.floats[OWN][answer] = 1.0
    s.ints[LEFT][answer] = s.ints[BEGAN][answer] = ask.ints[PASSES][request]
    s.ints[FINISH][answer], s.ints[NUMBER][answer], s.ints[HAS_BEGUN][answer] = -1, 0, 0
    if rules.request_s > 0.0:
        s.floats[ARRIVES][answer] = now + rules.request_s
        append(s.ints[WAY], s.whole, FRONT, answer)
    else:
        arrive(ask, rules, s, answer, now, reading, cut)


def arrive(ask: Requests, rules: Rules, s: State, answer: int, now: float, reading: Any, cut: Any) -> None:
    """Let a request wait; an engine that rests begins with it."""
    s.floats[SINCE][answer] = now
    append(s.ints[QUEUE], s.whole, HEAD, answer)
    if s.whole[MIXED] or s.whole[WAITING] > 1:
        return
    if s.whole[BATCH]:
        s.whole[UNPLANNED], s.real[PLANNED] = 1, now
        return
    s.real[NOW] = now
    take_in(ask, rules, s, reading)
    start_iteration(rules, s, reading, cut)
    if now - s.real[RESTED] >= RESTED_S:
        s.real[EXTRA] = rules.waking_s


def end_request(ask: Requests, rules: Rules, s: State, answer: int, reading: Any, cut: Any) -> None:
    """Go on with the next request of an answer, or with the next answer."""
    now = s.real[NOW]
    s.ints[STEP][answer] += 1
    if s.ints[STEP][answer] < ask.first[answer + 1]:
        submit(ask, rules, s, answer, now, reading, cut)
        return
    s.ints[STEP][answer] -= 1
    s.floats[ENDED_S][answer] = now
    s.ints[ORDER][s.whole[ENDED]] = answer
    s.whole[ENDED] += 1
    if rules.replaces and s.whole[NEXT] < rules.answers:
        s.whole[NEXT] += 1
        launch(ask, rules, s, s.whole[NEXT] - 1, now, reading, cut)


def change(ask: Requests, rules: Rules, s: State, heap: Any, reading: Any, cut: Any, over: Any) -> None:
    """End the iteration that is over and begin the next."""
    has_read = s.whole[MIXED]
    steps = s.whole[STEPS] if not has_read else 0 if rules.apart else 1
    s.real[BUSY] += s.real[CHANGE] - s.real[NOW]
    s.real[NOW] = s.real[CHANGE]
    s.whole[MIXED] = 0
    s.whole[PROGRESS] += steps
    s.real[WRITTEN] += steps * s.real[GROWTH]
    grow(rules, s, steps * s.real[GROWTH])
    over.clear()
    while len(heap) > 0 and heap[0][0] <= s.whole[PROGRESS]:
        entry = heappop(heap)
        if decodes(s, entry):
            end(ask, rules, s, entry[2], heap)
            over.append(entry[2])
    if has_read:
        end_chunks(ask, rules, s, heap, reading, cut, over)
    if not makes_room(ask, rules, s, heap, reading):
        take_in(ask, rules, s, reading)
    start_iteration(rules, s, reading, cut)
    for answer in over:
        end_request(ask, rules, s, answer, reading, cut)


def end_chunks(ask: Requests, rules: Rules, s: State, heap: Any, reading: Any, cut: Any, over: Any) -> None:
    """Count what was read; requests that are read to their end have their first token, and decode."""
    for answer, tokens in cut:
        s.floats[TO_READ][answer] -= tokens
        if s.floats[TO_READ][answer] > 0.0:
            continue
        reading.remove(answer)
        if math.isnan(s.floats[FIRST_S][answer]):
            s.floats[FIRST_S][answer] = s.real[NOW]
        if not s.ints[HAS_BEGUN][answer]:
            s.ints[HAS_BEGUN][answer] = 1
            s.real[WRITTEN] += 1.0
        if s.ints[LEFT][answer] > 0:
            join(ask, s, answer, heap)
        else:
            end(ask, rules, s, answer, heap)
            over.append(answer)


def start_iteration(rules: Rules, s: State, reading: Any, cut: Any) -> None:
    """Begin the next iteration; prompts are cut to the rows that decoding leaves."""
    s.whole[UNPLANNED], s.real[PLANNED], s.real[EXTRA], s.real[READ] = 1, s.real[NOW], 0.0, 0.0
    cut.clear()
    if not reading:
        if not s.whole[BATCH]:
            s.real[RESTED] = s.real[NOW]
        return
    s.whole[MIXED] = 1
    left = max(rules.batched - (0 if rules.apart else math.ceil(rules.rows * s.whole[BATCH])), 1)
    for answer in reading:
        tokens = min(s.floats[TO_READ][answer], left - s.real[READ])
        if tokens <= 0.0 < s.floats[TO_READ][answer]:
            break
        cut.append((answer, tokens))
        s.real[READ] += tokens


def look_at_marks(ask: Requests, rules: Rules, s: State) -> None:
    """Begin or end the window at the change that is just over."""
    while s.whole[MARK] < 2 and s.real[WRITTEN] >= s.real[TOKENS_AT + s.whole[MARK]] - BOUNDARY:
        mark(ask, s, s.real[NOW], 0)
    if not rules.replaces and s.whole[MARK] == 1 and s.whole[ENDED] == rules.answers:
        mark(ask, s, s.real[NOW], 0)


def ends_within(ask: Requests, s: State) -> bool:
    """Begin or end the window before the next change, where an iteration reaches its tokens; say whether it ended."""
    while s.whole[MARK] < 2 and s.real[GROWTH] > 0.0 and not s.whole[MIXED]:
        wanted = (s.real[TOKENS_AT + s.whole[MARK]] - s.real[WRITTEN]) / s.real[GROWTH] - BOUNDARY
        if wanted > s.whole[STEPS] - 1:
            break
        steps = max(math.ceil(wanted), 0)
        mark(ask, s, s.real[NOW] + steps * s.real[TAU], steps)
    return bool(s.whole[MARK] == 2)


def mark(ask: Requests, s: State, at: float, steps: int) -> None:
    """Note what is there at a moment, so many iterations after the last change."""
    at_mark = s.whole[MARK]
    s.whole[MARK] += 1
    s.real[SECONDS_AT + at_mark], s.whole[ENDED_AT + at_mark] = at, s.whole[ENDED]
    s.real[BUSY_AT + at_mark] = s.real[BUSY]
    if s.whole[MIXED] or s.whole[BATCH]:
        s.real[BUSY_AT + at_mark] += at - s.real[NOW]
    for answer in range(len(s.ints[STEP]) - 1):
        left = s.ints[LEFT][answer]
        if s.ints[FINISH][answer] >= 0:
            left = s.ints[FINISH][answer] - s.whole[PROGRESS] - steps
        s.ints[STEP_AT + at_mark][answer] = s.ints[STEP][answer]
        done = ask.ints[PASSES][s.ints[STEP][answer]] - left
        s.ints[DONE_AT + at_mark][answer] = done if s.ints[HAS_BEGUN][answer] else -1


def loop(ask: Requests, rules: Rules, s: State, prices: Prices) -> Iterator[tuple[int, int, float]]:
    """Run until the window has ended; yield what must be known of costs first."""
    heap, reading, cut, over = [(0, 0, 0)], [0], [(0, 0.0)], [0]  # numba takes their types from their first entries
    heap.clear()
    reading.clear()
    cut.clear()
    over.clear()
    while not s.whole[OVERLOADED]:
        look_at_marks(ask, rules, s)
        if s.whole[MARK] == 2:
            break
        if s.whole[UNPLANNED]:
            asks = price(rules, s, prices)
            if asks:
                yield asks, 0 if rules.apart and s.whole[MIXED] else s.whole[BATCH], s.real[READ]
                continue
            plan(ask, rules, s, heap)
        moment = rules.moments[s.whole[MOMENT]] if s.whole[MOMENT] < len(rules.moments) else math.inf
        arrival = s.floats[ARRIVES][s.ints[WAY][s.whole[FRONT]]] if s.whole[TRAVELLING] else math.inf
        if min(moment, arrival) > s.real[CHANGE]:
            if not ends_within(ask, s):
                change(ask, rules, s, heap, reading, cut, over)
        elif moment <= arrival:
            if math.isinf(moment):
                break
            s.whole[MOMENT] += 1
            launch(ask, rules, s, s.whole[MOMENT] - 1, moment, reading, cut)
        else:
            arrive(ask, rules, s, first_of(s.ints[WAY], s.whole, FRONT), arrival, reading, cut)
