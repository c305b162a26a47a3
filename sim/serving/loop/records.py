"""What the loop reads and writes: rows of numbers, lists in Python and arrays where it is compiled.

A row has an entry for each answer, or for each request; the names below say which row is what. Few arrays rather than
one for each name, because all of them are arguments of each compiled function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Prices", "Requests", "Rules", "State"]


class Requests(NamedTuple):
    """The requests to run; those of an answer follow each other."""

    first: Any
    """Number of each answer's first request, shape (answers + 1,)."""
    ints: Any
    """Rows by request, shape (3, requests): `TEXT`, `FRESH`, `PASSES`."""
    floats: Any
    """Rows by request, shape (2, requests): `PER_PASS`, `MEAN`."""


TEXT, FRESH, PASSES = range(3)
"""Tokens before what it writes; of these, tokens that the engine has not read; iterations after its first token."""
PER_PASS, MEAN = range(2)
"""Tokens of an iteration, mean; its mean context over its life, tokens."""


class Rules(NamedTuple):
    """What holds during the run."""

    answers: int
    capacity: float
    """Tokens of the cache."""
    most: int
    """Sequences at once."""
    batched: int
    """Rows of an iteration."""
    rows: float
    """Rows of a sequence that decodes."""
    apart: bool
    """Whether prompts have them all, while decoding stops."""
    request_s: float
    waking_s: float
    least: float
    """An iteration that reads prompts takes this share of one that does not, at least (`JoiningCost.joins`)."""
    share: float
    """Share of an iteration that is added to the reading."""
    moments: Any
    """When the first answers begin, s, in order."""
    replaces: bool
    """Whether the next answer begins where one ends."""
    warmup: int
    """Where answers arrive: the answer with whose arrival the window begins."""
    in_flight: int
    """Answers in flight at most."""


class Prices(NamedTuple):
    """What iterations cost, as far as the loop has requested it."""

    lines: Any
    """By batch: seconds of an iteration without context, NaN where not yet known, and of a token of context; shape (2,
    batches + 1)."""
    readings: Any
    """By `slot`: the decoding batch, -1 where nothing is known, the prompt tokens read in the same iteration, and the
    seconds of the reading; shape (3, slots)."""


class State(NamedTuple):
    """What changes."""

    ints: Any
    """Rows by answer, shape (16, answers + 1), the last entry for the ends of rings."""
    floats: Any
    """Rows by answer, shape (11, answers + 1)."""
    whole: Any
    """Whole numbers of the engine and of the window."""
    real: Any
    """The others."""


(STEP, LEFT, BEGAN, FINISH, NUMBER, HAS_BEGUN, LOST, BEFORE, BEHIND, QUEUE, WAY, ORDER, STEP_AT, _, DONE_AT, _) = range(
    16
)
"""Rows of `State.ints`: the request that the answer is at; of it what `sim.serving.engine.Request` has by these names;
whether the answer's text was evicted; neighbours among those whose text is not in use, least recently used first, as a
ring through the last entry; rings of those that wait for a place and of those whose request travels; those that have
ended, in this order; at the window's two ends: the request, and the iterations behind it, -1 before its first token."""
(DEPTH, OWN, NEW, TO_READ, SINCE, ARRIVES, KEPT, UNUSED, STARTED, FIRST_S, ENDED_S) = range(11)
"""Rows of `State.floats`: as in `Request`; when it began to wait, and when it reaches the engine, s; tokens of the
answer's text while a request of it has a place, and while none has, -1 where nothing is kept; seconds of virtual time,
NaN: not yet."""
(PROGRESS, STEPS, BATCH, MIXED, NUMBERS, PREEMPTED, BEGUN, NEXT, MOMENT, ENDED) = range(10)
(HEAD, WAITING, FRONT, TRAVELLING, USED, MARK, UNPLANNED, OVERLOADED, ENDED_AT, _) = range(10, 20)
"""Entries of `State.whole`: iterations done, and until the next change; sequences that decode; whether prompts are
read; requests that got a number; places lost; answers begun, the next to begin, those whose moment has come, those
ended; the two rings' first places and sizes; texts in use; ends of the window passed; whether the next change must be
looked for; whether too many answers are in flight; answers ended at the window's two ends."""
(NOW, CHANGE, HELD, IDLE, PEAK, GROWTH, CONTEXT, TAU, WORK, WRITTEN, BUSY, WAITED, RESTED, EXTRA, READ) = range(15)
(PLANNED, TOKENS_AT, _, SECONDS_AT, _, BUSY_AT, _) = range(15, 22)
"""Entries of `State.real`: the last change and the next one, s; tokens held, idle, most held, and added by an
iteration; cached tokens of those that decode; seconds of their iteration, and of one that reads; tokens written;
seconds worked, waited, and since when it rests; what waking adds, s; tokens that are read; when the next change was
looked for; at the window's two ends: tokens written, infinite where it ends otherwise, and the seconds of the clock and
of work."""
