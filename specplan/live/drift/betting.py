r"""Testing by betting: whether the mean of bounded observations stays where it was predicted to be, for ever.

Against the claim that a mean is at most m, money is staked on each observation x in [0, 1] before it is seen; a stake
becomes :math:`1 + \lambda (x - m)` times as much, with :math:`\lambda \ge 0` fixed beforehand. While the claim holds
nobody gains in expectation, so that by Ville's inequality money that began as 1 ever reaches :math:`1 / a` with
probability at most a, however long and however often one looks (Waudby-Smith and Ramdas 2024, "Estimating means of
bounded random variables by betting"; Shafer 2021). The bet is that of the likelihood ratio between a mean of m + d and
one of m, d being the least drift worth reporting.

A drift may begin at any time, and money staked long before it is lost by then. So the money is split beforehand: half
is staked at once (a prediction may be wrong from the start), the rest over all times to come, the later the less
(`_share`). This is a mixture of such tests, so that the bound holds for it as it is.

What can be had: no test with one false alarm in N observations finds a drift sooner than after about ln N / KL of them
on average (Lorden 1971), KL being what one observation tells, p' ln(p'/p) + (1 - p') ln((1 - p') / (1 - p)).
"""

from __future__ import annotations

import math
from typing import Any, Final, Protocol

from theory.errors import ParameterError

__all__ = ["EDGE", "Bet", "BetLike", "MeanBets", "Stakes", "TwoWays"]

_HORIZON: Final = 5_000.0
"""Half of the later money is staked within so many observations."""

EDGE: Final = 0.005
"""Predicted means are taken to be at least so far from 0 and 1: nothing is predicted for certain. A claim is only ever
made weaker by that; one that becomes empty, that a mean is at least 0 or at most 1, cannot be bet against."""

_MOST_LOG: Final = 600.0
"""Logarithm of the money that is counted at most: what is more raises any alarm, and would overflow."""


class Stakes:
    """Money of which a part is staked at each observation, and what the stakes have become.

    Attributes
    ----------
    money : what the stakes and what was not staked yet are worth; it began as 1. A number, or an array with one per
        stream where factors are arrays.
    """

    def __init__(self) -> None:
        self.money: Any = 1.0
        self._staked: Any = 0.0
        self._unstaked = 1.0
        self._n = 0

    def multiply(self, factor: Any) -> None:
        """Take in one observation that makes a stake so many times as much, >= 0."""
        self._n += 1
        self._staked = factor * (self._staked + _share(self._n))
        self._unstaked = _left(self._n)
        self.money = self._staked + self._unstaked

    def multiply_by_log(self, log_factor: float, n: int) -> None:
        """Take in ``n`` >= 1 observations that together make a stake e to so much as much."""
        left = _left(self._n + 1)
        due, self._unstaked = self._unstaked - left, left
        self._staked = min(self._staked + due, math.exp(_MOST_LOG))
        self._staked = math.exp(min(math.log(max(self._staked, 1e-300)) + log_factor, _MOST_LOG))
        self._n += n
        self.money = self._staked + self._unstaked


class BetLike(Protocol):
    """What `TwoWays` needs of a bet."""

    money: Any

    def factor(self, observed: Any) -> Any:
        """By what an observation multiplies a stake."""

    def take(self, observed: Any) -> None:
        """Take in an observation."""

    def take_sum(self, total: float, n: int) -> None:
        """Take in observations of which only the sum is known."""


