"""Draft-model speculation inside the torch engine: a smaller model with its own cache generates the drafts.

Drafts for all sequences of the batch are generated together. The draft's cache follows the text: before a draft it
reads newly committed tokens, after the verification it drops rejected ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from calibrate.engines.sampling import DRAFT_DRAWS, TEST_DRAWS, distribution, invert, picked, sent, uniform
from calibrate.engines.torch.token_methods.protocol import OneHot, Rows, Verdict
from calibrate.engines.torch.token_pass import chunks, forward_rows, read_tokens

if TYPE_CHECKING:
    import torch

    from calibrate.engines.torch.decoder import Decoder
    from calibrate.engines.torch.job import Job, Limits

__all__ = ["DraftModel", "verify_drafts"]


class DraftModel(OneHot):
    """A draft model, for all sequences that use it.

    Its tokens are sampled with the request's temperature and top-p, and verified by rejection sampling; for a greedy
    request they are the draft's likeliest, and verified by comparison.

    Parameters
    ----------
    decoder : the draft model; it shares the target's vocabulary.
    limits : limits of the target's engine.
    max_context : positions of the draft model; longer texts get no drafts.
    """

    def __init__(self, decoder: Decoder, limits: Limits, max_context: int) -> None:
        self.decoder = decoder
        self.cache = decoder.cache(limits)
        self._max_context = max_context
        self._jobs: list[Job] = []  # job i owns row i of the cache

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """The last token and the draft of each job; with the draft, the weights that it was sampled from."""
        wanted = {job: self._wanted(job, left) for job, left in zip(jobs, room, strict=True)}
        for job in jobs:
            if wanted[job] and job not in self._jobs:
                text, row = text_from(job, 0), len(self._jobs)
                self.cache.reserve(len(text))
                cached = self.cache.admit(text)
                self._jobs.append(job)
                for first, end in chunks(cached, len(text) - 1):
                    read_tokens(self.decoder, self.cache, row, text[first:end])
        drafts, weights = self._write([wanted.get(job, 0) for job in self._jobs])
        rows = []
        for job in jobs:
            row = self._jobs.index(job) if wanted[job] else -1
            draft = drafts[row][: wanted[job]] if row >= 0 else []
            memo = [step[row] for step in weights[: len(draft)]] if job.sampling.temperature else None
            rows.append(Rows(ids=[job.tokens[-1], *draft], n_drafted=len(draft), memo=memo))
        return rows

    def verify(
        self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor, hidden: torch.Tensor
    ) -> list[Verdict]:
        """Verify by rejection sampling for jobs that sample, by comparison for greedy jobs; update the cache."""
        verdicts = self._verdicts(jobs, rows, logits, hidden)
        for job, verdict in zip(jobs, verdicts, strict=True):
            if job in self._jobs:
                self.cache.truncate(self._jobs.index(job), len(job.prompt) + len(job.tokens) + verdict.n_accepted)
        return verdicts

    def leave(self, job: Job) -> None:
        """End a job's row; its committed tokens stay cached for prompts that extend them."""
        if job in self._jobs:
            row = self._jobs.index(job)
            self.cache.truncate(row, len(job.prompt) + len(job.tokens))
            self.cache.release(row)
            last = self._jobs.pop()
            if row < len(self._jobs):
                self._jobs[row] = last

    def forget(self) -> None:
        """Drop cached tokens of finished jobs."""
        self.cache.forget()

    def _wanted(self, job: Job, room: int) -> int:
        """Number of tokens to draft, limited by the rest of the request and by the draft model's positions."""
        assert job.speculation is not None
        return max(min(job.speculation.k2 - 1, room - 1, self._max_context - len(job.prompt) - len(job.tokens)), 0)

    def _write(self, wanted: Sequence[int]) -> tuple[list[list[int]], list[torch.Tensor]]:
        """Draft for all rows of the cache; return tokens by row, and by position the weights they were sampled from.

        Rows that need fewer tokens than others get the same number; the caller drops the excess.
        """
        drafts: list[list[int]] = [[] for _ in wanted]
        weights: list[torch.Tensor] = []
        rows = [self._unread(row, job) for row, job in enumerate(self._jobs)]
        for step in range(max(wanted, default=0)):
            hidden = forward_rows(self.decoder, self.cache, 0, rows)
            for row, read in enumerate(rows):
                self.cache.append(row, read.ids)
            ends = picked(hidden, [end - 1 for end in accumulate(len(read.ids) for read in rows)])
            tokens, drawn_from = self._draw(self.decoder.logits(ends), step)
            for draft, token in zip(drafts, tokens, strict=True):
                draft.append(token)
            if drawn_from is not None:
                weights.append(drawn_from)
            rows = self._drafted(drafts, ends)
        return drafts, weights

    def _unread(self, row: int, job: Job) -> Rows:
        """The tokens of a job's text that are not in its row yet."""
        return Rows(ids=text_from(job, int(self.cache.length[row])))

    def _drafted(self, drafts: Sequence[list[int]], ends: torch.Tensor) -> list[Rows]:
        """The next input of each row: its latest drafted token; ``ends`` are hidden states (rows, size) before it."""
        return [Rows(ids=draft[-1:]) for draft in drafts]

    def _draw(self, logits: torch.Tensor, step: int) -> tuple[list[int], torch.Tensor | None]:
        """The next token of each row, and the weights it was sampled from if any row samples."""
        sampling = [row for row, job in enumerate(self._jobs) if job.sampling.temperature > 0.0]
        greedy: list[int] = logits.argmax(-1).tolist() if len(sampling) < len(self._jobs) else [0] * len(sampling)
        if not sampling:
            return greedy, None
        jobs = [self._jobs[row] for row in sampling]
        weights = distribution(picked(logits, sampling), [job.sampling for job in jobs])
        uniforms = [uniform(job.seed ^ DRAFT_DRAWS, len(job.tokens) + step) for job in jobs]
        for row, token in zip(sampling, invert(weights, uniforms), strict=True):
            greedy[row] = token
        if len(sampling) == len(self._jobs):
            return greedy, weights
        spread = weights.new_zeros(logits.shape)
        spread[sampling] = weights
        return greedy, spread

    def _verdicts(
        self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor, hidden: torch.Tensor
    ) -> list[Verdict]:
        """Verify all jobs at once if all sample or none does, else one after the other."""
        samples = {job.sampling.temperature > 0.0 for job in jobs}
        if samples == {True}:
            return self._verify_samples(jobs, rows, logits)
        if samples == {False}:
            return super().verify(jobs, rows, logits, hidden)
        ends = list(accumulate(len(seq.ids) for seq in rows))
        own = [slice(end - len(seq.ids), end) for end, seq in zip(ends, rows, strict=True)]
        each = zip(jobs, rows, own, strict=True)
        return [self._verdicts([job], [seq], logits[s], hidden[s])[0] for job, seq, s in each]

    def _verify_samples(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: torch.Tensor) -> list[Verdict]:
        import torch

        samplings = [job.sampling for job, seq in zip(jobs, rows, strict=True) for _ in seq.ids]
        weights = [step for seq in rows for step in seq.memo]
        tests, resamples = [], []
        for job, seq in zip(jobs, rows, strict=True):
            places = range(len(job.tokens), len(job.tokens) + len(seq.ids))
            tests.append([uniform(job.seed ^ TEST_DRAWS, i) for i in places[:-1]])
            resamples.append([uniform(job.seed, i) for i in places])
        lines = verify_drafts(
            distribution(logits, samplings),
            torch.stack(weights) if weights else logits.new_zeros(0, logits.shape[-1]).double(),
            [seq.ids[1:] for seq in rows],
            tests,
            resamples,
        )
        return [Verdict(tokens=tokens, n_accepted=len(tokens) - 1) for tokens in lines]


