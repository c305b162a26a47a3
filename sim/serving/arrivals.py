"""When answers arrive: at random, in bursts, or as recorded; and how long their prompts and answers are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.random_streams import stream
from theory.checks import positive, scalar_count
from theory.errors import ParameterError

__all__ = ["Arrivals", "bursty_times"]


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Recorded arrivals, each with its sizes.

    Raises
    ------
    ParameterError : none at all, unequal lengths, times that are not in order, or sizes below their least.
    """

    times_s: NDArray[np.float64]
    """Moments, s, in order; the first is 0."""
    prompt_tokens: NDArray[np.int64]
    """Tokens of each prompt, >= 0."""
    answer_tokens: NDArray[np.int64]
    """Tokens of each answer, >= 1."""

    @classmethod
    def of(cls, times_s: ArrayLike, prompt_tokens: ArrayLike, answer_tokens: ArrayLike) -> Arrivals:
        """Return arrivals whose clock starts with the first of them."""
        times = np.asarray(times_s, dtype=np.float64)
        if times.size and np.isfinite(times).all():
            times = times - times[0]
        return cls(times, np.asarray(prompt_tokens, dtype=np.int64), np.asarray(answer_tokens, dtype=np.int64))

    def __post_init__(self) -> None:
        if self.times_s.ndim != 1 or not len(self):
            raise ParameterError("times_s", f"array of shape {self.times_s.shape}", "must be a non-empty vector")
        for name, least in (("prompt_tokens", 0), ("answer_tokens", 1)):
            sizes = getattr(self, name)
            if sizes.shape != self.times_s.shape:
                raise ParameterError(name, f"array of shape {sizes.shape}", f"must have {len(self)} entries")
            if sizes.min() < least:
                raise ParameterError(name, int(sizes.min()), f"must be >= {least}")
        if not np.isfinite(self.times_s).all() or (np.diff(self.times_s) < 0.0).any():
            raise ParameterError("times_s", f"{len(self)} moments", "must be finite and in order")

    def __len__(self) -> int:
        """How many arrive."""
        return self.times_s.size

    @property
    def rate(self) -> float:
        """Arrivals per second from the first to the last; infinite where all arrive at once."""
        seconds = float(self.times_s[-1] - self.times_s[0])
        return (len(self) - 1) / seconds if seconds > 0.0 else math.inf

    @property
    def cv(self) -> float:
        """Standard deviation / mean of the gaps between arrivals, [-]: 1 for Poisson; NaN below two gaps."""
        gaps = np.diff(self.times_s)
        return float(gaps.std(ddof=1) / gaps.mean()) if gaps.size > 1 and gaps.mean() > 0.0 else math.nan


def bursty_times(rate: float, cv: float, n: int, *, seed: int = 0, replication: int = 0) -> NDArray[np.float64]:
    """Return ``n`` moments, s, with independent gamma gaps: a renewal process, as of bursts where ``cv`` > 1.

    Gaps of shape ``1 / cv**2`` and mean ``1 / rate``; ``cv`` 1 is Poisson, towards 0 a metronome. The first gap is as
    all others, so the process is not stationary at once: leave out a warm-up.

    Parameters
    ----------
    rate : arrivals per second, > 0.
    cv : standard deviation / mean of the gaps, [-], > 0.
    n : moments, >= 1.
    seed, replication : of the random stream.

    Raises
    ------
    ParameterError : a number outside its domain.
    """
    for name, value in (("rate", rate), ("cv", cv)):
        positive(name, value)
    shape = 1.0 / (cv * cv)
    return np.cumsum(stream(seed, "arrivals", replication).gamma(shape, 1.0 / (rate * shape), scalar_count("n", n)))
