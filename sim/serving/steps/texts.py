"""What the target's engine keeps of texts: `sim.serving.cache` on arrays. The cache of another engine has no end."""

from __future__ import annotations

import math

from sim.serving.steps import records as r
from sim.serving.steps.records import State

__all__ = ["admit", "forget", "grow", "held", "is_lost", "needs", "release"]


def held(s: State, engine: int) -> float:
    """Tokens that an engine's cache holds for requests in flight; 0 where it has no end."""
    return float(s.f[r.REAL, r.HELD]) if engine == s.i[r.ENGINE, r.WRITES] else 0.0


def is_lost(s: State, engine: int, request: int) -> bool:
    """Whether the text of a request was evicted, and has to be read again."""
    if engine != s.i[r.ENGINE, r.WRITES] or not s.i[r.TEXT, request]:
        return False
    return bool(s.i[r.LOST, s.i[r.OF, request]])


def needs(s: State, request: int) -> float:
    """Tokens by which what is held grows when a request comes in: what it shares counts once."""
    answer, text, own = s.i[r.OF, request], s.i[r.TEXT, request], s.f[r.OWN, request]
    if not text:
        return float(own)
    if s.i[r.USERS, answer]:
        return float(own + max(text - s.f[r.KEPT, answer], 0.0))
    return float(own + max(float(text), s.f[r.UNUSED, answer], 0.0))


def admit(s: State, engine: int, request: int) -> None:
    """Take in a request, and the text before it."""
    if engine != s.i[r.ENGINE, r.WRITES]:
        return
    grown, answer, text = needs(s, request), s.i[r.OF, request], s.i[r.TEXT, request]
    if text:
        if not s.i[r.USERS, answer]:
            s.f[r.KEPT, answer] = max(float(text), s.f[r.UNUSED, answer])
            if s.f[r.UNUSED, answer] >= 0.0:
                unlink(s, answer)
            s.i[r.WHOLE, r.USED] += 1
        elif text > s.f[r.KEPT, answer]:
            s.f[r.KEPT, answer] = text
        s.i[r.USERS, answer] += 1
        s.i[r.LOST, answer] = 0
    grow(s, engine, grown)


def grow(s: State, engine: int, tokens: float) -> None:
    """Count tokens that requests have added."""
    if engine == s.i[r.ENGINE, r.WRITES]:
        s.f[r.REAL, r.HELD] += tokens
        s.f[r.REAL, r.PEAK] = max(s.f[r.REAL, r.PEAK], s.f[r.REAL, r.HELD])
        evict(s)


def release(s: State, engine: int, request: int, own: float, written: float) -> None:
    """Let a request go; its answer's text is now so many tokens long at least."""
    if engine != s.i[r.ENGINE, r.WRITES]:
        return
    s.f[r.REAL, r.HELD] -= own
    if not s.i[r.TEXT, request]:
        return
    answer = s.i[r.OF, request]
    s.i[r.USERS, answer] -= 1
    if written > s.f[r.KEPT, answer]:
        s.f[r.REAL, r.HELD] += written - s.f[r.KEPT, answer]
        s.f[r.KEPT, answer] = written
    if not s.i[r.USERS, answer]:
        s.i[r.WHOLE, r.USED] -= 1
        s.f[r.REAL, r.HELD] -= s.f[r.KEPT, answer]
        if not math.isinf(s.f[r.CAPACITY, engine]):
            link(s, answer)
            evict(s)
    if not s.i[r.WHOLE, r.USED]:
        s.f[r.REAL, r.HELD] = max(s.f[r.REAL, r.HELD], 0.0)  # of rounding


def forget(s: State, engine: int, request: int, own: float) -> None:
    """Let a request go that has lost its place, and the text with it unless another request needs that."""
    release(s, engine, request, own, 0.0)
    if engine == s.i[r.ENGINE, r.WRITES] and s.i[r.TEXT, request] and s.f[r.UNUSED, s.i[r.OF, request]] >= 0.0:
        drop(s, s.i[r.OF, request])


def link(s: State, answer: int) -> None:
    """Put an answer's text behind those that are idle."""
    s.f[r.UNUSED, answer] = s.f[r.KEPT, answer]
    s.f[r.REAL, r.IDLE] += s.f[r.UNUSED, answer]
    s.i[r.BEFORE, answer], s.i[r.BEHIND, answer] = s.i[r.BEFORE, 0], 0
    s.i[r.BEHIND, s.i[r.BEFORE, 0]] = answer
    s.i[r.BEFORE, 0] = answer


def unlink(s: State, answer: int) -> None:
    """Take an answer's text out of those that are idle."""
    s.f[r.REAL, r.IDLE] -= s.f[r.UNUSED, answer]
    s.f[r.UNUSED, answer] = -1.0
    before, behind = s.i[r.BEFORE, answer], s.i[r.BEHIND, answer]
    s.i[r.BEHIND, before], s.i[r.BEFORE, behind] = behind, before


def evict(s: State) -> None:
    """Drop texts that no request uses until the rest fits, the least recently used first."""
    while s.i[r.BEHIND, 0] and s.f[r.REAL, r.HELD] + s.f[r.REAL, r.IDLE] > s.f[r.CAPACITY, s.i[r.ENGINE, r.WRITES]]:
        drop(s, s.i[r.BEHIND, 0])


def drop(s: State, answer: int) -> None:
    """Evict the text of an answer."""
    unlink(s, answer)
    s.i[r.LOST, answer] = 1
    if not s.i[r.BEHIND, 0]:
        s.f[r.REAL, r.IDLE] = 0.0  # forget what rounding has left
