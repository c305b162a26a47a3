"""What speculation may lose against plain decoding: an account that bounds it, whatever is believed.

Lost time is booked in answers: the time that answers took, less the time of plain decoding for the same tokens, over
that of a plain answer. What is booked is the largest loss of any stretch of work that ends now and is no longer than
`STRETCH`: gains before a stretch are no credit in it, and older losses do not count. While that is more than `FULL`,
nothing is speculated; a trial may lose only a share, so that after one that met a stall there is another. What a change
costs before anything runs by the new configuration is lost whether or not a trial goes on, so that it is no reason to
end one: it counts only towards `FULL`. So does the time in which answers have written nothing, which is lost if they
are broken off. So no stretch of so much work loses more than `FULL`, plus what it takes to return: 3 % of 200 answers
in all.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["FULL", "STRETCH", "Budget"]

STRETCH: Final = 220.0
"""Work in which the loss is bounded, in plain answers: 200, and a tenth as their mean length is not known better."""

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

    def book(self, lost: float, work: float, *, sunk: bool = False) -> None:
        """Book the loss (negative: gain) of a piece of work, in plain answers; ``sunk``: it uses no share."""
        self._worked += work
        self._before += sunk * lost
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

    def pays(self, cost: float, in_flight: int) -> bool:
        """Return whether there is room for a loss, in plain answers."""
        return not self.lost or self.lost + cost < _size(in_flight)

    def check(self, in_flight: int, silent: float = 0.0, most: float = 1.0, share: float = 1.0) -> bool:
        """Return whether speculation may run.

        Parameters
        ----------
        in_flight, silent, most : as of `over`.
        share : of a full account, that may be lost from the beginning of speculation on, in (0, 1].
        """
        size = _size(in_flight)
        if not self.over(in_flight, silent, most):
            self.full = self.lost >= self._before + share * size or (self.full and self.lost > _AGAIN * size)
        return not self.full

    def over(self, in_flight: int, silent: float = 0.0, most: float = 1.0) -> bool:
        """Return whether too much is lost if work in progress is broken off now: then the account is full.

        Parameters
        ----------
        in_flight : answers, >= 1; with many, the least trial is larger, as all of them switch together.
        silent : work in progress, in plain answers.
        most : of a full account, that may be lost so, in (0, 1].
        """
        over = self.lost + silent >= most * _size(in_flight)
        self.full = self.full or over
        return over


def _size(in_flight: int) -> float:
    return FULL * max(in_flight / _ALIKE, 1.0)
