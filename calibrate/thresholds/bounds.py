"""Exact tests and limits of a rate from labelled samples: binomial (Clopper and Pearson), and betting for means."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "betting_p_value",
    "betting_units_needed",
    "betting_upper",
    "binomial_p_value",
    "clopper_pearson",
    "units_needed",
]

FloatArray = NDArray[np.float64]

_BETS: Final = (np.arange(64) + 0.5) / 64.0
"""Shares of the largest admissible bet, mixed uniformly: a universal portfolio needs no tuning and no order."""


def binomial_p_value(failures: ArrayLike, trials: ArrayLike, level: ArrayLike) -> FloatArray:
    """Exact p-value of "the rate is above ``level``": P(Binomial(trials, level) <= failures).

    Parameters
    ----------
    failures, trials : counts, 0 <= failures <= trials; real numbers interpolate smoothly.
    level : rate, in (0, 1).

    Returns
    -------
    p-values in [0, 1], the arguments broadcast; 1 without trials.

    References
    ----------
    Clopper and Pearson 1934; the incomplete beta function is the binomial's tail.

    >>> float(binomial_p_value(0, 59, 0.05)) < 0.05 < float(binomial_p_value(0, 58, 0.05))
    True
    """
    from scipy.special import betainc

    k, n = np.broadcast_arrays(np.asarray(failures, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    tail = betainc(np.maximum(n - k, 1e-300), k + 1.0, 1.0 - np.asarray(level, dtype=np.float64))
    return np.asarray(np.where(k >= n, 1.0, tail), dtype=np.float64)


def clopper_pearson(failures: int, trials: int, confidence: float) -> tuple[float, float]:
    """Lower and upper limit of a rate, each one-sided at ``confidence``; (0, 1) without trials.

    The upper limit is the dual of `binomial_p_value`: it is at most the level exactly if the p-value is at most
    ``1 - confidence``.
    """
    from scipy.special import betaincinv

    low = betaincinv(failures, trials - failures + 1.0, 1.0 - confidence) if failures else 0.0
    high = betaincinv(failures + 1.0, trials - failures, confidence) if failures < trials else 1.0
    return float(low), float(high)


def _log_wealth(losses: ArrayLike, level: float) -> FloatArray:
    """Log wealth of each constant bet after all losses, shape (bets,)."""
    values, counts = np.unique(np.asarray(losses, dtype=np.float64), return_counts=True)  # means of few have few values
    stakes = _BETS / (1.0 - level)
    return np.asarray(np.log1p(stakes[:, None] * (level - values)) @ counts.astype(np.float64), dtype=np.float64)


def betting_p_value(losses: ArrayLike, level: float) -> float:
    """P-value of "the mean loss is above ``level``" for independent losses in [0, 1]; independent of their order.

    A bettor who stakes a share of the wealth on small losses gains nothing on average if the mean is above the level;
    the mean wealth of 64 such bettors exceeds w with probability at most 1 / w (Markov).

    Parameters
    ----------
    losses : independent losses in [0, 1], shape (n,).
    level : in (0, 1).

    References
    ----------
    Waudby-Smith and Ramdas 2024, arXiv:2010.09686, section 4, with constant bets.

    >>> betting_p_value([0.0] * 120, 0.05) < 0.05 < betting_p_value([0.0] * 50, 0.05)
    True
    """
    return math.exp(min(0.0, -_log_mean_exp(_log_wealth(losses, level))))


def betting_upper(losses: ArrayLike, confidence: float) -> float:
    """Upper limit of the mean of independent losses in [0, 1]: the smallest level that betting rejects."""
    from scipy.optimize import brentq

    def won(level: float) -> float:  # in logarithms, as a p-value may underflow
        return _log_mean_exp(_log_wealth(losses, level)) + math.log(1.0 - confidence)

    top = 1.0 - 1e-9
    return 1.0 if won(top) < 0.0 else float(brentq(won, 1e-12, top, xtol=1e-7))


def _log_mean_exp(x: FloatArray) -> float:
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).mean()))


def units_needed(failures: float, trials: float, level: float, delta: float) -> int | None:
    """Trials for which the binomial p-value reaches ``delta`` if the observed rate stays; None if it cannot.

    >>> units_needed(0, 10, 0.05, 0.05)
    59
    """
    if trials <= 0 or failures / trials >= level:
        return None
    rate = failures / trials
    return _least(lambda n: float(binomial_p_value(rate * n, n, level)) <= delta)


def _least(enough: Callable[[int], bool]) -> int | None:
    """The least number that is enough, as all larger ones then are; None if it is beyond 10^12."""
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > 10**12:
            return None
    return low + 1 + bisect_left(range(low + 1, high), True, key=enough)


def betting_units_needed(losses: ArrayLike, level: float, delta: float) -> int | None:
    """Samples for which `betting_p_value` reaches ``delta`` if the observed losses repeat; None if it cannot."""
    x = np.asarray(losses, dtype=np.float64)
    if x.size == 0 or float(x.mean()) >= level:
        return None
    wealth, goal = _log_wealth(x, level), -math.log(delta)
    return _least(lambda n: _log_mean_exp(n / x.size * wealth) >= goal)
