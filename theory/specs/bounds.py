"""Bounds on the distance of SPECS' output from the tilted optimum, without hidden constants.

Source: *SPECS: Faster Test-Time Scaling through Speculative Drafts and Dynamic Switching*, Theorems 1 and 2, in the
form that the ledger of theorems proves (``SPECS-T1``, ``SPECS-T2``): valid at every width n >= 1. R is the *width* of
the range of the outcome rewards, because process rewards as the paper defines them cannot all be nonnegative
(``SPECS-D2``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from theory import checks
from theory.checks import FloatArray

__all__ = ["kl_bound", "kl_bound_printed"]


def kl_bound(
    n: ArrayLike,
    horizon: ArrayLike,
    beta: ArrayLike,
    reward_range: ArrayLike,
    coverage: ArrayLike,
    prm_error: ArrayLike = 0.0,
) -> FloatArray:
    r"""Bound on the divergence of SPECS' response from the optimum, with all constants.

    .. math:: H \log\left(1 + \left(\frac{C e^{\beta R} - 1}{n}\right)^2\right) + 2 \beta H \varepsilon

    Parameters
    ----------
    n : beam width, integer >= 1.
    horizon : blocks per response, H, integer >= 1.
    beta : inverse temperature, >= 0.
    reward_range : width R of the range of the outcome rewards (with an inexact process reward: of that one), >= 0.
    coverage : C_block, >= 1; 1 when the target generates every block.
    prm_error : largest error of the process reward model, >= 0.

    Returns
    -------
    Nats, broadcast shape, for every switching threshold. Finite for any beta R (computed in the log domain), but above
    the ceiling ``H (beta R + log C)``, which holds for every width, unless n exceeds about ``sqrt(C exp(beta R))``.

    Raises
    ------
    ParameterError : an argument outside its domain, shapes that do not broadcast.

    References
    ----------
    SPECS, Theorems 1 and 2 with the rate 1/n**2 (ledger: SPECS-T1, SPECS-T2).

    >>> round(float(kl_bound(4, 1, 0.0, 1.0, 3.0)), 6)
    0.223144
    """
    width, blocks, b, r, c, eps = _bound_arguments(n, horizon, beta, reward_range, coverage, prm_error)
    log_kappa = np.log(c) + b * r
    # log(kappa - 1) = log kappa + log(1 - exp(-log kappa)), -inf at kappa = 1, without overflow
    with np.errstate(divide="ignore"):
        log_excess = log_kappa + np.log(-np.expm1(-log_kappa))
    return checks.unwrap(blocks * np.logaddexp(0.0, 2 * (log_excess - np.log(width))) + 2 * b * blocks * eps)


def kl_bound_printed(
    n: ArrayLike,
    horizon: ArrayLike,
    beta: ArrayLike,
    reward_range: ArrayLike,
    coverage: ArrayLike,
    prm_error: ArrayLike = 0.0,
) -> FloatArray:
    """The bound in the paper's form, ``H C**2 exp(2 beta R) / n**1.5 + 2 beta H eps``, hidden constants resolved.

    Parameters
    ----------
    n, horizon, beta, reward_range, coverage, prm_error : as in `kl_bound`.

    Returns
    -------
    Nats, broadcast shape; never below `kl_bound`; infinite where it overflows.

    Raises
    ------
    ParameterError : an argument outside its domain, shapes that do not broadcast.

    References
    ----------
    SPECS, Equation 5 and Theorem 2 (ledger: SPECS-T1, SPECS-T2).
    """
    width, blocks, b, r, c, eps = _bound_arguments(n, horizon, beta, reward_range, coverage, prm_error)
    with np.errstate(over="ignore"):
        rate = np.exp(2 * (np.log(c) + b * r) - 1.5 * np.log(width))
    return checks.unwrap(blocks * rate + 2 * b * blocks * eps)


def _bound_arguments(
    n: ArrayLike,
    horizon: ArrayLike,
    beta: ArrayLike,
    reward_range: ArrayLike,
    coverage: ArrayLike,
    prm_error: ArrayLike,
) -> tuple[FloatArray, ...]:
    arrays = {
        "n": checks.count("n", n).astype(np.float64),
        "horizon": checks.count("horizon", horizon).astype(np.float64),
        "beta": checks.nonnegative("beta", beta),
        "reward_range": checks.nonnegative("reward_range", reward_range),
        "coverage": checks.at_least_one("coverage", coverage),
        "prm_error": checks.nonnegative("prm_error", prm_error),
    }
    checks.broadcast_shape(**arrays)
    return tuple(arrays.values())
