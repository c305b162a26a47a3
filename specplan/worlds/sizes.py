"""How long prompts and answers are: drawn around a mean, or as a trace says.

Lengths of answers are lognormal and cut where a server would cut them: at a multiple of their mean, at what the models
read, or at what the cache holds. Cut ones have the given mean all the same. Sixteen answers in a row have a length from
each sixteenth of the distribution, so that short simulations meet all of it (stratified sampling).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sim.answers.lengths import Lognormal
from sim.random_streams import stream

if TYPE_CHECKING:
    from sim.serving.arrivals import Arrivals
    from specplan.worlds.request import Deployment

__all__ = ["LONGEST", "MIDPOINTS", "SLACK", "Drawn", "Sizes", "Traced", "longest_answer"]

SLACK: Final = 256
"""Tokens beyond its context for which an engine has room where a single answer fits: a block, and the next tokens."""
LONGEST: Final = 4
"""Longest answer / mean; of lognormal lengths with a spread of 0.8, 1 % of the tokens are beyond."""
_STRATA: Final = 16
_LEAST_SHARE: Final = 1e-12
_MOST_UNCUT: Final = 1e3
_HALVINGS: Final = 40
MIDPOINTS: Final = np.array([NormalDist().inv_cdf((i + 0.5) / 1000) for i in range(1000)])
"""Scores at the middles of a thousand equal parts of a normal distribution."""


class Sizes(Protocol):
    """Says how long prompt and answer of an index are."""

    def of(self, index: int) -> tuple[int, int]:
        """Return the tokens of prompt and answer."""
        ...


@dataclass(frozen=True, slots=True)
class Traced:
    """Sizes of a trace, which begins again at its end."""

    arrivals: Arrivals

    def of(self, index: int) -> tuple[int, int]:
        """Return the tokens of prompt and answer."""
        place = index % len(self.arrivals)
        return int(self.arrivals.prompt_tokens[place]), int(self.arrivals.answer_tokens[place])


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Prompts of one length, and answers of lengths around a mean."""

    prompt_tokens: int
    mean: int
    """Mean tokens of an answer, >= 1."""
    spread: float
    """Standard deviation / mean before lengths are cut, >= 0; 0: all are as long."""
    longest: int
    """Where answers are cut, tokens, >= mean."""
    seed: int = 0

    def of(self, index: int) -> tuple[int, int]:
        """Return the tokens of prompt and answer."""
        if not self.spread or self.longest <= self.mean:
            return self.prompt_tokens, self.mean
        lengths = _lengths(self.mean, self.spread, self.longest, self.seed, index // _STRATA)
        return self.prompt_tokens, lengths[index % _STRATA]

    @property
    def mean_written(self) -> float:
        """Tokens that an answer in flight has written, mean over its tokens: E[L^2] / (2 E[L])."""
        if not self.spread or self.longest <= self.mean:
            return self.mean / 2.0
        lengths = _cut(_uncut_mean(self.mean, self.spread, self.longest), self.spread, self.longest)
        return float((lengths * lengths).mean() / (2.0 * lengths.mean()))


def longest_answer(deployment: Deployment, cache_tokens: float) -> int:
    """Return where answers of drawn lengths are cut, tokens."""
    if not deployment.answer_spread:
        return deployment.answer_tokens
    models = [model for model in (deployment.target, deployment.draft) if model is not None]
    read = [model.facts.max_context for model in models if model.facts.max_context is not None]
    room = min([cache_tokens - SLACK, *read]) - deployment.prompt_tokens
    return int(max(min(LONGEST * deployment.answer_tokens, room), deployment.answer_tokens))


@lru_cache(maxsize=4096)
def _lengths(mean: int, spread: float, longest: int, seed: int, block: int) -> tuple[int, ...]:
    """Lengths of a block of answers: one of each stratum, in random order."""
    rng = stream(seed, "answer lengths", block)
    shares = (rng.permutation(_STRATA) + rng.random(_STRATA)) / _STRATA
    scores = np.array([NormalDist().inv_cdf(max(share, _LEAST_SHARE)) for share in shares])
    uncut = Lognormal(mean=_uncut_mean(mean, spread, longest), cv=spread)
    return tuple(min(length, longest) for length in uncut.at(scores).tolist())


@lru_cache(maxsize=256)
def _uncut_mean(mean: int, spread: float, longest: int) -> float:
    """The mean before cutting at which the mean of cut lengths is as given, by bisection."""
    low, high = float(mean), _MOST_UNCUT * mean
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _cut(middle, spread, longest).mean() < mean else (low, middle)
    return low


def _cut(uncut_mean: float, spread: float, longest: int) -> NDArray[np.floating[Any]]:
    """Lengths at the midpoints of a thousand quantiles, cut at the longest, tokens, shape (1000,)."""
    return np.minimum(Lognormal(mean=uncut_mean, cv=spread).whole(MIDPOINTS.copy()), longest)
