"""What bounds a serving engine, and what its iterations cost when they read prompts too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, runtime_checkable

from sim.engines.protocol import Cost
from theory.checks import at_least_one, scalar_count
from theory.errors import ParameterError

__all__ = ["ADDED", "ENDLESS", "JoinLaw", "Joined", "JoiningCost", "ServingCost", "ServingLimits"]

_ROUNDING: Final = 1e-6
"""Tokens; what is this little above a whole number is that number."""


class ServingCost(Cost, Protocol):
    """A cost that also knows iterations which read prompts and decode."""

    def mixed(self, batch: int, context: float, prefill_tokens: float, prefill_context: float) -> float:
        """Return the seconds of an iteration that reads prompts and decodes.

        Parameters
        ----------
        batch : sequences that decode, >= 0.
        context : cached tokens of all of them.
        prefill_tokens : tokens of prompts that are read, of all requests together; 0 (``batch`` > 0 then) where what
            they go on after is all cached, so that only its last token is computed.
        prefill_context : tokens that are cached before the ones read, mean over the tokens read.
        """


@runtime_checkable
class JoiningCost(ServingCost, Protocol):
    """A cost whose iterations with prompts are those without, and the reading: it can be kept in tables.

    With ``least, share = joins``, an iteration that reads takes the larger of ``least * iteration(batch, context)`` and
    ``reading(batch, tokens) + share * iteration(batch, context)``; ``iteration`` is linear in the context.
    """

    @property
    def joins(self) -> tuple[float, float]:
        """Shares of the iteration: the least that one with prompts takes, and what is added to the reading, [-]."""

    def reading(self, batch: int, prefill_tokens: float) -> float:
        """Return the seconds of reading prompts while ``batch`` >= 0 sequences decode."""


class JoinLaw(NamedTuple):
    """What an iteration takes that reads prompts, by the prefill without others and the iteration without prompts."""

    outside_s: float = 0.0
    """Part of a prefill that passes while others decode, s: what its server does before the engine reads it. Negative
    where reading takes longer while others decode."""
    share: float = 0.0
    """Share of the iteration that is added to the reading, in [0, 1]: 0 where reading hides decoding, 1 where both take
    their time."""
    token_s: float = 0.0
    """Further time of a prompt token, s: where several prompts take longer than one of as many tokens."""

    def slower(self, factor: float) -> JoinLaw:
        """Return the law of an engine whose times are multiplied by a factor."""
        return JoinLaw(factor * self.outside_s, self.share, factor * self.token_s)


ADDED: Final = JoinLaw(share=1.0)
"""Reading and decoding take their time both."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A measured cost as a `ServingCost`: an iteration that reads prompts takes what reading takes, not both.

    The law holds for passes over drafts alike, and was measured on servers (vLLM on a GPU, planted ones).
    """

    inner: Cost
    law: JoinLaw

    @property
    def request_s(self) -> float:
        """Latency of a request outside the engine, s."""
        return self.inner.request_s

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration."""
        return self.inner.iteration(batch, context)

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill while nothing decodes."""
        return self.inner.prefill(n_tokens)

    def mixed(self, batch: int, context: float, prefill_tokens: float, prefill_context: float) -> float:
        """Seconds of an iteration that also reads prompts."""
        reading = self.reading(batch, prefill_tokens)
        if not batch:
            return reading
        decoding = self.inner.iteration(batch, context)
        return max(decoding, reading + self.law.share * decoding)

    @property
    def joins(self) -> tuple[float, float]:
        """The whole iteration at least; of it the law's share is added to the reading."""
        return 1.0, self.law.share

    def reading(self, batch: int, prefill_tokens: float) -> float:
        """Seconds of reading prompts while ``batch`` sequences decode."""
        reading = self.inner.prefill(math.ceil(prefill_tokens - _ROUNDING))
        return reading + self.law.token_s * prefill_tokens - self.law.outside_s if batch else reading


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLimits:
    """Bounds of an engine, as vLLM has them."""

    max_batched_tokens: int = 8192
    """Rows of an iteration at most, >= 1: prompts are cut to what decoding sequences leave."""
    max_sequences: int = 256
    """Sequences in an iteration at most, >= 1."""
    cache_tokens: float = math.inf
    """Tokens whose keys and values fit, > 0."""
    rows: float = 1.0
    """Rows of a decoding sequence in an iteration, >= 1: more than one with token-level speculation."""
    apart: bool = False
    """Whether decoding stops while prompts are read, in iterations of their own, as in SGLang; else they share them."""

    @property
    def most_sequences(self) -> int:
        """Sequences in an iteration at most, by their number and by their rows."""
        most = self.max_sequences
        return most if self.apart else max(min(most, math.floor(self.max_batched_tokens / self.rows)), 1)

    def room(self, batch: float) -> float:
        """Return the rows that an iteration has for prompts while so many sequences decode, >= 1."""
        return max(self.max_batched_tokens - (0 if self.apart else math.ceil(self.rows * batch)), 1)

    def __post_init__(self) -> None:
        for name in ("max_batched_tokens", "max_sequences"):
            scalar_count(name, getattr(self, name))
        if not self.cache_tokens > 0.0:
            raise ParameterError("cache_tokens", self.cache_tokens, "must be > 0")
        at_least_one("rows", self.rows)


ENDLESS: Final = ServingLimits(max_sequences=1 << 20)
"""Limits of an engine of which none was measured."""
