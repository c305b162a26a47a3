"""``plan --budget``, a first answer by mean values replaced load by load; and plans that are interrupted."""

import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from screens import Main

from sim.configuration import PLAIN
from specplan.planning.loads.click_options import DEPLOYMENT, LOADS
from specplan.planning.loads.from_options import deployment_plan, deployment_plans
from specplan.planning.loads.load_plan import NamesPlan

LONG = 1e6
"""Seconds that are never over."""
METHODS = ["prompt-lookup", "draft-model", "lr-async"]
SAID = {"target": "Qwen/Qwen3-8B", "draft": "Qwen/Qwen3-0.6B", "gpus": 2, "context": 900, "answer_tokens": 400}
ASKED = {**dict.fromkeys((*DEPLOYMENT, *LOADS, "gpu")), **SAID, "concurrency": "2,16"}
WORDS = ["plan", *(word for name, value in SAID.items() for word in (f"--{name.replace('_', '-')}", str(value)))]


@pytest.fixture(scope="module")
def states() -> list[NamesPlan]:
    return list(deployment_plans({**ASKED, "budget": LONG}, METHODS))


def test_loads_are_simulated_one_by_one(states: list[NamesPlan]) -> None:
    assert [[load.concurrency for load in plan.rough] for plan in states] == [[2, 16], [16], [], [], []]
    for plan in states:
        assert [load.concurrency for load, _ in plan.loads] == [2, 16]
        assert not plan.interrupted


def test_with_time_enough_the_rows_are_those_of_a_plan_without_a_budget(states: list[NamesPlan]) -> None:
    whole = deployment_plan({**ASKED, "no_curve": True}, METHODS)
    assert states[-1].loads == whole.loads


def test_intervals_hold_what_simulations_find_and_do_not_grow(states: list[NamesPlan]) -> None:
    """Beliefs and costs are the same at the beginning and in the end: what mean values leave open holds the rest."""
    for (load, rough), (_, rows) in zip(states[0].loads, states[-1].loads, strict=True):
        known = {row.option: row for row in rows}
        assert any(row.option in known for row in rough if row.option.configuration != PLAIN), load.text
        for row in (row for row in rough if row.option in known and row.option.configuration != PLAIN):
            simulated = known[row.option]
            off = abs(math.log(row.gain.value / simulated.gain.value))
            assert off <= row.errors["sampling"] + simulated.errors["sampling"]
            assert simulated.errors["sampling"] < row.errors["sampling"]
            others = row.errors.keys() - {"sampling"}
            assert all(row.errors[name] == pytest.approx(simulated.errors[name]) for name in others)
            assert row.gain.n == 0 < simulated.gain.n


def test_steps_wait_for_simulations() -> None:
    """A draft on a GPU of its own, whose steps are known to be accepted, is worth simulating."""
    placed = {"target": "Qwen/Qwen3-32B", "draft": "Qwen/Qwen3-1.7B", "gpus": 3, "tp": 2, "placement": "own"}
    known = {"alpha1": 0.9, "concurrency": "1", "k1_max": 2, "budget": LONG}
    first, *_, last = deployment_plans({**ASKED, **placed, **known}, ["lr-async"])
    methods = [[row.option.configuration.method for row in plan.loads[0][1]] for plan in (first, last)]
    assert methods == [["autoregressive"], ["lr-async", "autoregressive"]]


def test_without_time_all_loads_are_by_mean_values(run_main: Main) -> None:
    code, out, err = run_main(*WORDS, "--concurrency", "2,16", "--budget", "1e-9", "--json")
    data = json.loads(out)
    assert (code, err, data["by_mean_values"]) == (0, "", ["2", "16"])
    assert all(row["ttft_s"]["50"] is None for load in data["loads"] for row in load["rows"])


def test_piped_only_the_last_state_is_printed(run_main: Main) -> None:
    code, out, _ = run_main(*WORDS, "--concurrency", "2", "--methods", "ngram", "--budget", str(LONG))
    assert code == 0
    assert out.count("Plan for") == 1
    assert "mean values" not in out


@pytest.mark.parametrize("more", [("--rate", "1"), ("--slo-ttft", "100"), ("--gpu", "H100,H200")])
def test_what_mean_values_do_not_know_is_refused(more: tuple[str, ...], run_main: Main) -> None:
    code, _, err = run_main(*WORDS, *more, "--budget", "1")
    assert code == 2
    assert "budget=1" in err


@contextmanager
def on_a_terminal(stream: str, *words: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A plan whose stdout or stderr is a terminal of 80 columns, which is yielded too."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "80", "LINES": "40"}
    with subprocess.Popen(
        [sys.executable, "-m", "specplan", *words],
        **{"stdout": subprocess.PIPE, stream: theirs},
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # background jobs ignore it
    ) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def chunks(terminal: int) -> Iterator[str]:
    """What appears on a terminal."""
    with suppress(OSError):  # Linux says so at the end
        while chunk := os.read(terminal, 4096).decode(errors="replace"):
            yield chunk


def test_a_terminal_shows_each_state_in_the_place_of_the_one_before() -> None:
    more = ["--concurrency", "2", "--methods", "ngram", "--budget", str(LONG)]
    with on_a_terminal("stdout", *WORDS, *more) as (_, terminal):
        text = "".join(chunks(terminal))
    *drawn, last = re.split(r"\x1b\[(\d+)F\x1b\[J", text)
    for shown, rows in zip(drawn[::2], drawn[1::2], strict=True):
        assert shown.count("\n") == int(rows)
        assert shown.count("Plan for") == 1
    assert len(drawn) == 6
    assert "By mean values" in drawn[0]
    assert "By mean values" not in last


INTERRUPTED = "plan --target meta-llama/Llama-3.1-8B-Instruct --eagle trained --gpu H100 --answer-tokens 6000"


@pytest.mark.slow
@pytest.mark.parametrize(("loads", "after", "planned"), [("1,512", 2, True), ("512", 1, False)])
def test_what_is_planned_before_ctrl_c_is_printed(loads: str, after: int, planned: bool) -> None:
    """The first part searches one answer at once, the second plans it: from there on, it is known."""
    with on_a_terminal("stderr", *INTERRUPTED.split(), "--concurrency", loads) as (process, terminal):
        text = ""
        for chunk in chunks(terminal):
            text += chunk
            if any(int(done) >= after for done in re.findall(r"planning\D*(\d+)/\d+", text)):
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out.startswith("At 1 answer at once: ") == planned
    assert ("Not planned: load 512, before which you interrupted." in out) == planned
    assert bool(out) == planned
