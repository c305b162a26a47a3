"""The passes of a request with token-level speculation: how many there are, and what the first of them commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Passes"]


class Passes:
    """The passes of a request after its first token.

    An engine needs their number, and only for a request that is cut short also how many tokens they have committed by
    then: that is computed at its first use, so that a request takes the same memory whatever its length.

    Parameters
    ----------
    n : passes, >= 0.
    ends : returns the tokens that the first 1, 2, ..., ``n`` passes commit in all, shape (n,).
    """

    __slots__ = ("_ends", "_known", "_n")

    def __init__(self, n: int, ends: Callable[[], NDArray[np.integer]]) -> None:
        self._n = n
        self._ends = ends
        self._known: NDArray[np.integer] | None = None

    @classmethod
    def of(cls, tokens: Sequence[int]) -> Self:
        """Return passes by the tokens that each of them commits."""
        return cls(len(tokens), partial(np.cumsum, tokens))

    def __len__(self) -> int:
        return self._n

    def committed(self, n: int) -> int:
        """Return the tokens that the first ``n`` passes commit, 0 <= ``n`` <= their number."""
        if n <= 0:
            return 0
        if self._known is None:
            self._known = self._ends()
        return int(self._known[n - 1])

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of each pass.

        >>> Passes.of((3, 1, 2)).tokens
        (3, 1, 2)
        """
        return tuple(np.diff(self._ends(), prepend=0).tolist()) if self._n else ()
