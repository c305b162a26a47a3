"""Which tokens an engine keeps: the texts of answers, and what their requests in flight have added.

Requests of an answer share its text. While none is in flight, the text stays until room is needed, the least recently
used first; the next request then reads it again. An answer is identified by the object that its requests report to.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

__all__ = ["TokenCache"]


class _Text:
    __slots__ = ("requests", "tokens")

    def __init__(self, tokens: float) -> None:
        self.tokens = tokens
        self.requests = 0


class TokenCache:
    """The cache of an engine.

    Parameters
    ----------
    capacity : tokens, > 0; may be infinite.

    Attributes
    ----------
    held : tokens that requests in flight need; above the capacity only if a single request is.
    idle : tokens of texts that no request uses now; held and idle together keep to the capacity.
    peak : most tokens that were held at once.
    """

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.held = self.idle = self.peak = 0.0
        self._is_bounded = math.isfinite(capacity)
        self._used: dict[Hashable, _Text] = {}
        self._idle: dict[Hashable, float] = {}  # least recently used first
        self._lost: set[Hashable] = set()

    def has_lost(self, owner: Hashable) -> bool:
        """Whether the text of an answer was evicted, and has to be read again."""
        return owner in self._lost

    def needs(self, owner: Hashable, text: float, own: float) -> float:
        """Return the tokens by which ``held`` grows when a request comes in: what it shares counts once."""
        if not text:
            return own
        used = self._used.get(owner)
        return own + (max(text, self._idle.get(owner, 0.0)) if used is None else max(text - used.tokens, 0.0))

    def admit(self, owner: Hashable, text: float, own: float) -> None:
        """Take in a request that shares ``text`` tokens with others of its answer and has ``own`` ones."""
        grown = self.needs(owner, text, own)
        if text:
            used = self._used.get(owner)
            if used is None:
                idle = self._idle.pop(owner, 0.0)
                self.idle -= idle
                used = self._used[owner] = _Text(max(text, idle))
            elif text > used.tokens:
                used.tokens = text
            used.requests += 1
            self._lost.discard(owner)
        self.grow(grown)

    def grow(self, tokens: float) -> None:
        """Count tokens that requests have added."""
        self.held += tokens
        self.peak = max(self.peak, self.held)
        if self.held + self.idle > self.capacity:
            self._evict()

    def release(self, owner: Hashable, text: float, own: float, *, written: float = 0.0) -> None:
        """Let a request go; its answer's text is now ``written`` tokens long at least."""
        self.held -= own
        if not text:
            return
        used = self._used[owner]
        used.requests -= 1
        if written > used.tokens:
            self.held += written - used.tokens
            used.tokens = written
        if used.requests == 0:
            del self._used[owner]
            self.held -= used.tokens
            if self._is_bounded:
                self._idle[owner] = used.tokens
                self.idle += used.tokens
                self._evict()
        if not self._used:
            self.held = max(self.held, 0.0)  # of rounding

    def forget(self, owner: Hashable, text: float, own: float) -> None:
        """Let a request go that has lost its place, and the text with it unless another request needs that."""
        self.release(owner, text, own)
        if text and owner in self._idle:
            self._drop(owner)

    def _evict(self) -> None:
        while self._idle and self.held + self.idle > self.capacity:
            self._drop(next(iter(self._idle)))

    def _drop(self, owner: Hashable) -> None:
        self.idle -= self._idle.pop(owner)
        self._lost.add(owner)
        if not self._idle:
            self.idle = 0.0  # forget what rounding has left
