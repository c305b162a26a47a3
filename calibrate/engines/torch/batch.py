"""Continuous batching: requests join between iterations, share each decode iteration, and leave when they are done.

One call of `ContinuousBatch.advance` is one forward pass: the prefill of one waiting request if there is room for it,
else one decode iteration of everything that runs. This is the engine that `sim.engines.batching.BatchEngine` models.
How many tokens a sequence gets from an iteration is up to its method (`token_method`); plain decoding gives it one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.protocol import GREEDY, Sampling
from calibrate.engines.sampling import draw, uniform
from calibrate.engines.stop_strings import StopFinder
from calibrate.engines.torch.kv_cache import KvCache
from calibrate.engines.torch.likelihood import forget_scored, token_logprobs
from calibrate.engines.torch.token_methods.jacobi import JacobiDecoding
from calibrate.engines.torch.token_methods.lookahead_batch import LookaheadDecoding
from calibrate.engines.torch.token_methods.protocol import NGram, Noise, OneHot, Rows, TokenMethod, Verdict
from calibrate.engines.torch.token_pass import forward_rows

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

    from calibrate.engines.speculation import Speculation
    from calibrate.engines.torch.decoder import Decoder

__all__ = ["SPARE", "ContinuousBatch", "Job", "Limits"]

_PREFILL_CHUNK: Final = 512
_RING: Final = 1 << 16
SPARE: Final = 256
"""Positions beyond the context, for rows that a pass computes and drops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes that bound an engine's memory."""

    max_batch: int
    """Sequences decoded at once; more requests wait."""

    n_idle: int
    """Finished sequences kept for prompts that extend them."""

    max_context: int
    """Tokens of a sequence, prompt included."""


@dataclass(slots=True, kw_only=True, eq=False)
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
    n_scored: int = 0
    """Tokens at the prompt's end whose likelihood is asked for; if any, nothing is generated."""
    speculation: Speculation | None = None
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
    token_logprobs: list[float] = field(default_factory=list)
    passes: list[tuple[int, int]] = field(default_factory=list)
    """With speculation: tokens drafted and accepted in each pass."""
    memo: Any = None
    """For the method's own use."""


