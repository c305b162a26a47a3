"""Prompt lookup (n-gram) drafting, counted on texts: what a lookup would have proposed, and how much of it came true.

A draft is the continuation of the latest earlier occurrence of the text's last ``n`` tokens, longest ``n`` first (as
in Saxena 2023 and vLLM's ngram method). Its tokens are a point mass, so that under exact rejection sampling a token is
accepted with the target's probability of it; counting matches on text that the target sampled is an unbiased estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calibrate.profile import NGramRecord
from theory.errors import ParameterError

__all__ = ["count_acceptance", "lookup"]


def lookup(tokens: Sequence[int], *, max_ngram: int, n_speculative: int) -> list[int]:
    """Return the tokens that prompt lookup proposes after ``tokens``: at most ``n_speculative``, possibly none."""
    end = len(tokens)
    for size in range(min(max_ngram, end - 1), 0, -1):
        tail = list(tokens[end - size :])
        for start in range(end - size - 1, -1, -1):
            if list(tokens[start : start + size]) == tail:
                return list(tokens[start + size : start + size + n_speculative])
    return []


def count_acceptance(
    texts: Iterable[tuple[Sequence[int], Sequence[int]]], *, max_ngram: int, n_speculative: int
) -> NGramRecord:
    """Replay target texts as if they had been generated with prompt lookup, and count per position.

    Parameters
    ----------
    texts : pairs (prompt token ids, generated token ids).
    max_ngram : longest n-gram looked up, >= 1.
    n_speculative : tokens drafted per target pass at most, >= 1.

    Raises
    ------
    ParameterError : a count is below 1.
    """
    for name, value in (("max_ngram", max_ngram), ("n_speculative", n_speculative)):
        if value < 1:
            raise ParameterError(name, value, "must be an integer >= 1")
    passes = drafts = total = 0
    drafted_at = [0] * n_speculative
    accepted_at = [0] * n_speculative
    for prompt, generated in texts:
        text = [*prompt, *generated]
        at = len(prompt)
        total += len(generated)
        while at < len(text):
            draft = lookup(text[:at], max_ngram=max_ngram, n_speculative=n_speculative)
            passes += 1
            drafts += bool(draft)
            n_accepted = _matching(draft, text[at:])
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


def _matching(draft: Sequence[int], text: Sequence[int]) -> int:
    for position, token in enumerate(draft):
        if position >= len(text) or text[position] != token:
            return position
    return len(draft)
