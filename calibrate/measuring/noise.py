"""Checks of a machine during a measurement: warm-up, spread and drift of sentinels, and stolen CPU time.

A sentinel is a fixed workload, timed again and again between the other parts of a calibration. Its spread and its drift
are those of the machine, independent of the measured models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from theory.errors import UnstableMeasurementError

__all__ = ["Steadiness", "check_steadiness", "cpu_times", "leading_slow", "steadiness", "stolen_share"]

_FALSE_ALARM: Final = 0.01
"""False-alarm rate of `leading_slow` and of the test for a drift, each."""
_GROSS: Final = 2.0
"""A leading sample slower than all later ones is dropped if it takes this many times the median."""
_NULL_DRAWS: Final = 20_000
_LEAST: Final = 12
"""Least number of samples in which a warm-up is detected."""
_MOST: Final = 400
"""Number of first samples in which a warm-up is detected."""
_SPREAD: Final = 0.40
"""Largest `Steadiness.spread`, [-]: virtual machines whose cores run at half speed for a tenth of the time pass, for a
third they do not."""
_DRIFT: Final = 0.30
"""Largest relative change of sentinels from the beginning to the end, [-], if a trend is significant at 1 %."""
_CPU_TIMES: Final = Path("/proc/stat")


def leading_slow(seconds: ArrayLike) -> int:
    r"""Count the leading samples that belong to a warm-up.

    Two rules; the longer prefix counts, and never more than half of the samples. (1) A change point: the prefix k whose
    standardised rank sum

    .. math:: Z_k = \frac{\sum_{i \le k} R_i - k (n + 1) / 2}{\sqrt{k (n - k) (n + 1) / 12}}

    is largest, if it exceeds the 99 % quantile of exchangeable samples (by simulation, for this n). (2) Samples slower
    than all later ones and twice the median: few very slow samples, to which ranks are not sensitive; exchangeable
    samples have such a beginning with probability at most 1 / n.

    Parameters
    ----------
    seconds : durations of similar work in order of time, shape (n,); divide work of different size by its usual
        duration before. Only the first 400 count; with fewer than 12 the result is 0.

    Returns
    -------
    Samples of the warm-up, 0 <= k <= n / 2.
    """
    x = np.asarray(seconds, dtype=np.float64)[:_MOST]
    n = x.size
    if n < _LEAST:
        return 0
    z = _rank_sums(stats.rankdata(x)[None, :])[0]
    best = int(np.argmax(z))
    change_point = best + 1 if z[best] > _critical(n) else 0
    later = np.maximum.accumulate(x[::-1])[::-1]
    gross = 0
    while gross < n // 2 and x[gross] > max(later[gross + 1], _GROSS * np.median(x)):
        gross += 1
    return max(change_point, gross)


def _rank_sums(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standardised rank sums of the prefixes 1 .. n // 2 of each row."""
    n = ranks.shape[1]
    k = np.arange(1, n // 2 + 1)
    sums = np.cumsum(ranks[:, : n // 2], axis=1) - k * (n + 1) / 2.0
    return np.asarray(sums / np.sqrt(k * (n - k) * (n + 1) / 12.0))


@lru_cache(maxsize=64)
def _critical(n: int) -> float:
    """Critical value of the largest rank sum of exchangeable samples at the false-alarm rate, [-]."""
    rng = np.random.default_rng([0x7761726D, n])
    largest = []
    for _ in range(10):  # in parts, to limit memory
        ranks = rng.permuted(np.tile(np.arange(1.0, n + 1.0), (_NULL_DRAWS // 10, 1)), axis=1)
        largest.append(_rank_sums(ranks).max(axis=1))
    return float(np.quantile(np.concatenate(largest), 1.0 - _FALSE_ALARM))


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """Spread and drift of the sentinels of one engine."""

    n: int
    median_s: float
    spread: float
    """Half the distance between the 16 % and 84 % quantiles / the median, [-]."""
    drift: float
    """exp(Theil-Sen slope of the logarithm over the sentinels' order, from the first to the last) - 1, [-]."""
    trend_p: float
    """p-value of the trend (Kendall's tau, two-sided)."""

    def complaint(self) -> str:
        """Description of the limits that are exceeded; empty if none is."""
        faults = []
        if self.spread > _SPREAD:
            faults.append(f"the same work varied by ±{self.spread:.0%} (limit {_SPREAD:.0%})")
        if abs(self.drift) > _DRIFT and self.trend_p < _FALSE_ALARM:
            what = "slower" if self.drift > 0.0 else "faster"
            faults.append(f"it became {abs(self.drift):.0%} {what} from beginning to end (limit {_DRIFT:.0%})")
        return " and ".join(faults)

    def __str__(self) -> str:
        """Return a short description."""
        return f"{self.n} sentinels, {1e3 * self.median_s:.3g} ms ±{self.spread:.0%}, drift {self.drift:+.0%}"


def steadiness(sentinels: Sequence[tuple[float, float]]) -> Steadiness | None:
    """Sum up sentinels.

    Their order counts, not their moments: a calibration may pause for days, and clocks are set.

    Parameters
    ----------
    sentinels : (moment, duration of the work) in s, in the order in which they were measured.

    Returns
    -------
    None with fewer than eight: too few to tell noise from chance.
    """
    if len(sentinels) < 8:
        return None
    seconds = np.array([duration for _, duration in sentinels], dtype=np.float64)
    low, middle, high = np.quantile(seconds, (0.16, 0.5, 0.84))
    logs = np.log(np.maximum(seconds, 1e-12))
    order = np.arange(logs.size)
    slope = float(stats.theilslopes(logs, order)[0]) if np.ptp(logs) > 0.0 else 0.0
    trend = stats.kendalltau(order, logs).pvalue if np.ptp(logs) > 0.0 else 1.0
    return Steadiness(
        n=logs.size,
        median_s=float(middle),
        spread=float((high - low) / (2.0 * middle)) if middle > 0.0 else math.inf,
        drift=math.expm1(slope * (logs.size - 1)),
        trend_p=float(trend),
    )


def check_steadiness(sentinels: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Raise an error if the machine was not steady.

    Raises
    ------
    UnstableMeasurementError : a limit is exceeded; the message has the values and a remedy.
    """
    measured = {name: steadiness(values) for name, values in sentinels.items()}
    unsteady = {name: s for name, s in measured.items() if s is not None and s.complaint()}
    if not unsteady:
        return
    said = "; ".join(f"{name}: {s.complaint()}" for name, s in unsteady.items())
    worst = max(max(s.spread, abs(s.drift)) for s in unsteady.values())
    raise UnstableMeasurementError(
        f"the machine was not steady: {said}; stop what else runs on it and measure again", spread=worst
    )


def cpu_times(text: str = "") -> tuple[int, int] | None:
    """Return the busy and the stolen CPU time of all cores since boot, clock ticks; None where the system tells none.

    Parameters
    ----------
    text : of Linux's ``/proc/stat``; empty: as it is now.

    >>> cpu_times("cpu  100 0 20 1000 5 1 2 7 0 0")
    (123, 7)
    """
    try:
        words = (text or _CPU_TIMES.read_text(encoding="ascii")).partition("\n")[0].split()
    except OSError:
        return None
    if len(words) < 9 or words[0] != "cpu":
        return None
    user, nice, system, _, _, irq, softirq, stolen = map(int, words[1:9])
    return user + nice + system + irq + softirq, stolen


def stolen_share(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """Return the share of the CPU time wanted in between that the hypervisor stole, in [0, 1]; None where unknown."""
    if before is None or after is None:
        return None
    busy, stolen = after[0] - before[0], after[1] - before[1]
    return stolen / max(busy + stolen, 1)
