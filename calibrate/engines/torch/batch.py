"""Continuous batching: requests join between iterations, share each decode iteration, and leave when they are done.

A call of `ContinuousBatch.advance` is a forward pass: the prefill of a waiting request if there is room for it, else a
decode iteration of all running sequences. This is the engine that `sim.engines.batching.BatchEngine` models. A
sequence's token method determines how many tokens it gets from an iteration; plain decoding gives one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from calibrate.engines.sampling import draw, picked, sent, uniform
from calibrate.engines.stop_strings import StopFinder
from calibrate.engines.torch.job import SPARE, Job, Limits
from calibrate.engines.torch.token_methods.jacobi import JacobiDecoding
from calibrate.engines.torch.token_methods.lookahead_decoding import LookaheadDecoding
from calibrate.engines.torch.token_methods.protocol import NGram, Noise, OneHot, Rows, TokenMethod, Verdict
from calibrate.engines.torch.token_pass import chunks, forward_rows, read_tokens
from calibrate.engines.work import Pass, Prefill, WorkLog

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

    from calibrate.engines.speculation import Speculation
    from calibrate.engines.torch.decoder import Decoder

__all__ = ["ContinuousBatch"]


class ContinuousBatch:
    """The engine of a model, without the process around it.

    Parameters
    ----------
    decoder : the model.
    tokenizer : for stop strings and texts; None if requests are token ids only, without stop strings.
    eos : token ids that end the text.
    limits : bounds on memory.
    methods : loaded methods of token-level speculation, by `Speculation.method` and `Speculation.source`; methods
        without weights are always available.

    Attributes
    ----------
    work : the latest iterations, passes and prefills.
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
        self.cache = decoder.cache(limits)
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
        self.work = WorkLog()

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
        """Remove a request, waiting or running; return it, or None if there is no such request."""
        for job in self._waiting:
            if job.id == job_id:
                self._waiting.remove(job)
                return job
        for row, job in enumerate(self._running):
            if job.id == job_id:
                self._leave(row)
                return job
        return None

    def forget(self) -> None:
        """Drop the keys and values of requests that have ended."""
        self.cache.forget()
        for method in self._methods.values():
            method.forget()

    def advance(self) -> list[Job]:
        """Run a forward pass; return the requests that it finished."""
        import torch

        with torch.inference_mode():
            if self._waiting and len(self._running) < self.limits.max_batch:
                return self._prefill(self._waiting.popleft())
            return self._decode()

    def _prefill(self, job: Job) -> list[Job]:
        import torch

        start = job.prefill_start = time.monotonic()
        n = len(job.prompt)
        row = len(self._running)
        self.cache.reserve(min(n + 1, self.limits.max_context))
        job.n_cached = self.cache.admit(job.prompt)
        if job.n_scored:  # the token before the first scored one is computed again, as its logits are needed
            job.n_cached = min(job.n_cached, n - job.n_scored - 1)
        self._running.append(job)
        method, hidden = self._method(job), None
        job.n_cached = method.join(job, job.n_cached)
        self.cache.truncate(row, job.n_cached)
        for first, end in chunks(job.n_cached, n):
            hidden = read_tokens(self.decoder, self.cache, row, job.prompt[first:end])
            method.read(job, first, hidden)
            begin, after = max(n - job.n_scored - 1, first), min(n - 1, end)
            if job.n_scored and begin < after:
                logits = self.decoder.logits(hidden[begin - first : after - first]).double()
                tokens = sent(job.prompt[begin + 1 : after + 1], torch.int64, logits.device)[:, None]
                scores = (logits / job.sampling.temperature).log_softmax(-1).gather(1, tokens)
                job.logprobs += scores[:, 0].tolist()
        assert hidden is not None
        logits = self.decoder.logits(hidden[-1:])
        if job.n_scored:
            job.finish = "stop"
        elif job.choices:
            job.logprobs = picked(logits[0].double().log_softmax(-1), job.choices).tolist()
            job.finish = "stop"
        else:
            uniforms = [uniform(job.seed, 0) if job.sampling.temperature else 0.0]
            self._commit(job, draw(logits, [job.sampling], uniforms))
        job.prefill_end = job.end = time.monotonic()
        self.work.prefills.append(Prefill(n - job.n_cached, job.n_cached, job.prefill_end - start, job.prefill_end))
        return self._sweep(job.prefill_end)

    def _decode(self) -> list[Job]:
        start = time.monotonic()
        running, cache = self._running, self.cache
        context = int(cache.length[: len(running)].sum())
        groups: dict[TokenMethod, list[int]] = {}
        for row, job in enumerate(running):
            groups.setdefault(self._method(job), []).append(row)
        by_row: dict[int, Rows] = {}
        for method, members in groups.items():
            jobs = [running[row] for row in members]
            room = [min(j.max_tokens, self.limits.max_context - len(j.prompt)) - len(j.tokens) for j in jobs]
            by_row.update(zip(members, method.propose(jobs, room), strict=True))
        rows = [by_row[row] for row in range(len(running))]
        drafted = time.monotonic()
        hidden = forward_rows(self.decoder, cache, 0, rows)
        n_new = self._settle(groups, rows, hidden, self.decoder.logits(hidden))
        end = time.monotonic()
        batch = len(running)
        if any(job.speculation is not None for job in running):
            n_rows = batch * max(len(seq.ids) for seq in rows)
            self.work.passes.append(Pass(batch, context, n_rows, n_new, end - start, drafted - start, end))
        else:
            self.work.iterations.append(Pass.plain(batch, context, end - start, end))
        return self._sweep(end)

    def _settle(
        self,
        groups: Mapping[TokenMethod, Sequence[int]],
        rows: Sequence[Rows],
        hidden: torch.Tensor,
        logits: torch.Tensor,
    ) -> int:
        """Verify each method's part of the pass, and commit the verdicts; return the number of committed tokens."""
        ends = list(accumulate(len(seq.ids) for seq in rows))
        firsts = [end - len(seq.ids) for end, seq in zip(ends, rows, strict=True)]
        n_new = 0
        for method, members in groups.items():
            jobs, own_rows = [self._running[row] for row in members], [rows[row] for row in members]
            own_logits, own_hidden = logits, hidden
            if len(groups) > 1:
                index = [i for row in members for i in range(firsts[row], ends[row])]
                own_logits, own_hidden = picked(logits, index), picked(hidden, index)
            verdicts = method.verify(jobs, own_rows, own_logits, own_hidden)
            for row, job, seq, verdict in zip(members, jobs, own_rows, verdicts, strict=True):
                n_new += self._follow(row, job, seq, verdict)
        return n_new

    def _follow(self, row: int, job: Job, rows: Rows, verdict: Verdict) -> int:
        """Commit a verdict and keep the keys and values of its tokens; return the number of committed tokens."""
        slots = verdict.kept if verdict.kept is not None else list(range(len(verdict.tokens)))
        last = job.tokens[-1]
        n = self._commit(job, verdict.tokens)
        self.cache.keep(row, [last, *job.tokens[len(job.tokens) - n : -1]], slots[:n])
        if job.speculation is not None:
            job.passes.append((rows.n_drafted, verdict.n_accepted))
        return n

    def _commit(self, job: Job, tokens: Sequence[int]) -> int:
        """Append tokens up to the end of the job's text; return their number."""
        for n, token in enumerate(tokens, 1):
            job.tokens.append(token)
            if token in self._eos and not job.ignore_eos:
                job.finish = "eos"
            elif job.stop and self._stops is not None and self._stops.ends(job.tokens, job.stop):
                job.finish = "stop"
            elif len(job.tokens) >= job.max_tokens or len(job.prompt) + len(job.tokens) >= self.limits.max_context:
                job.finish = "length"
            if job.finish:
                return n
        return len(tokens)

    def _method(self, job: Job) -> TokenMethod:
        return self._plain if job.speculation is None else self._methods[_key(job.speculation)]

    def _sweep(self, now: float) -> list[Job]:
        """Remove finished jobs from the batch, starting at the last row, because the last row fills a gap."""
        finished = []
        for row in range(len(self._running) - 1, -1, -1):
            job = self._running[row]
            if job.finish:
                self._leave(row)
                job.end = now
                job.n_generated = len(job.tokens)
                if job.finish == "eos":
                    job.tokens.pop()
                if self._stops is not None and not job.choices:
                    job.text, job.tokens = self._stops.settle(job.tokens, job.stop if job.finish == "stop" else ())
                finished.append(job)
        return finished[::-1]

    def _leave(self, row: int) -> None:
        self._method(self._running[row]).leave(self._running[row])
        self.cache.release(row)
        last = self._running.pop()
        if row < len(self._running):
            self._running[row] = last


def _key(speculation: Speculation) -> tuple[str, str]:
    return speculation.method, speculation.source
