"""Lengths of steps: marginal distributions, and their correlation between the two models and along an answer.

Step lengths of draft and target are correlated (a step that is long for one model is often long for the other), and so
are those of consecutive steps. Both correlations are those of a latent Gaussian per position (a Gaussian copula): for
lognormal lengths exactly the correlation of log lengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.random_streams import block_of_normals, rows, stream
from theory.errors import ParameterError

__all__ = ["Fixed", "Lengths", "Lognormal", "Marginal", "ar1"]

Array: TypeAlias = NDArray[np.floating[Any]]
"""Double precision; single where answers are drawn in blocks."""


class Marginal(Protocol):
    """A distribution of counts >= 1, given by its quantiles."""

    @property
    def mean(self) -> float:
        """Mean of the distribution before rounding to whole counts."""

    def at(self, z: Array) -> NDArray[np.int64]:
        """Return the quantiles at the standard normal scores ``z``."""

    def whole(self, z: Array) -> Array:
        """Return the quantiles of `at` as floating-point numbers, without a conversion."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A distribution of one constant count."""

    n: int
    """The count, >= 1."""

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise ParameterError("n", self.n, "must be an integer >= 1")

    @property
    def mean(self) -> float:
        """The count."""
        return float(self.n)

    def at(self, z: Array) -> NDArray[np.int64]:
        """Return the count at every score."""
        return np.full(z.shape, self.n, dtype=np.int64)

    def whole(self, z: Array) -> Array:
        """Return the same as floating-point numbers."""
        return np.full(z.shape, float(self.n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lognormal:
    """A lognormal distribution, rounded to whole counts >= 1."""

    mean: float
    """Mean before rounding, > 0."""
    cv: float
    """Coefficient of variation (standard deviation / mean) before rounding, >= 0."""

    def __post_init__(self) -> None:
        for name, value, least in (("mean", self.mean, "> 0"), ("cv", self.cv, ">= 0")):
            if not math.isfinite(value) or value < 0.0 or (name == "mean" and value == 0.0):
                raise ParameterError(name, value, f"must be finite and {least}")

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.sqrt(math.log1p(self.cv * self.cv))

    def at(self, z: Array) -> NDArray[np.int64]:
        """Return the quantiles at the standard normal scores ``z``."""
        return self.whole(z).astype(np.int64)

    def whole(self, z: Array) -> Array:
        """Return the same as floating-point numbers, of the scores' precision."""
        sigma = self.sigma
        mu = math.log(self.mean) - sigma * sigma / 2.0
        length = sigma * z
        length += mu
        np.exp(length, out=length)
        np.rint(length, out=length)
        np.maximum(length, 1.0, out=length)
        return length


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Step lengths of both models along an answer."""

    target: Marginal
    """Length of a target step, tokens."""
    draft: Marginal
    """Length of a draft step, tokens."""
    correlation: float = 0.0
    """Correlation of the latent scores of draft and target at one position, in [-1, 1]."""
    lag1: float = 0.0
    """Correlation of the latent scores of consecutive steps, in [0, 1)."""
    limit: int | None = None
    """Tokens at which a step is cut (LR: 100); ``None`` for no limit."""

    def __post_init__(self) -> None:
        if not -1.0 <= self.correlation <= 1.0:
            raise ParameterError("correlation", self.correlation, "must be in [-1, 1]")
        if not 0.0 <= self.lag1 < 1.0:
            raise ParameterError("lag1", self.lag1, "must be in [0, 1)")
        if self.limit is not None and (not isinstance(self.limit, int) or self.limit < 1):
            raise ParameterError("limit", self.limit, "must be an integer >= 1 or None")

    def target_scores(self, seed: int, index: int, n: int, block: int = 1) -> Array:
        """Draw the latent scores of answer ``index``'s ``n`` target steps; ``block`` answers share a stream."""
        return self._scores(seed, "lengths/target", index, n, block)

    def draft_scores(self, seed: int, index: int, target_scores: Array, branch: int, block: int = 1) -> Array:
        """Draw the latent scores of the drafts of branch ``branch``, given those of the target.

        Branches are independent given the target. The lag-1 correlation of drafts is ``lag1`` too.
        """
        if self.correlation in (-1.0, 1.0):
            return self.correlation * target_scores
        own = self._scores(seed, f"lengths/draft/{branch}", index, target_scores.size, block)
        return self.correlation * target_scores + math.sqrt(1.0 - self.correlation**2) * own

    def _scores(self, seed: int, name: str, index: int, n: int, block: int) -> Array:
        if block == 1:
            return ar1(stream(seed, name, index).standard_normal(n), self.lag1)
        return _kept_scores(seed, name, index // block, rows(n), block, self.lag1)[:n, index % block].copy()


def block_of_scores(seed: int, name: str, number: int, n: int, block: int, lag1: float) -> Array:
    """Draw the latent scores of a block of answers, shape (n, block), single precision; see `block_of_normals`."""
    return ar1_by_position(block_of_normals(seed, name, number, n, block), lag1)


@lru_cache(maxsize=8)
def _kept_scores(seed: int, name: str, number: int, n: int, block: int, lag1: float) -> Array:
    return block_of_scores(seed, name, number, n, block, lag1)


def ar1_by_position(noise: Any, lag1: float) -> Array:
    """Apply `ar1` in place to the noise of many answers, shape (steps, answers), by the same operations in order."""
    if lag1 != 0.0:
        noise[1:] *= math.sqrt(1.0 - lag1 * lag1)
        for d in range(1, len(noise)):
            noise[d] += lag1 * noise[d - 1]
    scores: Array = noise
    return scores


def ar1(noise: Array, lag1: float) -> Array:
    """Turn white standard normal noise into a stationary Gaussian sequence with lag-1 correlation ``lag1``."""
    if lag1 == 0.0:
        return noise
    fresh = math.sqrt(1.0 - lag1 * lag1)
    scores = accumulate(noise.tolist(), lambda before, own: lag1 * before + fresh * own)
    return np.fromiter(scores, dtype=np.float64, count=noise.size)
