"""What users see of answers under load: first tokens, time per token, ends; and what a server delivers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sim.estimate import Estimate, on_logarithm, ratio_of_totals

__all__ = ["PERCENTILES", "ServedAnswer", "ServedLoad"]

PERCENTILES: Final = (50, 90, 99)
_ROUNDING: Final = 1e-9
_PARTS: Final = 12
"""Parts of the answers in the order of their ends: what a queue does to one, it does to its neighbours."""


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


@dataclass(frozen=True, kw_only=True)
class ServedLoad:
    """What one engine set delivers under a load, warm-up left out."""

    answers: tuple[ServedAnswer, ...] = field(repr=False)
    """Answers that began and ended in the window, in the order of their ends."""
    unended_s: tuple[float, ...] = field(default=(), repr=False)
    """Seconds so far of the answers that began in the window and were in flight at its end."""
    n_ended: int
    """Answers that ended in the window, whenever they began."""
    seconds: float
    """Length of the window, s."""
    tokens: int
    """Tokens that were written in the window and stand."""
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
    seed: int | None = None

    @classmethod
    def together(cls, loads: Sequence[ServedLoad]) -> ServedLoad:
        """Return what independent windows say together, >= 1 of them."""
        seconds = sum(load.seconds for load in loads)
        if len(loads) == 1 or not seconds:
            return loads[0]
        return cls(
            answers=tuple(answer for load in loads for answer in load.answers),
            unended_s=tuple(so_far for load in loads for so_far in load.unended_s),
            n_ended=sum(load.n_ended for load in loads),
            seconds=seconds,
            tokens=sum(load.tokens for load in loads),
            in_flight=sum(load.in_flight * load.seconds for load in loads) / seconds,
            busy={role: sum(load.busy[role] * load.seconds for load in loads) / seconds for role in loads[0].busy},
            preempted=sum(load.preempted for load in loads),
            cache_share=max(load.cache_share for load in loads),
            waited_s=sum(load.waited_s for load in loads),
            seed=loads[0].seed,
        )

    @property
    def tokens_per_s(self) -> float:
        """Tokens written per second."""
        return self.tokens / self.seconds if self.seconds > 0.0 else math.nan

    @property
    def answers_per_s(self) -> float:
        """Ended answers per second."""
        return self.n_ended / self.seconds if self.seconds > 0.0 else math.nan

    def percentiles(self, name: str) -> dict[int, float]:
        """Return percentiles of ``seconds``, ``ttft_s`` or ``tpot_s`` over the answers; NaN where too few ended."""
        values, shares = self._by_size(name)
        if not values.size:
            return dict.fromkeys(PERCENTILES, math.nan)
        if not self.unended_s:
            return {p: float(q) for p, q in zip(PERCENTILES, np.percentile(values, PERCENTILES), strict=True)}
        reached = np.cumsum(shares) if name == "seconds" else np.cumsum(shares) / shares.sum()
        places = np.searchsorted(reached + _ROUNDING, np.array(PERCENTILES) / 100.0)
        return dict(zip(PERCENTILES, np.append(values, math.nan)[places].tolist(), strict=True))

    def mean(self, name: str) -> float:
        """Return the mean of a property over the answers that end within a window's length; NaN where none ended."""
        values, shares = self._by_size(name)
        return float(values @ shares / shares.sum()) if values.size else math.nan

    def seconds_per_token(self) -> Estimate:
        """Return the mean seconds of an answer / its mean tokens, s, from parts of answers that ended together."""
        if not self.answers:
            return on_logarithm(math.nan, math.inf, 0, estimator="no answer ended")
        totals = []
        for name in ("seconds", "tokens"):
            values = self._shares * [getattr(answer, name) for answer in self.answers]
            totals.append([part.sum() for part in np.array_split(values, min(_PARTS, values.size))])
        return ratio_of_totals(*totals, unit="s", seed=self.seed)

    def good_share(self, *, ttft_s: float | None = None, tpot_s: float | None = None) -> float:
        """Return the share of the answers that meet both bounds, in [0, 1]; NaN where none ended."""
        good = np.array(
            [
                (ttft_s is None or answer.ttft_s <= ttft_s) and (tpot_s is None or answer.tpot_s <= tpot_s)
                for answer in self.answers
            ],
            dtype=np.float64,
        )
        return float(good @ self._shares / self._shares.sum()) if good.size else math.nan

    def in_vain(self, role: str) -> float:
        """Return tokens that the ``draft`` or the ``target`` wrote in vain per token that stands, [-]."""
        tokens = sum(answer.tokens for answer in self.answers)
        return sum(getattr(answer, f"{role}_in_vain") for answer in self.answers) / tokens if tokens else math.nan

    @cached_property
    def _shares(self) -> NDArray[np.float64]:
        """Share of all answers that each ended one stands for, shape (answers,); they sum to 1 at most.

        An answer that has not ended takes longer than so far, so that those as long stand for it too (Kaplan and Meier
        1958). Without this, windows would favour short answers.
        """
        seconds = np.array([answer.seconds for answer in self.answers], dtype=np.float64)
        order = np.argsort(seconds, kind="stable")
        going = seconds.size - np.arange(seconds.size)
        going += len(self.unended_s) - np.searchsorted(np.sort(self.unended_s), seconds[order])
        shares = np.empty(seconds.size)
        shares[order] = -np.diff(np.cumprod(1.0 - 1.0 / going), prepend=1.0)
        return shares

    def _by_size(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of a property in order, with their shares."""
        values = np.array([getattr(answer, name) for answer in self.answers], dtype=np.float64)
        order = np.argsort(values, kind="stable")
        return values[order], self._shares[order]
