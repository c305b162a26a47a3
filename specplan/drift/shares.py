r"""Testing by betting whether a share stays what it was, where a finite record says what it was.

The record of n observations leaves the share p uncertain. The prediction of the next observation is the posterior mean
of p (Jeffreys' prior: half an observation of either kind), which goes on learning from what is seen:

.. math:: m_t = (n p + 1/2 + s_{t-1}) / (n + 1 + t - 1)

with s the observations of kind 1 so far. Against it is bet that the share is :math:`q = m_t \\pm d`: a stake becomes
:math:`q / m_t` or :math:`(1 - q) / (1 - m_t)` times as much. With p drawn from the posterior, :math:`m_t` is the
probability of a 1 given all that went before, so that nobody gains in expectation, and by Ville's inequality
(`specplan.drift.betting`) an alarm is ever raised with the stated probability at most: on average over what the record
leaves open. Bets against an interval (`specplan.drift.betting.MeanBets`) hold for the worst p in it instead, and pay for
that: a share at the middle of the interval that moves by d leaves it by less.

Observations of one answer are alike: their sum varies by a factor ("design effect", Kish 1965) more than of independent
ones. The logarithm of a stake's factor is divided by it, as quasi-likelihood does; by Jensen's inequality what was fair
before is so after. `benchmarks.drift_delays` measures both, and what they cost in time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from specplan.drift.betting import EDGE, Stakes, TwoWays
from theory.errors import ParameterError

__all__ = ["ShareBets"]


class _Known:
    """What is known of the share: the record, and what was seen since."""

    def __init__(self, value: float, n: float) -> None:
        self._value, self._n = value, n
        self._ones: Any = 0.0
        self._seen = 0

    @property
    def mean(self) -> Any:
        """Probability of a 1 next."""
        if math.isinf(self._n):
            return self._value
        return (self._n * self._value + 0.5 + self._ones) / (self._n + 1.0 + self._seen)

    @property
    def counts(self) -> tuple[float, float]:
        """Parameters of the posterior, a beta distribution; infinite where the share is known for certain."""
        whole = self._n + 1.0 + self._seen
        return whole * float(self.mean), whole * (1.0 - float(self.mean))

    def learn(self, ones: Any, n: int) -> None:
        self._ones = self._ones + ones
        self._seen += n


class _ShareBet(Stakes):
    """A bet that the share has moved by so much."""

    def __init__(self, known: _Known, shift: float, alike: float) -> None:
        super().__init__()
        self._known, self._shift, self._alike = known, shift, alike

    def factor(self, observed: Any) -> Any:
        """By what a stake is multiplied; of mean at most 1 while the prediction holds, and never negative."""
        mean, sought, open_ = self._odds()
        ratio = observed * sought / mean + (1.0 - observed) * (1.0 - sought) / (1.0 - mean)
        return np.where(open_, ratio, 1.0) ** (1.0 / self._alike)

    def _odds(self) -> tuple[Any, Any, Any]:
        """The predicted share, the one that is bet on, and whether there is a bet: none where nothing is beyond."""
        told = self._known.mean
        mean = np.clip(told, EDGE, 1.0 - EDGE)
        sought = np.clip(mean + self._shift, 0.5 * EDGE, 1.0 - 0.5 * EDGE)
        return mean, sought, told <= 1.0 - EDGE if self._shift > 0.0 else told >= EDGE

    def take(self, observed: Any) -> None:
        """Take in an observation, 0 or 1, before the prediction learns of it."""
        self.multiply(self.factor(observed))

    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum of ``n`` observations that are 0 or 1: the worth of a stake is that of their whole number."""
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
    """Bets both ways on a share that a record of finite length predicts.

    Parameters
    ----------
    value : the predicted share, in [0, 1].
    n : observations that it was taken from, > 0; infinite: it is known for certain.
    alike : variance of the record's share / that of independent observations, >= 1.
    drift : least one worth reporting, in (0, 1).
    false_alarm : probability of ever raising an alarm while the share is what the record was drawn from, in (0, 1).
    """

    def __init__(self, value: float, n: float, *, alike: float = 1.0, drift: float, false_alarm: float) -> None:
        if not 0.0 <= value <= 1.0:
            raise ParameterError("value", value, "must be in [0, 1]")
        if not n > 0.0:
            raise ParameterError("n", n, "must be > 0")
        if not 1.0 <= alike < math.inf:
            raise ParameterError("alike", alike, "must be finite and at least 1")
        if not 0.0 < drift < 1.0:
            raise ParameterError("drift", drift, "must be in (0, 1)")
        self._known = _Known(value, n)
        up, down = (_ShareBet(self._known, shift, alike) for shift in (drift, -drift))
        super().__init__((up, down), false_alarm)

    def take(self, observed: Any) -> None:
        """Take in an observation, 0 or 1, or one of each stream, shape (streams,)."""
        super().take(observed)
        self._known.learn(observed, 1)

    def take_sum(self, total: float, n: int) -> None:
        """Take in the sum of ``n`` observations that are 0 or 1."""
        super().take_sum(total, n)
        self._known.learn(total, n)


def _log_beta(a: float, b: float) -> float:
    """Logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
