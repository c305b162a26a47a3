"""Requests that no client sends by accident, and clients that are slow or read nothing: all ends in bounded time."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from gateways import planted_gateway
from pair_servers import running
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from sim.configuration import Configuration
from specplan.live.gateway.control import Limits

SECONDS = 0.25
LATE = 10.0
"""On a busy machine; without a bound nothing ends at all."""
GET = b"GET /short HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST /short HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class App:
    """Answers shortly, late, or without an end."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def short(self, request: Request) -> Response:
        return PlainTextResponse("short")

    async def late(self, request: Request) -> Response:
        await asyncio.sleep(3 * SECONDS)
        return PlainTextResponse("late")

    async def endless(self, request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 65_536
                    await asyncio.sleep(0.0)  # what is sent to a client that has left is not waited for
            finally:
                self.left.set()

        return StreamingResponse(pieces())

    def routes(self) -> Starlette:
        return Starlette(routes=[Route(f"/{name}", getattr(self, name)) for name in ("short", "late", "endless")])


def place(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


async def said(url: str, *pieces: bytes, apart: float = 0.0) -> bytes:
    """What a server says to pieces of a request until it closes the connection."""
    reader, writer = await asyncio.open_connection(*place(url))

    async def write() -> None:
        with suppress(OSError):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(apart)

    writing = asyncio.ensure_future(write())
    answer = b""
    try:
        with suppress(ConnectionResetError):  # where it does not read all that was written
            while part := await asyncio.wait_for(reader.read(65_536), LATE):
                answer += part
        return answer
    finally:
        writing.cancel()
        writer.close()


@pytest.mark.parametrize(
    ("pieces", "before"),
    [
        ([], b""),
        ([b"GET /sh"], b""),
        ([GET, *[b"X: y\r\n"] * 200], b""),
        ([GET + b"\r\n", GET, *[b"X: y\r\n"] * 200], b"short"),
    ],
    ids=["nothing", "half a line", "a line now and then", "a second one that trickles"],
)
async def test_a_head_that_does_not_end_is_refused_in_time(pieces: list[bytes], before: bytes) -> None:
    async with running(App().routes(), client_seconds=SECONDS) as url:
        begun = time.monotonic()
        answer = await said(url, *pieces, apart=0.05)
    assert answer.partition(before)[2].startswith(b"HTTP/1.1 408") if before else answer.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - begun >= SECONDS


@pytest.mark.parametrize(
    "begin",
    [b"GET /", GET, GET + b"X: ", CHUNKED + b"1;x=", CHUNKED + b"0\r\n", CHUNKED + b"0\r\nX: "],
    ids=["path", "headers", "header", "extension", "trailers", "trailer"],
)
async def test_what_is_no_body_is_bounded(begin: bytes) -> None:
    flood = b"X: y\r\n" * 5_000 if begin.endswith(b"\n") else b"x" * 20_000
    async with running(App().routes()) as url:
        assert b"HTTP/1.1 400" in await said(url, begin, *[flood] * 8, apart=0.01)


async def test_a_slow_answer_is_not_a_slow_head() -> None:
    async with running(App().routes(), client_seconds=SECONDS) as url:
        answer = await said(url, b"GET /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"late")


async def test_a_client_that_takes_nothing_is_left_and_one_that_takes_all_is_not() -> None:
    app = App()
    async with running(app.routes(), client_seconds=SECONDS) as url:
        with socket.create_connection(place(url)) as lazy:
            lazy.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(app.left.wait(), LATE)
        app.left.clear()
        reader, writer = await asyncio.open_connection(*place(url))
        writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        end = time.monotonic() + 3 * SECONDS
        while time.monotonic() < end:
            assert await reader.read(65_536)
        assert not app.left.is_set()
        writer.close()
        await asyncio.wait_for(app.left.wait(), LATE)


ANSWER = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n"
HOSTILE = {
    "slow body": (ANSWER + b"Content-Length: 1000\r\n\r\n{", 408),
    "slow chunks": (ANSWER + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", 408),
    "no end of the head": (HEALTH + b"X: ", 408),
    "huge head": (HEALTH + b"X: " + b"a" * 200_000 + b"\r\n\r\n", 400),
    "no object": (ANSWER + b"Content-Length: 2\r\nConnection: close\r\n\r\n[]", 400),
    "no HTTP": (b"\x16\x03\x01 hello\r\n\r\n", 400),
    "two lengths": (ANSWER + b"Content-Length: 1\r\nContent-Length: 9\r\n\r\n{}", 400),
    "negative length": (ANSWER + b"Content-Length: -5\r\n\r\n{}", 400),
    "path up": (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404),
}


async def test_bodies_and_heads_that_do_not_end_hold_no_place_of_the_gateway() -> None:
    """Nor do lies about lengths: others are not held up."""
    limits = Limits(in_flight=2, client_seconds=2 * SECONDS)
    async with planted_gateway(Configuration.parse("lr-async k1=2"), limits=limits) as served:
        talks = asyncio.gather(*(said(served.url, request) for request, _ in HOSTILE.values()))
        answers = await asyncio.gather(*(served.answer(f"{i}") for i in range(2)))
        found = dict(zip(HOSTILE, await talks, strict=True))
        assert served.serving.control.in_flight == 0
    assert all(answer.choices[0].text for answer in answers)
    statuses = {name: int(one.split()[1]) for name, one in found.items()}
    assert statuses == {name: status for name, (_, status) in HOSTILE.items()}
    assert b'"type":"invalid_request_error"' in found["no object"]
