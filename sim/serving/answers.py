"""What users see of answers under load: first tokens, pace, ends; and what a server delivers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.estimate import Estimate, mean

__all__ = ["PERCENTILES", "ServedAnswer", "ServedLoad"]

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """One answer, moments in seconds of virtual time."""

    arrived_s: float
    first_s: float
    """First token that its user sees: of methods that write steps, the end of the first step that stands."""
    ended_s: float
    tokens: int
    draft_in_vain: int = 0
    """Tokens that the draft wrote and that do not stand."""
    target_in_vain: int = 0

    @property
    def seconds(self) -> float:
        """From its arrival to its end."""
        return self.ended_s - self.arrived_s

    @property
    def ttft_s(self) -> float:
        """Time to first token, s."""
        return self.first_s - self.arrived_s

    @property
    def tpot_s(self) -> float:
        """Time per output token after the first, s."""
        return (self.ended_s - self.first_s) / max(self.tokens - 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLoad:
    """What one engine set delivers under a load, warm-up left out."""

    answers: tuple[ServedAnswer, ...] = field(repr=False)
    """Answers that ended in the window, in that order."""
    seconds: float
    """Length of the window, s."""
    tokens: int
    """Tokens that were committed in the window."""
    in_flight: float
    """Answers in flight, mean over the window."""
    busy: dict[str, float]
    """Role to the share of the window in which its engine worked, in [0, 1]."""
    preempted: int = 0
    """Requests of the target that lost their place in the cache, over the whole run."""
    cache_share: float = 0.0
    """Most of the target's cache that was in use, in [0, 1]; 0 where it is without end."""
    waited_s: float = 0.0
    """Seconds that requests of the target waited for a place, over the whole run."""
    paces: tuple[float, ...] = field(default=(), repr=False)
    """Tokens per second in equal parts of the window."""
    seed: int | None = None

    @property
    def pace(self) -> Estimate:
        """Tokens per second, with the interval that its parts tell."""
        return mean(self.paces, unit="tokens/s", estimator="mean over parts of the window", seed=self.seed)

    @property
    def tokens_per_s(self) -> float:
        """Committed tokens per second."""
        return self.tokens / self.seconds if self.seconds > 0.0 else math.nan

    @property
    def answers_per_s(self) -> float:
        """Ended answers per second."""
        return len(self.answers) / self.seconds if self.seconds > 0.0 else math.nan

    def percentiles(self, name: str) -> dict[int, float]:
        """Return percentiles of ``seconds``, ``ttft_s`` or ``tpot_s`` over the answers; NaN where none ended."""
        values = [getattr(answer, name) for answer in self.answers]
        if not values:
            return dict.fromkeys(PERCENTILES, math.nan)
        return {p: float(q) for p, q in zip(PERCENTILES, np.percentile(values, PERCENTILES), strict=True)}

    def mean(self, name: str) -> float:
        """Return the mean of a property over the answers; NaN where none ended."""
        values: Sequence[float] = [getattr(answer, name) for answer in self.answers]
        return float(np.mean(values)) if values else math.nan

    def goodput(self, *, ttft_s: float | None = None, tpot_s: float | None = None) -> float:
        """Return the answers per second that meet both bounds, 1/s."""
        good = sum(
            (ttft_s is None or answer.ttft_s <= ttft_s) and (tpot_s is None or answer.tpot_s <= tpot_s)
            for answer in self.answers
        )
        return good / self.seconds if self.seconds > 0.0 else math.nan

    def in_vain(self, role: str) -> float:
        """Return tokens that the ``draft`` or the ``target`` wrote in vain per token that stands, [-]."""
        tokens = sum(answer.tokens for answer in self.answers)
        return sum(getattr(answer, f"{role}_in_vain") for answer in self.answers) / tokens if tokens else math.nan
