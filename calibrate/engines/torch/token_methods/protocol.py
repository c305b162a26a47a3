"""What a method of token-level speculation is inside the torch engine, and the methods that need no weights.

In every iteration each running sequence asks the target for some rows (`TokenMethod.propose`): the last token drawn,
whose keys and values are not cached yet, and whatever the method wants to know more. One forward pass computes the rows
of all sequences; the method says from the logits which tokens follow (`TokenMethod.verify`), and the engine commits
them, up to the end of the text, and keeps the rows that belong to them in the cache. Plain decoding is the method that
asks for one row. To add a method: subclass `TokenMethod`, and name it in `ContinuousBatch`, or, if it has weights of
its own, load it in `torch.worker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrate.engines.sampling import TEST_DRAWS, draw, uniform
from calibrate.record.prompt_lookup import lookup

if TYPE_CHECKING:
    from torch import Tensor

    from calibrate.engines.torch.job import Job

__all__ = ["NGram", "Noise", "OneHot", "Rows", "TokenMethod", "Verdict", "prefix_match"]


@dataclass(slots=True, kw_only=True)
class Rows:
    """What one sequence asks the target to compute in a pass."""

    ids: list[int]
    """Tokens, one a row; the first is the last one drawn. Row r is written behind the cached tokens, at slot r."""

    n_drafted: int = 0
    """How many of the rows stand for drafted tokens, for the statistics."""

    offsets: list[int] | None = None
    """Position of each row after the cached tokens; None: 0, 1, 2, ... (a line of text)."""

    visible: Tensor | None = None
    """Which rows each row attends to, besides all cached tokens, (rows, rows) bool; None: itself and those before."""

    features: Tensor | None = None
    """What comes with each token, (rows, size), for a model that reads it; of all sequences of a pass or of none."""

    memo: Any = None
    """For the method's own use in `TokenMethod.verify`."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What a pass tells of one sequence."""

    tokens: list[int]
    """The tokens that follow, at least one."""

    n_accepted: int
    """How many drafted tokens came true."""

    kept: list[int] | None = None
    """The row whose logits gave each of the tokens: their keys and values stay. None: rows 0, 1, 2, ..."""


class TokenMethod:
    """A method, for all sequences of an engine that use it. The order of sequences is the caller's in all calls."""

    def join(self, job: Job, n_cached: int) -> int:
        """Begin a job, ``n_cached`` of whose prompt tokens need not be computed; return how many the method can spare.

        Those beyond are computed although they are cached, and seen in `read`.
        """
        return n_cached

    def read(self, job: Job, first: int, hidden: Tensor) -> None:
        """See the target's final hidden states (n, size) of prompt tokens from ``first`` on, as they are prefilled.

        Tokens that were found in the cache and could be spared are not seen; the prompt's last one always is.
        """

    def propose(self, jobs: Sequence[Job], room: Sequence[int]) -> list[Rows]:
        """The rows of each job; ``room`` is how many tokens each may still generate, >= 1."""
        raise NotImplementedError

    def verify(self, jobs: Sequence[Job], rows: Sequence[Rows], logits: Tensor, hidden: Tensor) -> list[Verdict]:
        """What follows, from the logits (rows of all jobs, vocabulary) and final hidden states (rows, size)."""
        raise NotImplementedError

    def leave(self, job: Job) -> None:
        """Forget a job, which has finished or was aborted; it may be one that no pass has seen yet."""

    def forget(self) -> None:
        """Drop what is kept of the texts of jobs that have left; nothing by default."""


class OneHot(TokenMethod):
    """Methods whose draft is one line of tokens, without probabilities; with no draft, plain decoding.

    A token is drawn from the target's distribution after each row, with the uniform that plain decoding would use at
    that position; the pass commits draws as long as they are the drafted tokens, and the first one that is not. A draft
    is accepted with the target's probability of it and what replaces it is drawn from the rest, as rejection sampling
    with a point mass demands (Leviathan et al. 2023, Alg. 1), and the text is the one that plain decoding draws.
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
        """Draw after each row; keep what was drafted, and one more."""
        return list(map(self.follow, jobs, rows, _draw_lines(jobs, rows, logits)))

    def follow(self, job: Job, asked: Rows, line: Sequence[int]) -> Verdict:
        """Keep of the ``line`` drawn after each row of a job what was drafted, and one token more."""
        tokens = prefix_match(asked.ids[1:], line)
        return Verdict(tokens=tokens, n_accepted=len(tokens) - 1)


class NGram(OneHot):
    """Prompt lookup: what followed the longest n-gram that the text ends with, where it occurred first."""

    def draft(self, job: Job, n: int) -> list[int]:
        """What followed earlier, as far as it goes."""
        s = job.speculation
        assert s is not None
        text = [*job.prompt, *job.tokens]
        return lookup(text, max_ngram=s.max_ngram, min_ngram=s.min_ngram, n_speculative=n)


class Noise(OneHot):
    """Random tokens: passes over k2 tokens can be timed with any model."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def draft(self, job: Job, n: int) -> list[int]:
        """Tokens that hardly ever come true."""
        at = len(job.tokens)
        return [int(uniform(job.seed ^ TEST_DRAWS, at + i) * self._vocab_size) for i in range(n)]


def _draw_lines(jobs: Sequence[Job], rows: Sequence[Rows], logits: Tensor) -> list[list[int]]:
    """What plain decoding would draw after each row of each job, were all rows before it right."""
    samplings, uniforms = [], []
    for job, asked in zip(jobs, rows, strict=True):
        at, samples = len(job.tokens), job.sampling.temperature > 0.0
        samplings += [job.sampling] * len(asked.ids)
        uniforms += [uniform(job.seed, at + i) if samples else 0.0 for i in range(len(asked.ids))]
    drawn = iter(draw(logits, samplings, uniforms))
    return [[next(drawn) for _ in asked.ids] for asked in rows]


def prefix_match(draft: Sequence[int], drawn: Sequence[int]) -> list[int]:
    """Return the tokens drawn after each of ``[last, *draft]`` that follow, up to the first that was not drafted."""
    n = 0
    while n < len(draft) and draft[n] == drawn[n]:
        n += 1
    return list(drawn[: n + 1])
