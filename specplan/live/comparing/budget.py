"""What speculation may lose against plain decoding: an account that bounds it, whatever is believed.

Lost time is booked in answers: the time that answers took, less the time of plain decoding for the same tokens, over
that of a plain answer. A gain lowers what is booked, and a small share of all work is forgiven, but both only down to a
small credit (Page's cumulative sum), which a stall of the whole machine may use up. While the account is full, nothing
is speculated. So over any stretch of work the loss is at most

    FULL + CREDIT + FORGIVEN * (answers of the stretch)

plus what is in progress at the moment at which the account becomes full: over 200 answers 4.5, or 2.25 %.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CREDIT", "FORGIVEN", "FULL", "Budget"]

FULL: Final = 2.0
"""Lost plain answers at which speculation stops; for each 8 answers in flight beyond the first 8, as much again."""

CREDIT: Final = 1.0
"""Most plain answers that the account holds in credit; it begins with none."""

FORGIVEN: Final = 0.0075
"""Share of all work that may be lost in the long run."""

_AGAIN: Final = 0.5
"""Share of a full account below which speculation may begin again."""

_ALIKE: Final = 8.0
"""Answers in flight up to which the account has the same size."""


class Budget:
    """The account.

    Attributes
    ----------
    lost : booked loss, in plain answers, >= -CREDIT.
    full : whether nothing may be speculated.
    """

    def __init__(self) -> None:
        self.lost = 0.0
        self.full = False

    def book(self, lost: float, work: float) -> None:
        """Book the loss (negative: gain) of a piece of work, both in plain answers."""
        self.lost = max(self.lost + lost - FORGIVEN * work, -CREDIT)

    def check(self, in_flight: int, pending: float = 0.0) -> bool:
        """Return whether speculation may run, with so many answers in flight.

        Parameters
        ----------
        in_flight : >= 1; with many, the least trial is larger, as all of them switch together.
        pending : loss that is visible but not booked, in plain answers.
        """
        limit = FULL * max(in_flight / _ALIKE, 1.0)
        if self.lost + pending >= limit:
            self.full = True
        elif self.lost <= _AGAIN * limit:
            self.full = False
        return not self.full
