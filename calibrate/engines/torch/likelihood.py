"""Likelihood of a given text under a model: a prefill of which the logits of every token are kept, not of the last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from calibrate.engines.protocol import Times

__all__ = ["Likelihood", "TellsLikelihood"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """Natural-log probabilities of the last tokens of a prompt, each given all before it."""

    logprobs: tuple[float, ...]
    n_prompt_tokens: int
    n_cached_tokens: int
    times: Times

    @property
    def total(self) -> float:
        """Log probability of all tokens together, nats."""
        return math.fsum(self.logprobs)


@runtime_checkable
class TellsLikelihood(Protocol):
    """A backend that computes the likelihood of a given text."""

    async def likelihood(self, prompt: Sequence[int], n_scored: int, *, temperature: float = 1.0) -> Likelihood:
        """Log probabilities of the last ``n_scored`` tokens of a prompt, logits divided by ``temperature`` (> 0).

        Raises
        ------
        ParameterError : ``n_scored`` is not in [1, tokens of the prompt - 1], or ``temperature`` is not positive.
        CalibrationError : the engine refused, failed or died.
        """
