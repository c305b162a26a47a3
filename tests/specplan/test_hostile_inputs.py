"""Hostile inputs, by the hundred: every option of every command, every kind of file where a file is read.

Whatever is typed, a command ends in time, tells failures in one line and never as an internal error, and changes no
file but the output that was named. Commands run in this process through the outermost frame, `specplan.cli.main`; a
sample runs as processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hostile_worlds import LIMIT_S, World, complaints, hostile_world, run

from specplan.cli import cli
from specplan.output import InputName, OutputFile

pytestmark = [pytest.mark.slow, pytest.mark.long("minutes: every option of every command with every hostile value")]

NUMBERS: tuple[str, ...] = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e999",
    "1e-320",
    "1000000000",
    "9" * 5000,
    "",
    "x",
    "1,,2",
    "0x10",
    "0.5",
)
TEXTS: tuple[str, ...] = (
    "",
    " ",
    "x" * 5000,
    "a\nUse LR\n",
    "\x1b[31mred",
    "../..",
    "\udcff",
    "%s{0}",
    "=",
    "k1=",
    "k1=1e9",
)
OUTPUTS: tuple[str, ...] = (
    *("", "-", ".", "missing/out", "x" * 254, "x" * 5000, "device", "fifo", "link-to-input"),
    *("prompts.jsonl", "profile.json", "out.bmp"),
)

LATE: dict[str, list[str]] = {
    "plan": ["-p", "profile.json", "-n", "2", "--methods", "lr-sync", "--k1-max", "2"],
    "simulate": ["-p", "profile.json", "-n", "2"],
    "validate": ["-p", "profile.json"],
    "thresholds": ["--pairs", "pairs.jsonl", "--c1", "0.1"],
    "acceptance": ["dynamic.json", "--from", "vllm-dynamic"],
    "calibrate torch": ["--prompts", "missing.jsonl", "-o", "out.json"],
    "calibrate vllm": ["--prompts", "missing.jsonl", "-o", "out.json"],
    "calibrate openai": [
        *("--target", "http://127.0.0.1:1", "--draft", "http://127.0.0.1:1"),
        *("--prompts", "missing.jsonl", "-o", "out.json"),
    ],
    "serve": ["--plan", "missing.json"],
    "explain": ["missing.prom", "missing.prom"],
    "certify": ["http://127.0.0.1:1", "--prompts", "missing.jsonl"],
    "pair widen": ["--shape", "qwen3-30b-a3b", "-o", "missing/out"],
    "profile show": ["profile.json"],
    "profile check": ["profile.json"],
    "profile diff": ["profile.json", "profile.json", "--no-plan"],
    "reproduce hardware": ["tables"],
    "reproduce speculation": ["tables"],
    "reproduce operators": ["tables"],
    "sweep run": ["grid.toml", "-o", "out.csv"],
    "sweep plot": ["missing.csv", "-x", "alpha1", "-y", "c1", "-o", "out.png"],
    "theorems": ["--paper", "none such"],
}
"""Arguments with which a command runs, and soon ends: calibrations at questions that are not there."""

FROM_NAMES = ["plan", "--target", "Qwen/Qwen3-8B", "--task", "none such"]
"""Ends once all options were read."""

READERS: tuple[tuple[str, ...], ...] = (
    ("plan", "-p", "{}"),
    ("plan", "-p", "profile.json", "-n", "2", "--latency", "{}"),
    ("plan", "--target", "{}"),
    ("plan", "--target", "Qwen/Qwen3-8B", "--draft", "{}"),
    ("plan", "--target", "Qwen/Qwen3-8B", "--trace", "{}", "--task", "none such"),
    ("simulate", "-n", "2", "-p", "{}"),
    ("serve", "--plan", "{}", "--target", "http://127.0.0.1:1"),
    ("validate", "-p", "{}"),
    ("explain", "{}", "{}"),
    ("explain", "gateway.prom", "later.prom", "-p", "{}"),
    ("explain", "gateway.prom", "later.prom", "-p", "profile.json", "--plan", "{}"),
    ("explain", "gateway.prom", "{}", "-p", "profile.json"),
    ("certify", "http://127.0.0.1:1", "--prompts", "{}"),
    ("thresholds", "-p", "{}"),
    ("thresholds", "--c1", "0.1", "--pairs", "{}"),
    ("thresholds", "--gate", "--gate-cost", "1", "--judge-cost", "2", "--pairs", "{}"),
    ("acceptance", "{}"),
    ("acceptance", "{}", "--from", "vllm-dynamic"),
    ("acceptance", "{}", "--from", "vllm-requests"),
    ("acceptance", "{}", "--from", "lengths"),
    ("profile", "show", "{}"),
    ("profile", "check", "{}"),
    ("profile", "diff", "{}", "profile.json", "--no-plan"),
    ("reproduce", "hardware", "{}"),
    ("reproduce", "operators", "{}"),
    (
        *("calibrate", "openai", "--target", "http://127.0.0.1:1", "--draft", "http://127.0.0.1:1"),
        *("--prompts", "{}", "-o", "out.json"),
    ),
    ("sweep", "run", "{}", "-o", "out.csv"),
    ("sweep", "plot", "{}", "-x", "alpha1", "-y", "c1", "-o", "out.png"),
    ("calibrate", "torch", "--target", "{}", "--prompts", "missing.jsonl", "-o", "out.json"),
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return hostile_world(tmp_path, monkeypatch)


def commands(group: click.Group = cli, above: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """All commands by name."""
    for name in group.list_commands(click.Context(group)):
        one = group.get_command(click.Context(group), name)
        if isinstance(one, click.Group):
            yield from commands(one, (*above, name))
        elif one is not None:
            yield " ".join((*above, name)), one


def swept() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every option of every command with every hostile value of its kind, by command and option."""
    for name, command in commands():
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag or option.is_eager:
                continue
            typed = max(option.opts, key=len)
            if isinstance(option.type, OutputFile):
                values = OUTPUTS
            elif option.type.name in ("integer", "float"):
                values = NUMBERS
            elif isinstance(option.type, (InputName, click.Path)):
                continue  # the files, below
            else:
                values = TEXTS + NUMBERS[:6]
            for value in values:
                yield f"{name} {typed}", (typed, *[value] * option.nargs)


