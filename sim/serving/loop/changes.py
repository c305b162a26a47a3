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
from sim.serving.loop import records as r
from sim.serving.loop.places import append, decodes, end, first_of, grow, join, makes_room, take_in, takes
from sim.serving.loop.records import Prices, Requests, Rules, State

__all__ = ["loop", "slot"]

ASKS_LINE, ASKS_READING, STANDS_STILL = 1, 2, 3
"""What the loop yields, with a batch and the tokens read: it needs an entry of `Prices.lines`, or of `readings`; or an
iteration takes no time."""


def slot(batch: int, read: float, size: int) -> int:
    """Return where `Prices` keep the time of reading so many tokens while a batch decodes."""
    return int((batch * 7919 + int(read)) % size)


def price(rules: Rules, s: State, prices: Prices) -> int:
    """Find out what the iteration takes that has begun; return what is not known for it, or 0."""
    batch, decoding = 0 if rules.apart and s.whole[r.MIXED] else s.whole[r.BATCH], 0.0
    if batch:
        if math.isnan(prices.lines[0][batch]):
            return ASKS_LINE
        decoding = prices.lines[0][batch] + prices.lines[1][batch] * s.real[r.CONTEXT]
    if s.whole[r.MIXED]:
        at = slot(batch, s.real[r.READ], len(prices.readings[0]))
        if prices.readings[0][at] != batch or prices.readings[1][at] != s.real[r.READ]:
            return ASKS_READING
        reading = prices.readings[2][at] + rules.share * decoding
        s.real[r.WORK] = max(rules.least * decoding, reading, 0.0) + s.real[r.EXTRA]
    elif batch:
        s.real[r.TAU] = decoding
        if not decoding > 0.0:
            return STANDS_STILL
    return 0


def plan(ask: Requests, rules: Rules, s: State, heap: Any) -> None:
    """Say when the next change comes: where prompts are read at the iteration's end, else at a boundary."""
    s.whole[r.UNPLANNED] = 0
    if s.whole[r.MIXED]:
        s.real[r.CHANGE] = s.real[r.NOW] + s.real[r.WORK]
        return
    if not s.whole[r.BATCH]:
        s.real[r.CHANGE] = math.inf
        return
    soonest = math.ceil((s.real[r.PLANNED] - s.real[r.NOW]) / s.real[r.TAU] - BOUNDARY)
    if s.whole[r.WAITING] and takes(ask, rules, s, s.ints[r.QUEUE][s.whole[r.HEAD]], 0):
        s.whole[r.STEPS] = soonest
    else:
        while not decodes(s, heap[0]):
            heappop(heap)
        s.whole[r.STEPS] = heap[0][0] - s.whole[r.PROGRESS]
        if not math.isinf(rules.capacity) and s.whole[r.BATCH] > 1 and s.real[r.GROWTH] > 0.0:
            fit = math.floor((rules.capacity - s.real[r.HELD]) / s.real[r.GROWTH] + BOUNDARY)
            s.whole[r.STEPS] = min(s.whole[r.STEPS], max(fit, 1, soonest))
    s.real[r.CHANGE] = s.real[r.NOW] + s.whole[r.STEPS] * s.real[r.TAU]


def launch(ask: Requests, rules: Rules, s: State, answer: int, now: float, reading: Any, cut: Any) -> None:
    """Begin an answer."""
    if s.whole[r.BEGUN] - s.whole[r.ENDED] >= rules.in_flight:
        s.whole[r.OVERLOADED] = 1
        return
    s.whole[r.BEGUN] += 1
    s.floats[r.STARTED][answer] = now
    s.ints[r.STEP][answer] = ask.first[answer]
    submit(ask, rules, s, answer, now, reading, cut)
    if not rules.replaces and answer == rules.warmup:
        elapsed = 0.0 if s.whole[r.MIXED] or not s.whole[r.BATCH] else (now - s.real[r.NOW]) / s.real[r.TAU]
        mark(ask, s, now, math.floor(elapsed + BOUNDARY))


