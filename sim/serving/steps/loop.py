"""Lookahead Reasoning under load as a loop over arrays: a closed loop on serving engines, event by event.

What happens, and in which order, is what SimPy's queue has happen with `sim.algorithms.lookahead_tree` and
`sim.serving.engine`, voided events included: they are the specification, and a test compares all that a load says over
hundreds of settings. In Python it takes about as long; it is for numba to compile (`sim.serving.loop.running`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heappop
from typing import Any

from sim.serving.steps import records as r
from sim.serving.steps.engine import arrive, begun, beside, cancel, change, price, submit
from sim.serving.steps.records import Prices, Rules, State
from sim.serving.steps.tree import free, on_done, open_node

__all__ = ["ASKS_ANSWER", "ASKS_LINE", "ASKS_READING", "HAS_NO_ROOM", "REACHED", "STANDS_STILL", "loop"]

ASKS_LINE, ASKS_READING, STANDS_STILL, ASKS_ANSWER, REACHED, HAS_NO_ROOM = range(1, 7)
"""What the loop yields: it needs an entry of `Prices.lines` or of `Prices.readings` of an engine, by the batch and the
tokens read; an iteration takes no time; it needs an answer for a place; it has come to where it is to stop; an array is
too small, or nothing happens any more."""


def loop(  # noqa: PLR0912  # a call for each kind of event would take longer
    rules: Rules, s: State, prices: Prices, places: int
) -> Iterator[tuple[int, int, int, float]]:
    """Keep so many answers in flight; yield whenever something must be known."""
    # numba takes the types of lists from their first entries
    queue, acts, over = [(0.0, 0, 0, 0, 0)], [(r.LAUNCH, 0, 0)], [0]
    heaps, waiting = ([(0, 0, 0)], [(0, 0, 0)], [(0, 0, 0)]), ([0], [0], [0])
    reading, going, chunks = ([0], [0], [0]), ([0], [0], [0]), ([(0, 0.0)], [(0, 0.0)], [(0, 0.0)])
    queue.clear()
    over.clear()
    for i in range(3):
        heaps[i].clear()
        waiting[i].clear()
        reading[i].clear()
        going[i].clear()
        chunks[i].clear()
    lists = (queue, heaps, waiting, reading, going, chunks, over)
    begun_places = 1
    while not s.whole[r.NO_ROOM]:
        if s.whole[r.PRICED] >= 0:
            engine = s.whole[r.PRICED]
            asks = price(rules, s, prices, engine)
            if asks:
                yield asks, engine, beside(rules, s, engine), s.work[r.READ][engine]
            else:
                begun(rules, s, lists, engine)
        elif len(acts) > 0:
            kind, ref, value = acts[0]
            if kind == r.LAUNCH and s.whole[r.LOADED] <= s.whole[r.NEXT_ANSWER]:
                yield ASKS_ANSWER, ref, s.whole[r.NEXT_ANSWER], 0.0
            else:
                acts.pop(0)
                act(rules, s, lists, acts, kind, ref, value)
        elif begun_places < places:
            acts.append((r.LAUNCH, begun_places, 0))
            begun_places += 1
        elif len(over) > 0:
            deliver(rules, s, acts, over.pop(0))
        elif stops(s, places):
            yield REACHED, 0, 0, 0.0
        elif len(queue) > 0:
            happen(rules, s, lists)
        else:
            break
    yield HAS_NO_ROOM, 0, 0, 0.0


def act(rules: Rules, s: State, lists: Any, acts: Any, kind: int, ref: int, value: int) -> None:
    """Do what a schedule wants done; what follows of it is appended."""
    if kind == r.START:
        submit(rules, s, lists, ref)
    elif kind == r.CANCEL:
        if s.requests[r.KEY][ref] == value and not s.requests[r.IS_CANCELLED][ref]:
            s.requests[r.IS_CANCELLED][ref] = 1
            cancel(rules, s, lists, ref)
    elif kind == r.COMMIT:
        commit(s, ref, value)
    elif kind == r.END:
        s.times[r.ENDED_S][s.places[r.ANSWER][ref]] = s.real[r.NOW]
        s.answers[r.ORDER][s.whole[r.ENDED]] = s.places[r.ANSWER][ref]
        s.whole[r.ENDED] += 1
        s.places[r.ANSWER][ref] = 0
        acts.append((r.LAUNCH, ref, 0))
    else:
        s.places[r.ANSWER][ref] = s.whole[r.NEXT_ANSWER]
        s.times[r.STARTED][s.whole[r.NEXT_ANSWER]] = s.real[r.NOW]
        s.whole[r.NEXT_ANSWER] += 1
        open_node(rules, s, acts, ref, s.places[r.ROOT][ref])


def deliver(rules: Rules, s: State, acts: Any, request: int) -> None:
    """Tell the answer that a request has ended, unless it was cancelled or the answer is over."""
    answer = s.places[r.ANSWER][s.requests[r.PLACE][request]]
    if not s.requests[r.IS_CANCELLED][request] and s.requests[r.OF][request] == answer:
        on_done(rules, s, acts, request)
    free(s, request)


def happen(rules: Rules, s: State, lists: Any) -> None:
    """Let the next event happen; one that a later plan has voided takes the clock along."""
    now, _, kind, ref, key = heappop(lists[0])
    s.real[r.NOW] = now
    s.whole[r.PASSED] += 1
    if kind == r.ARRIVES:
        if s.requests[r.KEY][ref] == key:
            arrive(rules, s, lists, ref)
    elif s.engines[r.PLAN][ref] == key:
        change(rules, s, lists, ref)


def commit(s: State, place: int, tokens: int) -> None:
    """Count tokens that stand."""
    answer = s.places[r.ANSWER][place]
    s.answers[r.TOKENS][answer] += tokens
    s.real[r.TOTAL] += tokens
    if math.isnan(s.times[r.FIRST_S][answer]):
        s.times[r.FIRST_S][answer] = s.real[r.NOW]


def stops(s: State, places: int) -> bool:
    """Whether to stop here; it is looked at after so many events."""
    if s.whole[r.PASSED] % s.whole[r.EVERY]:
        return False
    if s.whole[r.MODE] == r.BY_COMMITS:
        while s.whole[r.LOOKED] < places and not math.isnan(s.times[r.FIRST_S][s.whole[r.LOOKED] + 1]):
            s.whole[r.LOOKED] += 1
        return bool(s.whole[r.LOOKED] == places)
    if s.whole[r.MODE] == r.BY_TIME:
        return bool(s.real[r.NOW] >= s.real[r.WANTED])
    return bool(s.real[r.TOTAL] >= s.real[r.WANTED])
