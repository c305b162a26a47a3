"""From answers and listed probabilities to laws over cells: the likeliest tokens, and all others as a single cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from specplan.live.certifying.laws import Drawn, IntArray, Place
from theory.checks import FloatArray
from theory.errors import CalibrationError

__all__ = ["Answer", "Row", "Scored", "drawn_from", "noise_between"]

Row: TypeAlias = Mapping[int, float]
"""Probabilities of the likeliest tokens at a position, by token id. A token is not listed for being in the text."""
_LEAST_NOISE: Final = 1e-3
"""Relative error that is assumed at least: passes that verify drafts have other shapes than those that read prompts."""
_LONGEST_PASS: Final = 33
"""Tokens of an event of a stream from which on it is no single pass."""
_IMPROBABLE: Final = -30.0
"""Logarithm of the probability of an answer that is not drawn twice by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Tokens that the server drew after a prompt."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    passes: tuple[int, ...]
    """Tokens of each event of the stream; they sum to the number of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """An answer with the listed probabilities at each of its tokens, one row for each."""

    answer: Answer
    target: Sequence[Row]
    again: Sequence[Row]
    """By the target in another batch."""
    before: Sequence[Row]
    """By the target at the position before: the law after a prefix that lacks the last token."""
    elsewhere: Sequence[Row]
    """By the target after the prompt of another answer."""
    draft: Sequence[Row] | None


def drawn_from(scored: Sequence[Scored]) -> Drawn:
    """Return tokens and laws of all answers, one after the other.

    Raises
    ------
    CalibrationError : an answer is repeated that is too long for chance: its tokens are not drawn anew.
    """
    width = 1 + max(len(row) for one in scored for row in one.target)
    ids = [list(row) for one in scored for row in one.target]
    tokens = [token for one in scored for token in one.answer.tokens]
    target = np.mean([_on_cells(ids, rows, width) for rows in _two_batches(scored)], axis=0)
    drafts = [row for one in scored for row in one.draft or ()]
    before = [row for one in scored for row in one.before]
    elsewhere = [row for one in scored for row in one.elsewhere]
    cell = _cells_of(ids, tokens, width)
    _refuse_repeated(scored, np.log(np.maximum(target[np.arange(len(cell)), cell], 1e-12)))
    place, accepted = _places([one.answer.passes for one in scored])
    return Drawn(
        tokens=cell,
        place=place,
        target=target,
        draft=_on_cells(ids, drafts, width) if drafts else None,
        likeliest=_cells_of(ids, [max(row, key=row.__getitem__) for row in drafts], width) if drafts else None,
        wrong=np.stack([_on_cells(ids, rows, width) for rows in (before, elsewhere)]),
        accepted=accepted,
    )


def noise_between(scored: Sequence[Scored]) -> float:
    """Return the relative difference of the target's probabilities between two batches, [-], at least `_LEAST_NOISE`.

    A token drawn from the target has a smaller difference with probability 0.99.
    """
    ids = [list(row) for one in scored for row in one.target]
    width = 1 + max(map(len, ids))
    one, other = (_on_cells(ids, rows, width) for rows in _two_batches(scored))
    mean = (one + other) / 2.0
    differences = np.divide(np.abs(one - other), mean, out=np.zeros_like(mean), where=mean > 0.0).ravel()
    order = np.argsort(differences)
    within = np.cumsum(mean.ravel()[order])
    return max(float(differences[order][np.searchsorted(within, 0.99 * within[-1])]), _LEAST_NOISE)


def _two_batches(scored: Sequence[Scored]) -> tuple[list[Row], list[Row]]:
    """The target's rows in both batches; a token that the second does not list has the probability of the first."""
    pairs = [(row, again) for one in scored for row, again in zip(one.target, one.again, strict=True)]
    return [row for row, _ in pairs], [{**row, **again} for row, again in pairs]


def _on_cells(ids: Sequence[Sequence[int]], rows: Sequence[Row], width: int) -> FloatArray:
    """Probabilities of the tokens ``ids`` by ``rows``, 0 where they are not listed; in the last cell all others."""
    laws = np.zeros((len(ids), width))
    for law, listed, row in zip(laws, ids, rows, strict=True):
        law[: len(listed)] = [row.get(token, 0.0) for token in listed]
        law[-1] = max(1.0 - law.sum(), 0.0)
    return np.asarray(laws / laws.sum(-1, keepdims=True))


def _cells_of(ids: Sequence[Sequence[int]], tokens: Sequence[int], width: int) -> IntArray:
    pairs = zip(ids, tokens, strict=True)
    return np.array([listed.index(token) if token in listed else width - 1 for listed, token in pairs], dtype=np.int64)


def _refuse_repeated(scored: Sequence[Scored], log_p: FloatArray) -> None:
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    end = 0
    for one in scored:
        start, end = end, end + len(one.answer.tokens)
        text = (one.answer.prompt, one.answer.tokens)
        if text in seen and log_p[start:end].sum() < _IMPROBABLE:
            raise CalibrationError(
                f"the server repeats an answer of {end - start} tokens word for word, which chance does not: "
                "it stores answers or fixes its seed; turn that off"
            )
        seen.add(text)


def _places(answers: Sequence[Sequence[int]]) -> tuple[IntArray, FloatArray]:
    """The place of each token in its pass, and 1 for an accepted draft, 0 for a token that replaces a rejected one.

    By the events of streams. A place depends on earlier tokens only: the length of a whole draft is the longest before.
    """
    n = sum(map(sum, answers))
    if any(max(passes) > _LONGEST_PASS or len(passes) == 1 < sum(passes) for passes in answers):
        return np.full(n, Place.UNKNOWN, dtype=np.int64), np.full(n, np.nan)
    whole = max(size for passes in answers for size in (passes[0] - 1, *passes[1:]))
    places: list[Place] = []
    accepted: list[float] = []
    longest = 1
    for passes in answers:
        places.append(Place.PLAIN)
        accepted.append(np.nan)
        for number, size in enumerate((passes[0] - 1, *passes[1:]), 1):
            places += [Place.BONUS if 1 < longest == i + 1 else Place.DRAFTED for i in range(size)]
            longest = max(longest, size)
            ends_otherwise = size == whole or number == len(passes)  # a bonus token, or cut by the answer's end
            accepted += [1.0] * (size - 1) + [np.nan if ends_otherwise else 0.0] * min(size, 1)
    return np.array(places, dtype=np.int64), np.array(accepted)