def submit(ask: Requests, rules: Rules, s: State, answer: int, now: float, reading: Any, cut: Any) -> None:
    """Ask for what comes next of an answer."""
    request = s.ints[r.STEP][answer]
    s.floats[r.DEPTH][answer], s.floats[r.NEW][answer] = ask.ints[r.TEXT][request], ask.ints[r.FRESH][request]
    s.floats[r.OWN][answer] = 1.0
    s.ints[r.LEFT][answer] = s.ints[r.BEGAN][answer] = ask.ints[r.PASSES][request]
    s.ints[r.FINISH][answer], s.ints[r.NUMBER][answer], s.ints[r.HAS_BEGUN][answer] = -1, 0, 0
    if rules.request_s > 0.0:
        s.floats[r.ARRIVES][answer] = now + rules.request_s
        append(s.ints[r.WAY], s.whole, r.FRONT, answer)
    else:
        arrive(ask, rules, s, answer, now, reading, cut)


def arrive(ask: Requests, rules: Rules, s: State, answer: int, now: float, reading: Any, cut: Any) -> None:
    """Let a request wait; an engine that rests begins with it."""
    s.floats[r.SINCE][answer] = now
    append(s.ints[r.QUEUE], s.whole, r.HEAD, answer)
    if s.whole[r.MIXED] or s.whole[r.WAITING] > 1:
        return
    if s.whole[r.BATCH]:
        s.whole[r.UNPLANNED], s.real[r.PLANNED] = 1, now
        return
    s.real[r.NOW] = now
    take_in(ask, rules, s, reading)
    start_iteration(rules, s, reading, cut)
    if now - s.real[r.RESTED] >= RESTED_S:
        s.real[r.EXTRA] = rules.waking_s


def end_request(ask: Requests, rules: Rules, s: State, answer: int, reading: Any, cut: Any) -> None:
    """Go on with the next request of an answer, or with the next answer."""
    now = s.real[r.NOW]
    s.ints[r.STEP][answer] += 1
    if s.ints[r.STEP][answer] < ask.first[answer + 1]:
        submit(ask, rules, s, answer, now, reading, cut)
        return
    s.ints[r.STEP][answer] -= 1
    s.floats[r.ENDED_S][answer] = now
    s.ints[r.ORDER][s.whole[r.ENDED]] = answer
    s.whole[r.ENDED] += 1
    if rules.replaces and s.whole[r.NEXT] < rules.answers:
        s.whole[r.NEXT] += 1
        launch(ask, rules, s, s.whole[r.NEXT] - 1, now, reading, cut)


def change(ask: Requests, rules: Rules, s: State, heap: Any, reading: Any, cut: Any, over: Any) -> None:
    """End the iteration that is over and begin the next."""
    has_read = s.whole[r.MIXED]
    steps = s.whole[r.STEPS] if not has_read else 0 if rules.apart else 1
    s.real[r.BUSY] += s.real[r.CHANGE] - s.real[r.NOW]
    s.real[r.NOW] = s.real[r.CHANGE]
    s.whole[r.MIXED] = 0
    s.whole[r.PROGRESS] += steps
    s.real[r.WRITTEN] += steps * s.real[r.GROWTH]
    grow(rules, s, steps * s.real[r.GROWTH])
    over.clear()
    while len(heap) > 0 and heap[0][0] <= s.whole[r.PROGRESS]:
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
        s.floats[r.TO_READ][answer] -= tokens
        if s.floats[r.TO_READ][answer] > 0.0:
            continue
        reading.remove(answer)
        if math.isnan(s.floats[r.FIRST_S][answer]):
            s.floats[r.FIRST_S][answer] = s.real[r.NOW]
        if not s.ints[r.HAS_BEGUN][answer]:
            s.ints[r.HAS_BEGUN][answer] = 1
            s.real[r.WRITTEN] += 1.0
        if s.ints[r.LEFT][answer] > 0:
            join(ask, s, answer, heap)
        else:
            end(ask, rules, s, answer, heap)
            over.append(answer)


def start_iteration(rules: Rules, s: State, reading: Any, cut: Any) -> None:
    """Begin the next iteration; prompts are cut to the rows that decoding leaves."""
    s.whole[r.UNPLANNED], s.real[r.PLANNED], s.real[r.EXTRA], s.real[r.READ] = 1, s.real[r.NOW], 0.0, 0.0
    cut.clear()
    if not reading:
        if not s.whole[r.BATCH]:
            s.real[r.RESTED] = s.real[r.NOW]
        return
    s.whole[r.MIXED] = 1
    left = max(rules.batched - (0 if rules.apart else math.ceil(rules.rows * s.whole[r.BATCH])), 1)
    for answer in reading:
        tokens = min(s.floats[r.TO_READ][answer], left - s.real[r.READ])
        if tokens <= 0.0 < s.floats[r.TO_READ][answer]:
            break
        cut.append((answer, tokens))
        s.real[r.READ] += tokens


