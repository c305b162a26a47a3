"""Continuous batching: requests join between iterations, share each decode iteration, and leave when they are done.

One call of `ContinuousBatch.advance` is one forward pass: the prefill of one waiting request if there is room for it,
else one decode iteration of everything that runs. This is the engine that `sim.engines.BatchEngine` models.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from calibrate.backends.base import GREEDY, Sampling
from calibrate.backends.kv_cache import KvCache
from calibrate.backends.sampling import draw, uniform
from calibrate.backends.text import StopFinder

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

    from calibrate.backends.torch_decoder import Decoder

__all__ = ["ContinuousBatch", "Job", "Limits"]

_PREFILL_CHUNK: Final = 512
_RING: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes that bound an engine's memory."""

    max_batch: int
    """Sequences decoded at once; more requests wait."""

    n_idle: int
    """Finished sequences kept for prompts that extend them."""

    max_context: int
    """Tokens of a sequence, prompt included."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A request inside the engine. ``choices`` makes it a question with a one-token reply instead of a generation."""

    id: int
    prompt: Sequence[int]
    max_tokens: int = 1
    stop: tuple[str, ...] = ()
    sampling: Sampling = GREEDY
    seed: int = 0
    n_logprobs: int = 0
    ignore_eos: bool = False
    choices: tuple[int, ...] = ()
    queued: float = 0.0

    tokens: list[int] = field(default_factory=list)
    """Drawn so far; the last one is not yet in the cache."""
    n_cached: int = 0
    n_iterations: int = 0
    prefill_start: float = 0.0
    prefill_end: float = 0.0
    end: float = 0.0
    finish: str = ""
    text: str = ""
    n_generated: int = 0
    logprobs: list[tuple[float, list[tuple[int, float]]]] = field(default_factory=list)
    choice_logprobs: list[float] = field(default_factory=list)


