"""Laws on finite alphabets: what counts as one, and how far two of them are apart."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from theory import checks
from theory.checks import FloatArray
from theory.errors import ParameterError

__all__ = ["coverage_coefficient", "finite", "kl_divergence", "law_of", "normalised", "same_shape", "scalar"]


def kl_divergence(law: ArrayLike, base: ArrayLike) -> float:
    """Kullback-Leibler divergence of `law` from `base`, in nats; infinite where `base` misses mass of `law`.

    Parameters
    ----------
    law, base : laws, [-], shape (K,).

    Returns
    -------
    A nonnegative number. Summed as ``base * ((1 + d) log(1 + d) - d)`` with 1 + d the ratio, so that laws that agree
    to 1e-8 still give a divergence that is right to a few digits.

    Raises
    ------
    ParameterError : not a law, shapes differ.

    >>> kl_divergence([0.5, 0.5], [0.5, 0.5])
    0.0
    """
    p = law_of("law", law)
    q = same_shape("base", law_of("base", base), p)
    if ((q == 0) & (p > 0)).any():
        return float("inf")
    p, q = p[q > 0], q[q > 0]
    d = (p - q) / q
    logs = np.log1p(d, out=np.zeros_like(d), where=d > -1)
    return max(0.0, float(np.sum(q * ((1 + d) * logs - d))))


def coverage_coefficient(target: ArrayLike, draft: ArrayLike) -> float:
    """``max(target / draft) * max(draft / target)``; infinite unless both have the same support.

    Parameters
    ----------
    target, draft : laws, [-], shape (K,); letters that neither can draw do not count.

    Returns
    -------
    At least 1, and 1 for equal laws. Equation 9 over full responses, the inside of C_block for one prefix.

    Raises
    ------
    ParameterError : not a law, shapes differ.

    References
    ----------
    SPECS, Equation 9 and Theorem 1 (ledger: SPECS-D5, SPECS-C).
    """
    t = law_of("target", target)
    d = same_shape("draft", law_of("draft", draft), t)
    if ((t > 0) != (d > 0)).any():
        return float("inf")
    t, d = t[t > 0], d[t > 0]
    return float((t / d).max() * (d / t).max())


def law_of(name: str, value: ArrayLike, *, positive: bool = False) -> FloatArray:
    """A probability vector of shape (K,), renormalised."""
    array = checks.positive(name, value) if positive else checks.nonnegative(name, value)
    if array.ndim != 1:
        raise ParameterError(name, array.shape, "must have one axis")
    return normalised(name, array)


def normalised(name: str, array: FloatArray) -> FloatArray:
    """Laws along the last axis; sums may miss 1 by the rounding of decimal input, not by more."""
    total = array.sum(axis=-1, keepdims=True)
    if not (np.abs(total - 1) <= 1e-9).all():
        raise ParameterError(name, float(total.ravel()[np.argmax(np.abs(total - 1))]), "must sum to 1")
    return cast(FloatArray, array / total)


def same_shape(name: str, array: FloatArray, like: FloatArray) -> FloatArray:
    """The array, refused if its shape is not that of another."""
    if array.shape != like.shape:
        raise ParameterError(name, array.shape, f"must have shape {like.shape}")
    return array


def finite(name: str, value: ArrayLike) -> FloatArray:
    """Finite values, any shape, at least one."""
    array = np.asarray(value, dtype=np.float64)
    if array.size == 0 or not np.isfinite(array).all():
        raise ParameterError(name, value, "must be finite")
    return array


def scalar(name: str, array: FloatArray) -> float:
    """The single number of an array."""
    if array.ndim:
        raise ParameterError(name, array.shape, "must be a single number")
    return float(array)
