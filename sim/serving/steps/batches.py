"""An engine that reads one prompt at a time, before the next iteration: `sim.engines.batching` on arrays."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from sim.serving.steps import records as r
from sim.serving.steps.places import decodes, stop, whole_of
from sim.serving.steps.records import Rules, State
from sim.serving.steps.tree import free

__all__ = ["cancel_in_batch", "change_batch", "read_next"]


def read_next(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """Read the prompt that has waited longest, if there is room for its request, else go on decoding."""
    waiting = lists[2][engine]
    if len(waiting) > 0 and s.engines[r.BATCH][engine] < rules.limits[r.MOST][engine]:
        request = waiting.pop(0)
        s.requests[r.STATUS][request] = r.READING
        lists[5][engine].append((request, 0.0))
        s.engines[r.MIXED][engine], s.work[r.READ][engine] = 1, s.sizes[r.NEW][request]
    elif not s.engines[r.BATCH][engine]:
        s.work[r.RESTING][engine] = s.work[r.SETTLED][engine]
    s.whole[r.PRICED], s.whole[r.ARRIVED] = engine, 0


def change_batch(rules: Rules, s: State, lists: Any, engine: int) -> None:
    """End the current prefill or iteration, and start the next."""
    heap, over = lists[1][engine], lists[6]
    if s.engines[r.MIXED][engine]:
        s.engines[r.MIXED][engine] = 0
        request = lists[5][engine].pop()[0]
        if s.requests[r.LEFT][request] <= 0 or s.requests[r.IS_CANCELLED][request]:
            s.requests[r.STATUS][request] = r.OVER
            over.append(request)
        else:
            s.requests[r.STATUS][request] = r.DECODING
            s.requests[r.FINISH][request] = whole_of(s.work[r.PROGRESS][engine]) + s.requests[r.LEFT][request]
            s.engines[r.NUMBERS][engine] += 1
            s.requests[r.NUMBER][request] = s.engines[r.NUMBERS][engine]
            heappush(heap, (s.requests[r.FINISH][request], s.requests[r.NUMBER][request], request))
            s.engines[r.BATCH][engine] += 1
            s.work[r.CACHED][engine] += s.sizes[r.MEAN][request]
            s.work[r.GROWTH][engine] += s.sizes[r.PER_PASS][request]
    else:
        s.work[r.PROGRESS][engine] = float(s.engines[r.BOUND][engine])
        for request in lists[4][engine]:
            stop(s, lists, engine, request)
            free(s, request)
        lists[4][engine].clear()
        while len(heap) > 0 and heap[0][0] <= s.engines[r.BOUND][engine]:
            entry = heappop(heap)
            if decodes(s, entry):
                stop(s, lists, engine, entry[2])
                s.requests[r.STATUS][entry[2]] = r.OVER
                over.append(entry[2])
    read_next(rules, s, lists, engine)


def cancel_in_batch(s: State, lists: Any, engine: int, request: int) -> bool:
    """Stop working on a request; say whether the next event of the engine has changed. A prefill runs to its end."""
    status = s.requests[r.STATUS][request]
    if status == r.TRAVELLING:
        free(s, request)
    elif status == r.QUEUED:
        lists[2][engine].remove(request)
        free(s, request)
    elif status == r.DECODING and s.engines[r.MIXED][engine]:  # decoding stands at a boundary
        stop(s, lists, engine, request)
        free(s, request)
    elif status == r.DECODING:
        s.requests[r.STATUS][request] = r.LEAVING
        lists[4][engine].append(request)
        return True
    return False
