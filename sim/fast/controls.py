"""Control variates: quantities of simulated answers with known means, to reduce the variance of an estimate.

Two quantities of an answer are correlated with its time and have known means: the tokens of the target (a sum of draws
from a known distribution), and the time of the same verdicts if every step took its mean time. The latter meets the
assumptions of the closed form; its mean over an answer of n steps follows from renewal theory (the process restarts
after each refusal), and grows as ``n / f`` with f of LR's Theorems 1 and 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.answers.lengths import Fixed, Lognormal, Marginal
from sim.fast.recursions import async_recursion
from theory.errors import ParameterError

__all__ = ["Controlled", "controlled_mean", "ideal_mean", "mean_tokens", "ratio_to_known"]

Array = NDArray[np.float64]


def mean_tokens(marginal: Marginal, limit: int | None) -> float | None:
    """Return the mean of whole counts cut at a limit; None for distributions without a known mean.

    >>> mean_tokens(Fixed(40), 30)
    30.0
    """
    if isinstance(marginal, Fixed):
        return float(min(marginal.n, math.inf if limit is None else limit))
    if not isinstance(marginal, Lognormal) or marginal.cv == 0.0:
        return None
    sigma = marginal.sigma
    mu = math.log(marginal.mean) - sigma * sigma / 2.0
    most = limit or math.ceil(math.exp(mu + 12.0 * sigma))  # a share of 2e-33 is beyond it
    if most > 10_000_000:
        return None
    from scipy.special import ndtr

    # E[min(max(round X, 1), limit)] = 1 + the sum over k >= 1 of P(X > k + 1/2), up to the limit.
    return float(1.0 + ndtr((mu - np.log(np.arange(1, most) + 0.5)) / sigma).sum())


def ideal_mean(alpha: float, c1: float, k1: int, n_steps: int, *, verify: float = 0.0, sync: bool = False) -> float:
    """Return the mean time of an answer by Lookahead Reasoning if every step takes its mean time, in target steps.

    Exact for independent verdicts, the paper's rules and width 1. ``n_steps`` / it tends to `theory.speedup.f_async` or
    `f_sync` as answers grow.

    Parameters
    ----------
    alpha : acceptance of a draft, in [0, 1].
    c1 : draft step / target step, > 0.
    k1 : target steps in flight, >= 1.
    n_steps : steps of the answer, >= 1.
    verify : time of a verdict / of a target step, >= 0.
    sync : synchronous instead of asynchronous lookahead.

    >>> ideal_mean(0.0, 0.1, 4, 10)
    10.0
    """
    if n_steps < 1:
        raise ParameterError("n_steps", n_steps, "must be >= 1")
    left = np.zeros(n_steps + 1)
    if sync:
        for m in range(1, n_steps + 1):
            ahead = min(k1 - 1, m)
            x = np.arange(min(ahead, m - 1) + 1)  # accepted drafts before the step that the target writes
            share = (1.0 - alpha) * alpha**x
            share[-1] = alpha ** float(x[-1])
            left[m] = c1 * ahead + 1.0 + verify * (ahead > 0) + float(share @ left[m - 1 - x])
        return float(left[n_steps])
    steps = np.ones((1, n_steps))
    (commits,), _ = async_recursion(steps, c1 * steps, steps > 0, k1=k1, verify_s=verify)
    share = (1.0 - alpha) * alpha ** np.arange(n_steps)
    for m in range(1, n_steps + 1):
        left[m] = share[:m] @ (commits[:m] + left[m - 1 :: -1][:m]) + alpha**m * commits[m - 1]
    return float(left[n_steps])


@dataclass(frozen=True, slots=True)
class Controlled:
    """A mean estimated with control variates."""

    value: float
    stderr: float
    variance_ratio: float
    """Variance of the sample mean / of this estimate, >= 1 except for sampling error, [-]."""
    n: int


def controlled_mean(samples: Array, controls: Array, means: Array) -> Controlled:
    """Return the mean of samples, corrected for the deviation of the controls from their means (least squares).

    Parameters
    ----------
    samples : shape (n,).
    controls : shape (n, controls).
    means : exact means of the controls, shape (controls,).

    Raises
    ------
    ParameterError : too few samples for the number of controls.
    """
    n = len(samples)
    if n < controls.shape[1] + 3:
        raise ParameterError(
            "samples", n, f"must be at least {controls.shape[1] + 3} with {controls.shape[1]} controls"
        )
    plain = float(samples.var(ddof=1)) / n
    off = controls - means
    off = off[:, off.std(axis=0) > 1e-12 * (1.0 + np.abs(means))]  # a constant control cannot reduce variance
    design = np.column_stack([np.ones(n), off])
    coefficients, *_ = np.linalg.lstsq(design, samples, rcond=None)
    rest = samples - design @ coefficients
    spread = float(rest @ rest) / (n - design.shape[1])
    variance = spread * float(np.linalg.pinv(design.T @ design)[0, 0])
    ratio = plain / variance if variance > 0.0 else math.inf
    return Controlled(float(coefficients[0]), math.sqrt(variance), ratio, n)


def ratio_to_known(known: float, mean: Controlled) -> tuple[float, float]:
    """Return a known mean / an estimated mean, and the standard error of the ratio."""
    return known / mean.value, known / mean.value * mean.stderr / mean.value
