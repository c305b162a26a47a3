"""``specplan serve`` as typed: bad input is one line with a remedy, and a good one serves until it is told to stop."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import NotFoundError, OpenAI
from openai_server import Planted, serving
from screens import Main, refusal

pytest.importorskip("uvicorn", reason="needs the extra serve")

PLAN: dict[str, Any] = {
    "schema": "specplan.plan",
    "schema_version": 1,
    "profile": "planted",
    "rows": [
        {
            "configuration": {"method": "lr-async", "knobs": {"k1": 2}},
            "speedup": {"value": 1.5},
            "acceptance": 0.6,
            "baseline_seconds": 1.0,
        }
    ],
}


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    return str(path)


DEAD = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--plan", "absent.json"], 2, "absent.json"),
        (["--plan", "{plan}"], 2, "--target"),
        (["--plan", "{plan}", "--target", DEAD, "--port", "0"], 2, "--draft"),
        (["--plan", "{plan}", "--target", DEAD, "--draft", DEAD, "--port", "0"], 2, f"--judge {DEAD}"),
        (["--plan", "{plan}", "--target", DEAD, "--draft", DEAD, "--judge", DEAD, "--port", "0"], 1, "unreachable"),
        (["--plan", "{plan}", "--target", "x", "--draft", DEAD, "--judge", DEAD, "--port", "0"], 2, "http://"),
        (["--plan", "{plan}", "--target", DEAD, "--port", "70000"], 2, "--port"),
        (["--plan", "{plan}", "--target", DEAD, "--patience", "0"], 2, "--patience"),
    ],
)
def test_bad_input_is_one_line(run_main: Main, plan: str, words: list[str], code: int, said: str) -> None:
    assert said in refusal(run_main, "serve", *(word.replace("{plan}", plan) for word in words), code=code)


def test_a_taken_port_is_told(run_main: Main, plan: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["--target", DEAD, "--draft", DEAD, "--judge", DEAD, "--port", port]
        code, _, err = run_main("serve", "--plan", plan, *words)
    assert code == 2
    assert f"--port={port}" in err
    assert "taken" in err


@pytest.mark.slow
def test_it_serves_until_it_is_told_to_stop(plan: str) -> None:
    with serving() as target, serving() as draft:
        words = ["serve", "--plan", plan, "--target", target.url, "--draft", draft.url, "--judge", target.url]
        command = [sys.executable, "-m", "specplan", *words, "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            url = re.search(r"http://127\.0\.0\.1:\d+/v1", line)
            assert url, line
            with OpenAI(base_url=url[0], api_key="x", max_retries=0) as client:
                assert [model.id for model in client.models.list()] == ["tiny"]
                asked: dict[str, Any] = {"model": "tiny", "prompt": "one", "max_tokens": 100, "seed": 1}
                whole = client.completions.create(**asked)
                parts = [chunk.choices[0].text for chunk in client.completions.create(stream=True, **asked)]
                assert "".join(parts) == whole.choices[0].text
                # The planted server renders no chats, so it gets them as they are, at a path that it has not.
                with pytest.raises(NotFoundError):
                    client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x"}])
        finally:
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=60)
        assert "Traceback" not in rest
        assert process.returncode == 0


def stopped_while_answering(plan: str, grace: str, *, stream: bool) -> tuple[int, list[str], str]:
    """Stop the gateway while it writes an answer of some five seconds: status, lines of the answer, stderr."""
    planted = Planted(iteration_s=0.04, steps=12, step_tokens=(10, 11))
    with serving(planted) as target, serving() as draft:
        words = ["serve", "--plan", plan, "--target", target.url, "--draft", draft.url, "--judge", target.url]
        command = [sys.executable, "-m", "specplan", *words, "--port", "0", "--grace", grace]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            url = re.search(r"http://127\.0\.0\.1:\d+/v1", process.stderr.readline())
            assert url
            stop = threading.Timer(1.0, process.send_signal, (signal.SIGTERM,))
            asked = {"model": "tiny", "prompt": "one", "max_tokens": 400, "seed": 1, "stream": stream}
            stop.start()
            answer = httpx.post(f"{url[0]}/completions", json=asked, timeout=60)
        finally:
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=60)
        assert process.returncode == 0
    return answer.status_code, [line for line in answer.text.splitlines() if line], rest


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_answers_end_when_it_is_stopped(plan: str, stream: bool) -> None:
    status, lines, said = stopped_while_answering(plan, "60", stream=stream)
    assert status == 200
    text = lines[-2] if stream else lines[0]
    assert '"finish_reason":"stop"' in text
    assert not stream or lines[-1] == "data: [DONE]"
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_answers_that_take_longer_than_the_grace_are_broken_off_and_told(plan: str, stream: bool) -> None:
    status, lines, said = stopped_while_answering(plan, "0.5", stream=stream)
    assert status == (200 if stream else 503)
    error = lines[-2].removeprefix("data: ") if stream else lines[0]
    assert json.loads(error)["error"]["code"] == "service_unavailable"
    assert not stream or lines[-1] == "data: [DONE]"
    assert "Traceback" not in said
