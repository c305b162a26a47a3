"""Servers that answer nonsense: every odd shape is an error of one line, and nothing is read without a bound."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from connections import talking

from calibrate.engines.http import wire
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.stream import Streamed, checked
from calibrate.engines.http.wire import HttpConfig
from calibrate.models.servers import RemoteModels
from specplan.calibrating import warn_of_clear_key
from theory.errors import ParameterError, SchemaError, SpecplanError

ODD: list[Any] = [
    {"choices": 5},
    {"choices": ["x"]},
    {"choices": {"text": "a"}},
    {"choices": [{"text": ["a"]}]},
    {"choices": [{"logprobs": 5}]},
    {"choices": [{"logprobs": {"top_logprobs": [5]}}]},
    {"choices": [{"logprobs": {"top_logprobs": [{"a": float("nan")}]}}]},
    {"choices": [{"logprobs": {"token_logprobs": "abc"}}]},
    {"choices": [{"token_ids": [1.5]}]},
    {"choices": [{"token_ids": [-1]}]},
    {"choices": [{"prompt_token_ids": 5}]},
    {"choices": [{"finish_reason": ["stop"]}]},
    {"usage": {"completion_tokens": 1e300}},
    {"usage": {"prompt_tokens": -1}},
    {"usage": {"prompt_tokens_details": {"cached_tokens": "x"}}},
]


@pytest.mark.parametrize("event", ODD, ids=json.dumps)
def test_odd_events_are_refused_with_their_place(event: Any) -> None:
    with pytest.raises(SchemaError, match=r"^(choices|usage).*: .*, got "):
        checked(event)


def test_what_servers_do_send_is_taken() -> None:
    streamed = Streamed()
    logprobs = {"top_logprobs": [{"a": -0.1, "b": -9999.0}], "token_logprobs": [None], "tokens": ["a"]}
    streamed.take({"id": "x", "choices": [{"index": 0, "text": "a\ud83d", "logprobs": logprobs}], "usage": None}, 0.0)
    streamed.take({"choices": [{"text": None, "finish_reason": "stop", "stop_reason": 5}], "usage": None}, 0.0)
    streamed.take({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}, 0.0)
    assert (streamed.text, streamed.n_prompt, streamed.reason, streamed.stopped_by) == ("a\ufffd", 3, "stop", 5)


def page(body: bytes, kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode() + body


async def refusal(answers: Callable[[str], bytes]) -> str:
    """What an engine says at its start on a server that says what ``answers`` gives for a path, in one line."""

    async def talk(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answers(head.split()[1].decode()))

    async with asyncio.timeout(60.0), talking(talk) as url:
        with pytest.raises(SpecplanError) as caught:
            await OpenAIEngine.start(HttpConfig(name="target", url=url, retries=1, timeout_s=20.0, backoff_s=0.0))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 800
    return str(caught.value)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_MOST_BYTES", 2**20)


MODELS = json.dumps({"data": [{"id": "m"}]}).encode()
PAGES = {
    "endless": (b" " * (2 * 2**20), "more than 1 MiB"),
    "deep": (b"[" * 100_000, "broken JSON"),
    "number": (b"5", "offers several models or none"),
    "data is a number": (b'{"data": 5}', "offers several models or none"),
    "cards are numbers": (b'{"data": [5]}', "offers several models or none"),
    "forged": (b'{"data": [{"id": "a\\nUse LR\\u001b[31m"}]}', "odd name"),
    "long": (b'{"data": [{"id": "' + b"x" * 5000 + b'"}]}', "odd name"),
}


@pytest.mark.parametrize("name", PAGES)
async def test_odd_lists_of_models(name: str) -> None:
    body, said = PAGES[name]
    assert said in await refusal(lambda path: page(body))


STREAMS = {
    "html": (b"<html>welcome", "text/html; charset=utf-8", "sent an HTML page instead of a completion"),
    "one long line": (b"data: " + b"x" * (2 * 2**20), "text/event-stream", "without an end"),
    "a number": (b"data: 5\n\n", "text/event-stream", "where an object belongs"),
    "odd": (b'data: {"choices": 5}\n\n', "text/event-stream", "sent an event that does not match the API: choices"),
    "deep": (b"data: " + b"[" * 50_000 + b"\n\n", "text/event-stream", "broken JSON"),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_odd_streams(name: str) -> None:
    body, kind, said = STREAMS[name]
    assert said in await refusal(lambda path: page(body, kind) if path.endswith("completions") else page(MODELS))


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "Mon, 99 Foo 9999 99:99:99 GMT", "x"])
async def test_odd_waits(value: str) -> None:
    busy = f"HTTP/1.1 503 Busy\r\nRetry-After: {value}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert "503" in await refusal(lambda path: busy.encode())


def test_a_key_in_clear_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("A_KEY", "sk-planted")
    there = {"target": "http://example.org:8000", "draft": "http://127.0.0.1:8000", "judge": "https://example.org"}
    warn_of_clear_key(RemoteModels(**there, api_key_env="A_KEY"))
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "example.org:8000 over plain http" in told.err
    assert "sk-planted" not in told.err
    warn_of_clear_key(RemoteModels(**there))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("key", ["a\nb", "ключ"])
def test_a_key_that_no_header_can_carry(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("A_KEY", key)
    with pytest.raises(ParameterError, match="printable ASCII") as caught:
        HttpConfig(name="target", url="http://127.0.0.1:1", api_key_env="A_KEY")
    assert key not in str(caught.value)