class ContinuousBatch:
    """One model's engine, without the process around it.

    Parameters
    ----------
    decoder : the model.
    tokenizer : for stop strings and texts; None if requests are token ids alone and have no stop strings.
    eos : ids that end the text.
    limits : bounds on memory.
    methods : of token-level speculation that were loaded, by `Speculation.method` and `Speculation.source`; those
        without weights are always there.

    Attributes
    ----------
    iterations : of the latest decode iterations without speculation: sequences, cached tokens of all of them, seconds.
    passes : of the latest ones with: see `EngineStatistics.passes`.
    prefills : of the latest prefills: tokens computed, tokens found in the cache, seconds.
    iteration_ends, pass_ends, prefill_ends : when each of them ended, s on the machine's monotonic clock.
    n_aborted_tokens : tokens drawn for requests that were then aborted.
    """

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Tokenizer | None,
        eos: frozenset[int],
        limits: Limits,
        methods: Mapping[tuple[str, str], TokenMethod] | None = None,
    ) -> None:
        self.decoder = decoder
        self.limits = limits
        self.cache = KvCache(
            n_layers=decoder.n_layers,
            n_heads=decoder.n_kv_heads,
            head_dim=decoder.head_dim,
            max_batch=limits.max_batch,
            n_idle=limits.n_idle,
            max_context=limits.max_context + SPARE,
            dtype=decoder.dtype,
            device=decoder.device,
        )
        self._plain = OneHot()
        weightless: dict[tuple[str, str], TokenMethod] = {
            ("ngram", ""): NGram(),
            ("random", ""): Noise(decoder.vocab_size),
            ("lookahead", ""): LookaheadDecoding(SPARE),
            ("jacobi", ""): JacobiDecoding(),
        }
        self._methods = {**weightless, **(methods or {})}
        self._stops = StopFinder(tokenizer) if tokenizer is not None else None
        self._eos = eos
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []  # job i owns row i of the cache
        self.iterations: deque[tuple[int, int, float]] = deque(maxlen=_RING)
        self.passes: deque[tuple[int, int, int, int, float, float]] = deque(maxlen=_RING)
        self.prefills: deque[tuple[int, int, float]] = deque(maxlen=_RING)
        self.iteration_ends: deque[float] = deque(maxlen=_RING)
        self.pass_ends: deque[float] = deque(maxlen=_RING)
        self.prefill_ends: deque[float] = deque(maxlen=_RING)
        self.n_aborted_tokens = 0

    @property
    def busy(self) -> bool:
        """Whether `advance` has something to do."""
        return bool(self._waiting or self._running)

    def submit(self, job: Job) -> None:
        """Queue a request.

        Raises
        ------
        ValueError : it does not fit the context, names a token outside the vocabulary, needs a tokenizer, or a method
            of speculation that was not loaded.
        """
        n, limit = len(job.prompt), self.limits.max_context
        if n == 0:
            raise ValueError("the prompt is empty")
        if n >= limit:
            raise ValueError(f"the prompt has {n} tokens, the context is {limit} including the reply")
        if job.n_scored >= n:
            raise ValueError(f"{job.n_scored} tokens are to be scored after others, the prompt has {n}")
        if min(job.prompt) < 0 or max(job.prompt) >= self.decoder.vocab_size:
            raise ValueError(f"a prompt token is outside the vocabulary of {self.decoder.vocab_size}")
        if job.stop and self._stops is None:
            raise ValueError("stop strings need a tokenizer, and this model has none")
        if job.speculation is not None and _key(job.speculation) not in self._methods:
            where = f" from {job.speculation.source}" if job.speculation.source else ""
            raise ValueError(f"speculation by {job.speculation.method!r}{where} was not loaded when the engine started")
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

    def forget(self) -> None:
        """Drop the keys and values of requests that have ended."""
        self.cache.forget()
        for method in self._methods.values():
            method.forget()

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
        if job.n_scored:
            job.n_cached = forget_scored(self.cache, row, n - job.n_scored)
        self._running.append(job)
        method, hidden = self._method(job), None
        job.n_cached = method.join(job, job.n_cached)
        self.cache.truncate(row, job.n_cached)
        for first in range(job.n_cached, n, _PREFILL_CHUNK):
            hidden = self._read(row, job.prompt[first : min(first + _PREFILL_CHUNK, n)])
            method.read(job, first, hidden)
            if job.n_scored:
                heat = job.sampling.temperature
                job.token_logprobs += token_logprobs(self.decoder, hidden, job.prompt, first, job.n_scored, heat)
        assert hidden is not None
        logits = self.decoder.logits(hidden[-1:])
        if job.n_scored:
            job.finish = "stop"
        elif job.choices:
            job.choice_logprobs = logits[0].double().log_softmax(-1)[list(job.choices)].tolist()
            job.finish = "stop"
        else:
            uniforms = [uniform(job.seed, 0) if job.sampling.temperature else 0.0]
            self._commit(job, draw(logits, [job.sampling], uniforms), logits, [0])
        job.prefill_end = job.end = time.monotonic()
        self.prefills.append((n - job.n_cached, job.n_cached, job.prefill_end - start))
        self.prefill_ends.append(job.prefill_end)
        return self._sweep(job.prefill_end)

    def _read(self, row: int, ids: Sequence[int]) -> torch.Tensor:
        """Run the next prompt tokens of a row of the cache through the model."""
        hidden = forward_rows(self.decoder, self.cache, row, [Rows(ids=list(ids))])
        self.cache.append(row, ids)
        return hidden

    def _decode(self) -> list[Job]:
        start = time.monotonic()
        running, cache = self._running, self.cache
        context = int(cache.length[: len(running)].sum())
        groups: dict[TokenMethod, list[int]] = {}
        for row, job in enumerate(running):
            groups.setdefault(self._method(job), []).append(row)
        rows = self._propose(groups)
        drafted = time.monotonic()
        hidden = forward_rows(self.decoder, cache, 0, rows)
        n_new = self._settle(groups, rows, hidden, self.decoder.logits(hidden))
        end = time.monotonic()
        batch = len(running)
        if any(job.speculation is not None for job in running):
            most = max(len(one.ids) for one in rows)
            self.passes.append((batch, context, batch * most, n_new, end - start, drafted - start))
            self.pass_ends.append(end)
        else:
            self.iterations.append((batch, context, end - start))
            self.iteration_ends.append(end)
        return self._sweep(end)

    def _propose(self, groups: Mapping[TokenMethod, Sequence[int]]) -> list[Rows]:
        """What each running sequence wants to know, in the order of the cache."""
        found: dict[int, Rows] = {}
        for method, members in groups.items():
            jobs = [self._running[row] for row in members]
            room = [min(j.max_tokens, self.limits.max_context - len(j.prompt)) - len(j.tokens) for j in jobs]
            found.update(zip(members, method.propose(jobs, room), strict=True))
        return [found[row] for row in range(len(self._running))]

    def _settle(
        self,
        groups: Mapping[TokenMethod, Sequence[int]],
        rows: Sequence[Rows],
        hidden: torch.Tensor,
        logits: torch.Tensor,
    ) -> int:
        """Let each method read its part of the pass, and commit what it found; return the tokens committed."""
        ends = list(accumulate(len(one.ids) for one in rows))
        firsts = [end - len(one.ids) for end, one in zip(ends, rows, strict=True)]
        n_new = 0
        for method, members in groups.items():
            jobs, asked = [self._running[row] for row in members], [rows[row] for row in members]
            own_logits, own_hidden = logits, hidden
            if len(groups) > 1:
                index = [i for row in members for i in range(firsts[row], ends[row])]
                own_logits, own_hidden = logits[index], hidden[index]
            verdicts = method.verify(jobs, asked, own_logits, own_hidden)
            for row, job, one, verdict in zip(members, jobs, asked, verdicts, strict=True):
                n_new += self._follow(row, job, one, verdict, logits[firsts[row] : ends[row]])
        return n_new

    def _follow(self, row: int, job: Job, asked: Rows, verdict: Verdict, logits: torch.Tensor) -> int:
        """Commit a verdict and keep the keys and values of what is committed; return how many tokens that are."""
        slots = verdict.kept if verdict.kept is not None else list(range(len(verdict.tokens)))
        last = job.tokens[-1]
        n = self._commit(job, verdict.tokens, logits, slots)
        self.cache.keep(row, [last, *job.tokens[len(job.tokens) - n : -1]], slots[:n])
        job.n_iterations += 1
        if job.speculation is not None:
            job.passes.append((asked.n_drafted, verdict.n_accepted))
        return n

    def _commit(self, job: Job, tokens: Sequence[int], logits: torch.Tensor, sources: Sequence[int]) -> int:
        """Append tokens up to the end of the job's text; ``sources`` are the rows of ``logits`` that they came from."""
        for n, (token, source) in enumerate(zip(tokens, sources, strict=True), 1):
            job.tokens.append(token)
            if job.n_logprobs:
                job.logprobs.append(_logprobs(logits[source], token, job.n_logprobs))
            self._check_end(job, token)
            if job.finish:
                return n
        return len(tokens)

    def _method(self, job: Job) -> TokenMethod:
        return self._plain if job.speculation is None else self._methods[_key(job.speculation)]

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
        self._method(self._running[row]).leave(self._running[row])
        self.cache.release(row)
        last = self._running.pop()
        if row < len(self._running):
            self._running[row] = last


def _key(speculation: Speculation) -> tuple[str, str]:
    return speculation.method, speculation.source


def _logprobs(logits: torch.Tensor, token: int, n: int) -> tuple[float, list[tuple[int, float]]]:
    scores = logits.double().log_softmax(-1)
    top: Any = scores.topk(min(n, scores.shape[0]))
    return float(scores[token]), list(zip(top.indices.tolist(), top.values.tolist(), strict=True))
