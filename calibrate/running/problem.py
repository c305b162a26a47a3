"""Questions that models answer, and the ground truth of a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calibrate.record.journal import digest

__all__ = ["Problem", "Truth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A question to answer."""

    name: str
    prompt: str

    @property
    def key(self) -> str:
        """Name and digest of the prompt: another question of the same name has another key."""
        return f"{self.name}:{digest(self.prompt)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Ground truth of a task, as functions of plain texts."""

    step_is_correct: Callable[[str, Sequence[str], str], bool]
    same_meaning: Callable[[str, str], bool]
    answer_is_correct: Callable[[str, str], bool]
