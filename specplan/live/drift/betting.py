r"""Testing by betting whether observations in [0, 1] stay as predicted, at any time.

To test that a mean is at most m, money is staked on each observation x in [0, 1] before it is seen; a stake is
multiplied by :math:`1 + \lambda (x - m)`, with :math:`\lambda \ge 0` fixed beforehand. While the claim holds, the
expected money does not grow, so by Ville's inequality money that begins at 1 ever reaches :math:`1 / a` with
probability at most a, at any stopping time (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables
by betting"; Shafer 2021). The bet is the likelihood ratio between a mean of m + d and a mean of m, where d is the least
drift worth reporting.

A drift may begin at any time, and money staked long before it is lost by then. So the money is split beforehand: half
is staked at once (a prediction may be wrong from the start), the rest over all later observations, in decreasing
shares. This is a mixture of such tests, so the bound holds for it unchanged. No test with one false alarm in N
observations detects a drift sooner than after about ln N / KL of them on average (Lorden 1971), where
KL = p' ln(p'/p) + (1 - p') ln((1 - p') / (1 - p)).

**Shares.** A record of n observations leaves a share p uncertain. The prediction of the next observation is the
posterior mean of p (Jeffreys' prior: half an observation of either kind), which is updated with each observation:

.. math:: m_t = (n p + 1/2 + s_{t-1}) / (n + 1 + t - 1)

with s the number of ones so far. The bet is on other odds of a 1, such that the share q differs by d from the recorded
one: a stake is multiplied by :math:`q / m_t` or :math:`(1 - q) / (1 - m_t)`. With p drawn from the posterior,
:math:`m_t` is the probability of a 1 given all earlier observations, so the probability of ever raising an alarm is at
most the stated one, on average over the posterior of p. Bets against an interval hold for the worst p in it instead, at
a price: a share at the middle of the interval that moves by d leaves it by less.

A property that is known before the observation, its *kind* (for a draft step its length: long ones are rejected more
often), has a share of its own; bets that distinguish kinds are stronger than a bet on the mean over kinds. Kinds often
also explain the correlation of observations within an answer. The remaining correlation increases the variance of their
sum by a factor over independent observations ("design effect", Kish 1965). The logarithm of a stake's factor is divided
by it, as in quasi-likelihood; by Jensen's inequality a fair bet stays fair. `benchmarks.drift_delays` measures the rate
of false alarms and the delay until an alarm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from theory.errors import ParameterError

__all__ = ["Bets", "MeanBets", "Record", "ShareBets", "Stakes"]

_EDGE: Final = 0.005
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

    def __init__(self, horizon: float = 5_000.0, at_once: float = 0.5) -> None:
        self.money: Any = 1.0
        self._horizon = horizon
        self._later = 1.0 - at_once
        self._staked: Any = 0.0
        self._unstaked = 1.0
        self._n = 0

    def multiply(self, factor: Any) -> None:
        """Take in an observation that multiplies a stake by ``factor``, >= 0."""
        self._staked = factor * self._stake(1)
        self.money = self._staked + self._unstaked

    def multiply_by_log(self, log_factor: float, n: int) -> None:
        """Take in ``n`` >= 1 observations that together multiply what is staked at the first by ``exp(log_factor)``."""
        staked = min(self._stake(n), math.exp(_MOST_LOG))
        self._staked = math.exp(min(math.log(max(staked, 1e-300)) + log_factor, _MOST_LOG))
        self.money = self._staked + self._unstaked

    def _stake(self, n: int) -> Any:
        """Stake what is due at the first of ``n`` observations; return all that is staked."""
        left = self._later * (self._horizon / (self._horizon + self._n))
        due, self._unstaked = self._unstaked - left, left
        self._n += n
        return self._staked + due


class Bets(ABC):
    """An upward and a downward bet against a prediction.

    Attributes
    ----------
    stakes : the money of both bets.
    wanted : money of a bet that raises the alarm.
    """

    def __init__(self, false_alarm: float) -> None:
        if not 0.0 < false_alarm < 1.0:
            raise ParameterError("false_alarm", false_alarm, "must be in (0, 1)")
        self.stakes = Stakes(), Stakes()
        self.wanted = 2.0 / false_alarm

    @abstractmethod
    def factors(self, observed: Any) -> tuple[Any, Any]:
        """Return the factors of both stakes, >= 0; their means are at most 1 while the prediction holds."""

    @abstractmethod
    def log_factors(self, total: float, n: int) -> tuple[float, float]:
        """Return the logarithms of the factors of both stakes for the sum of ``n`` >= 1 observations."""

    def take(self, observed: Any) -> None:
        """Take in an observation in [0, 1], or an array with that of each stream, shape (streams,)."""
        for stakes, factor in zip(self.stakes, self.factors(observed), strict=True):
            stakes.multiply(factor)

    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum, in [0, n], of ``n`` observations; all money that is due by then is staked at the first."""
        if n:
            for stakes, log_factor in zip(self.stakes, self.log_factors(total, n), strict=True):
                stakes.multiply_by_log(log_factor, n)

    @property
    def evidence(self) -> Any:
        """Money of the richer bet over the money that raises the alarm; at 1 the alarm is raised."""
        up, down = (stakes.money / self.wanted for stakes in self.stakes)
        return (up + down + abs(up - down)) / 2.0


