"""What a forward pass costs: seconds per iteration of a continuous-batching engine, per prefill, and per request."""

from __future__ import annotations

import math
from dataclasses import dataclass

from theory.errors import ParameterError

__all__ = ["LinearCost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCost:
    """Iteration and prefill times that are linear in what they process.

    One decode iteration of ``batch`` sequences whose contexts sum to ``context`` tokens takes
    ``base_s + sequence_s * batch + context_s * context`` seconds and gives each sequence one token. A prefill of
    ``n`` uncached prompt tokens takes ``prefill_s + prefill_token_s * n`` and gives the first token.
    """

    base_s: float
    """Fixed part of a decode iteration, s."""

    sequence_s: float = 0.0
    """Decode iteration, s per sequence in the batch."""

    context_s: float = 0.0
    """Decode iteration, s per cached token of all sequences (re-reading the key-value cache)."""

    prefill_s: float = 0.0
    """Fixed part of a prefill, s."""

    prefill_token_s: float = 0.0
    """Prefill, s per uncached prompt token."""

    request_s: float = 0.0
    """Latency of a request outside the engine (scheduling, transport, tokenisation), s; it occupies nothing."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0.0):
                raise ParameterError(name, value, "must be a finite number of seconds >= 0")

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration of ``batch`` sequences with ``context`` cached tokens in all."""
        return self.base_s + self.sequence_s * batch + self.context_s * context

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill of ``n_tokens`` uncached prompt tokens."""
        return self.prefill_s + self.prefill_token_s * n_tokens

    def alone(self, n_tokens: int, n_prompt: int, context: float) -> float:
        """Seconds of a request that has the engine to itself: ``n_tokens`` generated after ``n_prompt`` new ones."""
        n_iterations = max(n_tokens - 1, 0)
        return self.request_s + self.prefill(n_prompt) + n_iterations * self.iteration(1, context + n_tokens / 2)
