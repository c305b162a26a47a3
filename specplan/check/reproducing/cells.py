"""What a published number has beside it: a prediction, and what one constant of other data sets makes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Compared", "LeftOut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A published number and its prediction, in the same unit."""

    predicted: float
    """With nothing fitted to the table."""
    published: float

    @property
    def error(self) -> float:
        """Predicted / published - 1, nothing fitted, [-]."""
        return self.predicted / self.published - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut(Compared):
    """One whose own data set was left out where a constant was fitted."""

    left_out: float = math.nan
    """With the constant of the other data sets."""
    low: float = math.nan
    """Lower end of the 95 % interval of ``left_out``."""
    high: float = math.nan

    @property
    def left_out_error(self) -> float:
        """The same as ``error`` with the constant, [-]."""
        return self.left_out / self.published - 1.0

    @property
    def covered(self) -> bool:
        """The interval contains what is published."""
        return self.low <= self.published <= self.high
