"""What the target's engine keeps of texts: `sim.serving.cache` on arrays. The cache of another engine has no end."""

from __future__ import annotations

import math

from sim.serving.steps import records as r
from sim.serving.steps.records import Rules, State

__all__ = ["admit", "forget", "grow", "held", "is_lost", "needs", "release"]


def held(rules: Rules, s: State, engine: int) -> float:
    """Tokens that an engine's cache holds for requests in flight; 0 where it has no end."""
    return float(s.real[r.HELD]) if engine == rules.engine[r.WRITES] else 0.0


def is_lost(rules: Rules, s: State, engine: int, request: int) -> bool:
    """Whether the text of a request was evicted, and has to be read again."""
    if engine != rules.engine[r.WRITES] or not s.requests[r.TEXT][request]:
        return False
    return bool(s.answers[r.LOST][s.requests[r.OF][request]])


def needs(s: State, request: int) -> float:
    """Tokens by which what is held grows when a request comes in: what it shares counts once."""
    answer, text, own = s.requests[r.OF][request], s.requests[r.TEXT][request], s.sizes[r.OWN][request]
    if not text:
        return float(own)
    if s.answers[r.USERS][answer]:
        return float(own + max(text - s.times[r.KEPT][answer], 0.0))
    return float(own + max(float(text), s.times[r.UNUSED][answer], 0.0))


def admit(rules: Rules, s: State, engine: int, request: int) -> None:
    """Take in a request, and the text before it."""
    if engine != rules.engine[r.WRITES]:
        return
    grown, answer, text = needs(s, request), s.requests[r.OF][request], s.requests[r.TEXT][request]
    if text:
        if not s.answers[r.USERS][answer]:
            s.times[r.KEPT][answer] = max(float(text), s.times[r.UNUSED][answer])
            if s.times[r.UNUSED][answer] >= 0.0:
                unlink(s, answer)
            s.whole[r.USED] += 1
        elif text > s.times[r.KEPT][answer]:
            s.times[r.KEPT][answer] = text
        s.answers[r.USERS][answer] += 1
        s.answers[r.LOST][answer] = 0
    grow(rules, s, engine, grown)


def grow(rules: Rules, s: State, engine: int, tokens: float) -> None:
    """Count tokens that requests have added."""
    if engine == rules.engine[r.WRITES]:
        s.real[r.HELD] += tokens
        s.real[r.PEAK] = max(s.real[r.PEAK], s.real[r.HELD])
        evict(rules, s)


def release(rules: Rules, s: State, engine: int, request: int, own: float, written: float) -> None:
    """Let a request go; its answer's text is now so many tokens long at least."""
    if engine != rules.engine[r.WRITES]:
        return
    s.real[r.HELD] -= own
    if not s.requests[r.TEXT][request]:
        return
    answer = s.requests[r.OF][request]
    s.answers[r.USERS][answer] -= 1
    if written > s.times[r.KEPT][answer]:
        s.real[r.HELD] += written - s.times[r.KEPT][answer]
        s.times[r.KEPT][answer] = written
    if not s.answers[r.USERS][answer]:
        s.whole[r.USED] -= 1
        s.real[r.HELD] -= s.times[r.KEPT][answer]
        if not math.isinf(rules.limits[r.CAPACITY][engine]):
            link(s, answer)
            evict(rules, s)
    if not s.whole[r.USED]:
        s.real[r.HELD] = max(s.real[r.HELD], 0.0)  # of rounding


def forget(rules: Rules, s: State, engine: int, request: int, own: float) -> None:
    """Let a request go that has lost its place, and the text with it unless another request needs that."""
    release(rules, s, engine, request, own, 0.0)
    if (
        engine == rules.engine[r.WRITES]
        and s.requests[r.TEXT][request]
        and s.times[r.UNUSED][s.requests[r.OF][request]] >= 0.0
    ):
        drop(s, s.requests[r.OF][request])


def link(s: State, answer: int) -> None:
    """Put an answer's text behind those that are idle."""
    s.times[r.UNUSED][answer] = s.times[r.KEPT][answer]
    s.real[r.IDLE] += s.times[r.UNUSED][answer]
    s.answers[r.BEFORE][answer], s.answers[r.BEHIND][answer] = s.answers[r.BEFORE][0], 0
    s.answers[r.BEHIND][s.answers[r.BEFORE][0]] = answer
    s.answers[r.BEFORE][0] = answer


def unlink(s: State, answer: int) -> None:
    """Take an answer's text out of those that are idle."""
    s.real[r.IDLE] -= s.times[r.UNUSED][answer]
    s.times[r.UNUSED][answer] = -1.0
    before, behind = s.answers[r.BEFORE][answer], s.answers[r.BEHIND][answer]
    s.answers[r.BEHIND][before], s.answers[r.BEFORE][behind] = behind, before


def evict(rules: Rules, s: State) -> None:
    """Drop texts that no request uses until the rest fits, the least recently used first."""
    while s.answers[r.BEHIND][0] and s.real[r.HELD] + s.real[r.IDLE] > rules.limits[r.CAPACITY][rules.engine[r.WRITES]]:
        drop(s, s.answers[r.BEHIND][0])


def drop(s: State, answer: int) -> None:
    """Evict the text of an answer."""
    unlink(s, answer)
    s.answers[r.LOST][answer] = 1
    if not s.answers[r.BEHIND][0]:
        s.real[r.IDLE] = 0.0  # forget what rounding has left
