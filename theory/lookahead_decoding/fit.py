r"""Equations 5 and 7 of Lookahead Decoding fitted to measured compressions, and the error of the fit where it was not.

Two numbers describe a model and its texts: ``alpha2``, the acceptance of a guessed token, and ``steps_per_hit`` (the
paper's f), passes per pass with a good guess. Both come from least squares over settings (W, N) with ``G = W``,

.. math:: S(W, N) = \frac{f - 1 + E_W(\alpha, N - 1)}{f}

with E of Equation 5. The two estimates are correlated: a larger f is compensated by a larger alpha, least so where many
W and N were measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import FloatArray, IntArray, broadcast_shape, count, positive
from theory.errors import ParameterError
from theory.lookahead_decoding.speedup import MAX_DRAFT, lookahead_compression

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

__all__ = ["LookaheadFit", "fit_lookahead"]

_STARTS = tuple((alpha, f) for alpha in (0.3, 0.8) for f in (1.2, 3.0))
_EDGE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class LookaheadFit:
    """The fitted parameters, with standard errors and residuals."""

    alpha2: float
    """Probability that a guessed token passes, [-], in (0, 1)."""

    steps_per_hit: float
    """The paper's f, passes per pass with a good guess, >= 1."""

    stderr_alpha2: float
    """Standard error by the curvature of the squares and the residuals; NaN with fewer than three settings."""

    stderr_steps_per_hit: float
    """Standard error of ``steps_per_hit``, likewise."""

    residuals: FloatArray
    """Measured - fitted compression, per setting."""

    @property
    def rms(self) -> float:
        """Root mean square of the residuals, [-]."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    def compression(self, window: ArrayLike, ngram: ArrayLike) -> FloatArray:
        """Compression at other settings with ``G = W``, [-], in [1, N].

        Raises
        ------
        ParameterError : a value outside its range, or shapes that do not broadcast.
        """
        return lookahead_compression(self.alpha2, self.steps_per_hit, window=window, ngram=ngram)


def fit_lookahead(
    window: ArrayLike, ngram: ArrayLike, compression: ArrayLike, *, stderr: ArrayLike = 1.0
) -> LookaheadFit:
    """Least-squares ``alpha2`` and ``steps_per_hit`` of measured compressions.

    Parameters
    ----------
    window, ngram : W (and as many guesses) and N of each setting, (n,), n >= 2.
    compression : measured S, [-], (n,), >= 1.
    stderr : standard errors of S, > 0, by which the squares are weighted; one number weighs all alike.

    Returns
    -------
    The fit; the best of several starts, as the squares can have more than one minimum.

    Raises
    ------
    ParameterError : a value outside its range, shapes that do not broadcast, or fewer than two different settings with
        N >= 2 (all that is known of N = 1 is S = 1).

    References
    ----------
    Fu et al. 2024, arXiv:2402.02057, Equations 5 and 7.

    >>> w, n = np.meshgrid([2, 8, 32], [3, 5])
    >>> fit = fit_lookahead(w.ravel(), n.ravel(), lookahead_compression(0.425, 3.106, window=w, ngram=n).ravel())
    >>> round(fit.alpha2, 6), round(fit.steps_per_hit, 6)
    (0.425, 3.106)
    """
    w, n, s, error = _settings(window, ngram, compression, stderr)
    if len({(a, b) for a, b in zip(w.tolist(), n.tolist(), strict=True) if b >= 2}) < 2:
        raise ParameterError("window", window, "must have at least two different settings with ngram >= 2")

    def residuals(x: FloatArray) -> FloatArray:
        fitted = lookahead_compression(x[0], x[1], window=w, ngram=n)
        return np.asarray((s - fitted) / error)

    best = _least_squares(residuals)
    bands = _standard_errors(best, len(s))
    return LookaheadFit(
        alpha2=float(best.x[0]),
        steps_per_hit=float(best.x[1]),
        stderr_alpha2=bands[0],
        stderr_steps_per_hit=bands[1],
        residuals=np.asarray(residuals(best.x) * error),
    )


def _settings(
    window: ArrayLike, ngram: ArrayLike, compression: ArrayLike, stderr: ArrayLike
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    w, n = count("window", window), count("ngram", ngram, maximum=MAX_DRAFT)
    s, error = positive("compression", compression), positive("stderr", stderr)
    if (s < 1.0).any():
        raise ParameterError("compression", float(s.min()), "must be >= 1")
    shape = broadcast_shape(window=w, ngram=n, compression=s, stderr=error)
    if len(shape) != 1:
        raise ParameterError("compression", compression, "must be a list with one value per setting")
    return (
        np.broadcast_to(w, shape),
        np.broadcast_to(n, shape),
        np.broadcast_to(s, shape),
        np.broadcast_to(error, shape),
    )


def _least_squares(residuals: Callable[[FloatArray], FloatArray]) -> OptimizeResult:
    from scipy.optimize import least_squares

    solutions = [
        least_squares(
            residuals,
            start,
            bounds=([_EDGE, 1.0], [1.0 - _EDGE, np.inf]),
            x_scale=(0.1, 1.0),
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
        )
        for start in _STARTS
    ]
    return min(solutions, key=lambda one: float(one.cost))


def _standard_errors(best: OptimizeResult, n: int) -> tuple[float, float]:
    if n < 3:
        return float("nan"), float("nan")
    curvature = best.jac.T @ best.jac
    if np.linalg.matrix_rank(curvature) < 2:
        return float("inf"), float("inf")
    variances = np.diag(np.linalg.inv(curvature)) * 2.0 * float(best.cost) / (n - 2)
    return float(np.sqrt(variances[0])), float(np.sqrt(variances[1]))