class MeanBets(Bets):
    """Bets in both directions on a mean that was predicted to lie in an interval.

    Parameters
    ----------
    low, high : the predicted interval, 0 <= low <= high <= 1.
    drift : least drift beyond the interval worth reporting, in (0, 1).
    false_alarm : probability of ever raising an alarm while the mean is in the interval, in (0, 1).

    Notes
    -----
    The bound holds if the mean given all earlier observations is in the interval. Steps of one answer are correlated,
    so an interval narrower than the spread between answers raises more false alarms.
    """

    def __init__(self, low: float, high: float, *, drift: float, false_alarm: float) -> None:
        super().__init__(false_alarm)
        above, below = (min(max(bound, _EDGE), 1.0 - _EDGE) for bound in (high, low))
        up = (min(above + drift, 1.0) - above) / (above * (1.0 - above)) if high <= 1.0 - _EDGE else 0.0
        down = (max(below - drift, 0.0) - below) / (below * (1.0 - below)) if low >= _EDGE else 0.0
        self._claims = (above, up), (below, down)
        """Bounds of the mean, and the gain per unit by which an observation exceeds them; 0: no bet."""

    def factors(self, observed: Any) -> tuple[Any, Any]:
        """Return the factors of both stakes, >= 0."""
        (above, up), (below, down) = self._claims
        return 1.0 + up * (observed - above), 1.0 + down * (observed - below)

    def log_factors(self, total: float, n: int) -> tuple[float, float]:
        """Return the logarithms of the factors of both stakes.

        For observations of 0 or 1 they do not depend on their order. For others this is a lower bound: the logarithm of
        a factor is concave, so observations at the ends of [0, 1] give the least worth.
        """
        (up, down), (up_0, down_0) = self.factors(1.0), self.factors(0.0)
        return _times(total, up) + _times(n - total, up_0), _times(total, down) + _times(n - total, down_0)


@dataclass(frozen=True, slots=True)
class Record:
    """A recorded share."""

    value: float
    """In [0, 1]."""
    n: float = math.inf
    """Number of observations, > 0; infinite: the share is exact."""


