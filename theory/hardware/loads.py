"""Time per output token and to first token of a closed loop of requests, when prompts are read between decoding.

An engine with continuous batching reads a new prompt in chunks that share iterations with the sequences that decode.
In a closed loop of ``B`` requests each answer meets the prompts of the ``B - 1`` others once per cycle, so that what a
prompt adds to iterations is spread over the tokens of an answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from theory.errors import ParameterError
from theory.hardware.passes import PassModel
from theory.hardware.rounds import Round
from theory.hardware.work import Work

__all__ = ["ClosedLoop", "Drafted", "LoopTimes", "closed_loop", "prompt_seconds"]

_ROUNDS = 60  # of the fixed point below; it contracts by the share of time spent on prompts, far below 1
_SETTLED = 1e-9

# To first token, fitted to aggregated serving (NVIDIA aiconfigurator's table: vLLM, TensorRT-LLM, SGLang together).
_REQUEST_S = 0.020
"""Overhead of a request before its prompt is read and after (transport, words to tokens, scheduling), s."""
_CLIENT_S = 5.9e-4
"""The same per request in flight, s."""
_OWN = 1.62
"""What the operators of a prompt take until its first token is out, over what they add to iterations, [-]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """Requests that are replaced as soon as they end."""

    concurrency: float
    """Requests in flight, all copies of the model together, >= 1."""
    prompt_tokens: float
    """Mean, >= 1."""
    answer_tokens: float
    """Mean, >= 1."""
    chunk_tokens: float = 8192.0
    """Prompt tokens that an iteration reads at most."""
    turns: float = 10.0
    """Requests that follow each other in each place; the first of all places come at once."""
    looks: float = 1.0
    """Iterations from one look for new requests to the next (SGLang's ``--scheduler-recv-interval``), >= 1."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "prompt_tokens", "answer_tokens", "chunk_tokens", "turns", "looks"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 1.0):
                raise ParameterError(name, value, "must be finite and >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """Rounds of token-level speculation in place of plain iterations."""

    rounds: Round
    """What a round takes; its target is the model of the loop."""
    k: float
    """Tokens that a round verifies per sequence, >= 1."""
    tokens: float
    """Tokens that a round commits per sequence, mean, in [1, k]."""

    def __post_init__(self) -> None:
        if not 1.0 <= self.tokens <= self.k < math.inf:
            raise ParameterError("tokens", self.tokens, f"must be in [1, k={self.k:g}], k finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTimes:
    """Mean times of a closed loop, seconds."""

    per_token: float
    """Per output token after the first."""
    to_first_token: float
    decoding: float
    """The part of ``per_token`` without prompts of others."""
    prompts: float
    """The part that prompts of others take."""
    running: float
    """Sequences that decode, mean."""

    def answer(self, tokens: float) -> float:
        """Return the mean time of an answer of so many tokens, s."""
        return self.to_first_token + tokens * self.per_token


def prompt_seconds(
    model: PassModel, loop: ClosedLoop, running: float, tokens: float = 1.0, prompts: float = 1.0
) -> float:
    """Return what reading ``prompts`` together adds to iterations of ``running`` sequences, s.

    ``tokens`` are the new ones of each sequence.
    """
    chunks = math.ceil(loop.prompt_tokens / loop.chunk_tokens)
    chunk = loop.prompt_tokens / chunks
    context = loop.prompt_tokens + loop.answer_tokens / 2.0
    plain = Work(sequences=running, tokens=tokens, context=context)
    together = (
        model.seconds(replace(plain, prefill_tokens=prompts * chunk, prefill_context=index * chunk, prompts=prompts))
        for index in range(chunks)
    )
    before = model.seconds(plain)
    return sum(max(0.0, seconds - before) for seconds in together)


def closed_loop(model: PassModel, loop: ClosedLoop, drafted: Drafted | None = None) -> LoopTimes:
    """Return the mean times of a closed loop; with ``drafted`` ones, of rounds.

    With ``t`` the time of an iteration that only decodes, ``p`` what a prompt adds, ``n`` answer tokens and ``r`` the
    share of its time in which a request decodes,

        per token = t(r B) + (B - 1) r p / n,
        to first token = s + s' B + 1.62 q + (p - q) + (1 + looks / 2) t + (B - 1) q / turns,

    with ``q`` the part of ``p`` that operators take, and ``r`` is the fixed point of the two: a request that waits for
    its first token does not decode. Of rounds, ``t`` per token is the time of a round over the tokens that it commits.
    The last term is the first turn, in which prompts wait for each other, and what remains of it later. Time to first
    token depends on the client and the scheduler as much as on the GPU: expect 30 %, against 8 % of the time per token.
    """
    context = loop.prompt_tokens + loop.answer_tokens / 2.0
    chunks = math.ceil(loop.prompt_tokens / loop.chunk_tokens)
    alone = Work(sequences=0.0, prefill_tokens=loop.prompt_tokens / chunks)
    outside = chunks * model.parts(alone).ungraphed
    others = loop.concurrency - 1.0
    share = 1.0
    for _ in range(_ROUNDS):
        running = max(1.0, loop.concurrency * share)
        if drafted is None:
            iteration, tokens = model.seconds(Work(sequences=running, context=context)), 1.0
        else:
            iteration, tokens = drafted.rounds.seconds(running, drafted.k, context), drafted.tokens
        decoding = iteration / tokens
        rows = 1.0 if drafted is None else drafted.k
        prompt, arriving = prompt_seconds(model, loop, running, rows), others * share * tokens / loop.answer_tokens
        most = max(1.0, loop.chunk_tokens / loop.prompt_tokens)
        together = arriving * loop.looks
        group = min(together / -math.expm1(-together), most) if together else 1.0  # prompts of a pass that reads any
        prompts = arriving / tokens / group * prompt_seconds(model, loop, running, rows, group)
        first = _REQUEST_S + _CLIENT_S * loop.concurrency + (1.0 + loop.looks / 2.0) * iteration
        first += prompt + (_OWN - 1.0 + others / loop.turns) * max(0.0, prompt - outside)
        answer = loop.answer_tokens * (decoding + prompts)
        before, share = share, answer / (answer + first)
        if abs(share - before) < _SETTLED:
            break
    return LoopTimes(
        per_token=decoding + prompts, to_first_token=first, decoding=decoding, prompts=prompts, running=running
    )
