"""What the texts name is there: files and headings that links point to, commands with their options, modules."""

import importlib.util
import re
import shlex
from pathlib import Path

import click
import pytest

from specplan.cli import cli

ROOT = Path(__file__).resolve().parents[1]
READMES = [ROOT / folder / "README.md" for folder in ("calibrate/pair", "ledger")]
TEXTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), *READMES]
NAMES = [str(path.relative_to(ROOT)) for path in TEXTS]
PRESENT = [path for path in TEXTS if path.name != "CHANGELOG.md"]
"""Those that tell what is, not what was."""


def anchors(path: Path) -> set[str]:
    """The headings of a text as GitHub writes them in links."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text: str) -> list[list[str]]:
    """Every call of specplan in the text, in blocks of code and within lines, in words."""
    blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    within = re.findall(r"`(specplan [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    calls = [line.removeprefix("$ ") for line in lines] + within
    return [shlex.split(call)[1:] for call in calls if call.startswith("specplan ")]


def unknown(words: list[str]) -> list[str]:
    """The words of a call that are neither a command, nor one of its options, nor an argument."""
    command: click.Command = cli
    options = {"--help", "--version"}
    while words and isinstance(command, click.Group):
        context = click.Context(command)
        inner = command.get_command(context, words[0])
        if inner is None and "run" in command.list_commands(context):
            inner, words = command.get_command(context, "run"), ["run", *words]  # a word that may be left out
        if inner is None:
            break
        command, words = inner, words[1:]
    options |= {name for option in command.params for name in [*option.opts, *option.secondary_opts]}
    expected = words[:1] if isinstance(command, click.Group) else []
    return [word for word in words if word not in options and (word in expected or re.match(r"--?[a-zA-Z]", word))]


@pytest.mark.parametrize("path", TEXTS, ids=NAMES)
def test_links_point_to_files_and_headings(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        goal = (path.parent / name).resolve() if name else path
        assert goal.is_relative_to(ROOT), target
        assert goal.exists(), target
        assert not anchor or anchor in anchors(goal), target


def test_commands_and_options_are_there() -> None:
    called = [words for path in PRESENT for words in commands(path.read_text(encoding="utf-8"))]
    assert len(called) > 30, "the pattern that finds them no longer does"
    assert [(words, unknown(words)) for words in called if unknown(words)] == []


@pytest.mark.parametrize("words", [["plam"], ["plan", "--profil"], ["profile", "lsit"], ["--hepl"]])
def test_misspelt_commands_and_options_are_found(words: list[str]) -> None:
    assert unknown(words) == words[-1:]


def test_modules_that_are_to_be_run_or_named_are_there() -> None:
    texts = " ".join(path.read_text(encoding="utf-8") for path in PRESENT)
    run = re.findall(r"python -m\s+([\w.]+)", texts)
    named = re.findall(r"worker-extension-cls ([\w.]+)\.\w+", texts)
    assert run
    assert named
    assert [name for name in {*run, *named} if importlib.util.find_spec(name) is None] == []


def test_the_commands_that_print_no_json_are_named() -> None:
    def prints(command: click.Command) -> bool:
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        return any("--json" in option.opts for option in command.params) or any(map(prints, inner))

    context = click.Context(cli)
    known = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    without = {name for name, command in known.items() if command is not None and not prints(command)}
    (said,) = re.findall(r"All but (.*?) take `--json`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert set(re.findall(r"`(\w+)`", said)) == without