class ShareBets(Bets):
    """Bets in both directions on a share that finite records predict; observations are 0 or 1.

    Parameters
    ----------
    records : a single record, or a record for each kind of observation that is known beforehand.
    alike : variance of the recorded sum / variance of independent observations with these shares, >= 1.
    drift : least drift worth reporting of the share over all kinds, in (0, 1); one factor moves the odds of all kinds.
    false_alarm : probability of ever raising an alarm while the shares are the recorded ones, in (0, 1).

    Attributes
    ----------
    kind : index of the record that the next observations belong to.
    """

    def __init__(self, records: Sequence[Record], *, alike: float = 1.0, drift: float, false_alarm: float) -> None:
        super().__init__(false_alarm)
        self.kind = 0
        self._records = records
        self._alike = alike
        self._up, self._down = (_times_odds(records, shift) for shift in (drift, -drift))
        self._ones: list[Any] = [0.0] * len(records)
        self._seen = [0] * len(records)

    @property
    def mean(self) -> Any:
        """Probability that the next observation is 1."""
        record = self._records[self.kind]
        if math.isinf(record.n):
            return record.value
        return (record.n * record.value + 0.5 + self._ones[self.kind]) / (record.n + 1.0 + self._seen[self.kind])

    def factors(self, observed: Any) -> tuple[Any, Any]:
        """Return the factors of both stakes, >= 0."""
        mean, up, down = self._odds()

        def factor(sought: Any, is_open: Any) -> Any:
            ratio = observed * sought / mean + (1.0 - observed) * (1.0 - sought) / (1.0 - mean)
            return np.where(is_open, ratio, 1.0) ** (1.0 / self._alike)

        return factor(*up), factor(*down)

    def log_factors(self, total: float, n: int) -> tuple[float, float]:
        """Return the logarithms of the factors of both stakes, whatever the order of the observations."""
        mean, up, down = self._odds()
        record = self._records[self.kind]
        if math.isinf(record.n):
            predicted = total * math.log(mean) + (n - total) * math.log1p(-mean)
        else:
            whole, share = record.n + 1.0 + self._seen[self.kind], float(self.mean)
            ones, zeros = whole * share, whole * (1.0 - share)
            predicted = _log_beta(ones + total, zeros + n - total) - _log_beta(ones, zeros)

        def log_factor(sought: Any, is_open: Any) -> float:
            log = total * math.log(sought) + (n - total) * math.log1p(-sought)
            return (log - predicted) / self._alike if is_open else 0.0

        return log_factor(*up), log_factor(*down)

    def take(self, observed: Any) -> None:
        """Take in an observation, 0 or 1, or an array with that of each stream, shape (streams,)."""
        super().take(observed)
        self._learn(observed, 1)

    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum of ``n`` observations, all of one kind."""
        super().take_sum(total, n)
        self._learn(total, n)

    def _learn(self, ones: Any, n: int) -> None:
        self._ones[self.kind] = self._ones[self.kind] + ones
        self._seen[self.kind] += n

    def _odds(self) -> tuple[Any, tuple[Any, Any], tuple[Any, Any]]:
        """The predicted share, and for both bets the share that is bet on and whether there is a bet."""
        predicted = self.mean
        mean = np.clip(predicted, _EDGE, 1.0 - _EDGE)
        return mean, (_moved(mean, self._up), predicted <= 1.0 - _EDGE), (_moved(mean, self._down), predicted >= _EDGE)


def _moved(p: Any, times: float) -> Any:
    """The share whose odds are ``times`` those of ``p``."""
    return times * p / (1.0 + (times - 1.0) * p)


def _times_odds(records: Sequence[Record], shift: float) -> float:
    """The factor on the odds of all kinds that moves the share over all of them by ``shift``."""
    weights = np.array([1.0 if math.isinf(record.n) else record.n for record in records], dtype=float)
    weights /= weights.sum()
    shares = np.clip([record.value for record in records], _EDGE, 1.0 - _EDGE)
    whole = float(weights @ shares)
    sought = min(max(whole + shift, 0.5 * _EDGE), 1.0 - 0.5 * _EDGE)
    low, high = (0.0, 50.0) if shift > 0.0 else (-50.0, 0.0)
    for _ in range(60):  # halving 100 sixty times is exact in floats
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(weights @ _moved(shares, math.exp(middle))) < sought else (low, middle)
    return math.exp(0.5 * (low + high))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _times(n: float, factor: float) -> float:
    """Logarithm of ``factor ** n``; 0 for n = 0 whatever the factor."""
    return 0.0 if n <= 0.0 else n * math.log(max(factor, 1e-300))
