"""JSON as other tools write it: keys that are numbers, numbers that must be finite, errors with a place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from theory.errors import SchemaError

__all__ = ["count", "integer_keys", "load_json", "number", "read_text"]


def read_text(path: Path, what: str) -> str:
    """The text of a file.

    Raises
    ------
    SchemaError : it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SchemaError(f"{path}: cannot be read as {what}: {reason}") from None


def load_json(text: str, where: str) -> dict[str, Any]:
    """A JSON object in which no key comes twice.

    Raises
    ------
    SchemaError : not JSON, not an object, or a key that comes twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise SchemaError(f"{where}: a key comes twice among {', '.join(key for key, _ in pairs)}")
        return found

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        message = f"{where}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise SchemaError(message) from None
    if not isinstance(data, dict):
        raise SchemaError(f"{where}: must be a JSON object, got {type(data).__name__}")
    return data


def integer_keys(data: Any, where: str) -> dict[int, Any]:
    """A mapping whose keys are integers, or integers as text.

    Raises
    ------
    SchemaError : not a mapping, empty, a key that is no integer or comes twice.
    """
    if not isinstance(data, dict) or not data:
        raise SchemaError(f"{where}: must be an object with integer keys")
    found: dict[int, Any] = {}
    for key, value in data.items():
        if isinstance(key, bool) or not (isinstance(key, int) or (isinstance(key, str) and key.isdecimal())):
            raise SchemaError(f"{where}: the key {key!r} must be an integer >= 0")
        if int(key) in found:
            raise SchemaError(f"{where}: the key {int(key)} comes twice")
        found[int(key)] = value
    return found


def number(value: Any, where: str) -> float:
    """A finite number.

    Raises
    ------
    SchemaError : anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SchemaError(f"{where}: must be a finite number, got {value!r}")
    return float(value)


def count(value: Any, where: str) -> int:
    """An integer >= 0.

    Raises
    ------
    SchemaError : anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SchemaError(f"{where}: must be an integer >= 0, got {value!r}")
    return value
