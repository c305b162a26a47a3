"""What became of a measured row: predicted beside measured, or refused with the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Outcome", "Refused"]


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
    """By what errors are told apart: gpu, precision, engine, concurrency, k and so on."""
    measured: float
    predicted: float
    half_width: float
    """Half-width of the 95 % interval of log(predicted)."""
    doubt: str | None = None
    """The rule by which the row is not to be trusted, decided without the prediction; None: trusted."""
    alike: tuple[str, ...] = ()
    """What rows share that differ only by the configuration: regret is counted among them. Empty: no choice."""
    configuration: str = ""
    """What is chosen among alike rows."""
    gain: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """``measured`` and ``predicted`` worth of the configuration, larger is better (tokens per second and GPU, speedup)."""

    @property
    def error(self) -> float:
        """Relative error, predicted against measured."""
        return self.predicted / self.measured - 1.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.predicted * math.exp(-self.half_width), self.predicted * math.exp(self.half_width)

    @property
    def covered(self) -> bool:
        """Whether the interval holds the measured value."""
        low, high = self.interval
        return low <= self.measured <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row that is not predicted."""

    where: str
    model: str
    reason: str
