"""``specplan serve`` as typed: bad input is one line with a remedy."""

import socket
from pathlib import Path

import pytest
from screens import Main, refusal
from served_plans import write_plan

from sim.configuration import Configuration

DEAD = "http://127.0.0.1:9"
HELPERS = ["--draft", DEAD, "--judge", DEAD]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(tmp_path, Configuration.parse("lr-async k1=2"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "--target"),
        (["--target", DEAD], 2, "--draft"),
        (["--target", DEAD, "--draft", DEAD], 2, f"--judge {DEAD}"),
        (["--target", DEAD, *HELPERS, "--port", "0"], 1, "unreachable"),
        (["--target", "x", *HELPERS, "--port", "0"], 2, "http://"),
        (["--target", DEAD, "--port", "70000"], 2, "--port"),
        (["--target", DEAD, "--patience", "0"], 2, "--patience"),
        (["--plan", "absent.json"], 2, "absent.json"),
        (["--target", DEAD, "--workers", "0"], 2, "--workers"),
        (["--target", DEAD, "--workers", "many"], 2, "--workers"),
    ],
)
def test_bad_input_is_one_line(run_main: Main, plan: Path, words: list[str], code: int, said: str) -> None:
    assert said in refusal(run_main, "serve", "--plan", str(plan), *words, code=code)


def test_a_taken_port_is_told(run_main: Main, plan: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = refusal(run_main, "serve", "--plan", str(plan), "--target", DEAD, *HELPERS, "--port", port, code=2)
    assert f"--port={port}" in said
    assert "taken" in said
