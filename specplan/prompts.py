"""Questions from a file of the user's."""

from __future__ import annotations

import json
from pathlib import Path

from calibrate.running.problem import Problem
from theory.errors import SchemaError

__all__ = ["read_prompts"]


def read_prompts(path: Path, n: int) -> list[Problem]:
    """Read the first ``n`` questions of a JSONL file.

    Raises
    ------
    SchemaError : the file cannot be read, holds fewer than two questions, or a line is not ``{"prompt": text}``.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SchemaError(f"{path}: cannot be read as prompts: {reason}") from None
    problems: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or len(problems) == n:
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise SchemaError(f"{path}: line {number} is not JSON: {error.msg}") from None
        text = entry.get("prompt") if isinstance(entry, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise SchemaError(f'{path}: line {number} must be an object with a non-empty text "prompt"')
        problems.append(Problem(name=str(entry.get("id", f"line {number}")), prompt=text))
    if len(problems) < 2:
        raise SchemaError(f"{path}: holds {len(problems)} questions, at least 2 are needed")
    return problems
