r"""Acceptance of drafters that draft a block of tokens in one pass (DFlash, arXiv 2602.06036; DSpark).

A chain's first tokens do not depend on how many follow. Those of a block do: all positions are drafted at once, and the
longer the block, the less often each is right. With :math:`p_i(n)` the probability that position i of a block of n
tokens is right given that those before it are,

.. math:: \operatorname{logit} p_i(n) = \operatorname{logit} p_i(m) + \beta\,(1/n - 1/m).

:math:`\beta` = 2.95 is fitted to first positions of Qwen3.5-122B with DFlash on GSM8K (0.88, 0.81, 0.78 and 0.77 for n
= 3, 7, 11 and 15; off by 0.003 at most). It was fitted to one drafter on one task, so that it has a wide interval.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import FloatArray
from theory.errors import ParameterError

__all__ = ["SLOPE", "SLOPE_ERROR", "at_length"]

SLOPE: Final = 2.95
"""beta, [-]."""
SLOPE_ERROR: Final = 1.0
"""Standard error of beta for another drafter or task, [-] (assumed: one curve is known)."""
_LEAST: Final = 1e-6


def at_length(conditional: ArrayLike, measured: int, wanted: int, slope: ArrayLike = SLOPE) -> FloatArray:
    """Return conditional acceptance of the positions of a block of another length.

    Parameters
    ----------
    conditional : probability that each position is right given that those before it are, [-], in [0, 1]; the positions
        of a block of ``measured`` tokens along the last axis.
    measured, wanted : drafted tokens of the blocks, >= 1.
    slope : beta; broadcast against ``conditional``.

    Raises
    ------
    ParameterError : a probability outside [0, 1], or a length below 1.

    A block of 15 that commits 2.77 tokens with its first three positions commits 3.28 where it has three positions;
    measured were 3.26, in another run than those behind the slope:

    >>> block = at_length([0.77, 0.745, 0.745], measured=15, wanted=3)
    >>> round(1.0 + float(np.cumprod(block).sum()), 1)
    3.3
    """
    rates = np.asarray(conditional, dtype=float)
    if not np.all((rates >= 0.0) & (rates <= 1.0)):
        raise ParameterError("conditional", str(conditional), "must be in [0, 1]")
    for name, length in (("measured", measured), ("wanted", wanted)):
        if length < 1:
            raise ParameterError(name, length, "must be >= 1")
    inside = np.clip(rates, _LEAST, 1.0 - _LEAST)
    logits = np.log(inside / (1.0 - inside)) + np.asarray(slope) * (1.0 / wanted - 1.0 / measured)
    shifted = 1.0 / (1.0 + np.exp(-logits))
    return np.asarray(np.where((rates == 0.0) | (rates == 1.0), rates, shifted))