class ContinuousBatch:
    """One model's engine, without the process around it.

    Parameters
    ----------
    decoder : the model.
    tokenizer : for stop strings and texts; None if requests are token ids alone and have no stop strings.
    eos : ids that end the text.
    limits : bounds on memory.

    Attributes
    ----------
    iterations : of the latest decode iterations: sequences, cached tokens of all of them, seconds.
    prefills : of the latest prefills: tokens computed, tokens found in the cache, seconds.
    n_aborted_tokens : tokens drawn for requests that were then aborted.
    """

    def __init__(self, decoder: Decoder, tokenizer: Tokenizer | None, eos: frozenset[int], limits: Limits) -> None:
        self.decoder = decoder
        self.limits = limits
        self.cache = KvCache(
            n_layers=decoder.n_layers,
            n_heads=decoder.n_kv_heads,
            head_dim=decoder.head_dim,
            max_batch=limits.max_batch,
            n_idle=limits.n_idle,
            max_context=limits.max_context,
            dtype=decoder.dtype,
            device=decoder.device,
        )
        self._stops = StopFinder(tokenizer) if tokenizer is not None else None
        self._eos = eos
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []  # job i owns row i of the cache
        self.iterations: deque[tuple[int, int, float]] = deque(maxlen=_RING)
        self.prefills: deque[tuple[int, int, float]] = deque(maxlen=_RING)
        self.n_aborted_tokens = 0

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        return bool(self._waiting or self._running)

    def submit(self, job: Job) -> None:
        """Queue a request.

        Raises
        ------
        ValueError : it does not fit the context, names a token outside the vocabulary, or needs a tokenizer.
        """
        n, limit = len(job.prompt), self.limits.max_context
        if n == 0:
            raise ValueError("the prompt is empty")
        if n >= limit:
            raise ValueError(f"the prompt has {n} tokens, the context is {limit} including the reply")
        if min(job.prompt) < 0 or max(job.prompt) >= self.decoder.vocab_size:
            raise ValueError(f"a prompt token is outside the vocabulary of {self.decoder.vocab_size}")
        if job.stop and self._stops is None:
            raise ValueError("stop strings need a tokenizer, and this model has none")
        self._waiting.append(job)

    def abort(self, job_id: int) -> Job | None:
        """Drop a request, wherever it is; return it, or None if it is not here (any more)."""
        for job in self._waiting:
            if job.id == job_id:
                self._waiting.remove(job)
                return job
        for row, job in enumerate(self._running):
            if job.id == job_id:
                self.n_aborted_tokens += len(job.tokens)
                self._leave(row)
                return job
        return None

    def advance(self) -> list[Job]:
        """Do one forward pass; return the requests that it finished."""
        import torch

        with torch.inference_mode():
            if self._waiting and len(self._running) < self.limits.max_batch:
                return self._prefill(self._waiting.popleft())
            return self._decode()

    def _prefill(self, job: Job) -> list[Job]:
        start = job.prefill_start = time.monotonic()
        n = len(job.prompt)
        row = len(self._running)
        self.cache.reserve(min(n + 1, self.limits.max_context))
        job.n_cached = self.cache.admit(job.prompt)
        self._running.append(job)
        hidden = None
        for first in range(job.n_cached, n, _PREFILL_CHUNK):
            hidden = self._read(row, job.prompt[first : min(first + _PREFILL_CHUNK, n)], first)
        assert hidden is not None
        logits = self.decoder.logits(hidden[:, -1])
        if job.choices:
            job.choice_logprobs = logits[0].double().log_softmax(-1)[list(job.choices)].tolist()
            job.finish = "stop"
        else:
            self._take([job], logits)
        job.prefill_end = job.end = time.monotonic()
        self.prefills.append((n - job.n_cached, job.n_cached, job.prefill_end - start))
        return self._sweep(job.prefill_end)

    def _read(self, row: int, ids: Sequence[int], first: int) -> torch.Tensor:
        """Run prompt tokens at positions from ``first`` on through the model, into a row of the cache."""
        import torch

        device = self.decoder.device
        m, columns = len(ids), first + len(ids)
        tokens = torch.tensor([list(ids)], device=device)
        positions = torch.arange(first, columns, device=device)[None]
        mask = None
        if m > 1:
            mask = torch.full((m, columns), -torch.inf, dtype=self.decoder.dtype, device=device)
            mask = mask.triu_(first + 1)[None, None]
        hidden = self.decoder.forward(tokens, positions, self.cache, row, columns, mask)
        self.cache.append(row, ids)
        return hidden

    def _decode(self) -> list[Job]:
        import torch

        start = time.monotonic()
        running, cache, device = self._running, self.cache, self.decoder.device
        batch = len(running)
        lengths = cache.length[:batch].tolist()
        columns = max(lengths) + 1
        cache.reserve(columns)
        last = [job.tokens[-1] for job in running]
        positions = torch.tensor(lengths, device=device)[:, None]
        mask = None
        if min(lengths) + 1 < columns:
            hidden_columns = torch.arange(columns, device=device) > positions
            mask = torch.zeros(batch, columns, dtype=self.decoder.dtype, device=device)
            mask = mask.masked_fill_(hidden_columns, -torch.inf)[:, None, None]
        ids = torch.tensor(last, device=device)[:, None]
        hidden = self.decoder.forward(ids, positions, cache, 0, columns, mask)
        cache.append_each(last)
        self._take(running, self.decoder.logits(hidden[:, 0]))
        end = time.monotonic()
        self.iterations.append((batch, sum(lengths), end - start))
        for job in running:
            job.n_iterations += 1
        return self._sweep(end)

    def _take(self, jobs: Sequence[Job], logits: torch.Tensor) -> None:
        """Draw the next token of each job and see whether it ends there."""
        uniforms = [uniform(job.seed, len(job.tokens)) if job.sampling.temperature else 0.0 for job in jobs]
        tokens = draw(logits, [job.sampling for job in jobs], uniforms)
        for row, (job, token) in enumerate(zip(jobs, tokens, strict=True)):
            job.tokens.append(token)
            if job.n_logprobs:
                job.logprobs.append(_logprobs(logits[row], token, job.n_logprobs))
            self._check_end(job, token)

    def _check_end(self, job: Job, token: int) -> None:
        if token in self._eos and not job.ignore_eos:
            job.finish = "eos"
        elif job.stop and self._stops is not None and self._stops.ends(job.tokens, job.stop):
            job.finish = "stop"
        elif len(job.tokens) >= job.max_tokens or len(job.prompt) + len(job.tokens) >= self.limits.max_context:
            job.finish = "length"

    def _sweep(self, now: float) -> list[Job]:
        """Take finished jobs out of the batch, from the last row on, because the last row fills a gap."""
        finished = []
        for row in range(len(self._running) - 1, -1, -1):
            job = self._running[row]
            if job.finish:
                self._leave(row)
                job.end = now
                self._tell(job)
                finished.append(job)
        finished.reverse()
        return finished

    def _tell(self, job: Job) -> None:
        """Fill in what the caller reads: text and the ids that stand for it."""
        job.n_generated = len(job.tokens)
        if job.finish == "eos":
            job.tokens.pop()
        if self._stops is not None and not job.choices:
            job.text, job.tokens = self._stops.settle(job.tokens, job.stop if job.finish == "stop" else ())

    def _leave(self, row: int) -> None:
        self.cache.release(row)
        last = self._running.pop()
        if row < len(self._running):
            self._running[row] = last


def _logprobs(logits: torch.Tensor, token: int, n: int) -> tuple[float, list[tuple[int, float]]]:
    scores = logits.double().log_softmax(-1)
    top: Any = scores.topk(min(n, scores.shape[0]))
    return float(scores[token]), list(zip(top.indices.tolist(), top.values.tolist(), strict=True))
