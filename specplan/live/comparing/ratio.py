r"""Confidence sequence of the ratio of two rates, from matched pairs of measurements.

A pair gives the logarithm x of the ratio of the two rates. The claim that its location is at most m is tested by
betting: a stake is multiplied by

.. math:: 1 + \lambda y, \qquad y = (x - m) / \ln 1.25 \text{ clipped to } [-1, 1], \quad 0 < \lambda < 1,

which is never negative and whose mean is at most 1 while the claim holds, whatever the distribution and the number of
pairs (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting"). The claim is rejected
when the money reaches 1 / a; by Ville's inequality that ever happens to a true claim with probability at most a. All m
that are not rejected, and the mirror image for claims of at least m, are the interval, valid at every moment at once.

The location is that of Huber (1964, "Robust estimation of a location parameter"): the m for which the mean of y is 0.
It is the middle of a symmetric law, and where both rates spread little the logarithm of the ratio of means; a rate that
spreads more by s has a mean logarithm that is lower by about s^2 / 2. A pair that is off by more than a factor of 1.25,
be it by a stall, counts as one that is off by that, and none more than doubles the money: with an error of 5 % a claim
falls by five pairs or more.

Most of the money is staked boldly and at once, so that a large gain is known from five or six pairs; the rest timidly,
for small ones, and over time (`drift.betting.Stakes`), so that a change is noticed too. After a change both ends may be
rejected: then the interval is empty.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import numpy as np

from specplan.live.drift.betting import Stakes
from theory.errors import ParameterError

__all__ = ["CLIP", "Matched", "RatioSequence"]

CLIP: Final = math.log(1.25)
"""Greatest distance of a log ratio from a claim that counts in full."""

_LARGEST: Final = 16.0

_STAKES: Final = np.array([[0.5], [0.95]])
"""Shares of the money that are put on a pair, shape (2, 1)."""

_WEIGHTS: Final = np.array([0.1, 0.9])
"""Shares of the money that either stake begins with, shape (2,)."""

_AT_ONCE: Final = 0.8
"""Share of the money that is staked at the first pair."""

_HORIZON: Final = 16.0
"""Pairs within which half of the later money is staked."""

_CLAIMS: Final = 0.012 * np.arange(-120.0, 121.0)
"""Claimed logarithms of the ratio; 0 is among them."""

_POOLED: Final = 4
"""Latest measurements of a side that go into a pair."""

_MOST: Final = 256
"""Pairs after which the evidence begins anew."""


class RatioSequence:
    """Interval of a ratio that is updated with each pair.

    Parameters
    ----------
    error : probability, for each end of the interval, that it ever excludes the ratio, in (0, 1).

    Attributes
    ----------
    n : number of pairs.
    low, high : the interval's ends; 0 and infinity where nothing is rejected. ``low > high`` after a change.
    """

    def __init__(self, error: float) -> None:
        if not 0.0 < error < 1.0:
            raise ParameterError("error", error, "must be in (0, 1)")
        self._wanted = 1.0 / error
        self._above, self._below = Stakes(_HORIZON, _AT_ONCE), Stakes(_HORIZON, _AT_ONCE)
        self._sum = 0.0
        self.n = 0
        self.low, self.high = 0.0, math.inf

    @property
    def estimate(self) -> float:
        """Geometric mean of the pairs' ratios, which are not clipped here (but to 16 and 1/16); NaN without pairs."""
        return math.exp(self._sum / self.n) if self.n else math.nan

    def take(self, ratio: float) -> None:
        """Take in the ratio of a pair, >= 0, infinity included."""
        if not ratio >= 0.0:
            raise ParameterError("ratio", ratio, "must be at least 0")
        log = math.log(min(max(ratio, 1.0 / _LARGEST), _LARGEST))
        self.n += 1
        self._sum += log
        y = np.clip((log - _CLAIMS) / CLIP, -1.0, 1.0)
        self._above.multiply(1.0 + _STAKES * y)
        self._below.multiply(1.0 - _STAKES * y)
        at_most = _CLAIMS[_WEIGHTS @ self._above.money >= self._wanted]
        at_least = _CLAIMS[_WEIGHTS @ self._below.money >= self._wanted]
        self.low = math.exp(at_most.max()) if at_most.size else 0.0
        self.high = math.exp(at_least.min()) if at_least.size else math.inf


class Matched:
    """The ratio of two sides' rates, each an amount per something; a pair is formed when both sides were measured.

    A pair pools the latest measurements of each side since the pair before, so no measurement is in two pairs.

    Parameters
    ----------
    error : of the interval, as of `RatioSequence`.

    Attributes
    ----------
    ratio : speculation's rate / that of plain decoding.
    """

    def __init__(self, error: float) -> None:
        self._error = error
        self._sides = deque[tuple[float, float]](maxlen=_POOLED), deque[tuple[float, float]](maxlen=_POOLED)
        self.ratio = RatioSequence(error)

    def take(self, speculating: bool, amount: float, per: float) -> float | None:
        """Take in a measurement of a side; return the ratio of the pair that it completes, or None.

        Parameters
        ----------
        speculating : the side.
        amount : tokens, answers, ..., >= 0.
        per : what the amount is divided by, such as seconds, > 0.
        """
        self._sides[speculating].append((amount, per))
        if not all(self._sides):
            return None
        plain, own = (sum(a for a, _ in side) / sum(p for _, p in side) for side in self._sides)
        for side in self._sides:
            side.clear()
        ratio = own / plain if plain > 0.0 else math.inf
        if self.ratio.n >= _MOST:
            self.restart()
        self.ratio.take(ratio)
        return ratio

    def restart(self) -> None:
        """Forget all evidence."""
        self.ratio = RatioSequence(self._error)
