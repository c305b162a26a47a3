"""An engine that reads one prompt at a time, before the next iteration: `sim.engines.batching` on arrays."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from sim.serving.steps import records as r
from sim.serving.steps.places import decodes, stop, whole_of
from sim.serving.steps.queues import append, first_of, take_out
from sim.serving.steps.records import State
from sim.serving.steps.tree import free

__all__ = ["cancel_in_batch", "change_batch", "read_next"]


def read_next(s: State, engine: int) -> None:
    """Read the prompt that has waited longest, if there is room for its request, else go on decoding."""
    if s.i[r.N_WAITING, engine] > 0 and s.i[r.BATCH, engine] < s.f[r.MOST, engine]:
        request = first_of(s, r.WAITING, engine)
        s.i[r.STATUS, request] = r.READING
        append(s, r.CHUNKS, engine, request)
        s.i[r.MIXED, engine], s.f[r.READ, engine] = 1, s.f[r.NEW, request]
    elif not s.i[r.BATCH, engine]:
        s.f[r.RESTING, engine] = s.f[r.SETTLED, engine]
    s.i[r.WHOLE, r.PRICED], s.i[r.WHOLE, r.ARRIVED] = engine, 0


def change_batch(s: State, lists: Any, engine: int) -> None:
    """End the current prefill or iteration, and start the next."""
    heap = lists[1][engine]
    if s.i[r.MIXED, engine]:
        s.i[r.MIXED, engine] = 0
        request = first_of(s, r.CHUNKS, engine)
        if s.i[r.LEFT, request] <= 0 or s.i[r.IS_CANCELLED, request]:
            s.i[r.STATUS, request] = r.OVER
            append(s, r.OVERS, 0, request)
        else:
            s.i[r.STATUS, request] = r.DECODING
            s.i[r.FINISH, request] = whole_of(s.f[r.PROGRESS, engine]) + s.i[r.LEFT, request]
            s.i[r.NUMBERS, engine] += 1
            s.i[r.NUMBER, request] = s.i[r.NUMBERS, engine]
            heappush(heap, (s.i[r.FINISH, request], s.i[r.NUMBER, request], request))
            s.i[r.BATCH, engine] += 1
            s.f[r.CACHED, engine] += s.f[r.MEAN, request]
            s.f[r.GROWTH, engine] += s.f[r.PER_PASS, request]
    else:
        s.f[r.PROGRESS, engine] = float(s.i[r.BOUND, engine])
        while s.i[r.N_GOES, engine] > 0:
            request = first_of(s, r.GOES, engine)
            stop(s, lists, engine, request)
            free(s, request)
        while len(heap) > 0 and heap[0][0] <= s.i[r.BOUND, engine]:
            entry = heappop(heap)
            if decodes(s, entry):
                stop(s, lists, engine, entry[2])
                s.i[r.STATUS, entry[2]] = r.OVER
                append(s, r.OVERS, 0, entry[2])
    read_next(s, engine)


def cancel_in_batch(s: State, lists: Any, engine: int, request: int) -> bool:
    """Stop working on a request; say whether the next event of the engine has changed. A prefill runs to its end."""
    status = s.i[r.STATUS, request]
    if status == r.TRAVELLING:
        free(s, request)
    elif status == r.QUEUED:
        take_out(s, r.WAITING, engine, request)
        free(s, request)
    elif status == r.DECODING and s.i[r.MIXED, engine]:  # decoding stands at a boundary
        stop(s, lists, engine, request)
        free(s, request)
    elif status == r.DECODING:
        s.i[r.STATUS, request] = r.LEAVING
        append(s, r.GOES, engine, request)
        return True
    return False
