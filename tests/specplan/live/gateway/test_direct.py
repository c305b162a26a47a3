"""Requests over connections of the gateway's own: answers, errors and their words are those by `aiohttp`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra serve")

from connections import ConnectionServer

from calibrate.engines.http.wire import EngineTimeoutError, HttpConfig, Wire
from specplan.live.gateway.direct import DirectWire
from theory.errors import CalibrationError

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices": [{"text": "\xc3\xa9"}]}\n\n'
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def page(status: int, body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s" % (status, more, len(body), body)


class Answers(ConnectionServer):
    """Gives answers, in turn, to requests; the last connection then ends, or stays open."""

    def __init__(self, *answers: bytes, ends: bool = True) -> None:
        super().__init__()
        self.left, self.ends = list(answers), ends
        self.requests = list[bytes]()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self.left:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            self.requests.append(head + await reader.readexactly(int(length or 0)))
            writer.write(self.left.pop(0))
            await writer.drain()
        await asyncio.sleep(0.02 if self.ends else 3600.0)
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def planted(*answers: bytes, ends: bool = True) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve answers; yield the URL of the API, and the requests."""
    server = Answers(*answers, ends=ends)
    await server.start()
    try:
        yield f"{server.url}/v1", server.requests
    finally:
        await server.stop()


async def seen(wire_class: type[Wire], *answers: bytes, ends: bool = True) -> tuple[list[Any], str]:
    """The events of a stream, and the error with which it ends."""
    events: list[Any] = []
    async with planted(*answers, ends=ends) as (url, _):
        wire = wire_class(HttpConfig(name="target", url=url, retries=0, timeout_s=0.5))
        try:
            await wire.stream(f"{url}/completions", {"prompt": "\ud800"}, lambda event, _: bool(events.append(event)))
        except CalibrationError as error:
            return events, f"{type(error).__name__} {error}".replace(url, "URL")
        finally:
            await wire.close()
    return events, ""


ANSWERS: dict[str, tuple[bytes, ...]] = {
    "whole": (CHUNKED + chunk(EVENT) + chunk(b"data: [DONE]\n\n") + END,),
    "in pieces": (CHUNKED + b"".join(chunk(EVENT[i : i + 1]) for i in range(len(EVENT))) + END,),
    "after an interim head": (b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" + CHUNKED + chunk(EVENT) + END,),
    "until the connection ends": (b"HTTP/1.1 200 OK\r\n\r\n" + EVENT,),
    "cut": (CHUNKED + chunk(EVENT),),
    "cut in a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + EVENT,),
    "nothing": (b"",),
    "an error": (CHUNKED + chunk(b'data: {"error": {"message": "planted"}}\n\n'),),
    "refused": (page(400, b'{"error": {"message": "planted"}}'),),
    "too many": (page(429, b"{}", b"Retry-After: 7\r\n"),),
    "elsewhere": (page(307, b"", b"Location: http://other.example\r\n"),),
    "html": (page(200, b"<html>", b"Content-Type: text/html\r\n"),),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_and_errors_are_those_by_aiohttp(name: str) -> None:
    assert await seen(DirectWire, *ANSWERS[name]) == await seen(Wire, *ANSWERS[name])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (CHUNKED + b"zz\r\n", "chunk size"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000, "too large a head"),
        (CHUNKED[:40], "silent for 0.5 s before it answered"),
        (CHUNKED, "silent for 0.5 s in the middle of an answer"),
    ],
)
async def test_what_is_no_answer_ends_in_time(answer: bytes, said: str) -> None:
    assert said in (await seen(DirectWire, answer, ends=False))[1]


async def test_a_server_that_is_not_there_is_named_as_by_aiohttp() -> None:
    async with planted(b"") as (url, _):
        pass
    said = []
    for wire_class in (Wire, DirectWire):
        wire = wire_class(HttpConfig(name="target", url=url, retries=0))
        with pytest.raises(CalibrationError, match="unreachable") as caught:
            await wire.get(f"{url}/models")
        said.append(str(caught.value))
        await wire.close()
    assert said[0] == said[1]


async def test_a_connection_carries_one_request_after_another_and_is_closed_when_a_reader_leaves() -> None:
    many = CHUNKED + chunk(EVENT * 60_000)
    async with planted(page(200, b"[1]"), CHUNKED + chunk(EVENT) + END, many, page(200, b"[2]")) as (url, requests):
        wire = DirectWire(HttpConfig(name="target", url=url, retries=0))
        assert await wire.get(f"{url}/models") == [1]
        await wire.stream(f"{url}/completions", {"prompt": "é"}, lambda event, moment: False)
        (connection,) = wire._open
        await wire.stream(f"{url}/completions", {"prompt": "é"}, lambda event, moment: True)
        assert connection.transport.is_closing()
        assert await wire.post(f"{url}/tokenize", {"n": 1}) == [2]
        await wire.close()
    assert requests[0].startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert requests[1].endswith('\r\n\r\n{"prompt":"é"}'.encode())
    assert requests[3].startswith(b"POST /v1/tokenize HTTP/1.1\r\n")


async def test_closing_ends_what_is_under_way() -> None:
    async with planted(CHUNKED, ends=False) as (url, requests):
        wire = DirectWire(HttpConfig(name="target", url=url, retries=0))
        asked = asyncio.ensure_future(wire.stream(f"{url}/completions", {}, lambda event, moment: False))
        while not requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await wire.close()
        with pytest.raises(CalibrationError, match="Connection closed") as caught:
            await asked
    assert not isinstance(caught.value, EngineTimeoutError)
