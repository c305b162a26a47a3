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

from sim.algorithms.autoregressive import autoregressive
from sim.answers.token_passes import SpeculatedAnswer
from sim.operations import TARGET, Generate, Step
from sim.random_streams import stream
from sim.serving.limits import ServingLimits
from sim.trial import Trial
from sim.virtual_clock import Answer

__all__ = ["under_way"]

_POOL: Final = 2
"""Answers laid end to end per answer that is met, and how many at least."""
_LEAST_POOL: Final = 16
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
    indices = range(first, first + max(_POOL * n, _LEAST_POOL))
    answers = [trial.answer(index) for index in indices]
    if not hasattr(answers[0], "written_lengths"):
        return [], first
    lengths: list[list[int]] = [answer.written_lengths() for answer in answers]  # type: ignore[attr-defined]
    ends = list(accumulate(map(sum, lengths)))
    shift = float(stream(trial.seed or 0, "under way", first).random())
    places, room = (limits.most_sequences, limits.cache_tokens) if limits else _ENDLESS
    met: list[tuple[Answer, Step]] = []
    for number in range(n):
        at = (number + shift) * ends[-1] / n
        place = min(bisect_right(ends, at), len(ends) - 1)
        age = int(at - ends[place] + sum(lengths[place]))
        answer, text = _rest(answers[place], lengths[place], age, whole=trial.algorithm is autoregressive)
        room -= text.context_tokens + 1
        if number >= places or room < 0.0:
            break
        met.append((answer, text))
    return met, indices[-1] + 1


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
