"""Answers as they are met at any moment of a closed loop: in the middle of their lives.

Lay answers end to end and look at evenly spaced places: long answers are met more often than short ones, each of them
at any of its tokens alike (the inspection paradox of renewal theory). A loop that begins so has next to nothing to
forget. What an engine has no place for waits, and waits at its beginning.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sim.algorithms.autoregressive import autoregressive
from sim.answers.token_passes import SpeculatedAnswer
from sim.operations import Generate, Step
from sim.random_streams import stream
from sim.roles import TARGET
from sim.serving.limits import ServingLimits
from sim.trial import Trial
from sim.virtual_clock import Answer

__all__ = ["sizes_under_way", "under_way"]

_LEAST_POOL: Final = 16
"""Answers that are laid end to end, at least."""
_ENDLESS: Final = (math.inf, math.inf)


def under_way(
    trial: Trial, n: int, first: int, limits: ServingLimits | None = None
) -> tuple[list[tuple[Answer, Step]], int]:
    """Return answers that are under way, each with its text so far, and the index of the first answer after them.

    Answers that do not know their lengths beforehand (recorded candidates) are not met under way: none is returned.

    Parameters
    ----------
    trial : whose answers they are.
    n : answers to meet, >= 1; fewer are returned where the engine has no place for all.
    first : index of the first answer that is laid out.
    limits : of the target's engine; None: it has place for all.
    """
    indices = _pool(n, first)
    answers = [trial.answer(index) for index in indices]
    if not hasattr(answers[0], "written_lengths"):
        return [], first
    lengths: list[list[int]] = [answer.written_lengths() for answer in answers]  # type: ignore[attr-defined]
    places, room = (limits.most_sequences, limits.cache_tokens) if limits else _ENDLESS
    met: list[tuple[Answer, Step]] = []
    for number, (place, age) in enumerate(_lives(np.array([sum(one) for one in lengths]), n, trial, first).T.tolist()):
        answer, text = _rest(answers[place], lengths[place], age, whole=trial.algorithm is autoregressive)
        room -= text.context_tokens + 1
        if number >= places or room < 0.0:
            break
        met.append((answer, text))
    return met, indices.stop


def sizes_under_way(
    trial: Trial, n: int, first: int, limits: ServingLimits
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the same of answers whose sizes the trial knows: indices; tokens of prompts, written, to be written.

    The first has the shape (met,), the second (3, met). Parameters are those of `under_way`.
    """
    assert trial.sizes is not None
    indices = _pool(n, first)
    prompts, tokens = trial.sizes(indices)
    places, ages = _lives(tokens, n, trial, first)
    fits = int(np.searchsorted(np.cumsum(prompts[places] + ages + 1), limits.cache_tokens, side="right"))
    met = places[: min(fits, limits.most_sequences)]
    ages = ages[: met.size]
    return first + met, np.array([prompts[met], ages, tokens[met] - ages]), indices.stop


def _pool(n: int, first: int) -> range:
    """Indices of the answers that are laid end to end: at least two for each that is met.

    One more than a multiple of ``n``: places at even distances meet answers of equal lengths at evenly spread ages,
    where a multiple would meet all of them at the same token.
    """
    return range(first, first + n * max(2, math.ceil(_LEAST_POOL / n)) + 1)


def _lives(tokens: NDArray[np.int64], n: int, trial: Trial, first: int) -> NDArray[np.int64]:
    """Which answers are met at evenly spaced places of so many tokens, and how many they have written, shape (2, n)."""
    ends = np.cumsum(tokens)
    at = (np.arange(n) + float(stream(trial.seed or 0, "under way", first).random())) * ends[-1] / n
    places = np.minimum(np.searchsorted(ends, at, side="right"), ends.size - 1)
    return np.array([places, (at - ends[places] + tokens[places]).astype(np.int64)])


def _rest(answer: Answer, lengths: Sequence[int], age: int, *, whole: bool) -> tuple[Answer, Step]:
    """What is left of an answer of which ``age`` tokens are there; of several steps, whole ones are."""
    if whole and age and (len(lengths) == 1 or getattr(answer, "whole", False)):
        wrap = partial(_Rest, age=age)
        rest = answer.around(wrap) if isinstance(answer, SpeculatedAnswer) else wrap(answer)
        return rest, _Text(answer, 0, age, lived=age)
    ends = list(accumulate(lengths))
    depth = bisect_right(ends, age)
    return answer, _Text(answer, depth, ends[depth - 1]) if depth else answer.root


class _Text(Step):
    """The question and as many tokens after it, which the target has written and cached: ``depth`` steps are whole."""

    __slots__ = ("lived",)

    def __init__(self, answer: Answer, depth: int, tokens: int, lived: int = 0) -> None:
        super().__init__(None, TARGET, 1)
        self.depth = depth - 1
        self.context_tokens = answer.root.n_tokens + tokens
        self.lived = lived


class _Rest:
    """An answer that is one request, without its first tokens."""

    def __init__(self, inner: Answer, age: int) -> None:
        self._inner = inner
        self._age = age
        self.root = inner.root

    def generate(self, operation: Generate) -> Step:
        """Return the rest as one step."""
        whole = operation.tokens_of(self._inner.generate(operation))
        return Step(operation.prefix, operation.role, whole - self._age, final=True)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the answer can say."""
        return getattr(self._inner, name)
