"""Hostile inputs, by the hundred: every option of every command, every kind of file where a file is read.

Whatever is typed, a command ends in time, tells failures in one line and never as an internal error, and changes no
file but the output that was named. Commands run in this process through the outermost frame, `specplan.cli.main`; a
sample runs as processes.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hostile_worlds import LIMIT_S, World, complaints, hostile_world

from specplan.cli import cli
from specplan.ranges import InputName, OutputFile

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

SERVERS = "--target http://127.0.0.1:1 --draft http://127.0.0.1:1"

LATE: dict[str, str] = {
    "plan": "-p profile.json -n 2 --methods lr-sync --k1-max 2",
    "simulate": "-p profile.json -n 2",
    "validate": "-p profile.json",
    "thresholds": "--pairs pairs.jsonl --c1 0.1",
    "acceptance": "dynamic.json --from vllm-dynamic",
    "calibrate torch": "--prompts missing.jsonl -o out.json",
    "calibrate vllm": "--prompts missing.jsonl -o out.json",
    "calibrate openai": f"{SERVERS} --prompts missing.jsonl -o out.json",
    "serve": "--plan missing.json",
    "explain": "missing.prom missing.prom",
    "certify": "http://127.0.0.1:1 --prompts missing.jsonl",
    "pair widen": "--shape qwen3-30b-a3b -o missing/out",
    "profile show": "profile.json",
    "profile check": "profile.json",
    "profile diff": "profile.json profile.json --no-plan",
    "reproduce hardware": "tables",
    "reproduce speculation": "tables",
    "reproduce operators": "tables",
    "sweep run": "grid.toml -o out.csv",
    "sweep plot": "missing.csv -x alpha1 -y c1 -o out.png",
    "theorems": "--paper none-such",
}
"""Arguments with which a command runs, and soon ends: calibrations at questions that are not there."""

FROM_NAMES = "plan --target Qwen/Qwen3-8B --task none-such"
"""Ends once all options were read."""

READERS = (
    "plan -p {}",
    "plan -p profile.json -n 2 --latency {}",
    "plan --target {}",
    "plan --target Qwen/Qwen3-8B --draft {}",
    "plan --target Qwen/Qwen3-8B --trace {} --task none-such",
    "simulate -n 2 -p {}",
    "serve --plan {} --target http://127.0.0.1:1",
    "validate -p {}",
    "explain {} {}",
    "certify http://127.0.0.1:1 --prompts {}",
    "thresholds -p {}",
    "thresholds --c1 0.1 --pairs {}",
    "thresholds --gate --gate-cost 1 --judge-cost 2 --pairs {}",
    "acceptance {}",
    "acceptance {} --from vllm-dynamic",
    "acceptance {} --from vllm-requests",
    "acceptance {} --from lengths",
    "profile show {}",
    "profile check {}",
    "profile diff {} profile.json --no-plan",
    "reproduce hardware {}",
    "reproduce operators {}",
    f"calibrate openai {SERVERS} --prompts {{}} -o out.json",
    "sweep run {} -o out.csv",
    "sweep plot {} -x alpha1 -y c1 -o out.png",
    "calibrate torch --target {} --prompts missing.jsonl -o out.json",
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
    from specplan.planning.loads.click_options import DEPLOYMENT, LOADS

    named = {f"--{name.replace('_', '-')}" for name in (*DEPLOYMENT, *LOADS)} - {"--task"}
    found = []
    for place, (typed, *values) in swept():
        name = place.rpartition(" ")[0]
        if name == "demo" and typed != "--k1":
            continue  # what is accepted runs for minutes
        if name == "demo" and values[0] in ("1000000000", "0.5"):
            continue
        if name == "plan" and typed in named:
            found.append((place, [*FROM_NAMES.split(), typed, *values]))
        else:
            found.append((place, [*name.split(), *LATE.get(name, "").split(), typed, *values]))
    return found


PLACES = list(dict.fromkeys(place for place, _ in cases()))


@pytest.mark.parametrize("name", list(dict.fromkeys(place.rpartition(" ")[0] for place in PLACES)))
def test_every_option_with_every_value(world: World, name: str) -> None:
    mine = [arguments for place, arguments in cases() if place.rpartition(" ")[0] == name]
    outputs = ("out.json", "out.csv", "out", *OUTPUTS)
    wrong = [line for arguments in mine for line in complaints(world, arguments, outputs)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("reader", READERS)
def test_every_file_wherever_one_is_read(world: World, reader: str) -> None:
    wrong = []
    for name in world.hostile:
        wrong += complaints(world, [name if word == "{}" else word for word in reader.split()])
    assert not wrong, "\n".join(wrong)


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
