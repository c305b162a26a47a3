"""Lint of words: names and sentences of the product use the terms of ``docs/reference/glossary.md``.

``python -m workshop.words`` prints a line for each complaint and exits with 1 if there is one; ``python -m
workshop.words FOLDER`` looks at that folder or file, be it an exception or not.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["EXCEPTIONS", "HOUSES", "INSTEAD", "KEPT", "complaints", "watched"]

ROOT: Final = Path(__file__).resolve().parent.parent

HOUSES: Final = ("theory", "ledger", "sim", "calibrate", "specplan")
"""What is watched: all that is installed."""

EXCEPTIONS: Final[Mapping[str, str]] = {
    "specplan/worlds": "not yet in these terms",
    "theory/hardware": "not yet in these terms",
    "specplan/check/scoreboard/operators.py": "describes the fit of theory/hardware",
}
"""Folder or file that is not watched -> why; the list may only shrink."""

INSTEAD: Final[Mapping[str, str]] = {
    "found": "name the thing: result, plan, rows, profile, error",
    "told": "name the thing: given, stated, reported, distinguished",
    "asked": "name the thing: request, requested, query, options",
    "beside": "name the relation: concurrent with, next to, compared with",
    "alone": "name the condition: without speculation, at concurrency 1, on its own GPU",
    "pace": "name the quantity: throughput, tokens per second, time per token, speed of the machine",
    "company": "name the condition: other sequences in the batch",
}
"""Word without one meaning -> what to write."""

KEPT: Final[Mapping[str, str]] = {
    "alone": "field of profiles and method of `LinearCost`: without another request or engine at work",
    "beside": "parameter of `BatchEngine` and field of profiles: while another engine of the device or machine works",
    "pace": "attribute of `PacedCost` and key of the JSON of `specplan validate`, a contract",
    "All told, the answer is {r}.": "wording of the task that the weights of the bundled pair were trained on",
    "All of the story is told, so the answer is {r}.": "wording of the task of the bundled pair",
}
"""Name that passes in code, as a quoted key, in backquotes and where a docstring describes it; or a text -> why."""

_WORDS: Final = re.compile(rf"\b({'|'.join(INSTEAD)})\b", re.IGNORECASE)
_NAME: Final = "|".join(map(re.escape, KEPT))
_NAMED: Final = re.compile(rf"(`+)(?:\w+\.)?({_NAME})\1|^ *({_NAME}) :|type: ignore\[.*\]", re.MULTILINE)
"""A kept name as docstrings refer to it: in backquotes, or heading its description; and codes for mypy."""


def complaints(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and complaint for each doubtful word in docstrings, comments, strings and names of a module.

    Raises
    ------
    SyntaxError : ``text`` is no Python.
    """
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as docstring)) if docstring.lstrip().startswith("Of "):
                yield node.lineno, "a docstring begins with a bare 'Of': name the thing that it describes"
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.string.strip('"') in KEPT:
            continue
        if token.type in {tokenize.NAME, tokenize.STRING, tokenize.COMMENT} or token.type in _F_STRING:
            for word in _WORDS.findall(_NAMED.sub("", token.string)):
                yield token.start[0], f"{word!r}: {INSTEAD[word.lower()]}"


_F_STRING: Final = {getattr(tokenize, "FSTRING_MIDDLE", -1)}
"""Text of f-strings, a token of its own from Python 3.12 on."""


def watched() -> list[Path]:
    """Return the files of `HOUSES` that are no exception."""
    excepted = tuple(ROOT / name for name in EXCEPTIONS)
    files = (path for house in HOUSES for path in sorted((ROOT / house).rglob("*.py")))
    return [path for path in files if not any(path.is_relative_to(one) for one in excepted)]


def main() -> int:
    """Print the complaints about `watched` files, or about what the command line names; return the exit status."""
    named = [ROOT / name for name in sys.argv[1:]]
    files = [file for path in named for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    there = [
        f"{path.relative_to(ROOT)}:{line}: {complaint}"
        for path in files or watched()
        for line, complaint in complaints(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(there) or "words: no complaint")
    return bool(there)


if __name__ == "__main__":
    sys.exit(main())
