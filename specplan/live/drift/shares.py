r"""Testing by betting whether a share stays at the value that a finite record gives.

The record of n observations leaves the share p uncertain. The prediction of the next observation is the posterior mean
of p (Jeffreys' prior: half an observation of either kind), which is updated with each observation:

.. math:: m_t = (n p + 1/2 + s_{t-1}) / (n + 1 + t - 1)

with s the number of ones so far. The bet is on other odds of a 1, such that the share q differs by d from the recorded
one: a stake is multiplied by :math:`q / m_t` or :math:`(1 - q) / (1 - m_t)`. With p drawn from the posterior,
:math:`m_t` is the probability of a 1 given all earlier observations, so the expected money does not grow, and by
Ville's inequality (`specplan.live.drift.betting`) the probability of ever raising an alarm is at most the stated one,
on average over the posterior of p. Bets against an interval (`specplan.live.drift.betting.MeanBets`) hold for the worst
p in it instead, at a price: a share at the middle of the interval that moves by d leaves it by less.

A property that is known before the observation, its *kind* (for a draft step its length: long ones are rejected more
often), has a share of its own; bets that distinguish kinds are stronger than a bet on the mean over kinds. Kinds often
also explain the correlation of observations within an answer.

The remaining correlation increases the variance of their sum by a factor over independent observations ("design
effect", Kish 1965). The logarithm of a stake's factor is divided by it, as in quasi-likelihood; by Jensen's inequality
a fair bet stays fair. `benchmarks.drift_delays` measures the rate of false alarms and the delay until an alarm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specplan.live.drift.betting import EDGE, TwoWays, Wager
from theory.errors import ParameterError

__all__ = ["Record", "ShareBets"]


@dataclass(frozen=True, slots=True)
class Record:
    """A recorded share."""

    value: float
    """In [0, 1]."""
    n: float = math.inf
    """Number of observations, > 0; infinite: the share is exact."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:
            raise ParameterError("value", self.value, "must be in [0, 1]")
        if not self.n > 0.0:
            raise ParameterError("n", self.n, "must be > 0")


class _Known:
    """Knowledge of the shares: the records and the observations since."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.kind = 0
        """Index of the record that the next observations belong to."""
        self._records = records
        self._ones: list[Any] = [0.0] * len(records)
        self._seen = [0] * len(records)

    @property
    def mean(self) -> Any:
        """Probability that the next observation is 1."""
        record = self._records[self.kind]
        if math.isinf(record.n):
            return record.value
        return (record.n * record.value + 0.5 + self._ones[self.kind]) / self._whole

    @property
    def _whole(self) -> float:
        return self._records[self.kind].n + 1.0 + self._seen[self.kind]

    @property
    def counts(self) -> tuple[float, float]:
        """Parameters of the posterior, a beta distribution; infinite where the share is exact."""
        return self._whole * float(self.mean), self._whole * (1.0 - float(self.mean))

    def learn(self, ones: Any, n: int) -> None:
        """Update with ``n`` observations, of which ``ones`` are 1."""
        self._ones[self.kind] = self._ones[self.kind] + ones
        self._seen[self.kind] += n


class _ShareBet(Wager):
    """A bet that the odds of a 1 have changed by the factor ``times``."""

    def __init__(self, known: _Known, times: float, alike: float) -> None:
        super().__init__()
        self._known, self._times, self._alike = known, times, alike

    def factor(self, observed: Any) -> Any:
        """Return the factor of a stake, >= 0; its mean is at most 1 while the prediction holds."""
        mean, sought, open_ = self._odds()
        ratio = observed * sought / mean + (1.0 - observed) * (1.0 - sought) / (1.0 - mean)
        return np.where(open_, ratio, 1.0) ** (1.0 / self._alike)

    def _odds(self) -> tuple[Any, Any, Any]:
        """The predicted share, the share that is bet on, and whether there is a bet: not at the end of [0, 1]."""
        predicted = self._known.mean
        mean = np.clip(predicted, EDGE, 1.0 - EDGE)
        return mean, _moved(mean, self._times), predicted <= 1.0 - EDGE if self._times > 1.0 else predicted >= EDGE

    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum of ``n`` observations that are 0 or 1."""
        if not n:
            return
        mean, sought, open_ = self._odds()
        if not open_:
            self.multiply_by_log(0.0, n)
            return
        log = total * math.log(sought) + (n - total) * math.log1p(-sought)
        ones, zeros = self._known.counts
        if math.isinf(ones + zeros):
            log -= total * math.log(mean) + (n - total) * math.log1p(-mean)
        else:
            log -= _log_beta(ones + total, zeros + n - total) - _log_beta(ones, zeros)
        self.multiply_by_log(log / self._alike, n)


class ShareBets(TwoWays):
    """Bets in both directions on a share that finite records predict.

    Parameters
    ----------
    records : a single record, or a record for each kind of observation that is known beforehand.
    alike : variance of the recorded sum / variance of independent observations with these shares, >= 1.
    drift : least drift worth reporting of the share over all kinds, in (0, 1); one factor moves the odds of all kinds.
    false_alarm : probability of ever raising an alarm while the shares are the recorded ones, in (0, 1).
    """

    def __init__(self, records: Sequence[Record], *, alike: float = 1.0, drift: float, false_alarm: float) -> None:
        if not 1.0 <= alike < math.inf:
            raise ParameterError("alike", alike, "must be finite and at least 1")
        if not 0.0 < drift < 1.0:
            raise ParameterError("drift", drift, "must be in (0, 1)")
        self._known = _Known(records)
        up, down = (_ShareBet(self._known, _times_odds(records, shift), alike) for shift in (drift, -drift))
        super().__init__((up, down), false_alarm)

    def of_kind(self, kind: int) -> None:
        """Set the kind of the next observations, from 0 on."""
        self._known.kind = kind

    def take(self, observed: Any) -> None:
        """Take in an observation, 0 or 1, or an array with that of each stream, shape (streams,)."""
        super().take(observed)
        self._known.learn(observed, 1)

    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum of ``n`` observations that are 0 or 1, all of one kind."""
        super().take_sum(total, n)
        self._known.learn(total, n)


def _moved(p: Any, times: float) -> Any:
    """The share whose odds are ``times`` those of ``p``."""
    return times * p / (1.0 + (times - 1.0) * p)


def _times_odds(records: Sequence[Record], shift: float) -> float:
    """The factor on the odds of all kinds that moves the share over all of them by ``shift``."""
    weights = np.array([1.0 if math.isinf(record.n) else record.n for record in records], dtype=float)
    weights /= weights.sum()
    shares = np.clip([record.value for record in records], EDGE, 1.0 - EDGE)
    whole = float(weights @ shares)
    sought = min(max(whole + shift, 0.5 * EDGE), 1.0 - 0.5 * EDGE)
    low, high = (0.0, 50.0) if shift > 0.0 else (-50.0, 0.0)
    for _ in range(60):  # halving 100 sixty times is exact in floats
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(weights @ _moved(shares, math.exp(middle))) < sought else (low, middle)
    return math.exp(0.5 * (low + high))


def _log_beta(a: float, b: float) -> float:
    """Logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
