"""Lookahead Reasoning under load as a loop over arrays: a closed loop on serving engines, event by event.

What happens, and in which order, is what SimPy's queue has happen with `sim.algorithms.lookahead_tree` and
`sim.serving.engine`, voided events included: they are the specification, and a test compares all that a load says over
hundreds of settings. It is for numba to compile (`sim.serving.loop.running`), and six to nine times as fast then; in
Python it takes longer than SimPy, so that only tests run it there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heappop
from typing import Any

from sim.serving.steps import records as r
from sim.serving.steps.engine import arrive, begun, beside, cancel, change, price, submit
from sim.serving.steps.queues import first_of
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
    queue, acts = [(0.0, 0, 0, 0, 0)], [(r.LAUNCH, 0, 0)]
    heaps = [(0, 0, 0)], [(0, 0, 0)], [(0, 0, 0)]
    queue.clear()
    for engine in range(3):
        heaps[engine].clear()
    lists = (queue, heaps)
    begun_places = 1
    while not s.i[r.WHOLE, r.NO_ROOM]:
        if s.i[r.WHOLE, r.PRICED] >= 0:
            engine = s.i[r.WHOLE, r.PRICED]
            asks = price(s, prices, engine)
            if asks:
                yield asks, engine, beside(s, engine), s.f[r.READ, engine]
            else:
                begun(s, lists, engine)
        elif len(acts) > 0:
            kind, ref, value = acts[0]
            if kind == r.LAUNCH and s.i[r.WHOLE, r.LOADED] <= s.i[r.WHOLE, r.NEXT_ANSWER]:
                yield ASKS_ANSWER, ref, s.i[r.WHOLE, r.NEXT_ANSWER], 0.0
            else:
                acts.pop(0)
                act(rules, s, lists, acts, kind, ref, value)
        elif begun_places < places:
            acts.append((r.LAUNCH, begun_places, 0))
            begun_places += 1
        elif s.i[r.N_OVERS, 0] > 0:
            deliver(rules, s, acts, first_of(s, r.OVERS, 0))
        elif stops(s, places):
            yield REACHED, 0, 0, 0.0
        elif len(queue) > 0:
            happen(s, lists)
        else:
            break
    yield HAS_NO_ROOM, 0, 0, 0.0


def act(rules: Rules, s: State, lists: Any, acts: Any, kind: int, ref: int, value: int) -> None:
    """Do what a schedule wants done; what follows of it is appended."""
    if kind == r.START:
        submit(rules, s, lists, ref)
    elif kind == r.CANCEL:
        if s.i[r.KEY, ref] == value and not s.i[r.IS_CANCELLED, ref]:
            s.i[r.IS_CANCELLED, ref] = 1
            cancel(s, lists, ref)
    elif kind == r.COMMIT:
        commit(s, ref, value)
    elif kind == r.END:
        s.f[r.ENDED_S, s.i[r.ANSWER, ref]] = s.f[r.REAL, r.NOW]
        s.i[r.ORDER, s.i[r.WHOLE, r.ENDED]] = s.i[r.ANSWER, ref]
        s.i[r.WHOLE, r.ENDED] += 1
        s.i[r.ANSWER, ref] = 0
        acts.append((r.LAUNCH, ref, 0))
    else:
        s.i[r.ANSWER, ref] = s.i[r.WHOLE, r.NEXT_ANSWER]
        s.f[r.STARTED, s.i[r.WHOLE, r.NEXT_ANSWER]] = s.f[r.REAL, r.NOW]
        s.i[r.WHOLE, r.NEXT_ANSWER] += 1
        open_node(rules, s, acts, ref, s.i[r.ROOT, ref])


def deliver(rules: Rules, s: State, acts: Any, request: int) -> None:
    """Tell the answer that a request has ended, unless it was cancelled or the answer is over."""
    answer = s.i[r.ANSWER, s.i[r.PLACE, request]]
    if not s.i[r.IS_CANCELLED, request] and s.i[r.OF, request] == answer:
        on_done(rules, s, acts, request)
    free(s, request)


def happen(s: State, lists: Any) -> None:
    """Let the next event happen; one that a later plan has voided takes the clock along."""
    now, _, kind, ref, key = heappop(lists[0])
    s.f[r.REAL, r.NOW] = now
    s.i[r.WHOLE, r.PASSED] += 1
    if kind == r.ARRIVES:
        if s.i[r.KEY, ref] == key:
            arrive(s, lists, ref)
    elif s.i[r.PLAN, ref] == key:
        change(s, lists, ref)


def commit(s: State, place: int, tokens: int) -> None:
    """Count tokens that stand."""
    answer = s.i[r.ANSWER, place]
    s.i[r.TOKENS, answer] += tokens
    s.f[r.REAL, r.TOTAL] += tokens
    if math.isnan(s.f[r.FIRST_S, answer]):
        s.f[r.FIRST_S, answer] = s.f[r.REAL, r.NOW]


def stops(s: State, places: int) -> bool:
    """Whether to stop here; it is looked at after so many events."""
    if s.i[r.WHOLE, r.PASSED] % s.i[r.WHOLE, r.EVERY]:
        return False
    if s.i[r.WHOLE, r.MODE] == r.BY_COMMITS:
        while s.i[r.WHOLE, r.LOOKED] < places and not math.isnan(s.f[r.FIRST_S, s.i[r.WHOLE, r.LOOKED] + 1]):
            s.i[r.WHOLE, r.LOOKED] += 1
        return bool(s.i[r.WHOLE, r.LOOKED] == places)
    if s.i[r.WHOLE, r.MODE] == r.BY_TIME:
        return bool(s.f[r.REAL, r.NOW] >= s.f[r.REAL, r.WANTED])
    return bool(s.f[r.REAL, r.TOTAL] >= s.f[r.REAL, r.WANTED])
