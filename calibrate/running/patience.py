"""Pieces of a measurement that are repeated after transient errors of a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from theory.errors import CalibrationError

__all__ = ["Patience"]

T = TypeVar("T")
FIRST_WAIT_S: Final = 0.5
"""Wait before a piece is tried again, s; doubled for each further trial, up to:"""
LONGEST_WAIT_S: Final = 8.0


class Patience:
    """Measures pieces, each of them repeated from its beginning after a transient error of a server.

    Parameters
    ----------
    seconds : time for which a piece is repeated, s; other errors are raised at once.

    Attributes
    ----------
    n_repeated : pieces that were repeated, each time counted.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.n_repeated = 0

    async def __call__(self, once: Callable[[], Awaitable[T]]) -> T:
        """Return what a piece gives.

        Raises
        ------
        CalibrationError : an error that is not transient, or has not passed in time.
        """
        wait, first = FIRST_WAIT_S, None
        while True:
            try:
                return await once()
            except CalibrationError as error:
                first = time.monotonic() if first is None else first
                if not _may_pass(error) or time.monotonic() + wait - first > self._seconds:
                    raise
            self.n_repeated += 1
            await asyncio.sleep(wait)
            wait = min(2.0 * wait, LONGEST_WAIT_S)


def _may_pass(error: BaseException | None) -> bool:
    """Whether an error or one of its causes is marked as transient, so that another trial may succeed."""
    while error is not None:
        if getattr(error, "transient", False):
            return True
        error = error.__cause__
    return False
