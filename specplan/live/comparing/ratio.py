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
for small ones, and over time, so that a change is noticed too. After a change both ends may be rejected: then the
interval is empty.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from specplan.live.drift.betting import Stakes

__all__ = ["CLIP", "ERROR", "Interval", "Matched"]

ERROR: Final = 0.05
"""Probability, for each end of an interval, that it ever excludes the ratio."""

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


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured ratio, speculation / plain decoding."""

    value: float = math.nan
    """NaN without pairs."""
    low: float = 0.0
    high: float = math.inf
    """Infinite where nothing is known. ``low > high`` after a change."""

    @property
    def known(self) -> dict[str, float]:
        """The value and the ends that are known: ``value``, ``low``, ``high``."""
        return {name: number for name, number in asdict(self).items() if 0.0 < number < math.inf}

    def __str__(self) -> str:
        """Return ``1.31 [1.05, 1.60]``; an end that is not known is left out."""
        low = f"{self.low:.2f}" if self.low > 0.0 else ""
        high = f"{self.high:.2f}" if math.isfinite(self.high) else ""
        return f"{self.value:.2f} [{low}, {high}]"


class Matched:
    """The ratio of two sides' rates, each an amount per something; a pair is formed when both sides were measured.

    A pair pools the latest measurements of each side since the pair before, so no measurement is in two pairs.

    Attributes
    ----------
    n : number of pairs.
    interval : speculation's rate / that of plain decoding: the geometric mean of the pairs' ratios, which are not
        clipped here (but to 16 and 1/16), and the ends that leave out the ratio with a probability of `ERROR` each.
    """

    def __init__(self) -> None:
        self._sides = deque[tuple[float, float]](maxlen=_POOLED), deque[tuple[float, float]](maxlen=_POOLED)
        self.restart()

    def restart(self) -> None:
        """Forget all evidence."""
        self.n = 0
        self.interval = Interval()
        self._sum = 0.0
        self._above, self._below = Stakes(_HORIZON, _AT_ONCE), Stakes(_HORIZON, _AT_ONCE)

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
        if self.n >= _MOST:
            self.restart()
        log = math.log(min(max(ratio, 1.0 / _LARGEST), _LARGEST))
        self.n += 1
        self._sum += log
        y = np.clip((log - _CLAIMS) / CLIP, -1.0, 1.0)
        self._above.multiply(1.0 + _STAKES * y)
        self._below.multiply(1.0 - _STAKES * y)
        at_most = _CLAIMS[_WEIGHTS @ self._above.money >= 1.0 / ERROR]
        at_least = _CLAIMS[_WEIGHTS @ self._below.money >= 1.0 / ERROR]
        self.interval = Interval(
            math.exp(self._sum / self.n),
            math.exp(at_most.max()) if at_most.size else 0.0,
            math.exp(at_least.min()) if at_least.size else math.inf,
        )
        return ratio
