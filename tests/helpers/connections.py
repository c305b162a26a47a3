"""What the servers of the tests share: they take connections on 127.0.0.1, and end with every one of them.

asyncio's own servers may leave a connection open that they accept while they close: its task is cancelled before it has
run a line, or, with Python 3.11, the server refuses the transport that it has just made.
"""

import asyncio
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

Talk = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What is done with a request, given its head."""


class ConnectionServer(ABC):
    """A server whose connections are tasks; belongs to the event loop in which it is started.

    Attributes
    ----------
    url : where it listens; the same again if it is stopped and started anew.
    """

    def __init__(self) -> None:
        self.url = ""
        self.loop: asyncio.AbstractEventLoop
        self._port = 0
        self._listener: socket.socket | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one client; the connection is cut when this ends. Clients may leave at any time."""

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.loop.add_reader(self._listener, self._accept, self._listener)

    async def stop(self) -> None:
        """Be gone at once, with all connections."""
        if self._listener is not None:
            self.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # a transport closes its socket in the next turn of the loop

    def _accept(self, listener: socket.socket) -> None:
        """Take all that wait, at once: requests that were sent together shall begin together."""
        with suppress(BlockingIOError, ConnectionAbortedError):
            while True:
                accepted, _ = listener.accept()
                task = self.loop.create_task(self._talk(accepted))
                self._connections.add(task)
                task.add_done_callback(partial(_close, accepted))  # also where it is cancelled before its first line
                task.add_done_callback(self._connections.discard)

    async def _talk(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)  # else a token waits 40 ms for the one before
        reader, writer = await asyncio.open_connection(sock=accepted)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self.connection(reader, writer)
        finally:
            writer.transport.abort()


def _close(accepted: socket.socket, _: asyncio.Task[None]) -> None:
    accepted.close()


class Relay(ConnectionServer):
    """Passes on what clients and a server say to each other; it can be stopped in the server's place."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._upstream = urlsplit(upstream)

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, to_server = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        ways = [asyncio.ensure_future(_pass_on(*way)) for way in ((reader, to_server), (upstream, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_server.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what one side says, until it has said all."""
    while said := await reader.read(2**16):
        writer.write(said)
        await writer.drain()


S = TypeVar("S", bound=ConnectionServer)


@contextmanager
def in_thread(server: S) -> Iterator[S]:
    """Run a server in a thread with an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(60)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[str]:
    """Run a server in this loop that talks so with each client, once; yield its address."""

    class Talking(ConnectionServer):
        async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await talk(await reader.readuntil(b"\r\n\r\n"), reader, writer)
            await writer.drain()
            writer.write_eof()
            await reader.read()  # what was written is not lost

    server = Talking()
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


async def started(server: ConnectionServer) -> None:
    """Start a server of another loop again, where it was."""
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(server.start(), server.loop))


async def stopped(server: ConnectionServer) -> None:
    """Stop a server that runs in another loop."""
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(server.stop(), server.loop))
