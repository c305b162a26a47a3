"""Questions that models answer, and the ground truth of a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrate.record.files import read_text
from calibrate.record.journal import digest
from calibrate.record.json_text import json_lines, one_line_strings
from theory.errors import SchemaError

__all__ = ["Problem", "Truth", "read_prompts"]


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


def read_prompts(path: Path, n: int) -> list[Problem]:
    """Read the first ``n`` questions of a JSONL file.

    Raises
    ------
    SchemaError : the file cannot be read, holds fewer than two questions, or a line is not ``{"prompt": text}``.
    """
    problems: list[Problem] = []
    for number, entry in json_lines(read_text(path, "prompts"), str(path)):
        if len(problems) == n:
            break
        text = entry.get("prompt") if isinstance(entry, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise SchemaError(f'{path}: line {number} must be an object with a non-empty text "prompt"')
        name = str(entry.get("id", f"line {number}"))
        one_line_strings(name, name, f"{path}: line {number}: id")
        problems.append(Problem(name=name, prompt=text))
    if len(problems) < 2:
        raise SchemaError(f"{path}: holds {len(problems)} questions, at least 2 are needed")
    return problems
