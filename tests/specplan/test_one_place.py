"""One place opens inputs, one writes outputs, one reads JSON, one checks ranges: nothing goes around them.

Whoever opens a file elsewhere says here what it opens that no user names.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from specplan.cli import cli

ROOT = Path(__file__).parents[2]
OPENING = {"open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes"}
PARSING = {("json", "load"), ("json", "loads")}
SPOKEN_OF = re.compile("|".join([*OPENING, "json"]))
"""What stands in every file that opens or parses something."""

OPENED: dict[str, str] = {
    "calibrate/record/files.py": "the one place",
    "calibrate/record/journal.py": "what is appended to, beside an output: regular files only",
    "calibrate/record/library.py": "profiles of the package",
    "calibrate/measuring/assembly.py": "/proc/cpuinfo",
    "calibrate/measuring/noise.py": "/proc/stat",
    "calibrate/pair/__init__.py": "tokenizers of two folders, compared byte for byte",
    "calibrate/pair/widening/pair.py": "the temporary folder of an output",
    "calibrate/engines/sentence_encoder.py": "a pipe to our own process",
    "calibrate/engines/torch/model.py": "a tokenizer that was loaded already, hashed",
    "specplan/cli.py": "/dev/null in place of a closed stream",
    "specplan/planning/model_error.py": "data of the package",
    "specplan/worlds/drafters/finding.py": "data of the package",
    "specplan/worlds/known_models.py": "data of the package",
    "specplan/worlds/prior_constants.py": "data of the package",
    "specplan/show/rendering.py": "templates of the package",
    "specplan/planning/sweeping/sweep.py": "the temporary file of an output",
}
PARSED: dict[str, str] = {
    "calibrate/record/json_text.py": "the one place",
    "calibrate/record/journal.py": "lines of our own, whose damage is told by their number",
    "calibrate/engines/sentence_encoder.py": "what our own process says",
    "calibrate/engines/torch/engine.py": "what our own process says",
    "calibrate/engines/http/wire.py": "what servers say, with a refusal of its own",
    "specplan/planning/model_error.py": "data of the package",
    "specplan/worlds/drafters/finding.py": "data of the package",
    "specplan/worlds/known_models.py": "data of the package",
    "specplan/worlds/prior_constants.py": "data of the package",
    "specplan/check/validating/run_record.py": "numbers of our own, as plain data",
}


def files() -> list[Path]:
    """What users run; not what made the bundled pair's weights."""
    found = (path for house in ("calibrate", "specplan") for path in (ROOT / house).rglob("*.py"))
    return sorted(path for path in found if "training" not in path.parts)


@cache
def calls(path: Path) -> frozenset[tuple[str, str, int]]:
    """What a file calls: the name before the last one, where there is one, the last name, and how many arguments."""
    found, source = set(), path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)) if SPOKEN_OF.search(source) else ():
        if isinstance(node, ast.Call):
            n = len(node.args) + len(node.keywords)
            if isinstance(node.func, ast.Name):
                found.add(("", node.func.id, n))
            elif isinstance(node.func, ast.Attribute):
                found.add((getattr(node.func.value, "id", "-"), node.func.attr, n))
    return frozenset(found)


def opens(path: Path) -> bool:
    """Whether it opens a file by itself; `read_text` alone is the one place, ``models.open()`` opens no file."""
    return any(
        name in OPENING and (of, name) != ("", "read_text") and (n or name != "open") for of, name, n in calls(path)
    )


def test_files_are_opened_in_one_place() -> None:
    found = {str(path.relative_to(ROOT)) for path in files() if opens(path)}
    assert found == set(OPENED)


def test_json_is_parsed_in_one_place() -> None:
    found = {str(path.relative_to(ROOT)) for path in files() if PARSING & {one[:2] for one in calls(path)}}
    assert found == set(PARSED)


def options(command: click.Command = cli) -> Iterator[tuple[str, click.Parameter]]:
    """All options and arguments of all commands."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            if inner is not None:
                yield from options(inner)
    yield from ((f"{command.name} {max(one.opts, key=len)}", one) for one in command.params)


def test_options_have_ranges_and_files_are_no_clicks_own() -> None:
    bare = (click.types.IntParamType, click.types.FloatParamType, click.IntRange, click.FloatRange, click.File)
    assert [name for name, one in options() if isinstance(one.type, bare) and not getattr(one, "count", False)] == []


@pytest.mark.parametrize("path", ["calibrate/record/files.py", "calibrate/record/journal.py"])
def test_the_reader_of_calls_sees_what_it_should(path: str) -> None:
    assert opens(ROOT / path)
