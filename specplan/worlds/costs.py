"""What passes cost where nobody has measured this model: the pass model, as the simulator's engines ask it.

A simulation asks for the time of an iteration many thousand times, at few batch sizes: what the pass model says is kept
by batch size, straight between two contexts and between powers of two of prompt tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from theory.hardware.passes import PassModel
from theory.hardware.rounds import Round
from theory.hardware.work import Work

__all__ = ["CLIENT_S", "REQUEST_S", "WORD_S", "Contexts", "MixedCost", "ModelCost", "RoundCost"]

REQUEST_S: Final = 0.002
"""Latency of a request outside the iterations, in the engine's own process, s: a step of Qwen3-32B on two H100 takes
6 ms besides its tokens, of which about 4 ms are the iteration that reads its few new tokens."""
CLIENT_S: Final = 0.008
"""The same of a request over HTTP after a prompt of few tokens, s: first tokens of vLLM in aiconfigurator's table of
served rows (464 of three models, by least squares: 8.0 ms) and of Llama-3.1-8B on A100 (190 tokens: 8.6 ms)."""
WORD_S: Final = 8e-7
"""What a token of the prompt adds to it (text to tokens, transport), s: after 8,192 tokens first tokens of three dense
models in SGLang come 14 to 15 ms later than operators and a share of their time explain, on H200 and on B200."""
_PROMPT_SIZES: Final[tuple[int, ...]] = (0, *(2**i for i in range(18)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Cached tokens of a sequence over its life: the range in which costs are taken to be straight."""

    first: float
    last: float

    def line(self, batch: int, seconds: Callable[[float], float]) -> tuple[float, float]:
        """Return what is fixed of the seconds of a batch by context, and what each cached token of all adds."""
        low, high = seconds(self.first), seconds(self.last)
        slope = (high - low) / (self.last - self.first)
        return low - slope * self.first, slope / batch


class _Joining(ABC):
    """Iterations to which what reading prompts takes is added as a whole."""

    __slots__ = ()
    joins = 0.0, 1.0

    @abstractmethod
    def iteration(self, batch: int, context: float) -> float:
        """Return the seconds of an iteration of ``batch`` sequences with ``context`` cached tokens in all."""

    @abstractmethod
    def reading(self, batch: int, prefill_tokens: float) -> float:
        """Return the seconds that prompts add to an iteration."""

    def mixed(self, batch: int, context: float, prefill_tokens: float, prefill_context: float) -> float:
        """Return the seconds of an iteration that also reads ``prefill_tokens`` of prompts."""
        return (self.iteration(batch, context) if batch else 0.0) + self.reading(batch, prefill_tokens)

    def prefill(self, n_tokens: int) -> float:
        """Return the seconds of an iteration that reads a prompt alone."""
        return self.reading(0, n_tokens)


@dataclass(slots=True)
class ModelCost(_Joining):
    """Seconds of a model's iterations, with so many new tokens of each decoding sequence.

    Parameters
    ----------
    rows : new tokens of a decoding sequence in an iteration, >= 1: more than one verifies drafts.
    makes_room : whether drafts are left out where prompts are read, so that no iteration leaves the graphs for them.
    request_s : latency of a request outside the iterations, s.
    """

    model: PassModel
    contexts: Contexts
    rows: float = 1.0
    makes_room: bool = False
    request_s: float = REQUEST_S
    _plain: dict[int, tuple[float, float]] = field(init=False, repr=False, default_factory=dict)
    _reading: dict[tuple[int, int], float] = field(init=False, repr=False, default_factory=dict)

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of an iteration of ``batch`` sequences with ``context`` cached tokens in all."""
        if batch not in self._plain:
            self._plain[batch] = self.contexts.line(batch, lambda each: self._decoding(batch, each))
        fixed, slope = self._plain[batch]
        return fixed + slope * context

    def reading(self, batch: int, prefill_tokens: float) -> float:
        """Seconds that prompts add to an iteration; where nothing decodes, at least one token is computed."""
        tokens = prefill_tokens if batch else max(prefill_tokens, 1.0)
        if tokens <= 0.0:
            return 0.0
        right = min(bisect_right(_PROMPT_SIZES, tokens), len(_PROMPT_SIZES) - 1)
        left = right - 1
        high = self._added(batch, _PROMPT_SIZES[right])
        if left == 0 and batch == 0:
            return high  # nothing runs without an iteration
        low = self._added(batch, _PROMPT_SIZES[left])
        share = (tokens - _PROMPT_SIZES[left]) / (_PROMPT_SIZES[right] - _PROMPT_SIZES[left])
        return low + (high - low) * share

    def _decoding(self, batch: int, context: float) -> float:
        return self.model.seconds(Work(sequences=batch, tokens=self.rows, context=context))

    def _added(self, batch: int, tokens: int) -> float:
        if not tokens:
            return 0.0
        known = self._reading.get((batch, tokens))
        if known is None:
            context = prompt = self.contexts.first
            rows = 1.0 if self.makes_room else self.rows
            read = Work(  # whole prompts, or parts of one that reach from its beginning to its end
                sequences=batch,
                tokens=rows,
                context=context,
                prefill_tokens=tokens,
                prefill_context=max(0.0, prompt - tokens) / 2.0,
                prompts=max(1.0, tokens / max(prompt, 1.0)),
            )
            alone = self.model.seconds(Work(sequences=batch, tokens=rows, context=context)) if batch else 0.0
            known = self._reading[batch, tokens] = self.model.seconds(read) - alone
        return known


@dataclass(slots=True)
class RoundCost(_Joining):
    """Iterations of a target that verifies drafts: its wide pass, the drafting before it, and the engine between.

    Parameters
    ----------
    drafts : tokens that are drafted for a sequence, and one; the target may verify fewer.
    factor : seconds / what target and drafting take, [-]: what it takes to choose the tokens to verify.
    """

    target: ModelCost
    rounds: Round
    drafts: int
    factor: float = 1.0
    _drafting: dict[int, tuple[float, float]] = field(init=False, repr=False, default_factory=dict)

    @property
    def request_s(self) -> float:
        """Latency of a request outside the rounds, s."""
        return self.target.request_s

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of a round."""
        if batch not in self._drafting:
            besides = self.rounds.besides
            self._drafting[batch] = self.target.contexts.line(
                batch, lambda each: sum(besides(batch, self.drafts, each))
            )
        fixed, slope = self._drafting[batch]
        return self.factor * (self.target.iteration(batch, context) + (fixed + slope * context))

    def reading(self, batch: int, prefill_tokens: float) -> float:
        """Seconds that prompts add to a round."""
        return self.target.reading(batch, prefill_tokens)


@dataclass(frozen=True, slots=True)
class MixedCost(_Joining):
    """Iterations of an engine that drafts now so many tokens and now so many: their mean.

    Parameters
    ----------
    parts : share of the iterations, in (0, 1], and cost of each kind; the shares sum to 1.
    """

    parts: tuple[tuple[float, ModelCost | RoundCost], ...]

    @property
    def request_s(self) -> float:
        """Latency of a request outside the iterations, s."""
        return self.parts[0][1].request_s

    def iteration(self, batch: int, context: float) -> float:
        """Mean seconds of an iteration."""
        return sum(share * cost.iteration(batch, context) for share, cost in self.parts)

    def reading(self, batch: int, prefill_tokens: float) -> float:
        """Mean seconds that prompts add to an iteration."""
        return sum(share * cost.reading(batch, prefill_tokens) for share, cost in self.parts)