class Bet(Stakes):
    """A bet against the claim that a mean is at most (or at least) a bound.

    Parameters
    ----------
    bound : of the mean, in [0, 1].
    drift : least one worth reporting, > 0; with ``below`` downwards.
    below : whether the claim is that the mean is at least the bound.
    """

    def __init__(self, bound: float, drift: float, *, below: bool = False) -> None:
        super().__init__()
        if not 0.0 <= bound <= 1.0:
            raise ParameterError("bound", bound, "must be in [0, 1]")
        if not 0.0 < drift < 1.0:
            raise ParameterError("drift", drift, "must be in (0, 1)")
        self.bound = min(max(bound, EDGE), 1.0 - EDGE)
        sought = max(self.bound - drift, 0.0) if below else min(self.bound + drift, 1.0)
        empty = bound < EDGE if below else bound > 1.0 - EDGE
        self.stake = 0.0 if empty else (sought - self.bound) / (self.bound * (1.0 - self.bound))
        """What is gained per unit by which an observation exceeds the bound; negative with ``below``; 0: no bet."""

    def factor(self, observed: Any) -> Any:
        """By what a stake is multiplied; of mean at most 1 while the claim holds, and never negative."""
        return 1.0 + self.stake * (observed - self.bound)

    def take(self, observed: Any) -> None:
        """Take in one observation in [0, 1], or one of each stream, shape (streams,)."""
        self.multiply(self.factor(observed))

    def take_sum(self, total: float, n: int) -> None:
        """Take in ``n`` observations of which only the sum is known; all that is due by their first is staked then.

        Of observations that are 0 or 1 the worth of a stake does not depend on their order. Of others this is the least
        that it can be: the logarithm of `factor` is concave, so that ends of [0, 1] make the least of the same sum.

        Parameters
        ----------
        total : sum of the observations, in [0, n].
        n : how many, >= 0; none change nothing.
        """
        if n:
            self.multiply_by_log(_times(total, self.factor(1.0)) + _times(n - total, self.factor(0.0)), n)


class TwoWays:
    """Bets both ways, and what raises the alarm.

    Parameters
    ----------
    bets : upwards, downwards.
    false_alarm : probability of ever raising an alarm while the prediction holds, in (0, 1).
    """

    def __init__(self, bets: tuple[BetLike, BetLike], false_alarm: float) -> None:
        if not 0.0 < false_alarm < 1.0:
            raise ParameterError("false_alarm", false_alarm, "must be in (0, 1)")
        self.bets = bets
        self.wanted = 2.0 / false_alarm
        """Money of one of the bets that raises the alarm."""

    def take(self, observed: Any) -> None:
        """Take in one observation in [0, 1], or one of each stream, shape (streams,)."""
        for bet in self.bets:
            bet.take(observed)

    def take_sum(self, total: float, n: int) -> None:
        """Take in ``n`` observations of which only the sum is known, in [0, n]."""
        for bet in self.bets:
            bet.take_sum(total, n)

    @property
    def evidence(self) -> Any:
        """The richer bet's money as a share of what raises the alarm; at 1 it is raised."""
        up, down = (bet.money / self.wanted for bet in self.bets)
        return (up + down + abs(up - down)) / 2.0


class MeanBets(TwoWays):
    """Bets both ways on a mean that was predicted to lie in an interval.

    Parameters
    ----------
    low, high : the predicted interval, 0 <= low <= high <= 1.
    drift : least one worth reporting, beyond the interval.
    false_alarm : probability of ever raising an alarm while the mean is in the interval, in (0, 1).

    Notes
    -----
    The mean must be in the interval given all that was observed before. Steps of one answer are alike, so that an
    interval that is narrower than answers differ makes alarms likelier than that.
    """

    def __init__(self, low: float, high: float, *, drift: float, false_alarm: float) -> None:
        if not 0.0 <= low <= high <= 1.0:
            raise ParameterError("low", (low, high), "must be an interval within [0, 1]")
        super().__init__((Bet(high, drift), Bet(low, drift, below=True)), false_alarm)


def _share(n: int) -> float:
    """Share of the money that is staked on the n-th observation and those that follow; all together they are 1.

    >>> _share(1), round(sum(map(_share, range(1, 10_000_000))), 3)
    (0.5, 1.0)
    """
    return 0.5 if n == 1 else _left(n - 1) - _left(n)


def _left(n: int) -> float:
    """Share that is not staked yet after n observations."""
    return 1.0 if n == 0 else 0.5 * _HORIZON / (_HORIZON + n - 1.0)


def _times(n: float, factor: float) -> float:
    """Logarithm of a factor that is multiplied so many times; of none 0, whatever it is."""
    return 0.0 if n <= 0.0 else n * math.log(max(factor, 1e-300))
