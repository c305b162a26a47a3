r"""Testing by betting whether the mean of bounded observations stays in its predicted interval, at any time.

To test that a mean is at most m, money is staked on each observation x in [0, 1] before it is seen; a stake is
multiplied by :math:`1 + \lambda (x - m)`, with :math:`\lambda \ge 0` fixed beforehand. While the claim holds, the
expected money does not grow, so by Ville's inequality money that begins at 1 ever reaches :math:`1 / a` with
probability at most a, at any stopping time (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables
by betting"; Shafer 2021). The bet is the likelihood ratio between a mean of m + d and a mean of m, where d is the least
drift worth reporting.

A drift may begin at any time, and money staked long before it is lost by then. So the money is split beforehand: half
is staked at once (a prediction may be wrong from the start), the rest over all later observations, in decreasing shares
(`_left`). This is a mixture of such tests, so the bound holds for it unchanged.

No test with one false alarm in N observations detects a drift sooner than after about ln N / KL of them on average
(Lorden 1971), where KL = p' ln(p'/p) + (1 - p') ln((1 - p') / (1 - p)).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Final

from theory.errors import ParameterError

__all__ = ["EDGE", "HORIZON", "Bet", "MeanBets", "Stakes", "TwoWays", "Wager"]

HORIZON: Final = 5_000.0
"""Observations within which half of the later money is staked."""

EDGE: Final = 0.005
"""Predicted means are kept at least this far from 0 and 1. That only weakens a claim; an empty claim (a mean of at
least 0, or at most 1) cannot be bet against."""

_MOST_LOG: Final = 600.0
"""Upper limit of the logarithm of the money, against overflow: it raises any alarm."""


class Stakes:
    """Money of which a part is staked at each observation.

    Parameters
    ----------
    horizon : observations within which half of the later money is staked, > 0.
    at_once : share that is staked at the first observation, in (0, 1).

    Attributes
    ----------
    money : worth of the stakes plus the money that is not staked yet; 1 at first. A number, or an array of shape
        (streams,) where factors are arrays.
    """

    def __init__(self, horizon: float = HORIZON, at_once: float = 0.5) -> None:
        self.money: Any = 1.0
        self._horizon = horizon
        self._later = 1.0 - at_once
        self._staked: Any = 0.0
        self._unstaked = 1.0
        self._n = 0

    def multiply(self, factor: Any) -> None:
        """Take in an observation that multiplies a stake by ``factor``, >= 0."""
        self._n += 1
        left = self._later * _left(self._n, self._horizon)
        due, self._unstaked = self._unstaked - left, left
        self._staked = factor * (self._staked + due)
        self.money = self._staked + self._unstaked

    def multiply_by_log(self, log_factor: float, n: int) -> None:
        """Take in ``n`` >= 1 observations that together multiply a stake by ``exp(log_factor)``."""
        left = self._later * _left(self._n + 1, self._horizon)
        due, self._unstaked = self._unstaked - left, left
        self._staked = min(self._staked + due, math.exp(_MOST_LOG))
        self._staked = math.exp(min(math.log(max(self._staked, 1e-300)) + log_factor, _MOST_LOG))
        self._n += n
        self.money = self._staked + self._unstaked


class Wager(Stakes, ABC):
    """A bet whose stakes each observation multiplies by a factor."""

    @abstractmethod
    def factor(self, observed: Any) -> Any:
        """Return the factor of a stake, >= 0; its mean is at most 1 while the claim holds."""

    @abstractmethod
    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum of ``n`` observations; all money that is due at the first of them is staked there."""

    def take(self, observed: Any) -> None:
        """Take in an observation in [0, 1], or an array with that of each stream, shape (streams,)."""
        self.multiply(self.factor(observed))


class Bet(Wager):
    """A bet against the claim that a mean is at most (or at least) a bound.

    Parameters
    ----------
    bound : bound of the mean, in [0, 1].
    drift : least drift worth reporting, > 0; downwards with ``below``.
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
        """Gain per unit by which an observation exceeds the bound; negative with ``below``; 0: no bet."""

    def factor(self, observed: Any) -> Any:
        """Return the factor of a stake, >= 0; its mean is at most 1 while the claim holds."""
        return 1.0 + self.stake * (observed - self.bound)

    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum of ``n`` observations; all money that is due at the first of them is staked there.

        For observations of 0 or 1 the worth of a stake does not depend on their order. For others this is a lower bound
        on it: the logarithm of `factor` is concave, so observations at the ends of [0, 1] give the least worth.

        Parameters
        ----------
        total : sum of the observations, in [0, n].
        n : number of observations, >= 0.
        """
        if n:
            self.multiply_by_log(_times(total, self.factor(1.0)) + _times(n - total, self.factor(0.0)), n)


class TwoWays:
    """An upward and a downward bet, and the money that raises the alarm.

    Parameters
    ----------
    bets : the upward and the downward bet.
    false_alarm : probability of ever raising an alarm while the prediction holds, in (0, 1).
    """

    def __init__(self, bets: tuple[Wager, Wager], false_alarm: float) -> None:
        if not 0.0 < false_alarm < 1.0:
            raise ParameterError("false_alarm", false_alarm, "must be in (0, 1)")
        self.bets = bets
        self.wanted = 2.0 / false_alarm
        """Money of a bet that raises the alarm."""

    def take(self, observed: Any) -> None:
        """Take in an observation in [0, 1], or an array with that of each stream, shape (streams,)."""
        for bet in self.bets:
            bet.take(observed)

    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum of ``n`` observations, in [0, n]."""
        for bet in self.bets:
            bet.take_sum(total, n)

    @property
    def evidence(self) -> Any:
        """Money of the richer bet over the money that raises the alarm; at 1 the alarm is raised."""
        up, down = (bet.money / self.wanted for bet in self.bets)
        return (up + down + abs(up - down)) / 2.0


class MeanBets(TwoWays):
    """Bets in both directions on a mean that was predicted to lie in an interval.

    Parameters
    ----------
    low, high : the predicted interval, 0 <= low <= high <= 1.
    drift : least drift beyond the interval worth reporting.
    false_alarm : probability of ever raising an alarm while the mean is in the interval, in (0, 1).

    Notes
    -----
    The bound holds if the mean given all earlier observations is in the interval. Steps of one answer are correlated,
    so an interval narrower than the spread between answers raises more false alarms.
    """

    def __init__(self, low: float, high: float, *, drift: float, false_alarm: float) -> None:
        if not 0.0 <= low <= high <= 1.0:
            raise ParameterError("low", (low, high), "must be an interval within [0, 1]")
        super().__init__((Bet(high, drift), Bet(low, drift, below=True)), false_alarm)


def _left(n: int, horizon: float) -> float:
    """Share of the later money that is not staked yet after n >= 1 observations.

    >>> _left(1, HORIZON), _left(1 + 5_000, HORIZON)
    (1.0, 0.5)
    """
    return horizon / (horizon + n - 1.0)


def _times(n: float, factor: float) -> float:
    """Logarithm of ``factor ** n``; 0 for n = 0 whatever the factor."""
    return 0.0 if n <= 0.0 else n * math.log(max(factor, 1e-300))
