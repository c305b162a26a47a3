"""``specplan serve --workers 2``: processes that end before their time, and all of them at the end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from measured_profiles import measured
from openai_server import OpenAIServer, Planted, serving
from processes import wait_until_gone
from screens import Main, refusal
from served_plans import serve_plan, write_plan

from calibrate.record.profile import Profile
from sim.configuration import Configuration

pytestmark = pytest.mark.slow

ASKED: dict[str, Any] = {"max_tokens": 400, "seed": 1}
ROLES = ("target", "draft", "judge")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(tmp_path, Configuration.parse("lr-sync k1=2"))


@pytest.fixture
def slow_server() -> Iterator[OpenAIServer]:
    """Of whose answers each takes some two seconds."""
    with serving(Planted(iteration_s=0.02, steps=8, step_tokens=(10, 11))) as server:
        yield server


def answers(pool: ThreadPoolExecutor, url: str, n: int, **more: Any) -> list[Any]:
    """Answers on their way, each over a connection of its own."""
    bodies = [{"prompt": f"question {i}", **ASKED, **more} for i in range(n)]
    return [pool.submit(httpx.post, f"{url}/completions", json=body, timeout=60) for body in bodies]


def text(answer: httpx.Response) -> str:
    return str(answer.raise_for_status().json()["choices"][0]["text"])


def working() -> tuple[psutil.Process, list[psutil.Process]]:
    """The command that this process has started, and its workers."""
    (command,) = (one for one in psutil.Process().children() if "serve" in one.cmdline())
    return command, command.children()


def state(url: str) -> dict[str, Any]:
    return dict(httpx.get(f"{url.removesuffix('/v1')}/health", timeout=30).json())


def until(url: str, **wanted: Any) -> None:
    """Wait until the gateway says so of itself."""
    limit = time.monotonic() + 60
    while not wanted.items() <= state(url).items():
        assert time.monotonic() < limit, state(url)
        time.sleep(0.05)


def test_one_that_is_killed_breaks_its_answers_only_and_comes_back(plan: Path, slow_server: OpenAIServer) -> None:
    said: list[str] = []
    roles = dict.fromkeys(ROLES, slow_server.url)
    with ThreadPoolExecutor(8) as pool:
        with serve_plan(plan, None, roles, "--trust-plan") as url:
            one = [text(answer.result()) for answer in answers(pool, url, 6)]
        with serve_plan(plan, None, roles, "--trust-plan", "--workers", "2", said=said) as url:
            two = [text(answer.result()) for answer in answers(pool, url, 6)]
            asked = answers(pool, url, 6)
            until(url, in_flight=6)
            _, workers = working()
            workers[0].kill()
            errors = [answer.exception() for answer in asked]
            until(url, in_flight=0, workers=2)
            _, now = working()
            again = [text(answer.result()) for answer in answers(pool, url, 6)]
    assert one == two == again
    assert sum(error is None for error in errors) == 3  # the others were evenly shared
    assert all(isinstance(error, httpx.TransportError) for error in errors if error is not None)
    assert {one.pid for one in workers} & {one.pid for one in now} == {workers[1].pid}
    (line,) = (one for one in said if "worker" in one)
    gone = f"(process {workers[0].pid}) is gone with 3 answers: it was ended by SIGKILL; starting it again"
    assert line.partition(" (")[0] in ("specplan: worker 1", "specplan: worker 2")
    assert line.endswith(gone)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("grace", ["60", "1"])
def test_answers_end_when_it_is_stopped_or_are_broken_off_after_the_grace(
    plan: Path, slow_server: OpenAIServer, grace: str, workers: str
) -> None:
    more = ("--workers", workers, "--grace", grace)
    with ThreadPoolExecutor(8) as pool, serve_plan(plan, None, dict.fromkeys(ROLES, slow_server.url), *more) as url:
        asked = [*answers(pool, url, 2), *answers(pool, url, 2, stream=True)]
        until(url, in_flight=4)
        command, processes = working()
        command.terminate()
        ended = [answer.result() for answer in asked]
        wait_until_gone([command, *processes], 10)
    assert all(one.text.endswith("data: [DONE]\n\n") for one in ended[2:])
    last = [*(one.text for one in ended[:2]), *(one.text.split("\n\n")[-3] for one in ended[2:])]
    said = [json.loads(one.removeprefix("data: ")) for one in last]
    if grace == "60":
        assert [one["choices"][0]["finish_reason"] for one in said] == ["stop"] * 4
    else:
        assert [one.status_code for one in ended] == [503, 503, 200, 200]
        assert [one["error"]["code"] for one in said] == ["service_unavailable"] * 4


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_signal_ends_all_at_once(plan: Path, slow_server: OpenAIServer, workers: str) -> None:
    roles = dict.fromkeys(ROLES, slow_server.url)
    with ThreadPoolExecutor(8) as pool, serve_plan(plan, None, roles, "--workers", workers) as url:
        asked = answers(pool, url, 2)
        until(url, in_flight=2)
        command, processes = working()
        command.send_signal(signal.SIGINT)
        time.sleep(0.2)
        command.send_signal(signal.SIGTERM)
        errors = [answer.exception() for answer in asked]
        wait_until_gone([command, *processes], 5)
    assert all(isinstance(error, httpx.TransportError) for error in errors)


def test_no_worker_outlives_the_process_that_decides(plan: Path, slow_server: OpenAIServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        roles = [f"--{role}={slow_server.url}" for role in ROLES]
        words = ["--plan", str(plan), "--port", "0", "--workers", "2", *roles]
        process = subprocess.Popen([sys.executable, "-m", "specplan", "serve", *words], stderr=subprocess.PIPE)
        with process:
            assert process.stderr is not None
            url = process.stderr.readline().decode().split()[2].removesuffix(":")
            asked = answers(pool, url, 2, stream=True)
            until(url, in_flight=2)
            _, workers = working()
            assert len(workers) == 2
            os.kill(process.pid, signal.SIGKILL)
            wait_until_gone(workers, 10)
            last = [answer.result().text.split("\n\n")[-3] for answer in asked]
        assert all(json.loads(line.removeprefix("data: "))["error"]["code"] == "service_unavailable" for line in last)


def test_a_worker_that_cannot_start_is_one_line(run_main: Main, plan: Path) -> None:
    dead = "http://127.0.0.1:9"
    words = [f"--{role}={dead}" for role in ROLES]
    said = refusal(run_main, "serve", "--plan", str(plan), "--port", "0", "--workers", "2", *words, code=1)
    assert "unreachable" in said
    assert not [one for one in psutil.Process().children() if "worker" in " ".join(one.cmdline())]


def test_a_new_profile_has_the_answers_of_all_workers(plan: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    measured([True] * 9 + [False] * 3).write(old)
    more = ("--trust-plan", "--workers", "2", "--replan", str(new), "--false-alarm", "0.0001")
    with (
        ThreadPoolExecutor(8) as pool,
        serving() as server,
        serve_plan(plan, old, dict.fromkeys(ROLES, server.url), *more) as url,
    ):
        lengths = [text(answer.result()).count("\n\n") + 1 for answer in answers(pool, url, 10)]
    written = Profile.parse(new.read_text())
    assert [one.problem for one in written.answers] == [f"live-{i}" for i in range(1, 11)]
    n_left_out = sum(lengths) - sum(len(one.steps) for one in written.answers)
    assert f"answers from live traffic (10), positions left out: {n_left_out};" in written.provenance.notes[-2]
