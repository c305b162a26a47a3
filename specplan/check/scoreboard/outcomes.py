"""What became of a measured row: predicted, next to the measured value, or refused with the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Choice", "Outcome", "Refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A row as one of several options."""

    goal: str
    """What is chosen and for what, in words."""
    alike: tuple[str, ...]
    """What the options share."""
    option: str
    measured: float
    """Worth of the option as measured, larger is better."""
    predicted: float
    """Worth of the option as predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A row that was predicted."""

    where: str
    """File and line."""
    quantity: str
    """What was measured: ``time per iteration``, ``time per output token``, ``time to first token`` or ``speedup``."""
    unit: str
    model: str
    labels: Mapping[str, str]
    """By which errors are grouped: gpu, precision, engine, concurrency, k and so on."""
    measured: float
    predicted: float
    interval: tuple[float, float]
    """The 95 % interval of the measured value."""
    doubt: str | None = None
    """The rule by which the row is not to be trusted, decided without the prediction; None: trusted."""
    wide: str | None = None
    """Why operators are known not to explain the row, so that it has a wide interval; None: they do."""
    choices: tuple[Choice, ...] = ()
    """The choices in which this row is one of the options."""

    @property
    def counts(self) -> bool:
        """Whether the row is scored with the others: trusted, and modelled."""
        return self.doubt is None and self.wide is None

    @property
    def error(self) -> float:
        """Relative error, predicted against measured."""
        return self.predicted / self.measured - 1.0

    @property
    def covered(self) -> bool:
        """Whether the interval holds the measured value."""
        low, high = self.interval
        return low <= self.measured <= high

    def as_predicted(self, value: float) -> Outcome:
        """Return the same row with another prediction, which has no interval.

        Choices that do not follow from the prediction are left out; doing nothing is worth 1 to everyone.
        """
        worth = {1.0: 1.0, self.predicted: value, 1.0 / self.predicted: 1.0 / value}
        choices = tuple(replace(one, predicted=worth[one.predicted]) for one in self.choices if one.predicted in worth)
        return replace(self, predicted=value, interval=(math.nan, math.nan), choices=choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row that is not predicted."""

    where: str
    model: str
    reason: str
