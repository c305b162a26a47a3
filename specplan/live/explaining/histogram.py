"""Prometheus histograms: counts of observations by bucket, and their exact sum."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, Self

from calibrate.engines.prometheus import Sample, counted
from theory.errors import SchemaError

__all__ = ["Histogram"]

_COLD: Final = 10.0
"""A cold start takes more than so many medians: models are loaded, kernels compiled and graphs captured."""
_MOST_COLD: Final = 0.1
"""Largest share of cold starts; a larger one is a class of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Observations by bucket, summed over all engines of a server."""

    bounds: tuple[float, ...]
    """Upper ends of the buckets, ascending, the last one infinite."""
    counts: tuple[float, ...]
    """Observations in each bucket (not cumulative), >= 0."""
    total: float
    """Sum of the observations, in their unit."""

    @classmethod
    def read(cls, samples: Iterable[Sample], name: str) -> Self | None:
        """Read the histogram ``name`` from samples; None where there is none.

        Raises
        ------
        SchemaError : its buckets are not cumulative, or it lacks its sum.
        """
        below: dict[float, float] = {}
        total = math.nan
        for sample in samples:
            if sample.name == f"{name}_bucket":
                try:
                    bound = float(sample.labels["le"])
                except (KeyError, ValueError):
                    raise SchemaError(f"metrics: {name}_bucket: needs a label 'le' that is a number") from None
                below[bound] = below.get(bound, 0.0) + counted(sample)
            elif sample.name == f"{name}_sum":
                total = counted(sample) if math.isnan(total) else total + counted(sample)
        if not below:
            return None
        bounds = tuple(sorted(below))
        counts = tuple(high - low for low, high in pairwise((0.0, *(below[bound] for bound in bounds))))
        if math.isnan(total) or min(counts) < 0.0 or bounds[-1] != math.inf:
            raise SchemaError(f"metrics: {name}: must have cumulative buckets up to +Inf, and a sum")
        return cls(bounds=bounds, counts=counts, total=total)

    @property
    def count(self) -> float:
        """Observations."""
        return math.fsum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of the observations; NaN without any."""
        return self.total / self.count if self.count else math.nan

    @property
    def _buckets(self) -> list[tuple[float, float, float]]:
        """Lower end, upper end and count of each bucket."""
        return list(zip((0.0, *self.bounds[:-1]), self.bounds, self.counts, strict=True))

    @property
    def deviation(self) -> float:
        """Standard deviation if observations are uniform within buckets: rough, biased upwards, for error bars only."""
        if not self.count:
            return math.nan
        middles = [(low + high) / 2.0 if math.isfinite(high) else 1.5 * low for low, high, _ in self._buckets]
        mean = math.fsum(c * x for c, x in zip(self.counts, middles, strict=True)) / self.count
        spread = [
            c * ((x - mean) ** 2 + (2.0 * (x - low)) ** 2 / 12.0)
            for (low, _, c), x in zip(self._buckets, middles, strict=True)
        ]
        return math.sqrt(math.fsum(spread) / self.count)

    def since(self, earlier: Histogram) -> Histogram:
        """Return the observations since an earlier reading; counts below 0 show that it was not earlier."""
        before = dict(zip(earlier.bounds, earlier.counts, strict=True))
        counts = tuple(c - before.get(bound, 0.0) for bound, c in zip(self.bounds, self.counts, strict=True))
        return Histogram(bounds=self.bounds, counts=counts, total=self.total - earlier.total)

    def above(self, bound: float) -> float:
        """Return the count of buckets that lie wholly above ``bound``."""
        return math.fsum(c for low, _, c in self._buckets if low >= bound)

    def below(self, bound: float) -> float:
        """Return the count of buckets that lie wholly at or below ``bound``."""
        return math.fsum(c for _, high, c in self._buckets if high <= bound)

    def without_cold_starts(self) -> tuple[Histogram, float]:
        """Return the histogram with its cold starts as long as the mean of the others, and the number of cold starts.

        Cold starts are observations of more than `_COLD` times the median, if they are at most `_MOST_COLD` of all.
        """
        reached = list(accumulate(self.counts))
        middle = next((i for i, n in enumerate(reached) if 2.0 * n >= self.count), 0)
        bound = _COLD * self.bounds[middle]
        n_cold = self.above(bound)
        if not 0.0 < n_cold <= _MOST_COLD * self.count:
            return self, 0.0
        rest = self.total - math.fsum(self.largest(n_cold)) / 2.0
        counts = [0.0 if low >= bound else c for low, _, c in self._buckets]
        counts[middle] += n_cold
        total = rest * self.count / (self.count - n_cold)
        return Histogram(bounds=self.bounds, counts=tuple(counts), total=total), n_cold

    def largest(self, n: float) -> tuple[float, float]:
        """Return bounds on the sum of the ``n`` largest observations, from buckets, sum and mean."""
        n = min(n, self.count)
        if n <= 0.0:
            return 0.0, 0.0
        least = most = others = 0.0  # the lower ends of the largest, their upper ends, and the lower ends of the others
        left = n
        for lower, upper, count in reversed(self._buckets):
            taken = min(count, left)
            least += taken * lower
            most += taken * upper if taken else 0.0
            others += (count - taken) * lower
            left -= taken
        return max(n * self.mean, least), min(most, self.total - others)  # the largest are no smaller than the mean
