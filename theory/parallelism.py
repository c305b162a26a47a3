"""Number of sequences that a schedule keeps in flight.

Conventions and assumptions are those of `theory.speedup`: fixed step times, free verification, one draft branch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from theory import checks, kernels
from theory.checks import FloatArray, IntArray

__all__ = ["parallel_dim", "parallel_dim_f", "saturation_depth"]


def saturation_depth(c1: ArrayLike) -> FloatArray:
    """ceil(1 / c1): the targets in flight that a draft of cost c1 can keep busy, [-]; inf at c1 = 0.

    The float c1 stands for the number that was written: it counts as 1 / n when it is the float nearest to 1 / n.
    So 1 / 49, which is stored a little too small, gives 49 and not 50.

    Parameters
    ----------
    c1 : time of a draft step / time of a target step, [-], in [0, 1].

    Returns
    -------
    Whole number as float64 (inf has no integer), >= 1.

    Raises
    ------
    ParameterError : c1 outside its domain.

    References
    ----------
    LR, Theorem 2 and section 3.3 (ParallelDim).

    >>> float(saturation_depth(0.4)), float(saturation_depth(1 / 49))
    (3.0, 49.0)
    """
    return checks.unwrap(kernels.reciprocal_ceiling(checks.ratio("c1", c1)))


def parallel_dim_f(c1: ArrayLike, k1: ArrayLike, mode: str) -> IntArray:
    """ParallelDim_f: target steps in flight at the busiest moment: k1 (sync) or min(ceil(1 / c1), k1) (async).

    Parameters
    ----------
    c1 : time of a draft step / time of a target step, [-], in [0, 1]; ceil(1 / c1) as in `saturation_depth`.
    k1 : targets in flight at most, integer >= 1.
    mode : 'sync' or 'async'.

    Returns
    -------
    Sequences, int64, >= 1.

    Raises
    ------
    ParameterError : an argument outside its domain.

    References
    ----------
    LR, section 3.3.

    >>> int(parallel_dim_f(0.4, 8, "async")), int(parallel_dim_f(0.4, 8, "sync"))
    (3, 8)
    """
    schedule = checks.mode("mode", mode)
    c = checks.ratio("c1", c1)
    k = checks.count("k1", k1)
    shape = checks.broadcast_shape(c1=c, k1=k)
    busy = np.array(np.broadcast_to(k, shape))  # a copy: a broadcast view is read-only
    if schedule == "async":
        busy = np.minimum(k, kernels.reciprocal_ceiling(c)).astype(np.int64)
    return busy[()]


def parallel_dim(c1: ArrayLike, k1: ArrayLike, k2: ArrayLike, mode: str) -> IntArray:
    """ParallelDim_f * ParallelDim_g: target positions in flight, the quantity that the budget M bounds.

    Parameters
    ----------
    c1, k1, mode : see `parallel_dim_f`.
    k2 : tokens per target pass, integer >= 1 (ParallelDim_g = k2).

    Returns
    -------
    Positions, int64, >= 1.

    Raises
    ------
    ParameterError : an argument outside its domain, or a product beyond 2**53.

    References
    ----------
    LR, section 3.3, Eq. (1).

    >>> int(parallel_dim(0.4, 8, 4, "async"))
    12
    """
    k = checks.count("k2", k2)
    busy = np.asarray(parallel_dim_f(c1, k1, mode))
    checks.broadcast_shape(k1=busy, k2=k)
    product = np.where(busy <= checks.MAX_COUNT // k, busy * k, -1)  # the check refuses what leaves 2**53
    return checks.count("parallel_dim", product)[()]
