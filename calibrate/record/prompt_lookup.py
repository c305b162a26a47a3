"""Prompt lookup (n-gram) drafting: the tokens that a lookup proposes, and their acceptance counted on texts.

A draft is the text after the first earlier occurrence of the last ``n`` tokens, longest ``n`` first, as in vLLM's ngram
method. The draft's distribution is a point mass, so that under exact rejection sampling a token is accepted with the
target's probability of it; counting matches on text that the target sampled is an unbiased estimate.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrate.record.token_records import NGramRecord

__all__ = ["common", "count_acceptance", "lookup"]


def lookup(tokens: Sequence[int], *, max_ngram: int, n_speculative: int, min_ngram: int = 1) -> list[int]:
    """Return the tokens that prompt lookup proposes after ``tokens``: at most ``n_speculative``, possibly none."""
    text = array("i", tokens)
    size, end = text.itemsize, len(text)
    data = text.tobytes()
    for n in range(min(max_ngram, end - 1), min_ngram - 1, -1):
        start = _aligned(data, data[(end - n) * size :], (end - 1) * size, size)
        if start >= 0:
            return text[start + n : start + n + n_speculative].tolist()
    return []


def _aligned(data: bytes, tail: bytes, end: int, size: int) -> int:
    """Index of the first whole token at which ``tail`` occurs in ``data[:end]``, or -1."""
    start = data.find(tail, 0, end)
    while start % size and start >= 0:
        start = data.find(tail, start + 1, end)
    return start // size if start >= 0 else -1


def count_acceptance(
    texts: Iterable[tuple[Sequence[int], Sequence[int]]], *, max_ngram: int, n_speculative: int
) -> NGramRecord:
    """Replay target texts as if they had been generated with prompt lookup, and count per position.

    Parameters
    ----------
    texts : token ids of each prompt and of the text generated after it.
    max_ngram : longest n-gram looked up, >= 1.
    n_speculative : tokens drafted per target pass at most, >= 1.
    """
    from calibrate.record.token_records import NGramRecord

    passes = drafts = total = 0
    drafted_at, accepted_at = [0] * n_speculative, [0] * n_speculative
    for prompt, generated in texts:
        text, at = [*prompt, *generated], len(prompt)
        total += len(generated)
        while at < len(text):
            draft = lookup(text[:at], max_ngram=max_ngram, n_speculative=n_speculative)
            passes += 1
            drafts += bool(draft)
            n_accepted = common(draft, text[at:])
            for position in range(len(draft)):
                drafted_at[position] += 1
                accepted_at[position] += position < n_accepted
            at += n_accepted + 1
    return NGramRecord(
        max_ngram=max_ngram,
        n_speculative=n_speculative,
        passes=passes,
        drafts=drafts,
        tokens=total,
        drafted_at=drafted_at,
        accepted_at=accepted_at,
    )


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix of two texts."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
