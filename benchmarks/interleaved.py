"""Speeds that other load on the machine does not change: each run beside a run of a yardstick, medians with intervals.

A busy machine slows both runs of a pair alike, so that their ratio stays. The interval of a median is that of order
statistics: it holds for any distribution (David and Nagaraja 2003, Order Statistics, section 7.1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import Any, Final, Self

__all__ = ["Median", "Row", "Yardstick", "seconds_of"]

_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """A median with its interval; the interval is all of the samples where they are fewer than six."""

    low: float
    value: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Self:
        """Of independent samples, with a confidence of 95 % at least from six on."""
        n, ordered = len(samples), sorted(samples)
        cut, beyond = 0, 1 / 2**n  # P(fewer than cut + 1 samples lie below the median)
        while 1.0 - 2.0 * (beyond + comb(n, cut + 1) / 2**n) >= _CONFIDENCE:
            cut += 1
            beyond += comb(n, cut) / 2**n
        return cls(low=ordered[cut], value=median(ordered), high=ordered[n - 1 - cut])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The speed of some work."""

    rate: Median
    """Units of work per CPU second."""
    ratio: Median
    """Rate / the yardstick's beside it, [-]."""

    def plain(self) -> dict[str, list[float]]:
        """As plain data: low end, median and high end."""
        return {name: [m.low, m.value, m.high] for name, m in (("rate", self.rate), ("ratio", self.ratio))}

    @classmethod
    def read(cls, data: dict[str, Any]) -> Self:
        """What `plain` wrote."""
        low, value, high = zip(data["rate"], data["ratio"], strict=True)
        rate, ratio = (Median(low=a, value=b, high=c) for a, b, c in zip(low, value, high, strict=True))
        return cls(rate=rate, ratio=ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """A program of known worth, run before each run of what is measured."""

    work: Callable[[], object]
    amount: float
    """Units of its work."""

    def beside(self, work: Callable[[], object], amount: float | None = None, repeats: int = 9) -> Row:
        """Measure ``work``, which does ``amount`` units, or as many as it returns; an interval needs six runs."""
        rates, ratios = [], []
        for _ in range(repeats):
            unit = self.amount / seconds_of(self.work)[0]
            seconds, done = seconds_of(work)
            units = done if amount is None else amount
            assert isinstance(units, (int, float)), "without an amount, work returns it"
            rates.append(units / seconds)
            ratios.append(rates[-1] / unit)
        return Row(rate=Median.of(rates), ratio=Median.of(ratios))


def seconds_of(work: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds of some work, and what it returns."""
    start = time.process_time()
    done = work()
    return time.process_time() - start, done
