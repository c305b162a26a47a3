"""Estimates: a value with its standard error, interval, sample size and the name of the estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theory.errors import ParameterError

__all__ = ["Estimate", "mean", "on_logarithm", "proportion", "ratio_of_totals", "student_quantile", "with_errors"]

_COVERAGE: Final = 0.95
"""Coverage of all intervals, [-]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its uncertainty.

    ``str(estimate)`` prints the value and its standard error to two significant digits of the latter:
    ``1.430 ± 0.021``; ``(±0)`` marks an exact value.
    """

    value: float
    """Point estimate, in ``unit``."""
    stderr: float
    """Standard error of the value; 0 for an exact number, NaN if it is unknown (fewer than two samples)."""
    low: float
    """Lower end of the confidence interval."""
    high: float
    """Upper end of the confidence interval."""
    n: int
    """Independent observations behind it (answers, batches, replications); 0 for an exact number."""
    confidence: float = _COVERAGE
    """Coverage that the interval aims at, in (0, 1)."""
    estimator: str = "mean"
    """The estimator, e.g. ``"ratio of totals"``."""
    unit: str = ""
    """Unit of the value; empty for a pure number."""
    seed: int | None = None
    """Seed of the random streams behind it; ``None`` for measurements and exact numbers."""

    @property
    def half_width(self) -> float:
        """Half the width of the confidence interval."""
        return (self.high - self.low) / 2.0

    @property
    def relative_half_width(self) -> float:
        """Half width over the absolute value; infinite at value 0."""
        return self.half_width / abs(self.value) if self.value else math.inf

    def contains(self, value: float) -> bool:
        """Whether ``value`` lies in the confidence interval."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        """Return ``value ± stderr unit``."""
        unit = f" {self.unit}" if self.unit else ""
        if not (math.isfinite(self.stderr) and math.isfinite(self.value)):
            return f"{self.value:.4g} ± ?{unit}"
        if self.stderr <= 1e-12 * abs(self.value):  # rounding, not noise
            return f"{self.value:.6g} (±0){unit}"
        digits = max(1 - math.floor(math.log10(self.stderr)), 0)
        return f"{self.value:.{digits}f} ± {self.stderr:.{digits}f}{unit}"


def mean(samples: ArrayLike) -> Estimate:
    """Mean of independent samples with Student's interval.

    Parameters
    ----------
    samples : independent observations, shape (n,), n >= 1; with n = 1 the interval is infinite.

    Raises
    ------
    ParameterError : no samples.
    """
    x = _vector("samples", samples)
    value = float(x.mean())
    stderr = float(x.std(ddof=1) / math.sqrt(x.size)) if x.size > 1 else math.nan
    return _student(value, stderr, x.size, "mean")


def ratio_of_totals(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    estimator: str = "ratio of totals",
    unit: str = "",
    seed: int | None = None,
) -> Estimate:
    r"""Ratio of the totals of paired samples, with the delta method's standard error.

    .. math:: S = \frac{\sum_i B_i}{\sum_i T_i}, \qquad
              \mathrm{se}^2 = \frac{\sum_i (B_i - S\,T_i)^2}{n (n - 1)\, \bar T^2}

    The ratio of totals, not the mean of ratios, is the speedup of a server on a workload. Its bias is O(1/n), far below
    the standard error.

    Parameters
    ----------
    numerator, denominator : paired observations of independent units (answers), shape (n,), n >= 1.

    Raises
    ------
    ParameterError : empty, unequal lengths, or a denominator whose total is not positive.
    """
    b, t = _vector("numerator", numerator), _vector("denominator", denominator)
    if b.size != t.size:
        raise ParameterError("denominator", f"{t.size} samples", f"must have as many as the numerator ({b.size})")
    total = float(t.sum())
    if not total > 0.0:
        raise ParameterError("denominator", total, "must have a positive total")
    value = float(b.sum()) / total
    n = b.size
    residual = b - value * t
    stderr = math.sqrt(float(residual @ residual) / (n * (n - 1))) / (total / n) if n > 1 else math.nan
    return _student(value, stderr, n, estimator, unit, seed)


def proportion(successes: int, n: int) -> Estimate:
    """Share of independent trials that succeeded, with Wilson's interval (valid near 0 and 1 too).

    Raises
    ------
    ParameterError : not ``0 <= successes <= n`` or ``n < 1``.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ParameterError("successes", f"{successes} of {n}", "must satisfy 0 <= successes <= n with n >= 1")
    z = _normal_quantile(_COVERAGE)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Estimate(
        value=p,
        stderr=math.sqrt(p * (1 - p) / n),
        low=max(centre - half, 0.0),
        high=min(centre + half, 1.0),
        n=n,
        estimator="proportion (Wilson)",
    )


