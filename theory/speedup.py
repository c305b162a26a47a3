r"""Closed forms of the speedup of speculation, token level and step level.

Sources, and the conventions that set them apart:

- *Leviathan, Kalman, Matias 2023* (arXiv:2211.17192): ``gamma`` tokens are drafted per target pass, up to
  ``gamma + 1`` come out.
- *Lookahead Reasoning* (LR, "Scaling Speculative Decoding with Lookahead Reasoning"): ``k`` counts positions that the
  target works on in parallel, so k = gamma + 1 and k = 1 is plain decoding. This is the convention of `g`, `f_sync`
  and `f_async`. (Section 2 of the same paper writes g in Leviathan's convention; section 3.3 calls k2 "additional"
  tokens but prints the formula for k2 positions, which is the one used here.)

Assumptions of all: each draft is accepted independently with one probability, every step of a model takes the same
time, verification is free, and a batched target pass costs as much as a single one. Speedups are ratios of throughput
in the long run, over plain decoding.

All functions broadcast, compute in float64 and return a numpy scalar for scalar arguments. Measured against 50-digit
arithmetic over all magnitudes of the arguments, k up to 1e6, no result is off by more than 1e-15 relative
(``tests/ledger/lookahead_reasoning/test_numeric_functions.py`` holds each function to it).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from theory import checks, kernels
from theory.checks import FloatArray

__all__ = [
    "expected_accepted_steps",
    "expected_tokens",
    "f_async",
    "f_async_saturated",
    "f_async_unsaturated",
    "f_sync",
    "g",
    "h",
    "walltime_leviathan_2023",
]


def expected_tokens(alpha: ArrayLike, gamma: ArrayLike) -> FloatArray:
    r"""Tokens that one draft-then-verify pass emits on average.

    .. math:: E[\tau] = \sum_{i=0}^{\gamma} \alpha^i = \frac{1 - \alpha^{\gamma+1}}{1 - \alpha}

    Parameters
    ----------
    alpha : probability that a drafted token is accepted given that those before it were, [-], in [0, 1].
    gamma : tokens drafted per pass, integer >= 0.

    Returns
    -------
    Tokens per pass, between 1 and gamma + 1; gamma + 1 at alpha = 1.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    Leviathan, Kalman, Matias 2023, arXiv:2211.17192, Eq. (1); Lookahead Decoding (Fu et al. 2024), Eq. (4).

    >>> float(expected_tokens(0.5, 1))
    1.5
    """
    a = checks.probability("alpha", alpha)
    drafted = checks.count("gamma", gamma, minimum=0, maximum=checks.MAX_COUNT - 1)
    checks.broadcast_shape(alpha=a, gamma=drafted)
    return checks.unwrap(kernels.geometric_sum(a, drafted.astype(np.float64) + 1.0))


def expected_accepted_steps(alpha1: ArrayLike, limit: ArrayLike | None = None) -> FloatArray:
    r"""Drafts accepted in a row before the first rejection, E[X] = alpha1 / (1 - alpha1), or E[min(X, limit)].

    Parameters
    ----------
    alpha1 : acceptance probability of a draft step, [-], in [0, 1].
    limit : drafts available per stage, integer >= 0 (k1 - 1 in a synchronous stage); None for no limit.

    Returns
    -------
    Steps per stage; inf at alpha1 = 1 without a limit.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, Appendix B.1.1 (distribution of X); the limited form is the sum of alpha1**i, i = 1..limit.

    >>> float(expected_accepted_steps(0.5)), float(expected_accepted_steps(0.5, 2))
    (1.0, 0.75)
    """
    a = checks.probability("alpha1", alpha1)
    if limit is None:
        with np.errstate(divide="ignore"):
            return checks.unwrap(a / (1.0 - a))
    n = checks.count("limit", limit, minimum=0)
    checks.broadcast_shape(alpha1=a, limit=n)
    return checks.unwrap(a * kernels.geometric_sum(a, n.astype(np.float64)))


def g(alpha2: ArrayLike, c2: ArrayLike, k2: ArrayLike) -> FloatArray:
    r"""Speedup of token-level speculation, LR's convention: k2 positions per target pass, k2 - 1 drafted.

    .. math:: g(k_2) = \frac{1 - \alpha_2^{k_2}}{(1 - \alpha_2)(1 - c_2 + c_2 k_2)}

    Parameters
    ----------
    alpha2 : acceptance probability of a drafted token, [-], in [0, 1].
    c2 : time of a draft token / time of a target pass, [-], in [0, 1].
    k2 : tokens per target pass, integer >= 1.

    Returns
    -------
    Speedup, [-]: 1 at k2 = 1, at most 1 / (1 - alpha2), below 1 where drafting costs more than it brings.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.3 and Appendix B.1.2, Eq. (2); equals `walltime_leviathan_2023` at gamma = k2 - 1.

    >>> float(g(0.5, 0.25, 2))
    1.2
    """
    a, c, k = checks.level("2", alpha2, c2, k2)
    return checks.unwrap(kernels.sync_speedup(a, c, k))


def walltime_leviathan_2023(alpha: ArrayLike, c: ArrayLike, gamma: ArrayLike) -> FloatArray:
    r"""Walltime improvement of speculative decoding, Leviathan's convention: gamma tokens drafted per pass.

    .. math:: \frac{1 - \alpha^{\gamma+1}}{(1 - \alpha)(\gamma c + 1)}

    Parameters
    ----------
    alpha : acceptance probability of a drafted token, [-], in [0, 1].
    c : time of a draft pass / time of a target pass, [-], in [0, 1].
    gamma : tokens drafted per target pass, integer >= 0.

    Returns
    -------
    Speedup, [-].

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    Leviathan, Kalman, Matias 2023, arXiv:2211.17192, Theorem 3.8.

    >>> float(walltime_leviathan_2023(0.5, 0.25, 1))
    1.2
    """
    a = checks.probability("alpha", alpha)
    cost = checks.ratio("c", c)
    drafted = checks.count("gamma", gamma, minimum=0, maximum=checks.MAX_COUNT - 1)
    checks.broadcast_shape(alpha=a, c=cost, gamma=drafted)
    return checks.unwrap(kernels.sync_speedup(a, cost, drafted.astype(np.float64) + 1.0))


def f_sync(alpha1: ArrayLike, c1: ArrayLike, k1: ArrayLike) -> FloatArray:
    r"""Speedup of synchronous Lookahead Reasoning (Algorithm 1): k1 - 1 drafts, then k1 targets at once.

    .. math:: f_{sync}(k_1) = \frac{1 - \alpha_1^{k_1}}{(1 - \alpha_1)(1 - c_1 + c_1 k_1)}

    Parameters
    ----------
    alpha1 : acceptance probability of a draft step given that those before it were accepted, [-], in [0, 1].
    c1 : time of a draft step / time of a target step, [-], in [0, 1].
    k1 : target steps generated in parallel, integer >= 1.

    Returns
    -------
    Speedup, [-]: 1 at k1 = 1, at most `f_async` and 1 / (1 - alpha1).

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.2 and Theorem 1.

    >>> float(f_sync(0.5, 0.25, 2))
    1.2
    """
    a, c, k = checks.level("1", alpha1, c1, k1)
    return checks.unwrap(kernels.sync_speedup(a, c, k))


def f_async(alpha1: ArrayLike, c1: ArrayLike, k1: ArrayLike) -> FloatArray:
    r"""Speedup of asynchronous Lookahead Reasoning with at most k1 targets in flight.

    A target starts as soon as its draft prefix exists and a slot in the window of k1 is free. With fixed step times
    target j of a stage therefore starts at s(j) = max(s(j - 1) + c1, s(j - k1) + 1), in target steps:

    - k1 c1 < 1: the window is full before the first target ends, s(j) = floor(j / k1) + c1 (j mod k1), and the
      speedup is S2 (`f_async_saturated`);
    - k1 c1 >= 1: the window never holds anything up, s(j) = j c1, and the speedup is S1 (`f_async_unsaturated`).

    Both agree at k1 c1 = 1. So the case is decided by k1 against ceil(1 / c1), as Theorem 2 has it in its second
    half; the floor in the main text and in the first half is a slip: at c1 = 0.4, k1 = 2 (floor 2, ceiling 3) the
    third target waits until 1.0 for a slot although its draft is ready at 0.8, which S1 ignores.

    Parameters
    ----------
    alpha1, c1 : as in `f_sync`.
    k1 : targets in flight at most, integer >= 1.

    Returns
    -------
    Speedup, [-]: 1 at k1 = 1, non-decreasing in k1 and constant from ceil(1 / c1) on.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.2, Theorem 2 and Appendix C.

    >>> float(f_async(0.5, 0.25, 2)), float(f_async(0.5, 0.25, 4)) == float(f_async(0.5, 0.25, 9))
    (1.411764705882353, True)
    """
    a, c, k = checks.level("1", alpha1, c1, k1)
    return checks.unwrap(kernels.step_speedup_async(a, c, k))


def f_async_unsaturated(alpha1: ArrayLike, c1: ArrayLike) -> FloatArray:
    r"""S1: speedup of asynchronous Lookahead Reasoning without a limit on the targets in flight.

    .. math:: S_1 = \frac{1 + E[X]}{1 + c_1 E[X]} = \frac{1}{c_1 + (1 - c_1)(1 - \alpha_1)}

    Right where k1 c1 >= 1; elsewhere an upper bound of `f_async`.

    Parameters
    ----------
    alpha1, c1 : as in `f_sync`.

    Returns
    -------
    Speedup, [-], at most 1 / c1 and 1 / (1 - alpha1); inf at alpha1 = 1, c1 = 0.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.2 and Theorem 2, case 1.

    >>> float(f_async_unsaturated(0.5, 0.25))
    1.6
    """
    a = checks.probability("alpha1", alpha1)
    c = checks.ratio("c1", c1)
    checks.broadcast_shape(alpha1=a, c1=c)
    return checks.unwrap(kernels.async_unsaturated(a, c))


def f_async_saturated(alpha1: ArrayLike, c1: ArrayLike, k1: ArrayLike) -> FloatArray:
    r"""S2: speedup of asynchronous Lookahead Reasoning while the window of k1 targets is full.

    .. math::
        S_2 = \frac{E[X + 1]}{E[\lceil (X+1)/k_1 \rceil + c_1 (X \bmod k_1)]}
            = \frac{1 - \alpha_1^{k_1}}{(1 - \alpha_1)
              + c_1 [\alpha_1 - \alpha_1^{k_1+1} - k_1 (1 - \alpha_1) \alpha_1^{k_1}]}

    Right where k1 c1 <= 1. Beyond, the value of the expression is returned all the same (a proof may want it), but
    it describes no schedule.

    Parameters
    ----------
    alpha1, c1 : as in `f_sync`.
    k1 : targets in flight at most, integer >= 1.

    Returns
    -------
    Value of S2, [-]; k1 at alpha1 = 1.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.2 (whose formula has k for k1 in one exponent), Theorem 2, case 2, and Appendix C.

    >>> float(f_async_saturated(1.0, 0.25, 3))
    3.0
    """
    a, c, k = checks.level("1", alpha1, c1, k1)
    return checks.unwrap(kernels.async_saturated(a, c, k))


def h(
    alpha1: ArrayLike, c1: ArrayLike, k1: ArrayLike, alpha2: ArrayLike, c2: ArrayLike, k2: ArrayLike, mode: str
) -> FloatArray:
    """Speedup of both levels together, f(k1) g(k2), assuming that the levels multiply.

    Parameters
    ----------
    alpha1, c1, k1 : step level, see `f_sync` and `f_async`.
    alpha2, c2, k2 : token level, see `g`.
    mode : 'sync' or 'async', the step-level schedule.

    Returns
    -------
    Speedup, [-].

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.3, Eq. (1) and Eq. (4).

    >>> float(h(0.5, 0.25, 2, 0.5, 0.25, 2, "sync"))
    1.44
    """
    schedule = checks.mode("mode", mode)
    a1, cost1, n1 = checks.level("1", alpha1, c1, k1)
    a2, cost2, n2 = checks.level("2", alpha2, c2, k2)
    checks.broadcast_shape(alpha1=a1, c1=cost1, k1=n1, alpha2=a2, c2=cost2, k2=n2)
    return checks.unwrap(kernels.step_speedup(a1, cost1, n1, schedule) * kernels.sync_speedup(a2, cost2, n2))
