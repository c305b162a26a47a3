"""``specplan serve`` as typed: bad input is one line with a remedy, and a good one serves until it is told to stop."""

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import NotFoundError, OpenAI
from openai_server import Planted, serving
from screens import Main, refusal
from served_plans import serve_plan, write_plan

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


@pytest.mark.slow
def test_it_serves_until_it_is_told_to_stop(plan: Path) -> None:
    with (
        serving() as target,
        serving() as draft,
        serve_plan(plan, None, {"target": target.url, "draft": draft.url, "judge": target.url}) as url,
        OpenAI(base_url=url, api_key="x", max_retries=0) as client,
    ):
        assert [model.id for model in client.models.list()] == ["tiny"]
        asked: dict[str, Any] = {"model": "tiny", "prompt": "one", "max_tokens": 100, "seed": 1}
        whole = client.completions.create(**asked)
        parts = [chunk.choices[0].text for chunk in client.completions.create(stream=True, **asked)]
        assert "".join(parts) == whole.choices[0].text
        # The planted server renders no chats, so it gets them as they are, at a path that it has not.
        with pytest.raises(NotFoundError):
            client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x"}])


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("grace", ["60", "0.5"])
def test_answers_end_when_it_is_stopped_or_are_broken_off_after_the_grace(plan: Path, grace: str, stream: bool) -> None:
    """Of an answer that takes some five seconds."""
    planted = Planted(iteration_s=0.04, steps=12, step_tokens=(10, 11))
    asked = {"model": "tiny", "prompt": "one", "max_tokens": 400, "seed": 1, "stream": stream}
    with serving(planted) as target, serving() as draft:
        roles = {"target": target.url, "draft": draft.url, "judge": target.url}
        with serve_plan(plan, None, roles, "--grace", grace, stop_after=1.0) as url:
            answer = httpx.post(f"{url}/completions", json=asked, timeout=60)
    lines = [line for line in answer.text.splitlines() if line]
    last = json.loads(lines[-2].removeprefix("data: ") if stream else lines[0])
    assert not stream or lines[-1] == "data: [DONE]"
    if grace == "60":
        assert answer.status_code == 200
        assert last["choices"][0]["finish_reason"] == "stop"
    else:
        assert answer.status_code == (200 if stream else 503)
        assert last["error"]["code"] == "service_unavailable"
