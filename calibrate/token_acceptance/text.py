"""JSON as other tools write it: keys that are numbers, numbers that must be finite, errors with a place."""

from __future__ import annotations

import math
from typing import Any

from calibrate.record.json_text import parse_json
from theory.errors import SchemaError, shown

__all__ = ["count", "integer_keys", "load_json", "number"]


def load_json(text: str, where: str) -> dict[str, Any]:
    """A JSON object in which no key comes twice.

    Raises
    ------
    SchemaError : not JSON, not an object, or a key that comes twice.
    """
    data = parse_json(text, where)
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
    table: dict[int, Any] = {}
    for key, value in data.items():
        if isinstance(key, bool) or not (isinstance(key, int) or (isinstance(key, str) and key.isdecimal())):
            raise SchemaError(f"{where}: the key {key!r} must be an integer >= 0")
        if int(key) in table:
            raise SchemaError(f"{where}: the key {int(key)} comes twice")
        table[int(key)] = value
    return table


def number(value: Any, where: str) -> float:
    """A finite number.

    Raises
    ------
    SchemaError : anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SchemaError(f"{where}: must be a finite number, got {shown(repr(value))}")
    return float(value)


def count(value: Any, where: str) -> int:
    """An integer >= 0.

    Raises
    ------
    SchemaError : anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SchemaError(f"{where}: must be an integer >= 0, got {shown(repr(value))}")
    return value
