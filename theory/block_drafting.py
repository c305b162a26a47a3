r"""Acceptance of drafters that draft a block in one pass (DFlash, arXiv 2602.06036; DSpark, arXiv 2607.05147).

A chain's first tokens do not depend on how many follow. Those of a block do: all positions are drafted at once, and the
longer the block, the less often each is right. With :math:`p_i(n)` the probability that position i of a block of n
tokens is right given that those before it are,

.. math:: \operatorname{logit} p_i(n) = \operatorname{logit} p_i(m) + \beta\,(1/n - 1/m).

DFlash: :math:`\beta` = 2.95 is fitted to first positions of Qwen3.5-122B on GSM8K (0.88, 0.81, 0.78 and 0.77 for n = 3,
7, 11 and 15; off by 0.003 at most). DSpark samples the block from left to right with a head that knows the token
before, so that it is nearly a chain: :math:`\beta` = 0.39 :math:`\pm` 0.17, fitted to mean lengths of DeepSeek-V4-Pro
(n up to 5, its trained block) and Kimi-K3 (two runs, n up to 8), each with a level and a slope of its own (21 lengths,
off by 2.4 % at most). One drafter and one task stand behind the first, two behind the second: the intervals are wide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import FloatArray
from theory.errors import ParameterError
from theory.token_methods import vector_tokens

__all__ = ["DFLASH", "DSPARK", "LAWS", "BlockLaw", "at_length", "block_tokens"]

_LEAST: Final = 1e-6


@dataclass(frozen=True, slots=True)
class BlockLaw:
    """How acceptance at a position depends on the length of the block."""

    slope: float
    """beta, [-]; 0: a chain."""
    error: float
    """Standard error of beta for another drafter or task, [-] (assumed: two curves are known)."""


DFLASH: Final = BlockLaw(2.95, 1.0)
DSPARK: Final = BlockLaw(0.39, 0.4)
LAWS: Final[Mapping[str, BlockLaw]] = MappingProxyType({"dflash": DFLASH, "dspark": DSPARK})
"""By the engines' name of the method."""


def at_length(conditional: ArrayLike, measured: int, wanted: int, slope: ArrayLike = DFLASH.slope) -> FloatArray:
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


def block_tokens(conditional: ArrayLike, measured: int, wanted: int, slope: ArrayLike = DFLASH.slope) -> FloatArray:
    """Return the tokens that a pass commits where blocks have another length, in [1, wanted + 1].

    Parameters
    ----------
    conditional : as in `at_length`; at least ``wanted`` positions along the last axis, of which the first count.
    measured, wanted, slope : as in `at_length`.

    Raises
    ------
    ParameterError : as `at_length`, or too few positions.

    >>> float(block_tokens([0.5, 0.5], measured=2, wanted=2))
    1.75
    """
    rates = np.asarray(conditional, dtype=float)
    if rates.ndim == 0 or rates.shape[-1] < wanted:
        raise ParameterError("conditional", str(conditional), f"must have {wanted} positions at least")
    return vector_tokens(at_length(rates[..., :wanted], measured, wanted, slope))
