"""Which tokens an engine keeps: the texts of answers, and what their requests in flight have added.

Requests of an answer share its text. While none is in flight, the text stays until room is needed, the least recently
used first; the next request then reads it again. An answer is told by whom its requests report to.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

__all__ = ["TokenCache"]


class _Text:
    __slots__ = ("requests", "tokens")

    def __init__(self) -> None:
        self.tokens = 0.0
        self.requests = 0


class TokenCache:
    """The cache of an engine.

    Parameters
    ----------
    capacity : tokens, > 0; may be infinite.

    Attributes
    ----------
    used : tokens in it.
    peak : most tokens that were in it.
    """

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.used = 0.0
        self.peak = 0.0
        self._texts: dict[Hashable, _Text] = {}  # least recently used first

    def missing(self, owner: Hashable, context: float, new: float) -> float:
        """Return what a request has to read: what is new to the model, and what was evicted of the text before it."""
        text = self._texts.get(owner)
        known = 0.0 if text is None else min(text.tokens, context)
        return max(new, context - known)

    def admit(self, owner: Hashable, context: float, extra: float, *, force: bool) -> bool:
        """Take a request in, whose text is ``context`` long, with ``extra`` tokens of its own; say whether it fits.

        Parameters
        ----------
        owner : the answer.
        context : tokens of the text that it shares with other requests.
        extra : tokens that only it has.
        force : take it in whatever there is room for: nothing else runs.
        """
        text = self._texts.pop(owner, None) or _Text()
        grown = max(context - text.tokens, 0.0)
        fits = self._make_room(grown + extra) or force
        if fits:
            text.requests += 1
            text.tokens += grown
            self._take(grown + extra)
        if fits or text.tokens:
            self._texts[owner] = text
        return fits

    def grow(self, tokens: float) -> None:
        """Count tokens that requests have generated."""
        self._take(tokens)

    @property
    def idle(self) -> float:
        """Tokens of texts that no request uses now."""
        return sum(text.tokens for text in self._texts.values() if not text.requests)

    def room(self) -> float:
        """Return the tokens that still fit, idle texts evicted as need be."""
        return math.inf if math.isinf(self.capacity) else self.capacity - self.used + self.idle

    def make_room(self, tokens: float) -> bool:
        """Evict idle texts until so many tokens fit; say whether they do."""
        return self._make_room(tokens)

    def release(self, owner: Hashable, own: float, *, forget: bool = False) -> None:
        """Let a request go with the tokens that only it had; ``forget`` its text too, if no other request needs it."""
        self.used -= own
        text = self._texts.get(owner)
        if text is None:
            return
        text.requests -= 1
        if forget and text.requests == 0:
            self.used -= text.tokens
            del self._texts[owner]

    def _take(self, tokens: float) -> None:
        self.used += tokens
        self.peak = max(self.peak, self.used)

    def _make_room(self, tokens: float) -> bool:
        if self.used + tokens <= self.capacity:
            return True
        for owner in [owner for owner, text in self._texts.items() if not text.requests]:
            self.used -= self._texts.pop(owner).tokens
            if self.used + tokens <= self.capacity:
                return True
        return False
