"""Statistical tests for `calibrate.record.compare`: ratios of means and differences of proportions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq

__all__ = ["Change", "Share", "holm", "log_ratio", "newcombe"]


class Share(NamedTuple):
    """A proportion, in [0, 1], and the effective number of independent decisions behind it, > 0."""

    value: float
    n: float


class Change(NamedTuple):
    """Change from a first to a second measurement, with its confidence interval and p-value."""

    change: float
    low: float
    high: float
    p: float


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values: if no effect is real, the smallest is below alpha with probability <= alpha.

    This holds for any dependence between the tests.

    References
    ----------
    Holm 1979, Scand. J. Statist. 6, 65-70.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def log_ratio(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Change:
    """Ratio of the geometric means of independent positive measurements, its interval, and Welch's p-value.

    Parameters
    ----------
    first, second : measurements, shapes (n,) and (m,), n, m >= 2.
    """
    x, y = np.log(np.asarray(first, dtype=np.float64)), np.log(np.asarray(second, dtype=np.float64))
    gap = float(y.mean() - x.mean())
    if x.var(ddof=1) / x.size + y.var(ddof=1) / y.size <= 1e-24 * max(gap * gap, 1.0):  # any difference is significant
        return Change(math.exp(gap), math.exp(gap), math.exp(gap), float(abs(gap) < 1e-12))
    welch = stats.ttest_ind(y, x, equal_var=False)
    low, high = welch.confidence_interval(confidence)
    return Change(math.exp(gap), math.exp(low), math.exp(high), float(welch.pvalue))


def newcombe(first: Share, second: Share, *, confidence: float = 0.95, correlation: float = 0.0) -> Change:
    """Difference of two proportions, its hybrid score interval, and the p-value at which the interval excludes 0.

    Parameters
    ----------
    correlation : correlation of the two estimated proportions, in (-1, 1).

    References
    ----------
    Newcombe 1998, Statistics in Medicine 17, 873-890 (method 10) and 2635-2650 (method 10, pairs).

    >>> [round(x, 4) for x in newcombe(Share(48 / 80, 80), Share(56 / 70, 70))[:3]]
    [0.2, 0.0524, 0.3339]
    """
    gap = second.value - first.value
    low, high = _hybrid(first, second, float(stats.norm.ppf(0.5 + confidence / 2.0)), correlation)

    def edge(z: float) -> float:
        ends = _hybrid(first, second, z, correlation)
        return ends[0] if gap > 0.0 else -ends[1]

    nearly_none, top = 1e-9, 40.0
    if gap == 0.0 or edge(nearly_none) <= 0.0:
        return Change(gap, low, high, 1.0)
    z = top if edge(top) > 0.0 else float(brentq(edge, nearly_none, top))
    return Change(gap, low, high, 2.0 * float(stats.norm.sf(z)))


def _hybrid(first: Share, second: Share, z: float, correlation: float) -> tuple[float, float]:
    (p, n), (q, m) = first, second
    (p_low, p_high), (q_low, q_high) = _wilson(p, n, z), _wilson(q, m, z)
    gap = q - p

    def arm(a: float, b: float) -> float:
        return math.sqrt(max(a * a + b * b - 2.0 * correlation * a * b, 0.0))

    return gap - arm(q - q_low, p_high - p), gap + arm(q_high - q, p - p_low)


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * math.sqrt(p * (1.0 - p) / n + z * z / (4.0 * n * n))
    return max(centre - half, 0.0), min(centre + half, 1.0)