def text_from(job: Job, n: int) -> list[int]:
    """The prompt and the generated tokens, without the first ``n`` tokens."""
    return [*job.prompt[n:], *job.tokens[max(n - len(job.prompt), 0) :]]


def verify_drafts(
    target: torch.Tensor,
    draft: torch.Tensor,
    drafts: Sequence[Sequence[int]],
    tests: Sequence[Sequence[float]],
    resamples: Sequence[Sequence[float]],
) -> list[list[int]]:
    """Return the next tokens of each of several sequences, at least one each, by speculative rejection sampling.

    A token x drafted from q is accepted with probability min(1, p(x) / q(x)); the first rejected one is drawn again
    from max(p - q, 0), normalised; after a draft that is accepted to its end another token is drawn from p. So verified
    tokens have exactly the target's distribution p.

    Parameters
    ----------
    target : weights of the target's distribution after each token, float64, (rows, V), need not sum to 1; a sequence
        with n drafted tokens has n + 1 rows, one sequence after the other.
    draft : weights that each drafted token was drawn from, (drafted tokens, V), need not sum to 1.
    drafts : the drafted tokens of each sequence, possibly none.
    tests : uniform numbers for acceptance, one for each drafted token.
    resamples : uniform numbers for the token after the accepted ones, one for each row.

    References
    ----------
    Leviathan, Kalman, Matias 2023, arXiv:2211.17192, Algorithm 1.
    """
    import torch

    p = target / target.sum(-1, keepdim=True)
    q = draft / draft.sum(-1, keepdim=True)
    first_rows = [0, *accumulate(len(tokens) + 1 for tokens in drafts)]
    first_drafts = [0, *accumulate(map(len, drafts))]
    flat = [token for tokens in drafts for token in tokens]
    rows = [first_rows[i] + j for i, tokens in enumerate(drafts) for j in range(len(tokens))]
    at = sent([flat, rows, range(len(flat))], torch.int64, p.device)
    p_drafted, q_drafted = torch.stack((p[at[1], at[0]], q[at[2], at[0]])).tolist()
    accepted = []
    for tokens, first, tested in zip(drafts, first_drafts, tests, strict=False):
        n = 0
        while n < len(tokens) and tested[n] * q_drafted[first + n] < p_drafted[first + n]:
            n += 1
        accepted.append(n)
    final = picked(p, [first + n for first, n in zip(first_rows, accepted, strict=False)])
    rejected = [i for i, (n, tokens) in enumerate(zip(accepted, drafts, strict=True)) if n < len(tokens)]
    if rejected:
        theirs = picked(final, rejected)
        rest = (theirs - picked(q, [first_drafts[i] + accepted[i] for i in rejected])).clamp_(min=0.0)
        # p = q up to rounding leaves no rest: then draw from p
        rest = rest.where(rest.sum(-1, keepdim=True) > 0.0, theirs)
        final = final.index_copy(0, sent(rejected, torch.int64, p.device), rest)
    last = invert(final, [uniforms[n] for uniforms, n in zip(resamples, accepted, strict=True)])
    return [[*tokens[:n], token] for tokens, n, token in zip(drafts, accepted, last, strict=True)]
