"""Cost models: seconds per iteration of a continuous-batching engine, per prefill, and per request."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass, field
from statistics import linear_regression

from sim.engines.protocol import Cost
from theory.errors import ParameterError

__all__ = ["LinearCost", "TableCost"]


class _Requests(ABC):
    """Time of a request, given the times of an iteration and of a prefill."""

    __slots__ = ()
    prefill_s: float
    prefill_token_s: float
    request_s: float

    @abstractmethod
    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration of ``batch`` sequences with ``context`` cached tokens in all."""

    def prefill(self, n_tokens: float) -> float:
        """Seconds of a prefill of ``n_tokens`` uncached prompt tokens."""
        return self.prefill_s + self.prefill_token_s * n_tokens

    def alone(self, n_tokens: int, n_prompt: int, context: float) -> float:
        """Seconds of a request at concurrency 1: ``n_tokens`` generated after ``n_prompt`` uncached prompt tokens."""
        n_iterations = max(n_tokens - 1, 0)
        return self.request_s + self.prefill(n_prompt) + n_iterations * self.iteration(1, context + n_tokens / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCost(_Requests):
    """Iteration and prefill times that are linear in what they process.

    A decode iteration takes ``base_s + sequence_s * batch + context_s * context`` seconds and gives each sequence
    a token; a prefill of ``n`` uncached prompt tokens takes ``prefill_s + prefill_token_s * n`` and gives the first.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCost(_Requests):
    """Iteration times interpolated between measured batch sizes, linear in the context.

    One decode iteration takes ``interp(batch) + context_s * context`` seconds. Beyond the largest measured batch the
    least-squares slope of the sizes from half of it on (at least the last two) is extrapolated: with the slope of the
    last two sizes, noise could double the time of twice the largest batch. If it is not positive, noise has hidden the
    growth, and the slope of all sizes is taken, if that is positive. A prefill of ``n`` tokens
    takes ``prefill_s + prefill_token_s * n``, plus for each bend a time per token beyond it: the time of a short prompt
    hardly depends on its length, that of a long one grows with its attention. Requests as in `LinearCost`.
    """

    batches: tuple[int, ...]
    """Measured batch sizes, increasing, starting at 1."""
    seconds: tuple[float, ...]
    """Iteration time of each at context 0, s."""
    context_s: float = 0.0
    """Decode iteration, s per cached token of all sequences."""
    prefill_s: float = 0.0
    """Fixed part of a prefill, s."""
    prefill_token_s: float = 0.0
    """Prefill, s per uncached prompt token."""
    bends: tuple[tuple[float, float], ...] = ()
    """Pairs: a number of tokens, and the additional time of each token beyond it, s >= 0."""
    request_s: float = 0.0
    """Latency of a request outside the engine, s."""
    _slope: float = field(init=False, repr=False, compare=False)
    _known: dict[int, float] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not self.batches or self.batches[0] != 1 or list(self.batches) != sorted(set(self.batches)):
            raise ParameterError("batches", self.batches, "must be increasing batch sizes that start at 1")
        if len(self.seconds) != len(self.batches) or not all(math.isfinite(s) and s >= 0.0 for s in self.seconds):
            raise ParameterError("seconds", self.seconds, "must be one finite time >= 0 for each batch size")
        for name in ("context_s", "prefill_s", "prefill_token_s", "request_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ParameterError(name, value, "must be a finite number of seconds >= 0")
        if not all(tokens >= 0.0 and math.isfinite(s) and s >= 0.0 for tokens, s in self.bends):
            raise ParameterError("bends", self.bends, "must be numbers of tokens >= 0 with finite seconds >= 0")
        upper = min(bisect_left(self.batches, self.batches[-1] / 2), max(len(self.batches) - 2, 0))
        slope = self._slope_from(upper)
        object.__setattr__(self, "_slope", slope if slope > 0.0 else max(self._slope_from(0), 0.0))

    def _slope_from(self, first: int) -> float:
        """Least-squares slope of the sizes from the one at an index on, s per sequence; 0 for a single size."""
        sizes, times = self.batches[first:], self.seconds[first:]
        return linear_regression(sizes, times).slope if len(sizes) > 1 else 0.0

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration of ``batch`` sequences with ``context`` cached tokens in all."""
        base = self._known.get(batch)
        if base is None:
            base = self._known[batch] = self._without_context(batch)
        return base + self.context_s * context

    def prefill(self, n_tokens: float) -> float:
        """Seconds of a prefill of ``n_tokens`` uncached prompt tokens."""
        beyond = sum(s * (n_tokens - tokens) for tokens, s in self.bends if n_tokens > tokens)
        return self.prefill_s + self.prefill_token_s * n_tokens + beyond

    def _without_context(self, batch: int) -> float:
        sizes, times = self.batches, self.seconds
        right = min(max(bisect_left(sizes, batch), 1), len(sizes) - 1) if len(sizes) > 1 else 0
        if right == 0 or batch <= sizes[0]:
            base = times[0]
        else:
            left = right - 1
            base = times[left] + (times[right] - times[left]) * (batch - sizes[left]) / (sizes[right] - sizes[left])
        if batch > sizes[-1]:
            base = times[-1] + self._slope * (batch - sizes[-1])
        return base


@dataclass(frozen=True, slots=True)
class PacedCost:
    """Costs of a model multiplied by a factor; the latency of a request outside the engine stays."""

    inner: Cost
    pace: float
    """Time of an iteration or prefill / time by ``inner``, [-]."""

    @property
    def request_s(self) -> float:
        """Latency of a request outside the engine, s."""
        return self.inner.request_s

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration."""
        return self.pace * self.inner.iteration(batch, context)

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill."""
        return self.pace * self.inner.prefill(n_tokens)
