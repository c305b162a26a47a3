"""Base class of methods of token-level speculation inside the torch engine, and the methods that need no weights.

In every iteration each running sequence proposes rows for the target (`TokenMethod.propose`): the last token, whose
keys and values are not cached yet, and further rows of the method. A forward pass computes the rows of all sequences;
the method determines the tokens that follow from the logits (`TokenMethod.verify`), and the engine commits them, up to
the end of the text, and keeps their rows in the cache. Plain decoding is the method that proposes a single row. To add
a method, subclass `TokenMethod`, and register it in `ContinuousBatch`, or, if it has weights, load it in
`torch.worker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrate.engines.sampling import TEST_DRAWS, draw, uniform
from calibrate.record.prompt_lookup import common, lookup

if TYPE_CHECKING:
    from torch import Tensor

    from calibrate.engines.torch.job import Job

__all__ = ["NGram", "Noise", "OneHot", "Rows", "TokenMethod", "Verdict"]


@dataclass(slots=True, kw_only=True)
class Rows:
    """The rows of a sequence that the target computes in a pass."""

    ids: list[int]
    """A token per row; the first is the last committed one. Row r is written to slot r after the cached tokens."""
    n_drafted: int = 0
    """Number of rows with drafted tokens, for the statistics."""
    offsets: list[int] | None = None
    """Position of each row after the cached tokens; None: 0, 1, 2, ... (a line of text)."""
    visible: Tensor | None = None
    """Rows that each row attends to, in addition to all cached tokens, (rows, rows) bool; None: itself and earlier."""
    features: Tensor | None = None
    """Additional inputs of each token, (rows, size), for a model with such; for all sequences of a pass or none."""
    memo: Any = None
    """Data of the method, for `TokenMethod.verify`."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    """Result of a pass for a sequence."""

    tokens: list[int]
    """The tokens that follow, at least one."""
    n_accepted: int
    """Number of drafted tokens that are right."""
    kept: list[int] | None = None
    """The row whose logits gave each of the tokens; its keys and values are kept. None: rows 0, 1, 2, ..."""


class TokenMethod:
    """A method, for all sequences of an engine that use it. The order of sequences is the caller's in all calls."""

    def join(self, job: Job, n_cached: int) -> int:
        """Begin a job with ``n_cached`` cached prompt tokens; return how many of them need not be computed again.

        The others are computed although they are cached, and passed to `read`.
        """
        return n_cached

    def read(self, job: Job, first: int, hidden: Tensor) -> None:
        """Receive the target's final hidden states (n, size) of prompt tokens from ``first`` on, as they are prefilled.

        Cached tokens that are not computed again are not included; the prompt's last token always is.
        """

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """Propose the rows of each job; ``room`` is the number of tokens that each may still generate, >= 1."""
        raise NotImplementedError

    def verify(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: Tensor, hidden: Tensor) -> list[Verdict]:
        """Determine the next tokens from the logits (rows of all jobs, vocabulary) and hidden states (rows, size)."""
        raise NotImplementedError

    def leave(self, job: Job) -> None:
        """Remove a job that has finished or was aborted, possibly before its first pass."""

    def forget(self) -> None:
        """Drop data kept of finished jobs; no effect by default."""


class OneHot(TokenMethod):
    """Methods whose draft is a single line of tokens, without probabilities; with no draft, plain decoding.

    A token is drawn from the target's distribution after each row, with the uniform number of plain decoding at that
    position; the pass commits draws as long as they equal the drafted tokens, and the first one that does not. A draft
    is accepted with the target's probability of it and its replacement is drawn from the rest, as in rejection sampling
    with a point mass (Leviathan et al. 2023, Alg. 1), and the text is the same as that of plain decoding.
    """

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """The last token and the draft of each job."""
        rows = []
        for job, left in zip(jobs, room, strict=True):
            k2 = 1 if job.speculation is None else min(job.speculation.k2, left)
            draft = self.draft(job, k2 - 1) if k2 > 1 else []
            rows.append(Rows(ids=[job.tokens[-1], *draft], n_drafted=len(draft)))
        return rows

    def draft(self, job: Job, n: int) -> list[int]:
        """At most ``n`` tokens that may follow; none by default."""
        return []

    def verify(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: Tensor, hidden: Tensor) -> list[Verdict]:
        """Draw after each row; keep the draws that equal the draft, and one more."""
        samplings, uniforms = [], []
        for job, seq in zip(jobs, rows, strict=True):
            at, samples = len(job.tokens), job.sampling.temperature > 0.0
            samplings += [job.sampling] * len(seq.ids)
            uniforms += [uniform(job.seed, at + i) if samples else 0.0 for i in range(len(seq.ids))]
        drawn = iter(draw(logits, samplings, uniforms))
        return [self.follow(job, seq, [next(drawn) for _ in seq.ids]) for job, seq in zip(jobs, rows, strict=True)]

    def follow(self, job: Job, rows: Rows, line: Sequence[int]) -> Verdict:
        """Keep the tokens of ``line``, drawn after each row of a job, that equal the draft, and one more."""
        tokens = list(line[: common(rows.ids[1:], line) + 1])
        return Verdict(tokens=tokens, n_accepted=len(tokens) - 1)


class NGram(OneHot):
    """Prompt lookup: drafts the text after the first occurrence of the longest n-gram that the text ends with."""

    def draft(self, job: Job, n: int) -> list[int]:
        """At most ``n`` tokens after the earlier occurrence."""
        s = job.speculation
        assert s is not None
        text = [*job.prompt, *job.tokens]
        return lookup(text, max_ngram=s.max_ngram, min_ngram=s.min_ngram, n_speculative=n)


class Noise(OneHot):
    """Drafts random tokens, to time passes over k2 tokens with any model."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def draft(self, job: Job, n: int) -> list[int]:
        """Random tokens, which are hardly ever right."""
        at = len(job.tokens)
        return [int(uniform(job.seed ^ TEST_DRAWS, at + i) * self._vocab_size) for i in range(n)]
