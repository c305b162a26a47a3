"""Connections to servers: what is passed on when, what ends them, and where they lead."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from connections import Talk, talking
from virtual_time import run_virtually

from calibrate.engines.http.waits import Wait, Waits
from calibrate.engines.http.wire import BrokenOffError, EngineTimeoutError, HttpConfig, Wire

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LATE = 10.0
"""On a busy machine; without a bound nothing ends at all."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(number: int) -> bytes:
    return b'data: {"n": %d}\n\n' % number


@asynccontextmanager
async def wired(talk: Talk, url: str = "", **options: Any) -> AsyncIterator[tuple[Wire, str]]:
    """A wire to a server that talks so after a request's head, and the server's address."""
    async with talking(talk) as address:
        wire = Wire(HttpConfig(name="target", url=url or address, retries=0, **options))
        try:
            yield wire, address
        finally:
            await wire.close()


async def test_an_event_is_passed_on_before_the_next_is_written() -> None:
    passed_on = asyncio.Event()

    async def talk(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for number in range(5):
            passed_on.clear()
            writer.write(chunk(event(number)))
            await asyncio.wait_for(passed_on.wait(), LATE)
        writer.write(chunk(event(5) + event(6)) + chunk(b""))

    seen: list[tuple[int, float]] = []

    def on_event(event: dict[str, Any], now: float) -> bool:
        seen.append((event["n"], now))
        passed_on.set()
        return False

    async with wired(talk) as (wire, _):
        await wire.stream(f"{wire.api}/completions", {"stream": True}, on_event)
    assert [number for number, _ in seen] == list(range(7))
    moments = [now for _, now in seen]
    assert moments == sorted(set(moments))  # also of those that arrived together


@pytest.mark.parametrize(
    ("said", "then"), [(event(0), b"zz\r\n"), (event(0), b""), (b"", chunk(b"x"))], ids=["noise", "nothing", "drops"]
)
async def test_a_stream_without_a_further_event_is_a_time_out(said: bytes, then: bytes) -> None:
    async def talk(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + (chunk(said) if said else b""))
        while True:
            await asyncio.sleep(0.05)
            writer.write(then)
            await writer.drain()

    async with wired(talk, timeout_s=0.2) as (wire, _):
        with pytest.raises(EngineTimeoutError, match=r"silent for 0\.2 s in the middle of an answer"):
            await asyncio.wait_for(
                wire.stream(f"{wire.api}/completions", {"stream": True}, lambda event, now: False), LATE
            )


async def test_closing_breaks_off_what_is_being_read() -> None:
    async def talk(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(event(0)))
        await reader.read()
        left.set()

    begun, left = asyncio.Event(), asyncio.Event()

    def on_event(event: dict[str, Any], now: float) -> bool:
        begun.set()
        return False

    async with wired(talk) as (wire, _):
        reading = asyncio.ensure_future(wire.stream(f"{wire.api}/completions", {"stream": True}, on_event))
        await asyncio.wait_for(begun.wait(), LATE)
        await wire.close()
        with pytest.raises(BrokenOffError, match="in the middle of an answer"):
            await asyncio.wait_for(reading, LATE)
        await asyncio.wait_for(left.wait(), LATE)


async def test_a_proxy_of_the_environment_leads_to_other_machines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with wired(talk, "http://elsewhere.invalid") as (wire, address):
        monkeypatch.setenv("http_proxy", address)
        assert await wire.text(f"{wire.api}/models") == "ok"
    async with wired(talk) as (wire, _):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        assert await wire.text(f"{wire.api}/models") == "ok"


# Limits of waits, in virtual time: when they end, and what is a cancellation of its own.


async def waited(waits: Waits, *pauses: float, unlimited: bool = False) -> str:
    """Wait several times, in one `Wait` that begins anew before each; say how it ended, and when."""
    loop, moment = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    try:
        with Wait(waits) as wait:
            for seconds in pauses:
                wait.pause() if unlimited else wait.again()
                await asyncio.sleep(seconds)
        how = "whole"
    except TimeoutError:
        how = "late"
    return f"{how} after {loop.time() - moment:.1f}"


def test_each_wait_ends_after_its_own_limit() -> None:
    async def program() -> list[str]:
        waits = Waits(10.0)
        one = asyncio.create_task(waited(waits, 100.0))
        await asyncio.sleep(4.0)
        others = waited(waits, 9.0), waited(waits, 100.0), waited(waits, 9.0, 9.0, 9.0), waited(waits, 9.0, 100.0)
        return await asyncio.gather(one, *others, waited(waits, 50.0, unlimited=True))

    first, short, late, renewed, silent, paused = run_virtually(program())
    assert (short, renewed, paused) == ("whole after 9.0", "whole after 27.0", "whole after 50.0")
    for seen, limit in ((first, 10.0), (late, 10.0), (silent, 19.0)):
        how, _, after = seen.partition(" after ")
        assert how == "late"
        assert limit <= float(after) <= limit + 1.1


def test_a_task_that_is_cancelled_is_not_late() -> None:
    async def program() -> tuple[bool, str, int]:
        waits = Waits(10.0)
        waiting = asyncio.create_task(waited(waits, 100.0))
        await asyncio.sleep(1.0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        later = await waited(waits, 100.0)  # its timer runs anew
        current = asyncio.current_task()
        assert current is not None
        return waiting.cancelled(), later.partition(" ")[0], current.cancelling()

    assert run_virtually(program()) == (True, "late", 0)
