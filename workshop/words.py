"""Lint of words: each name and sentence of a folder in `CLEAN` uses the terms of ``docs/reference/glossary.md``.

``python -m workshop.words`` prints a line for each complaint and exits with 1 if there is one. Folders are listed as
they become clean; a folder never leaves the list.
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

__all__ = ["CLEAN", "INSTEAD", "KEPT", "complaints"]

ROOT: Final = Path(__file__).resolve().parent.parent

CLEAN: Final[tuple[str, ...]] = (
    "theory/published",
    "theory/specs",
    "specplan/live",
    "specplan/check/reproducing",
    "specplan/check/validating",
    "specplan/show/__init__.py",
    "specplan/show/explanations.py",
    "specplan/show/explorer.py",
    "specplan/show/page.py",
    "specplan/show/plans.py",
    "specplan/show/rendering.py",
    "specplan/show/reproductions.py",
    "specplan/show/saving.py",
    "specplan/show/svg.py",
    "specplan/show/theorems.py",
    "specplan/show/thresholds.py",
    "specplan/show/validations.py",
    "specplan/show/result.py",
    "specplan/commands/explain.py",
    "specplan/commands/live",
    "specplan/commands/profile.py",
    "specplan/commands/serve.py",
    "specplan/commands/simulate.py",
    "specplan/commands/validate.py",
    "specplan/api/explaining.py",
    "specplan/api/simulating.py",
    "specplan/api/validating.py",
    "sim/engines",
    "sim/answers",
    "sim/algorithms",
    "sim/__init__.py",
    "sim/catalogue.py",
    "sim/configuration.py",
    "sim/estimate.py",
    "sim/gantt.py",
    "sim/operations.py",
    "sim/random_streams.py",
    "sim/timeline.py",
    "sim/trial.py",
    "sim/virtual_clock.py",
    "sim/fast",
    "sim/gaps",
    "calibrate/record",
    "calibrate/costs",
    "calibrate/replay",
    "calibrate/measuring",
    "calibrate/running",
    "calibrate/engines",
    "calibrate/models",
    "calibrate/thresholds",
    "calibrate/pair",
    "theory/lookahead_decoding",
    "theory/__init__.py",
    "theory/budget.py",
    "theory/cascade.py",
    "theory/checks.py",
    "theory/errors.py",
    "theory/kernels.py",
    "theory/optimum.py",
    "theory/parallelism.py",
    "theory/speedup.py",
    "theory/step_methods.py",
    "theory/token_methods.py",
    "calibrate/__init__.py",
)
"""Folders and files without a complaint."""

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


def main() -> int:
    """Print the complaints about `CLEAN`, or about folders named on the command line; return the exit status."""
    there = [
        f"{path.relative_to(ROOT)}:{line}: {complaint}"
        for name in sys.argv[1:] or CLEAN
        for path in ([ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*.py")))
        for line, complaint in complaints(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(there) or f"words: {len(CLEAN)} folders are clean")
    return bool(there)


if __name__ == "__main__":
    sys.exit(main())
