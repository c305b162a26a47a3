"""A proxy on 127.0.0.1 that does to HTTP what networks and dying servers do, between a client and any real server.

It understands requests with a Content-Length and answers that are chunked or have one, which is what servers of the
OpenAI interface send. What happens to a request is said by a plan: a function of its number and path, or
`random_faults` with a seed. The proxy itself can die, taking its connections along, and come back on the same port.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

from connections import ConnectionServer, in_thread

Plan = Callable[[int, str], str]
"""Number of a request, counted from 0, and its path, to a fault; empty for none. ``delay:S``: it waits S seconds.
``reset``: the connection breaks. ``STATUS`` or ``STATUS:S``: an error with Retry-After 0 or S. ``truncate:N``: the body
ends as if it were whole, after N chunks and a half (without chunks: after half of it). ``short:N``: so it does after N
whole chunks. ``cut:N``: the connection breaks after N chunks and a half. ``die:S``: the proxy is gone for S seconds."""


def random_faults(rates: Mapping[str, float], seed: int, path: str = "/v1/completions") -> Plan:
    """Faults that come at random: rates by fault, whose sum is at most 1; only requests to one path are hit."""
    rng = random.Random(seed)

    def plan(number: int, asked: str) -> str:
        if asked != path:
            return ""
        u = rng.random()
        for fault, rate in rates.items():
            if u < rate:
                return fault
            u -= rate
        return ""

    return plan


def without_faults(number: int, path: str) -> str:
    """The plan of a proxy that only passes on."""
    return ""


class FaultProxy(ConnectionServer):
    """The proxy.

    Attributes
    ----------
    seen : faults that happened, and how often.
    """

    def __init__(self, upstream: str, plan: Plan = without_faults) -> None:
        super().__init__()
        parts = urlsplit(upstream)
        self._upstream = parts.hostname or "", parts.port or 80
        self.plan = plan
        self.seen: Counter[str] = Counter()
        self.n_requests = 0
        self._later: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        for task in self._later:
            task.cancel()
        await super().stop()

    def die(self, seconds: float) -> None:
        """Be gone for a while: connections break, and new ones are refused."""

        async def gone() -> None:
            await super(FaultProxy, self).stop()
            await asyncio.sleep(seconds)
            await self.start()

        task = asyncio.get_running_loop().create_task(gone())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, path, body = await _request(reader)
            await self._answer(reader, writer, head + body, path)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, path: str
    ) -> None:
        fault = self.plan(self.n_requests, path)
        self.n_requests += 1
        kind, _, value = fault.partition(":")
        if fault:
            self.seen[fault] += 1
        if kind == "delay":
            await asyncio.sleep(float(value))
        elif kind == "reset":
            raise ConnectionError
        elif kind == "die":
            self.die(float(value))
            raise ConnectionError
        elif kind.isdigit():
            said = b'{"error": {"message": "by the proxy"}}'
            wait = f"Retry-After: {value or 0}\r\nContent-Length: {len(said)}\r\n\r\n"
            writer.write(f"HTTP/1.1 {kind} X\r\n{wait}".encode() + said)
            await writer.drain()
            return
        end = int(value or 0) if kind in ("truncate", "short", "cut") else None
        await self._relay(reader, writer, request, end, kind)

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, end: int | None, kind: str
    ) -> None:
        upstream, to_server = await asyncio.open_connection(*self._upstream)
        try:
            to_server.write(request)
            relay = asyncio.ensure_future(_response(upstream, writer, end, kind))
            gone = asyncio.ensure_future(_gone(reader))
            try:
                await asyncio.wait((relay, gone), return_when=asyncio.FIRST_COMPLETED)
                if not relay.done():
                    raise ConnectionError  # the client has left: so does this connection, and the server sees it
                await relay
            finally:
                for task in (relay, gone):
                    task.cancel()
                await asyncio.gather(relay, gone, return_exceptions=True)
        finally:
            to_server.transport.abort()


async def _gone(reader: asyncio.StreamReader) -> None:
    """Wait until the client has closed its connection."""
    while not reader.at_eof():
        await asyncio.sleep(0.02)


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, str, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    return head, head.split(b" ", 2)[1].decode(), await reader.readexactly(_length(head) or 0)


def _length(head: bytes) -> int | None:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return None


async def _response(upstream: asyncio.StreamReader, writer: asyncio.StreamWriter, end: int | None, kind: str) -> None:
    """Pass on one answer, up to the chunk number ``end`` and, unless ``kind`` is short, a half of the next one."""
    breaks = kind == "cut"
    head = await upstream.readuntil(b"\r\n\r\n")
    length = _length(head)
    if length is not None:
        body = await upstream.readexactly(length)
        if end is not None:
            body = body[: length // 2]
            head = (
                head
                if breaks
                else head.lower().replace(b"content-length: %d" % length, b"content-length: %d" % len(body))
            )
        writer.write(head + body)
        await writer.drain()
        if end is not None and breaks:
            raise ConnectionError
        return
    writer.write(head)
    number = 0
    while True:
        size = await upstream.readline()
        n = int(size.split(b";")[0], 16)
        data = (await upstream.readexactly(n + 2))[:n]
        if end is not None and (number == end or n == 0):
            half = b"" if kind == "short" else data[: n // 2]
            writer.write(b"%x\r\n%b\r\n" % (len(half), half) if half else b"")
            if not breaks:
                writer.write(b"0\r\n\r\n")
            await writer.drain()
            if breaks:
                raise ConnectionError
            return
        writer.write(b"%x\r\n%b\r\n" % (n, data))
        await writer.drain()
        if n == 0:
            return
        number += 1


@contextmanager
def proxied(upstream: str, plan: Plan = without_faults) -> Iterator[FaultProxy]:
    """Run a proxy in a thread with an event loop of its own."""
    with in_thread(FaultProxy(upstream, plan)) as proxy:
        yield proxy


@asynccontextmanager
async def proxying(upstream: str, plan: Plan = without_faults) -> AsyncIterator[FaultProxy]:
    """Run a proxy in this event loop, as programs in virtual time do."""
    proxy = FaultProxy(upstream, plan)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
