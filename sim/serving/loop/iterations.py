"""Plain decoding on one serving engine as a loop over arrays: what `sim.serving.engine` does, without events.

Answers are requests in a row (one, where they are asked for as a whole); nothing is cancelled, and nothing but the
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

from sim.serving.loop.changes import arrive, change, launch, plan, price
from sim.serving.loop.records import (
    ARRIVES,
    BATCH,
    CHANGE,
    FRONT,
    MARK,
    MIXED,
    MOMENT,
    OVERLOADED,
    READ,
    TRAVELLING,
    UNPLANNED,
    WAY,
    Prices,
    Requests,
    Rules,
    State,
)
from sim.serving.loop.texts import first_of
from sim.serving.loop.windows import ends_within, look_at_marks

__all__ = ["loop"]


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
                yield asks, s.whole[BATCH] if rules.chunked or not s.whole[MIXED] else 0, s.real[READ]
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
