"""What the loop reads and writes: rows of numbers in two arrays, whole ones and others.

A row has an entry for each step, node, place, answer, request or engine; the names below say which row is what. Two
arrays and not one for each kind, because each argument of a compiled function is counted at each call.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["Prices", "Rules", "State"]

BOUNDARY: Final = 1e-6
"""Iterations, as in `sim.serving.engine`: progress this near to a whole number is at the boundary."""


class Rules(NamedTuple):
    """What holds during the run: the schedule, and what there is room for."""

    window: int
    """Positions that may have requests in flight."""
    prefetches: bool
    cancels_late: bool
    """Whether a draft that is not there when the target's step is counts as refused at once."""
    late_in_order: bool
    in_order: bool
    """Whether decisions take effect when the position is the root."""
    reject_first: bool
    reject_after_cut: bool
    cancels_at_end: bool
    overhead: int
    """Tokens that a verifier reads besides the two steps."""
    ring: int
    """Nodes of an answer that are kept."""
    slab: int
    """Steps of an answer that are kept."""
    answers: int
    """Answers that there is room for."""


WRITES, DRAFTS, JUDGES, ASKS = range(4)
"""Who is asked: target, draft, judge; and the user, who wrote the prompt."""


class Prices(NamedTuple):
    """What iterations cost, as far as it was asked for."""

    lines: Any
    """By engine and batch, two rows an engine: seconds of an iteration without context, NaN where not yet known, and of
    a token of context."""
    readings: Any
    """By engine and `slot_of`, three rows an engine: the batch beside which prompts are read, -1 where nothing is
    known, the tokens that are read, and the seconds of the reading."""


class State(NamedTuple):
    """What changes, and what the engines are."""

    i: Any
    """Whole numbers, a row for each name below, as long as the longest needs."""
    f: Any
    """The others."""


OWN_TOKENS, DRAFT_TOKENS, PASSES, IS_GOOD, OWN_CUT, DRAFT_CUT = range(6)
"""By place and position: tokens of the target's step and of the draft's, iterations after the target's first token,
whether the draft is accepted, and which steps were cut."""

(CONTEXT, LENGTH, BY, IS_CUT, TARGET, DRAFT, VERIFY, CHILD, NEXT, DECIDED, WINNER, WAITS) = range(6, 18)
"""By place and position in the ring: tokens of the text so far, and of its last step, by whom and whether it was cut;
requests of target, draft and judge; `FROM_DRAFT`, `FOLLOWS` or 0; the step that follows, `DRAFTED`, `WRITTEN` or 0;
flags."""
NONE, DONE, GONE = -1, -2, -3
"""In place of a request: not asked yet, delivered, cancelled."""
FROM_DRAFT, FOLLOWS = 1, 2
DRAFTED, WRITTEN = 1, 2

(ANSWER, LAST, ROOT, TAIL) = range(18, 22)
"""By place: number of its answer, position of the last step, of the root, and of the last node."""

(TOKENS, USERS, LOST, BEFORE, BEHIND, ORDER) = range(22, 28)
"""By answer, the first entry for the ends of the ring of texts: tokens committed; requests that use its text on the
target's engine; whether that was evicted; neighbours among texts not in use; answers by the order of their ends."""
(STARTED, FIRST_S, ENDED_S, KEPT, UNUSED) = range(5)
"""By answer, not whole: seconds of virtual time, NaN: not yet; tokens of the text in use, and not in use, -1:
nothing."""

(OF, PLACE, POSITION, ROLE, STATUS, FINISH, NUMBER, LEFT, BEGAN, IS_CANCELLED, TEXT, KEY, STACK) = range(28, 41)
"""By request, the first entry where there is no room for another: its answer, place, position and role; what
`sim.serving.request.Request` has; its key, which no other request has or had; requests that are free, as a stack."""
(DEPTH, OWN, NEW, TO_READ, MEAN, PER_PASS, SINCE) = range(5, 12)
"""By request, not whole: as in `sim.serving.request.Request`."""
TRAVELLING, QUEUED, READING, DECODING, LEAVING, OVER = range(6)

(MIXED, BATCH, BOUND, PLAN, NUMBERS, PREEMPTED, WAS_BUSY, N_BUSY) = range(41, 49)
"""By engine: whether prompts are read; sequences that decode; the next boundary; number of the plan that holds;
requests that got a number; places lost; whether it was busy; by device: engines that are."""
(PROGRESS, TAU, CACHED, GROWTH, GROWN_AT, WORK, SETTLED, RESTING, SPEED, BUSY, WAITED, READ) = range(12, 24)
"""By engine, not whole: as in `sim.serving.engine.ServingEngine`; tokens of prompts that are read."""

(ENGINE, DEVICE, IS_SHARED, SERVES) = range(49, 53)
"""By role: its engine. By engine: number of its device, whether that has other engines, and whether it reads prompts
beside decoding (`sim.serving.engine`), or before (`sim.engines.batching`)."""
(CAPACITY, MOST, BATCHED, ROWS, CHUNKED, REQUEST_S, WAKING_S, LEAST, SHARE) = range(24, 33)
"""By engine, not whole: as in `sim.serving.limits`, the latency of a request and of waking, s, and
`JoiningCost.joins`."""
(WAITING, READS, GOES, CHUNKS, OVERS) = range(53, 68, 3)
"""Queues, a row for each engine, and `OVERS` one for all: requests that wait, are read, leave; those of which the
iteration reads something; those that have ended and are to be delivered."""
(N_WAITING, N_READS, N_GOES, N_CHUNKS, N_OVERS) = range(66, 71)
"""By engine: how many there are in each queue."""
READ_TOKENS: Final = 33
"""Not whole, a row for each engine: tokens that the iteration reads of each of `CHUNKS`."""
WHOLE: Final = 71
REAL: Final = 36
N_ROWS, N_REAL_ROWS, N_WHOLE = 72, 37, 14
(EVENTS, KEYS, FREE, PRICED, ARRIVED, NEXT_ANSWER, LOADED, ENDED, MODE, EVERY, PASSED, LOOKED, NO_ROOM, USED) = range(
    14
)
"""Of the row `WHOLE`: events scheduled; keys given; free requests; the engine whose iteration has no price yet, -1:
none, and whether it began with a request that arrived; the answer that begins next, and up to which they are loaded;
answers ended; when to stop: `BY_TOKENS`, `BY_TIME` or `BY_COMMITS`, after how many events to look, events since,
answers that have committed; whether an array is full; texts in use."""
(NOW, TOTAL, WANTED, HELD, IDLE, PEAK) = range(6)
"""Of the row `REAL`: seconds of the clock; tokens committed; those, or the seconds, at which to stop; tokens held by
the target's cache, idle, and most held."""
BY_TOKENS, BY_TIME, BY_COMMITS = range(3)

START, CANCEL, COMMIT, END, LAUNCH = range(5)
"""What a schedule does: begin a request, cancel one, commit tokens, end, begin an answer."""
ARRIVES, CHANGES = range(2)
"""What happens on an engine."""
