"""Draft-model speculation inside the torch engine: a smaller model with a cache of its own writes the drafts.

All sequences of the batch are drafted for together. The draft's cache follows the text: before a draft it reads what
was committed since, after the verification it forgets what was rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from calibrate.engines.sampling import DRAFT_STREAM, TEST_STREAM, distribution, invert, uniform
from calibrate.engines.torch.kv_cache import KvCache
from calibrate.engines.torch.token_methods.protocol import OneHot, Rows, Verdict
from calibrate.engines.torch.token_methods.rejection import verify_drafts
from calibrate.engines.torch.token_pass import forward_rows

if TYPE_CHECKING:
    import torch

    from calibrate.engines.torch.batch import Job, Limits
    from calibrate.engines.torch.decoder import Decoder

__all__ = ["DraftModel"]

_CHUNK: Final = 512


class DraftModel(OneHot):
    """A draft model, for all sequences that use it.

    Its tokens are drawn with the request's own temperature and top-p, and verified by rejection sampling; a greedy
    request's tokens are the draft's likeliest, and verified by comparison.

    Parameters
    ----------
    decoder : the draft model; it shares the target's vocabulary.
    limits : of the target's engine.
    max_context : positions that the draft model knows; longer texts get no drafts.
    spare : positions beyond the context that its cache has room for, as the target's.
    """

    def __init__(self, decoder: Decoder, limits: Limits, max_context: int, spare: int) -> None:
        self.decoder = decoder
        self.cache = KvCache(
            n_layers=decoder.n_layers,
            n_heads=decoder.n_kv_heads,
            head_dim=decoder.head_dim,
            max_batch=limits.max_batch,
            n_idle=limits.n_idle,
            max_context=limits.max_context + spare,
            dtype=decoder.dtype,
            device=decoder.device,
        )
        self._max_context = max_context
        self._jobs: list[Job] = []  # job i owns row i of the cache

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """The last token and the draft of each job; with the draft, the weights that it was drawn from."""
        wanted = {job: self._wanted(job, left) for job, left in zip(jobs, room, strict=True)}
        for job in jobs:
            if wanted[job] and job not in self._jobs:
                self._admit(job)
        drafts, weights = self._write([wanted.get(job, 0) for job in self._jobs])
        found = []
        for job in jobs:
            row = self._jobs.index(job) if wanted[job] else -1
            draft = drafts[row][: wanted[job]] if row >= 0 else []
            memo = [step[row] for step in weights[: len(draft)]] if job.sampling.temperature else None
            found.append(Rows(ids=[job.tokens[-1], *draft], n_drafted=len(draft), memo=memo))
        return found

    def verify(
        self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor, hidden: torch.Tensor
    ) -> list[Verdict]:
        """Rejection sampling for those that sample, comparison for the greedy ones; the cache follows."""
        hot = [job.sampling.temperature > 0.0 for job in jobs]
        if all(hot):
            found = self._verify_samples(jobs, rows, logits)
        elif not any(hot):
            found = super().verify(jobs, rows, logits, hidden)
        else:
            found = self._verify_mixed(jobs, rows, logits, hidden, hot)
        for job, verdict in zip(jobs, found, strict=True):
            if job in self._jobs:
                self.cache.truncate(self._jobs.index(job), len(job.prompt) + len(job.tokens) + verdict.n_accepted)
        return found

    def leave(self, job: Job) -> None:
        """End a job's row; what it holds of the committed text is kept for prompts that extend it."""
        if job in self._jobs:
            row = self._jobs.index(job)
            self.cache.truncate(row, len(job.prompt) + len(job.tokens))
            self.cache.release(row)
            last = self._jobs.pop()
            if row < len(self._jobs):
                self._jobs[row] = last

    def forget(self) -> None:
        """Drop what is kept of the texts of jobs that have left."""
        self.cache.forget()

    def _wanted(self, job: Job, room: int) -> int:
        """Tokens to draft: as many as may still be committed, and as the draft model has positions for."""
        assert job.speculation is not None
        return max(min(job.speculation.k2 - 1, room - 1, self._max_context - len(job.prompt) - len(job.tokens)), 0)

    def _admit(self, job: Job) -> None:
        """Give a job a row, and read its text except for the last token."""
        text = [*job.prompt, *job.tokens]
        row = len(self._jobs)
        self.cache.reserve(len(text))
        n = self.cache.admit(text)
        self._jobs.append(job)
        for first in range(n, len(text) - 1, _CHUNK):
            ids = text[first : min(first + _CHUNK, len(text) - 1)]
            forward_rows(self.decoder, self.cache, row, [Rows(ids=ids)])
            self.cache.append(row, ids)

    def _write(self, wanted: Sequence[int]) -> tuple[list[list[int]], list[torch.Tensor]]:
        """Draft for all rows of the cache: tokens by row, and by position the weights that they were drawn from.

        Rows that want fewer tokens than others get as many, which their caller drops.
        """
        n_steps = max(wanted, default=0)
        drafts: list[list[int]] = [[] for _ in wanted]
        weights: list[torch.Tensor] = []
        ends = None
        for step in range(n_steps):
            rows = [self._unread(row, job) for row, job in self._owners()] if step == 0 else self._drafted(drafts, ends)
            hidden = forward_rows(self.decoder, self.cache, 0, rows)
            for row, one in enumerate(rows):
                self.cache.append(row, one.ids)
            ends = hidden[[end - 1 for end in accumulate(len(one.ids) for one in rows)]]
            tokens, drawn_from = self._draw(self.decoder.logits(ends), step)
            for draft, token in zip(drafts, tokens, strict=True):
                draft.append(token)
            if drawn_from is not None:
                weights.append(drawn_from)
        return drafts, weights

    def _owners(self) -> list[tuple[int, Job]]:
        return list(enumerate(self._jobs))

    def _unread(self, row: int, job: Job) -> Rows:
        """The tokens of a job's text that its row does not hold yet."""
        return Rows(ids=text_from(job, int(self.cache.length[row])))

    def _drafted(self, drafts: Sequence[list[int]], ends: torch.Tensor) -> list[Rows]:
        """What each row reads next: its latest drafted token; ``ends`` are the hidden states (rows, size) it is of."""
        return [Rows(ids=draft[-1:]) for draft in drafts]

    def _draw(self, logits: torch.Tensor, step: int) -> tuple[list[int], torch.Tensor | None]:
        """The next token of each row, and what it was drawn from where any row samples."""
        hot = [row for row, job in self._owners() if job.sampling.temperature > 0.0]
        greedy: list[int] = logits.argmax(-1).tolist() if len(hot) < len(self._jobs) else [0] * len(hot)
        if not hot:
            return greedy, None
        jobs = [self._jobs[row] for row in hot]
        weights = distribution(logits[hot], [job.sampling for job in jobs])
        uniforms = [uniform(job.seed ^ DRAFT_STREAM, len(job.tokens) + step) for job in jobs]
        for row, token in zip(hot, invert(weights, uniforms), strict=True):
            greedy[row] = token
        if len(hot) == len(self._jobs):
            return greedy, weights
        spread = weights.new_zeros(logits.shape)
        spread[hot] = weights
        return greedy, spread

    def _verify_samples(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor) -> list[Verdict]:
        import torch

        samplings = [job.sampling for job, one in zip(jobs, rows, strict=True) for _ in one.ids]
        weights = [step for one in rows for step in one.memo]
        tests, resamples = [], []
        for job, one in zip(jobs, rows, strict=True):
            places = range(len(job.tokens), len(job.tokens) + len(one.ids))
            tests.append([uniform(job.seed ^ TEST_STREAM, i) for i in places[:-1]])
            resamples.append([uniform(job.seed, i) for i in places])
        found = verify_drafts(
            distribution(logits, samplings),
            torch.stack(weights) if weights else logits.new_zeros(0, logits.shape[-1]).double(),
            [one.ids[1:] for one in rows],
            tests,
            resamples,
        )
        return [Verdict(tokens=tokens, n_accepted=len(tokens) - 1) for tokens in found]

    def _verify_mixed(
        self,
        jobs: Sequence[Job],
        rows: Sequence[Rows],
        logits: torch.Tensor,
        hidden: torch.Tensor,
        hot: Sequence[bool],
    ) -> list[Verdict]:
        found, first = [], 0
        for job, one, samples in zip(jobs, rows, hot, strict=True):
            own = slice(first, first + len(one.ids))
            first = own.stop
            if samples:
                found += self._verify_samples([job], [one], logits[own])
            else:
                found += super().verify([job], [one], logits[own], hidden[own])
        return found


def text_from(job: Job, n: int) -> list[int]:
    """The prompt and what is drawn so far, without the first ``n`` tokens."""
    return [*job.prompt[n:], *job.tokens[max(n - len(job.prompt), 0) :]]