def cases() -> list[tuple[str, list[str]]]:
    """The commands to type."""
    from specplan.planning.loads.asking import DEPLOYMENT, LOADS

    named = {f"--{name.replace('_', '-')}" for name in (*DEPLOYMENT, *LOADS)} - {"--task"}
    found = []
    for place, (typed, *values) in swept():
        name = place.rpartition(" ")[0]
        if name == "demo" and typed != "--k1":
            continue  # what is accepted runs for minutes
        if name == "demo" and values[0] in ("1000000000", "0.5"):
            continue
        if name == "plan" and typed in named:
            found.append((place, [*FROM_NAMES, typed, *values]))
        else:
            found.append((place, [*name.split(), *LATE.get(name, []), typed, *values]))
    return found


PLACES = list(dict.fromkeys(place for place, _ in cases()))


def test_there_are_enough() -> None:
    assert len(cases()) >= 500
    assert {place.rpartition(" ")[0] for place in PLACES} >= LATE.keys() - {"profile check"}  # it has flags only


@pytest.mark.parametrize("name", list(dict.fromkeys(place.rpartition(" ")[0] for place in PLACES)))
def test_every_option_with_every_value(world: World, name: str) -> None:
    mine = [arguments for place, arguments in cases() if place.rpartition(" ")[0] == name]
    outputs = ("out.json", "out.csv", "out", *OUTPUTS)
    wrong = [line for arguments in mine for line in complaints(world, arguments, outputs)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_every_file_wherever_one_is_read(world: World, reader: tuple[str, ...]) -> None:
    wrong = []
    for name in world.hostile:
        wrong += complaints(world, [name if word == "{}" else word for word in reader])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "-p", "profile.json", "-n", "2", "--timeline", "a.json", "-o", "a.json"],
        ["simulate", "-p", "profile.json", "-n", "2", "--timeline", "a.json", "-o", "./a.json", "--force"],
        ["profile", "show", "profile.json", "-o", "profile.json", "--force"],
        ["plan", "-p", "profile.json", "-o", "profile.json", "--force"],
        ["validate", "-p", "profile.json", "--prompts", "prompts.jsonl", "-o", "link-to-input", "--force"],
        ["profile", "schema", "-o", "device", "--force"],
        ["profile", "schema", "-o", "fifo", "--force"],
        ["reproduce", "hardware", "tables", "-o", "tables/one.csv", "--force"],
        ["thresholds", "--pairs", "pairs.jsonl", "--c1", "0.1", "-o", "pairs.jsonl", "--force"],
        ["simulate", "-p", "profile.json", "-n", "4", "--answer", "4"],
        ["simulate", "-p", "profile.json", "--set", "k1=2", "--set", "k1=3"],
        ["simulate", "-p", "profile.json", "--set", "verifier=embedding"],
        ["simulate", "-p", "profile.json", "--token", "prompt-lookup", "--k2", "999"],
        ["methods", "lr-async", "--gaps"],
        ["thresholds", "--pairs", "pairs.jsonl", "--c1", "0.1", "--label", "correct"],
        ["acceptance", "dynamic.json", "--from", "vllm-dynamic", "--max-batch", "3"],
        [
            *("calibrate", "openai", "--target", "http://127.0.0.1:1", "--draft", "http://127.0.0.1:1"),
            *("--prompts", "bundled", "-n", "2", "--patience", "0", "-o", "out.json"),
        ],
        ["profile", "check", "deep.json"],
        ["plan", "-p", "fifo"],
        ["plan", "-p", "/dev/zero"],
        ["plan", "-p", "profile.json", "-n", "1000000000"],
    ],
    ids=" ".join,
)
def test_what_was_found_is_refused_in_one_line(world: World, arguments: list[str]) -> None:
    code, _, err = run(arguments)
    assert code in (1, 2), err
    assert not complaints(world, arguments)
    assert len(err.strip().splitlines()) == 1


