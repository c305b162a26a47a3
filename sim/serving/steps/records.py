"""What the loop reads and writes: rows of numbers, lists in Python and arrays where it is compiled.

A row has an entry for each step, node, place, answer, request or engine; the names below say which row is what.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["Prices", "Rules", "State"]

BOUNDARY: Final = 1e-6
"""Iterations, as in `sim.serving.engine`: progress this near to a whole number is at the boundary."""


class Rules(NamedTuple):
    """What holds during the run: the schedule, the engines' limits, and sizes of arrays."""

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
    engine: Any
    """Engine of `WRITES`, `DRAFTS` and `JUDGES`."""
    device: Any
    """Number of each engine's device."""
    shared: Any
    """Whether each engine's device has other engines."""
    serves: Any
    """Whether each engine reads prompts beside decoding (`sim.serving.engine`), or before (`sim.engines.batching`)."""
    limits: Any
    """Rows by engine: `CAPACITY` and what follows it."""


WRITES, DRAFTS, JUDGES, ASKS = range(4)
"""Who is asked: target, draft, judge; and the user, who wrote the prompt."""
(CAPACITY, MOST, BATCHED, ROWS, CHUNKED, REQUEST_S, WAKING_S, LEAST, SHARE) = range(9)
"""Of `Rules.limits`: as in `sim.serving.limits`, the latency of a request and of waking, s, and `JoiningCost.joins`."""


class Prices(NamedTuple):
    """What iterations cost, as far as it was asked for."""

    lines: Any
    """By engine and batch, two rows an engine: seconds of an iteration without context, NaN where not yet known, and of
    a token of context."""
    readings: Any
    """By engine and `slot_of`, three rows an engine: the batch beside which prompts are read, -1 where nothing is
    known, the tokens that are read, and the seconds of the reading."""


class State(NamedTuple):
    """What changes."""

    steps: Any
    """Rows by place and position: `OWN_TOKENS` and what follows it."""
    nodes: Any
    """Rows by place and position in the ring."""
    places: Any
    """Rows by place."""
    answers: Any
    """Rows by answer, the first entry for the ends of the ring of texts."""
    times: Any
    """The same, of numbers that are not whole."""
    requests: Any
    """Rows by request, the first entry where there is no room for another."""
    sizes: Any
    """The same, of numbers that are not whole."""
    engines: Any
    """Rows by engine."""
    work: Any
    """The same, of numbers that are not whole."""
    whole: Any
    real: Any


OWN_TOKENS, DRAFT_TOKENS, PASSES, IS_GOOD, OWN_CUT, DRAFT_CUT = range(6)
"""Of `State.steps`: tokens of the target's step and of the draft's, iterations after the target's first token, whether
the draft is accepted, and which steps were cut."""

(CONTEXT, LENGTH, BY, IS_CUT, TARGET, DRAFT, VERIFY, CHILD, NEXT, DECIDED, WINNER, WAITS) = range(12)
"""Of `State.nodes`: tokens of the text so far, and of its last step, by whom and whether it was cut; requests of
target, draft and judge; `FROM_DRAFT`, `FOLLOWS` or 0; the step that follows, `DRAFTED`, `WRITTEN` or 0; flags."""
NONE, DONE, GONE = -1, -2, -3
"""In place of a request: not asked yet, delivered, cancelled."""
FROM_DRAFT, FOLLOWS = 1, 2
DRAFTED, WRITTEN = 1, 2

(ANSWER, LAST, ROOT, TAIL) = range(4)
"""Of `State.places`: number of its answer, position of the last step, of the root, and of the last node."""

(TOKENS, USERS, LOST, BEFORE, BEHIND, ORDER) = range(6)
"""Of `State.answers`: tokens committed; requests that use its text on the target's engine; whether that was evicted;
neighbours among texts not in use; answers by the order of their ends."""
(STARTED, FIRST_S, ENDED_S, KEPT, UNUSED) = range(5)
"""Of `State.times`: seconds of virtual time, NaN: not yet; tokens of the text in use, and not in use, -1: nothing."""

(OF, PLACE, POSITION, ROLE, STATUS, FINISH, NUMBER, LEFT, BEGAN, IS_CANCELLED, TEXT, KEY, STACK) = range(13)
"""Of `State.requests`: its answer, place, position and role; what `sim.serving.request.Request` has; its key, which no
other request has or had; requests that are free, as a stack."""
(DEPTH, OWN, NEW, TO_READ, MEAN, PER_PASS, SINCE) = range(7)
"""Of `State.sizes`: as in `sim.serving.request.Request`."""
TRAVELLING, QUEUED, READING, DECODING, LEAVING, OVER = range(6)

(MIXED, BATCH, BOUND, PLAN, NUMBERS, PREEMPTED, WAS_BUSY, N_BUSY) = range(8)
"""Of `State.engines`: whether prompts are read; sequences that decode; the next boundary; number of the plan that
holds; requests that got a number; places lost; whether it was busy; by device: engines that are."""
(PROGRESS, TAU, CACHED, GROWTH, GROWN_AT, WORK, SETTLED, RESTING, SPEED, BUSY, WAITED, READ) = range(12)
"""Of `State.work`: as in `sim.serving.engine.ServingEngine`; tokens of prompts that are read."""

(EVENTS, KEYS, FREE, PRICED, ARRIVED, NEXT_ANSWER, LOADED, ENDED, MODE, EVERY, PASSED, LOOKED, NO_ROOM, USED) = range(
    14
)
"""Of `State.whole`: events scheduled; keys given; free requests; the engine whose iteration has no price yet, -1: none,
and whether it began with a request that arrived; the answer that begins next, and up to which they are loaded; answers
ended; when to stop: `BY_TOKENS`, `BY_TIME` or `BY_COMMITS`, after how many events to look, events since, answers that
have committed; whether an array is full; texts in use."""
(NOW, TOTAL, WANTED, HELD, IDLE, PEAK) = range(6)
"""Of `State.real`: seconds of the clock; tokens committed; those, or the seconds, at which to stop; tokens held by the
target's cache, idle, and most held."""
BY_TOKENS, BY_TIME, BY_COMMITS = range(3)

START, CANCEL, COMMIT, END, LAUNCH = range(5)
"""What a schedule does: begin a request, cancel one, commit tokens, end, begin an answer."""
ARRIVES, CHANGES = range(2)
"""What happens on an engine."""
