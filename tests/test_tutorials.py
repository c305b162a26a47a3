"""The tutorials do what they print: every command in a console block is run, and its output compared.

A block of ``docs/tutorials/*.md`` with the language ``console`` holds commands after ``$`` (continued after ``>``) and
what they print. One shell runs those of a page, in an empty folder, so that files and variables stay. ``...`` is
anything, as in a doctest: for numbers that vary by machine. ``TARGET`` and ``DRAFT`` are planted servers and
``PORT`` is free.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from types import MappingProxyType

import pytest
from markdown_it import MarkdownIt
from openai_server import Planted, serving

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
END_OF = "-- end of command, status"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a tutorial, and what it prints."""

    line: int
    text: str
    printed: str


def commands(text: str) -> list[Command]:
    """Every command of a tutorial, in order."""
    found = []
    for token in MarkdownIt().parse(text):
        if token.type != "fence" or token.info != "console" or token.map is None:
            continue
        for number, line in enumerate(token.content.splitlines(), start=token.map[0] + 2):
            if line.startswith("$ "):
                found.append(Command(line=number, text=line[2:], printed=""))
            elif (line == ">" or line.startswith("> ")) and not found[-1].printed:
                last = found.pop()
                found.append(Command(line=last.line, text=f"{last.text}\n{line[2:]}", printed=""))
            else:
                last = found.pop()
                found.append(Command(line=last.line, text=last.text, printed=f"{last.printed}{line}\n"))
    return found


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """Variables that name a target and a draft, and a free port."""
    lengths = (10, 30)
    target = Planted(iteration_s=0.004, prefill_s=0.004, step_tokens=lengths)
    draft = Planted(iteration_s=0.001, prefill_s=0.001, step_tokens=lengths)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with serving(target) as first, serving(draft) as second:
        yield {"TARGET": first.url, "DRAFT": second.url, "PORT": str(port)}


def differences(
    text: str, folder: Path, script: list[str], variables: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """What a tutorial's commands print that it does not say."""
    told = commands(text)
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "specplan"
    wrapper.write_text(f'#!/bin/sh\nexec {" ".join(script)} "$@"\n')
    wrapper.chmod(0o755)
    (folder / "work").mkdir()
    lines = [f"{command.text}\nprintf '\\n{END_OF} %s\\n' $?\n" for command in told]
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT), **variables}
    environment["TUTORIALS"] = str(ROOT / "docs" / "tutorials")
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1\n" + "".join(lines)],
        cwd=folder / "work",
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    checker, flags, found, rest = OutputChecker(), ELLIPSIS | NORMALIZE_WHITESPACE, [], done.stdout
    for command in told:
        printed, _, rest = rest.partition(f"\n{END_OF} ")
        status, _, rest = rest.partition("\n")
        if status != "0" or not checker.check_output(command.printed.strip(), printed.strip(), flags):
            found.append(f"line {command.line}: $ {command.text}\nstatus {status or 'none'}, printed\n{printed}")
    return found


@pytest.mark.docs
@pytest.mark.parametrize("path", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_commands_print_what_the_tutorial_says(
    path: Path, tmp_path: Path, console_script: list[str], servers: dict[str, str]
) -> None:
    text = path.read_text(encoding="utf-8")
    assert commands(text), "a tutorial without commands"
    assert differences(text, tmp_path, console_script, servers) == []


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        ("$ echo one two\none two\n", 0),
        ("$ echo one 1.37 two\none ... two\n", 0),
        ("$ X=7\n$ cat <<E\n> $X\n> E\n7\n", 0),
        ("$ echo one\ntwo\n", 1),
        ("$ echo one\n", 1),
        ("$ false\n$ echo one\none\n", 1),
        ("$ exit 0\n$ echo one\none\n", 2),
    ],
)
def test_what_is_printed_otherwise_is_found(block: str, wrong: int, tmp_path: Path) -> None:
    assert len(differences(f"# A page\n\n```console\n{block}```\n", tmp_path, ["specplan"])) == wrong
