r"""Adaptive verification: how many of a batch's drafted tokens the target verifies (DSpark, arXiv 2607.05147; vLLM).

A drafter that knows how likely each of its tokens is lets the engine verify those that pay. With the *survival*
:math:`S` of a drafted token, the probability that it and all before it are right, vLLM
(``enable_adaptive_verification``) verifies the B tokens of a batch of N sequences that survive most likely,

.. math:: B^* = \arg\max_B \frac{N + \sum_{j \le B} S_{(j)}}{\text{draft}(N) + \text{verify}(N + B)},

and since S falls along a draft, they are a prefix of each sequence's. In a large batch that is a threshold: the tokens
with S above the rate times the cost of one more token. SGLang (``dspark_planner.py``) chooses so too if it is given a
table of its steps' times, else it verifies all.

What a drafter knows differs between rounds. A round of ease :math:`u \sim N(0, 1)` accepts position i, given those
before it, with

.. math:: \operatorname{logit} p_i(u) = m_i + \sigma u,

where :math:`m_i` gives the acceptance that counters show, the mean over rounds. :math:`\sigma` = 0 is a drafter that
knows nothing of its rounds; then a threshold cuts all drafts at one position. Of GLM-5.2 with DSpark (16 tokens, 64
answers at once, vllm-project/vllm#52992) the accepted tokens of each position are known with and without adaptive
verification: :math:`\sigma` = 2.5 reproduces what is kept of them within 2.9 % on average (1.5 to 4: within 4.4 %).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import FloatArray, nonnegative, probability, scalar_probability
from theory.errors import ParameterError

__all__ = ["CHOOSING", "SPREAD", "SPREAD_ERROR", "Verified", "best_budget", "least_that_pays", "survival", "verified"]

SPREAD: Final = 2.5
"""sigma, [-]."""
SPREAD_ERROR: Final = 0.4
"""Standard error of its logarithm for another drafter (assumed: one table is known)."""
CHOOSING: Final[Mapping[str, float]] = MappingProxyType({"NVIDIA": 1.0, "AMD": 1.068})
"""Seconds of a round that chooses what it verifies / those of one that verifies the same tokens unasked, by the GPU's
maker, [-].

AMD: DeepSeek-V4-Flash on MI355X, nothing left out: tokens per second fall by 6.6 % at 4 answers and 6.0 % at 32 (the
author of vllm-project/vllm#52362, 19 September 2026). NVIDIA: DeepSeek-V4-Pro on B300 is as fast with one answer (vLLM
blog, 14 August 2026).
"""

_ROUNDS: Final = 200
"""Rounds, at equal steps of probability, that stand for all."""
_LEAST: Final = 1e-6
_HALVINGS: Final = 50
_FAR: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a pass over the chosen tokens of a sequence is, on average."""

    pmf: tuple[float, ...]
    """P(a pass commits 1, 2, ..., k + 1 tokens), [-]."""
    rows: float
    """Tokens of a sequence that the target computes, its own one included, in [1, k + 1]."""

    @property
    def tokens(self) -> float:
        """Mean tokens that a pass commits."""
        return sum(n * share for n, share in enumerate(self.pmf, 1))


def survival(conditional: ArrayLike, spread: float = SPREAD) -> FloatArray:
    """Return the survival of each drafted token in rounds at equal steps of probability, shape (rounds, positions).

    Parameters
    ----------
    conditional : acceptance of each position given that those before it are right, over all rounds, [-], in [0, 1],
        shape (positions,).
    spread : sigma, >= 0.

    Raises
    ------
    ParameterError : a probability outside [0, 1], or a negative spread.
    """
    rates = probability("conditional", conditional)
    if rates.ndim != 1:
        raise ParameterError("conditional", rates.tolist(), "must be a row of positions")
    ease, before, rounds = float(nonnegative("spread", spread)) * _ease(), np.ones(_ROUNDS), []
    for mean in np.cumprod(np.clip(rates, _LEAST, 1.0 - _LEAST)):
        before = before * _given_mean(ease, before, float(mean))
        rounds.append(before)
    return np.array(rounds).reshape(rates.size, _ROUNDS).T


def verified(conditional: ArrayLike, least: float, spread: float = SPREAD) -> Verified:
    """Return what a pass verifies and commits where drafted tokens are verified that survive likelier than ``least``.

    Parameters
    ----------
    conditional, spread : as in `survival`.
    least : threshold, [-], in [0, 1]; 0: all are verified.

    Raises
    ------
    ParameterError : as `survival`, or a threshold outside [0, 1].

    >>> all_of_them = verified([0.8, 0.5], 0.0)
    >>> round(all_of_them.tokens, 6), all_of_them.rows
    (2.2, 3.0)
    """
    alive = survival(conditional, spread)
    chosen = alive > scalar_probability("least", least)
    reached = np.concatenate([[1.0], np.where(chosen, alive, 0.0).mean(axis=0), [0.0]])
    return Verified(
        pmf=tuple(float(share) for share in np.maximum(reached[:-1] - reached[1:], 0.0)),
        rows=1.0 + float(chosen.mean(axis=0).sum()),
    )


def best_budget(alive: FloatArray, seconds: Callable[[FloatArray], FloatArray]) -> int:
    """Return how many drafted tokens of a batch to verify: B*, the fewest of equally good numbers.

    Parameters
    ----------
    alive : survival of the drafted tokens of each sequence, [-], shape (N, positions).
    seconds : seconds of a round, drafting included, by the tokens that the target computes, N to N + all drafted.
    """
    n = len(alive)
    scores = np.sort(alive, axis=None)[::-1]
    committed = n + np.concatenate([[0.0], np.cumsum(scores)])
    return int(np.argmax(committed / seconds(n + np.arange(scores.size + 1.0))))


def least_that_pays(
    conditional: ArrayLike, seconds: Callable[[FloatArray], FloatArray], spread: float = SPREAD
) -> float:
    """Return the threshold above which verifying a drafted token pays in a large batch: `best_budget` of all rounds.

    Parameters
    ----------
    conditional, spread : as in `survival`.
    seconds : seconds of a round of the whole batch, by the tokens that the target computes for each sequence, in
        [1, positions + 1].

    Returns
    -------
    In [0, 1]: 0 where all are verified, 1 where none is.

    Raises
    ------
    ParameterError : as `survival`.
    """
    alive = survival(conditional, spread)
    budget = best_budget(alive, lambda rows: seconds(rows / _ROUNDS))
    scores = np.sort(alive, axis=None)[::-1]
    if budget in (0, scores.size):
        return float(budget == 0)
    return float(scores[budget - 1] + scores[budget]) / 2.0


@cache
def _ease() -> FloatArray:
    return np.array([NormalDist().inv_cdf((i + 0.5) / _ROUNDS) for i in range(_ROUNDS)])


def _given_mean(ease: FloatArray, before: FloatArray, mean: float) -> FloatArray:
    """Acceptance in each round such that ``mean`` of the rounds get there, where ``before`` of them got before it."""
    low, high = -_FAR, _FAR
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if float((before * _share(middle + ease)).mean()) < mean:
            low = middle
        else:
            high = middle
    return _share((low + high) / 2.0 + ease)


def _share(logit: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))
