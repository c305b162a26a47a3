"""A published number with its prediction, and its prediction with a constant fitted to other data sets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from specplan.output import percent

__all__ = ["Compared", "LeftOut", "mean_error"]


def mean_error(errors: Iterable[float]) -> str:
    """Return the mean absolute value of errors, in per cent."""
    return percent(fmean(map(abs, errors)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A published number and its prediction, in the same unit."""

    predicted: float
    """Prediction with nothing fitted to the table."""
    published: float

    @property
    def error(self) -> float:
        """Predicted / published - 1 with nothing fitted, [-]."""
        return self.predicted / self.published - 1.0

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "error": self.error}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut(Compared):
    """A published number with a prediction whose constant was fitted without its own data set."""

    left_out: float = math.nan
    """Prediction with the constant of the other data sets."""
    low: float = math.nan
    """Lower end of the 95 % interval of ``left_out``."""
    high: float = math.nan

    @property
    def left_out_error(self) -> float:
        """Predicted / published - 1 with the constant, [-]."""
        return self.left_out / self.published - 1.0

    @property
    def covered(self) -> bool:
        """Whether the interval contains the published value."""
        return self.low <= self.published <= self.high

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "error": self.error, "left_out_error": self.left_out_error, "covered": self.covered}
