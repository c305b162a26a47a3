"""What speculation may lose against plain decoding: an account that bounds it, whatever is believed.

Lost time is booked in answers: the time that answers took, less the time of plain decoding for the same tokens, over
that of a plain answer. What is booked is the largest loss of any stretch of work that ends now and is no longer than
`STRETCH`: gains before a stretch are no credit in it, and older losses do not count. While that is more than `FULL`,
nothing is speculated; a trial may lose only a share, so that after one that met a stall there is another. So no
stretch of so much work loses more than `FULL`, plus what is in progress at the moment at which the account becomes
full, which is two answers at most in trials in virtual time: 3 % of 200 answers in all.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["FULL", "STRETCH", "Budget"]

STRETCH: Final = 200.0
"""Work in which the loss is bounded, in plain answers."""

FULL: Final = 4.0
"""Lost plain answers at which speculation stops; for each 8 answers in flight beyond the first 8, as much again."""

_AGAIN: Final = 2.0 / 3.0
"""Share of a full account below which speculation may begin again."""

_ALIKE: Final = 8.0
"""Answers in flight up to which the account has the same size."""


class Budget:
    """The account.

    Attributes
    ----------
    full : whether nothing may be speculated.
    """

    def __init__(self) -> None:
        self.full = False
        self._lost = self._worked = self._before = 0.0
        self._lows = deque([(0.0, 0.0)])
        """Losses below all later ones, and until when, in work, no more was lost; both rise."""

    @property
    def lost(self) -> float:
        """The largest loss of a stretch that ends now, in plain answers, >= 0."""
        return self._lost - self._lows[0][0]

    def book(self, lost: float, work: float) -> None:
        """Book the loss (negative: gain) of a piece of work, both in plain answers."""
        self._worked += work
        self._lows[-1] = self._lost, self._worked
        self._lost += lost
        while self._lows and self._lows[-1][0] >= self._lost:
            self._lows.pop()
        self._lows.append((self._lost, self._worked))
        while self._lows[0][1] < self._worked - STRETCH:
            self._lows.popleft()

    def begins(self) -> None:
        """Handle a beginning of speculation: from now on its share is counted beyond what was lost before."""
        self._before = self.lost

    def check(self, in_flight: int, pending: float = 0.0, share: float = 1.0) -> bool:
        """Return whether speculation may run, with so many answers in flight.

        Parameters
        ----------
        in_flight : >= 1; with many, the least trial is larger, as all of them switch together.
        pending : loss that is visible but not booked, in plain answers.
        share : of a full account, that may be lost from the beginning of speculation on, in (0, 1]; in all no more than
            the middle between it and 1.
        """
        size = FULL * max(in_flight / _ALIKE, 1.0)
        if self.lost + pending >= min(self._before + share * size, (1.0 + share) / 2.0 * size):
            self.full = True
        elif self.lost <= _AGAIN * size:
            self.full = False
        return not self.full