def test_messages_name_the_option_as_typed(world: World) -> None:
    for arguments, wanted in (
        (["thresholds", "--pairs", "pairs.jsonl", "--c1", "0.1", "--risk", "5"], "--risk=5.0 must"),
        (["simulate", "-p", "profile.json", "-n", "0"], "--answers=0 must"),
        (["plan", "-p", ""], "--profile='' must not be empty"),
        (["simulate", "-p", "profile.json", "--set", "k1=0"], "--k1=0 must"),
        (["profile", "schema", "-o", "prompts.jsonl"], "--output='prompts.jsonl' exists"),
    ):
        assert wanted in run(arguments)[2]


PROCESSES = (
    ("profile list >&-", 1),
    ("profile list 2>&- <&-", 0),
    ("profile list >/dev/full", 1),
    ("profile schema -o made.json >&-", 0),
    ("plan -p fifo", 2),
    ("plan -p - < profile.json >/dev/null", 0),
    ("plan -p deep.json", 2),
    ("profile check - < /dev/zero", 2),
    ("thresholds --c1 0.1 --pairs <(cat pairs.jsonl)", 2),
    ("simulate -p profile.json -n 2 --timeline made.png -o made.png", 2),
)


@pytest.mark.parametrize(("command", "code"), PROCESSES, ids=[command for command, _ in PROCESSES])
def test_processes(world: World, command: str, code: int) -> None:
    line = f"ulimit -v 8000000; exec {sys.executable} -m specplan {command}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    before = world.state()
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, timeout=LIMIT_S, cwd=world.folder, env=environment, check=False
    )
    told = done.stderr.decode(errors="replace")
    assert done.returncode == code, told
    assert "Traceback" not in told
    assert "internal error" not in told
    assert "Exception ignored" not in told
    left = world.state()
    assert {name for name in left.keys() - before.keys()} <= ({"made.json"} if code == 0 else set())
    assert all(left[name] == before[name] for name in before)


def test_modes_and_links_are_kept(world: World) -> None:
    target, link, new = (world.folder / name for name in ("kept.json", "to-kept.json", "new.json"))
    target.write_text("old", encoding="utf-8")
    target.chmod(0o640)
    link.symlink_to("kept.json")
    assert run(["profile", "schema", "-o", str(link), "--force"])[0] == 0
    assert link.is_symlink()
    assert json.loads(target.read_text(encoding="utf-8"))["title"] == "Profile"
    assert target.stat().st_mode & 0o777 == 0o640
    before = os.umask(0o027)
    try:
        assert run(["profile", "schema", "-o", str(new)])[0] == 0
    finally:
        os.umask(before)
    assert new.stat().st_mode & 0o777 == 0o640
    picture = world.folder / "picture.png"
    assert run(["simulate", "-p", "profile.json", "-n", "2", "--timeline", str(picture)])[0] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert not list(world.folder.glob(".specplan*"))
