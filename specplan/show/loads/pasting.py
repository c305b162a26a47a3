"""Commands and JSON broken into lines of a terminal, so that they can be pasted as they are printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from specplan.output import SCREEN

__all__ = ["broken", "json_lines"]

_INDENT: Final = "    "
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|, |[^",]+|,')
"""Strings of JSON, commas between values, and what is between these."""


def broken(command: str, indent: str = "  ") -> str:
    """Return a shell command in lines that end in a backslash; an option keeps its value, JSON is broken at commas.

    >>> print(broken("vllm serve m --port 8000"))
      vllm serve m --port 8000
    """
    lines = indent
    for first, *inside in _options(shlex.split(command)):
        line = lines.rpartition("\n")[2]
        fits = len(line) + len(first) + len("  \\") <= SCREEN or line == indent
        lines += ("" if line == indent else " " if fits else f" \\\n{indent}{_INDENT}") + first
        lines += "".join(f"\n{part}" for part in inside)
    return lines


def _options(words: list[str]) -> Iterator[list[str]]:
    """Each option with its value, a word, or the lines of a value in JSON."""
    i = 0
    while i < len(words):
        word, value = words[i], words[i + 1] if i + 1 < len(words) else "--"
        if not word.startswith("--") or value.startswith("--"):
            yield [_quoted(word)]
            i += 1
            continue
        text = f"{word} {shlex.quote(value)}"
        yield [text] if len(text) + 8 <= SCREEN or not value.startswith("{") else _of_json(word, value)
        i += 2


def _quoted(word: str) -> str:
    """A word; assignments before a command stay without quotes."""
    return word if re.fullmatch(r"\w+=[\w,]*", word) else shlex.quote(word)


def _of_json(option: str, value: str) -> list[str]:
    first, *rest = json_lines(value, SCREEN - 2 * len(_INDENT) - len(option) - 4)
    lines = [f"{option} '{first}", *(f"{2 * _INDENT}{line}" for line in rest)]
    return [*lines[:-1], lines[-1] + "'"]


def json_lines(text: str, width: int) -> list[str]:
    """Return JSON in lines of a width where commas between values allow it; strings are not broken.

    >>> json_lines('{"method": "mtp", "num_speculative_tokens": 3}', 30)
    ['{"method": "mtp",', '"num_speculative_tokens": 3}']
    """
    lines = [""]
    for part in _parts(text):
        joined = f"{lines[-1]} {part}".strip()
        lines[-1:] = [joined] if len(joined) <= width or not lines[-1] else [lines[-1], part]
    return lines


def _parts(text: str) -> Iterator[str]:
    """The text between commas that are in no string, each with its comma."""
    part = ""
    for token in _TOKENS.findall(text):
        if token == ", ":
            yield f"{part},"
            part = ""
        else:
            part += token
    yield part
