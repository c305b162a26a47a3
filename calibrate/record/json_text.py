"""Parsing of untrusted JSON: duplicate keys, deep nesting and invalid characters are refused with one-line errors."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from theory.errors import ParameterError, SchemaError, shown

__all__ = [
    "MOST_DEPTH",
    "check_depth",
    "check_version",
    "json_lines",
    "json_object",
    "json_option",
    "load_json",
    "number",
    "one_line_strings",
    "parse_json",
]

MOST_DEPTH: Final = 64
"""Deepest nesting of brackets. Profiles have 8 levels, the deepest configurations of models 12."""
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?')  # or an unterminated string, searched only once
_BRACKET: Final = re.compile(r"[\[\]{}]")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
_STEERING: Final = r"\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
"""Characters that break a line, control a terminal, or change the direction of text; also all below the blank."""
_UNSAFE: Final = re.compile(rf"[\x00-\x1f{_STEERING}]")
_MAY_HOLD: Final = re.compile(rf"\\[bfnrtu]|[{_STEERING}]")
"""Pattern that JSON text contains if one of its strings may be unsafe."""


def parse_json(text: str, where: str) -> Any:
    """Parse JSON text; ``where`` names it in errors. A byte order mark before it is ignored.

    Raises
    ------
    SchemaError : not JSON, nested deeper than `MOST_DEPTH`, a duplicate key, a number of thousands of digits, or a
        string with half of a surrogate pair.
    """

    def unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(items)
        if len(table) != len(items):
            twice, _ = Counter(name for name, _ in items).most_common(1)[0]
            raise SchemaError(f"{where}: a key comes twice in one object: {shown(repr(twice))}; leave one out")
        return table

    text = text.removeprefix("\ufeff")
    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f" at line {error.lineno}, column {error.colno}" if "\n" in text.strip() or error.colno > 1 else ""
        raise SchemaError(f"{where}: not JSON: {error.msg.removesuffix(' at')}{place}") from None
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError:  # Python reads no integers of more than 4,300 digits
        raise SchemaError(f"{where}: a number too long: it has thousands of digits") from None
    check_depth(text, where)
    if _HALF.search(text):
        for place, string in _strings(data):
            if any("\ud800" <= c <= "\udfff" for c in string):
                raise SchemaError(f"{where}: {place}: holds half of a surrogate pair: write the character itself")
    return data


def load_json(text: str, where: str) -> dict[str, Any]:
    """Parse a JSON object; errors are those of `parse_json`, and for anything else than an object."""
    data = parse_json(text, where)
    if not isinstance(data, dict):
        raise SchemaError(f"{where}: must be a JSON object, got {type(data).__name__}")
    return data


def json_option(name: str, text: str) -> Any:
    """Parse the JSON that an option holds; a `ParameterError` names the option where it is none."""
    try:
        return parse_json(text, "-")
    except SchemaError as error:
        why = str(error).removeprefix("-: ").removeprefix("not JSON: ")
        raise ParameterError(name, text, f"must be JSON: {why}") from None


def json_object(name: str, text: str) -> dict[str, Any]:
    """Parse the JSON object that an option holds; a `ParameterError` names the option where it is none."""
    value = json_option(name, text)
    if not isinstance(value, dict):
        raise ParameterError(name, text, "must be a JSON object")
    return value


def number(value: Any, where: str) -> float:
    """Return a finite number; refuse anything else with `SchemaError`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SchemaError(f"{where}: must be a finite number, got {shown(repr(value))}")
    return float(value)


def json_lines(text: str, where: str) -> Iterator[tuple[int, Any]]:
    """Parse one JSON value per line; yield the number of each line that is not blank, from 1, and its value.

    Raises
    ------
    SchemaError : as `parse_json`.
    """
    # Not splitlines: JSON strings may contain the other line separators of Unicode.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, parse_json(line, f"{where}:{number}")


def one_line_strings(data: Any, text: str, where: str) -> None:
    """Refuse keys and strings that would break a line or control a terminal where they are printed.

    Raises
    ------
    SchemaError : with the place inside the file.
    """
    if not _MAY_HOLD.search(text):
        return
    for place, string in _strings(data):
        if _UNSAFE.search(string):
            rule = f"must be one line without control characters, got {shown(repr(string))}"
            raise SchemaError(f"{where}: {place}: {rule}")


def check_version(data: Any, supported: int, where: str, remedy: str) -> None:
    """Refuse data whose ``schema_version`` is not the supported integer; true and 1.0 are no versions.

    Raises
    ------
    SchemaError : another version, or none.
    """
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int or version != supported:
        raise SchemaError(f"{where}: schema_version={shown(repr(version))} must be {supported}; {remedy}")


def _too_deep(where: str) -> SchemaError:
    return SchemaError(f"{where}: nested too deep: more than {MOST_DEPTH} brackets within each other")


def check_depth(text: str, where: str) -> None:
    """Refuse brackets nested deeper than `MOST_DEPTH`; those in strings do not count.

    Raises
    ------
    SchemaError : deeper nesting.
    """
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MOST_DEPTH:
            raise _too_deep(where)


def _strings(data: Any) -> Iterator[tuple[str, str]]:
    """All keys and strings, with their places in the data."""
    stack: list[tuple[str, Any]] = [("", data)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, str):
            yield place or "text", value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield f"a key of {place or 'the object'}", key
                stack.append((f"{place}.{shown(key)}".lstrip("."), item))
        elif isinstance(value, list):
            stack += [(f"{place}[{i}]", item) for i, item in enumerate(value)]
