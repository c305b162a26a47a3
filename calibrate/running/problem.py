"""Questions that models answer, and what a task can say about the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Problem", "Truth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A question to answer."""

    name: str
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a task can say about its own answers; every function gets plain texts."""

    step_is_correct: Callable[[str, Sequence[str], str], bool]
    same_meaning: Callable[[str, str], bool]
    answer_is_correct: Callable[[str, str], bool]
