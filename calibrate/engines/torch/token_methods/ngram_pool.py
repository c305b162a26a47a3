"""The n-grams of a sequence, indexed by their first token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["Gram", "NGramPool"]

Gram: TypeAlias = tuple[int, ...]
"""An n-gram without its first token."""


class NGramPool:
    """Different n-grams, the latest first; adding one again makes it the latest.

    Parameters
    ----------
    per_token : n-grams kept per first token, >= 1. Dropping the others changes no lookup of at most ``per_token``
        n-grams: a lookup returns the latest, and an old n-gram becomes the latest only by being added again.

    >>> pool = NGramPool(per_token=2)
    >>> for gram in ((1, 2, 3), (1, 4, 5), (1, 2, 3), (1, 6, 7)):
    ...     pool.add(gram)
    >>> pool.after(1)
    [(6, 7), (2, 3)]
    """

    def __init__(self, per_token: int) -> None:
        self._per_token = per_token
        self._grams: dict[int, dict[Gram, None]] = {}

    def add(self, gram: Sequence[int]) -> None:
        """Add an n-gram, given with its first token."""
        known = self._grams.setdefault(gram[0], {})
        rest = tuple(gram[1:])
        known.pop(rest, None)
        known[rest] = None
        if len(known) > self._per_token:
            del known[next(iter(known))]

    def after(self, token: int) -> list[Gram]:
        """The n-grams that begin with ``token``, without it, the latest first."""
        return list(reversed(self._grams.get(token, {})))

    def copy(self) -> NGramPool:
        """An independent pool with the same n-grams."""
        twin = NGramPool(self._per_token)
        twin._grams = {token: dict(grams) for token, grams in self._grams.items()}
        return twin