def on_logarithm(value: float, half_width: float, n: int, *, estimator: str, seed: int | None = None) -> Estimate:
    """Return an estimate of n observations with a 95 % interval symmetric in the logarithm: a speedup is positive.

    Parameters
    ----------
    value : > 0.
    half_width : of the interval of the logarithm, >= 0, [-].
    n : observations; 0 where nothing was sampled.
    """
    quantile = student_quantile(_COVERAGE, max(n - 1, 1)) if n else _normal_quantile(_COVERAGE)
    return Estimate(
        value=value,
        stderr=value * half_width / quantile,
        low=value * math.exp(-half_width),
        high=value * math.exp(half_width),
        n=n,
        estimator=estimator,
        seed=seed,
    )


def with_errors(value: float, errors: Mapping[str, float], n: int, *, of: str, seed: int | None = 0) -> Estimate:
    """Return a simulated value > 0 whose interval has all errors in squares, half-widths of its logarithm by source."""
    how = "simulated" if n else "by mean values"
    estimator = f"{of}, {how}; interval: {', '.join(sorted(errors)) or 'none'}"
    return on_logarithm(value, math.hypot(*errors.values()), n, estimator=estimator, seed=seed)


def student_quantile(confidence: float, degrees: int) -> float:
    """Return the two-sided quantile of Student's t: ``P(|t| <= quantile) = confidence``; infinite at 0 degrees."""
    if not 0.0 < confidence < 1.0:
        raise ParameterError("confidence", confidence, "must be in (0, 1)")
    if degrees < 1:
        return math.inf
    return _two_sided_quantile(confidence, degrees)


@lru_cache(maxsize=1024)
def _two_sided_quantile(confidence: float, degrees: int) -> float:
    """By Newton's method on the exact sums; importing scipy or flint would take longer than some plans."""
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    quantile = _normal_quantile(confidence)
    for _ in range(100):
        density = math.exp(log_scale - (degrees + 1) / 2 * math.log1p(quantile**2 / degrees))
        step = (confidence - _share_within(quantile, degrees)) / (2.0 * density)
        quantile += step
        if abs(step) <= 1e-9 * quantile:  # the next one would be its square
            break
    return quantile


def _share_within(quantile: float, degrees: int) -> float:
    """P(|t| <= quantile): Abramowitz and Stegun 1964, 26.7.3 and 26.7.4, finite sums of powers of a cosine."""
    odd, longest = degrees % 2, math.hypot(math.sqrt(degrees), quantile)
    cosine, sine = math.sqrt(degrees) / longest, quantile / longest
    k = np.arange(1, degrees // 2)
    terms = 1.0 + float(np.cumprod((2 * k - 1 + odd) / (2 * k + odd) * cosine**2).sum())
    series = sine * terms * (cosine if odd else 1.0) if degrees > 1 else 0.0
    return 2.0 / math.pi * (math.atan(quantile / math.sqrt(degrees)) + series) if odd else series


def _normal_quantile(confidence: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def _student(value: float, stderr: float, n: int, estimator: str, unit: str = "", seed: int | None = None) -> Estimate:
    half = student_quantile(_COVERAGE, n - 1) * stderr if n > 1 else math.inf
    return Estimate(
        value=value, stderr=stderr, low=value - half, high=value + half, n=n, estimator=estimator, unit=unit, seed=seed
    )


def _vector(name: str, samples: ArrayLike) -> NDArray[np.float64]:
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ParameterError(name, f"array of shape {x.shape}", "must be a non-empty vector of finite numbers")
    return x
