"""Rings of answers, and the cache: what `sim.serving.cache` does where an answer has one request at a time."""

from __future__ import annotations

import math
from typing import Any

from sim.serving.loop.records import (
    BEFORE,
    BEHIND,
    HELD,
    IDLE,
    KEPT,
    LOST,
    OWN,
    PEAK,
    STEP,
    TEXT,
    UNUSED,
    USED,
    Requests,
    Rules,
    State,
)

__all__ = ["admit", "append", "drop", "evict", "first_of", "grow", "link", "needs", "release", "unlink"]


def first_of(ring: Any, whole: Any, head: int) -> int:
    """Take the first answer out of a ring."""
    answer = ring[whole[head]]
    whole[head] = (whole[head] + 1) % len(ring)
    whole[head + 1] -= 1
    return int(answer)


def append(ring: Any, whole: Any, head: int, answer: int) -> None:
    """Put an answer at the end of a ring."""
    ring[(whole[head] + whole[head + 1]) % len(ring)] = answer
    whole[head + 1] += 1


def needs(ask: Requests, s: State, answer: int) -> float:
    """Tokens by which what is held grows when a request comes in."""
    text, own = float(ask.ints[TEXT][s.ints[STEP][answer]]), float(s.floats[OWN][answer])
    return own + max(text, float(s.floats[UNUSED][answer])) if text > 0.0 else own


def admit(ask: Requests, rules: Rules, s: State, answer: int) -> None:
    """Take in a request, and the text before it."""
    grown, text = needs(ask, s, answer), float(ask.ints[TEXT][s.ints[STEP][answer]])
    if text > 0.0:
        s.floats[KEPT][answer] = max(text, s.floats[UNUSED][answer])
        if s.floats[UNUSED][answer] >= 0.0:
            unlink(s, answer)
        s.whole[USED] += 1
        s.ints[LOST][answer] = 0
    grow(rules, s, grown)


def grow(rules: Rules, s: State, tokens: float) -> None:
    """Count tokens that requests have added."""
    s.real[HELD] += tokens
    s.real[PEAK] = max(s.real[PEAK], s.real[HELD])
    evict(rules, s)


def release(ask: Requests, rules: Rules, s: State, answer: int, own: float, written: float) -> None:
    """Let a request go; its answer's text is now so many tokens long at least."""
    s.real[HELD] -= own
    if not ask.ints[TEXT][s.ints[STEP][answer]]:
        return
    s.whole[USED] -= 1
    if written > s.floats[KEPT][answer]:
        s.real[HELD] += written - s.floats[KEPT][answer]
        s.floats[KEPT][answer] = written
    s.real[HELD] -= s.floats[KEPT][answer]
    if not math.isinf(rules.capacity):
        link(s, answer)
        evict(rules, s)
    if not s.whole[USED]:
        s.real[HELD] = max(s.real[HELD], 0.0)  # of rounding


def link(s: State, answer: int) -> None:
    """Put an answer's text behind those that are idle."""
    last = len(s.ints[BEFORE]) - 1
    s.floats[UNUSED][answer] = s.floats[KEPT][answer]
    s.real[IDLE] += s.floats[UNUSED][answer]
    s.ints[BEFORE][answer], s.ints[BEHIND][answer] = s.ints[BEFORE][last], last
    s.ints[BEHIND][s.ints[BEFORE][last]] = answer
    s.ints[BEFORE][last] = answer


def unlink(s: State, answer: int) -> None:
    """Take an answer's text out of those that are idle."""
    s.real[IDLE] -= s.floats[UNUSED][answer]
    s.floats[UNUSED][answer] = -1.0
    before, behind = s.ints[BEFORE][answer], s.ints[BEHIND][answer]
    s.ints[BEHIND][before], s.ints[BEFORE][behind] = behind, before


def evict(rules: Rules, s: State) -> None:
    """Drop texts that no request uses until the rest fits, the least recently used first."""
    last = len(s.ints[BEFORE]) - 1
    while s.ints[BEHIND][last] != last and s.real[HELD] + s.real[IDLE] > rules.capacity:
        drop(s, s.ints[BEHIND][last])


def drop(s: State, answer: int) -> None:
    """Evict the text of an answer."""
    unlink(s, answer)
    s.ints[LOST][answer] = 1
    last = len(s.ints[BEFORE]) - 1
    if s.ints[BEHIND][last] == last:
        s.real[IDLE] = 0.0  # forget what rounding has left