def look_at_marks(ask: Requests, rules: Rules, s: State) -> None:
    """Begin or end the window at the change that is just over."""
    while s.whole[r.MARK] < 2 and s.real[r.WRITTEN] >= s.real[r.TOKENS_AT + s.whole[r.MARK]] - BOUNDARY:
        mark(ask, s, s.real[r.NOW], 0)
    if not rules.replaces and s.whole[r.MARK] == 1 and s.whole[r.ENDED] == rules.answers:
        mark(ask, s, s.real[r.NOW], 0)


def ends_within(ask: Requests, s: State) -> bool:
    """Begin or end the window before the next change, where an iteration reaches its tokens; say whether it ended."""
    while s.whole[r.MARK] < 2 and s.real[r.GROWTH] > 0.0 and not s.whole[r.MIXED]:
        wanted = (s.real[r.TOKENS_AT + s.whole[r.MARK]] - s.real[r.WRITTEN]) / s.real[r.GROWTH] - BOUNDARY
        if wanted > s.whole[r.STEPS] - 1:
            break
        steps = max(math.ceil(wanted), 0)
        mark(ask, s, s.real[r.NOW] + steps * s.real[r.TAU], steps)
    return bool(s.whole[r.MARK] == 2)


def mark(ask: Requests, s: State, at: float, steps: int) -> None:
    """Note what is there at a moment, so many iterations after the last change."""
    at_mark = s.whole[r.MARK]
    s.whole[r.MARK] += 1
    s.real[r.SECONDS_AT + at_mark], s.whole[r.ENDED_AT + at_mark] = at, s.whole[r.ENDED]
    s.real[r.BUSY_AT + at_mark] = s.real[r.BUSY]
    if s.whole[r.MIXED] or s.whole[r.BATCH]:
        s.real[r.BUSY_AT + at_mark] += at - s.real[r.NOW]
    for answer in range(len(s.ints[r.STEP]) - 1):
        left = s.ints[r.LEFT][answer]
        if s.ints[r.FINISH][answer] >= 0:
            left = s.ints[r.FINISH][answer] - s.whole[r.PROGRESS] - steps
        s.ints[r.STEP_AT + at_mark][answer] = s.ints[r.STEP][answer]
        done = ask.ints[r.PASSES][s.ints[r.STEP][answer]] - left
        s.ints[r.DONE_AT + at_mark][answer] = done if s.ints[r.HAS_BEGUN][answer] else -1


def loop(ask: Requests, rules: Rules, s: State, prices: Prices) -> Iterator[tuple[int, int, float]]:
    """Run until the window has ended; yield what must be known of costs first."""
    heap, reading, cut, over = [(0, 0, 0)], [0], [(0, 0.0)], [0]  # numba takes their types from their first entries
    heap.clear()
    reading.clear()
    cut.clear()
    over.clear()
    while not s.whole[r.OVERLOADED]:
        look_at_marks(ask, rules, s)
        if s.whole[r.MARK] == 2:
            break
        if s.whole[r.UNPLANNED]:
            asks = price(rules, s, prices)
            if asks:
                yield asks, 0 if rules.apart and s.whole[r.MIXED] else s.whole[r.BATCH], s.real[r.READ]
                continue
            plan(ask, rules, s, heap)
        moment = rules.moments[s.whole[r.MOMENT]] if s.whole[r.MOMENT] < len(rules.moments) else math.inf
        arrival = s.floats[r.ARRIVES][s.ints[r.WAY][s.whole[r.FRONT]]] if s.whole[r.TRAVELLING] else math.inf
        if min(moment, arrival) > s.real[r.CHANGE]:
            if not ends_within(ask, s):
                change(ask, rules, s, heap, reading, cut, over)
        elif moment <= arrival:
            if math.isinf(moment):
                break
            s.whole[r.MOMENT] += 1
            launch(ask, rules, s, s.whole[r.MOMENT] - 1, moment, reading, cut)
        else:
            arrive(ask, rules, s, first_of(s.ints[r.WAY], s.whole, r.FRONT), arrival, reading, cut)
