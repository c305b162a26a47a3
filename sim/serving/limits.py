"""What bounds a serving engine, and what its iterations cost when they read prompts too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from sim.engines.protocol import Cost
from theory.errors import ParameterError

__all__ = ["Added", "ServingCost", "ServingLimits"]


class ServingCost(Cost, Protocol):
    """A cost that knows iterations in which prompts are read beside sequences that decode."""

    def mixed(self, batch: int, context: float, prefill_tokens: float, prefill_context: float) -> float:
        """Seconds of an iteration of ``batch`` decoding sequences that also reads ``prefill_tokens`` of prompts."""
        ...


@dataclass(frozen=True, slots=True)
class Added:
    """Any cost as a `ServingCost`: what prompts take is added to the iteration."""

    inner: Cost

    @property
    def request_s(self) -> float:
        """Latency of a request outside the engine, s."""
        return self.inner.request_s

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration."""
        return self.inner.iteration(batch, context)

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill."""
        return self.inner.prefill(n_tokens)

    def mixed(self, batch: int, context: float, prefill_tokens: float, prefill_context: float) -> float:
        """Seconds of an iteration that also reads prompts."""
        decoding = self.inner.iteration(batch, context) if batch else 0.0
        return decoding + self.inner.prefill(math.ceil(prefill_tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """Bounds of an engine, as vLLM has them."""

    max_batched_tokens: int = 8192
    """Rows of an iteration at most, >= 1: decoding sequences come first, prompts are cut to what is left."""
    max_sequences: int = 256
    """Sequences in an iteration at most, >= 1."""
    cache_tokens: float = math.inf
    """Tokens whose keys and values fit, > 0."""

    def __post_init__(self) -> None:
        for name in ("max_batched_tokens", "max_sequences"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParameterError(name, value, "must be an integer >= 1")
        if not self.cache_tokens > 0.0:
            raise ParameterError("cache_tokens", self.cache_tokens, "must be > 0")
