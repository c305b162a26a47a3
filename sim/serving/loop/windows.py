"""Where the window begins and ends that is counted, and what is there at these moments."""

from __future__ import annotations

import math

from sim.serving.loop.records import (
    BATCH,
    BOUNDARY,
    BUSY,
    BUSY_AT,
    DONE_AT,
    ENDED,
    ENDED_AT,
    FINISH,
    GROWTH,
    HAS_BEGUN,
    LEFT,
    MARK,
    MIXED,
    NOW,
    PASSES,
    PROGRESS,
    SECONDS_AT,
    STEP,
    STEP_AT,
    STEPS,
    TAU,
    TOKENS_AT,
    WRITTEN,
    Requests,
    Rules,
    State,
)

__all__ = ["ends_within", "look_at_marks", "mark"]


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
