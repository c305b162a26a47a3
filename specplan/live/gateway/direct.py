"""Requests over connections of their own: `aiohttp` took half of the CPU time of a gateway that works by steps."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser
from pydantic_core import PydanticSerializationError, to_json

from calibrate.engines.http.addresses import proxy_of
from calibrate.engines.http.wire import HttpConfig, Wire

__all__ = ["DirectWire"]

_IDLE_S: Final = 4.0
"""Longest time without a request after which a connection carries another one: uvicorn, so vLLM, closes after 5 s."""
_CONNECT_S: Final = 20.0
_MOST_UNREAD: Final = 2**20
"""Bytes of an answer that wait for their reader; then the server has to."""
_MOST_HEAD: Final = 2**18


class DirectWire(Wire):
    """A wire that sends requests by itself over plain http; those over TLS or by a proxy are left to `aiohttp`."""

    def __init__(self, config: HttpConfig) -> None:
        super().__init__(config)
        parts = urlsplit(self.api)
        self._direct = parts.scheme == "http" and proxy_of(self.api) is None
        self._host, self._port, self._origin = parts.hostname, parts.port or 80, f"http://{parts.netloc}"
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()

    @asynccontextmanager
    async def answer(self, method: str, url: str, **sent: Any) -> AsyncIterator[Any]:
        """Do as `Wire.answer` does; what is yielded has what is read of an ``aiohttp.ClientResponse``."""
        connection = await self._connection() if self._direct else None
        if connection is None:
            async with super().answer(method, url, **sent) as answer:
                yield answer
            return
        try:
            connection.send(self._request(method, url, **sent))
            async with asyncio.timeout(None) as silence:
                self.heard(silence)
                await connection.head()
                self.heard(silence)
                yield connection, silence
        finally:
            if connection.reusable:
                connection.since = time.monotonic()
                self._idle.append(connection)
            else:
                connection.transport.close()

    def heard(self, silence: asyncio.Timeout) -> None:
        """Begin a silence anew, unless what is left of it is long enough."""
        end = silence.when()
        if end is None or end < asyncio.get_running_loop().time() + self.config.timeout_s:
            super().heard(silence)

    async def close(self) -> None:
        """Close all connections, which aborts requests in flight."""
        for connection in tuple(self._open):
            connection.fail(self._aiohttp.ClientConnectionError("Connection closed"))
            connection.transport.close()
        await super().close()

    async def _connection(self) -> _Connection | None:
        """A connection; None where the server cannot be reached, which `aiohttp` words."""
        now = time.monotonic()
        while self._idle:
            connection = self._idle.pop()
            if connection in self._open and now - connection.since < _IDLE_S:
                return connection
            connection.transport.close()
        made, loop = partial(_Connection, self._open, self._aiohttp), asyncio.get_running_loop()
        try:
            async with asyncio.timeout(min(self.config.timeout_s, _CONNECT_S)):
                return (await loop.create_connection(made, self._host, self._port))[1]
        except TimeoutError as error:
            raise self._aiohttp.ConnectionTimeoutError from error
        except OSError:
            return None

    def _request(self, method: str, url: str, headers: Mapping[str, str], data: bytes = b"", **body: Any) -> bytes:
        if body:
            headers = {**headers, "Content-Type": "application/json"}
            try:
                data = to_json(body["json"])
            except PydanticSerializationError:  # half a surrogate pair, which JSON can escape
                data = json.dumps(body["json"]).encode()
        lines = [f"{method} {url.removeprefix(self._origin)} HTTP/1.1", f"Host: {self._origin[7:]}", "Accept: */*"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(data)}"] if method == "POST" else []
        return "\r\n".join([*lines, "", ""]).encode() + data


class _Connection(asyncio.Protocol):
    """A connection, and the answer to its latest request as far as it has arrived.

    Attributes
    ----------
    status, headers, raw_headers : head of the answer; the status is 0 before.
    content : reads the body: the connection itself.
    since : when the latest answer ended, s on the monotonic clock.
    """

    transport: asyncio.Transport

    def __init__(self, connections: set[_Connection], errors: Any) -> None:
        self._connections = connections
        self._errors = errors
        self.content = self
        self.since = 0.0
        self._waits: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._is_paused = self._whole = False
        self.status, self.headers = 0, dict[str, str]()

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._parser = HttpResponseParser(self)
        self.status, self.headers, self.raw_headers = 0, dict[str, str](), list[tuple[bytes, bytes]]()
        self._data, self._n_head, self._n_body, self._stays, self._whole = bytearray(), 0, 0, False, False
        self.transport.write(request)

    @property
    def reusable(self) -> bool:
        """Whether all of the answer has been read, and another request may follow."""
        return self._whole and self._stays and not self._data and self._error is None

    async def head(self) -> None:
        """Wait for the head of the answer."""
        while not self.status:
            await self._more()

    async def readany(self) -> bytes:
        """Return what has arrived of the body, if necessary after a wait; at the end nothing."""
        while not (self._data or self._whole):
            await self._more()
        data, self._data = bytes(self._data), bytearray()
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        return data

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        self._waits = asyncio.get_running_loop().create_future()
        await self._waits

    def _wake(self) -> None:
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)

    def fail(self, error: Exception) -> None:
        """End the answer by an error, unless it is complete."""
        self._error = self._error or error
        self._wake()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of TCP
        """Be open."""
        self.transport = transport
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Parse a part of the answer."""
        if self._whole or self._error is not None:
            self.transport.close()  # no request is under way
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self.fail(self._errors.ClientPayloadError(str(error)))
        self._n_head += 0 if self.status else len(data)
        if self._n_head > _MOST_HEAD:
            self.fail(self._errors.ClientPayloadError("too large a head"))
        if len(self._data) > _MOST_UNREAD and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self.raw_headers.append((name, value))
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take the status; one below 200 announces another head."""
        status = self._parser.get_status_code()
        self.status, self._stays = status if status >= 200 else 0, self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        self._data += data
        self._n_body += len(data)

    def on_message_complete(self) -> None:
        """Know the end of the body."""
        self._whole = self.status > 0

    def connection_lost(self, error: Exception | None) -> None:
        """End the answer, in the words of `aiohttp` where it is not complete."""
        self._connections.discard(self)
        words, length = self._errors.http_exceptions, self.headers.get("content-length", "")
        if self.status and error is None and not length and "transfer-encoding" not in self.headers:
            self._whole = True  # it ends with the connection
            self._wake()
        elif self.status:
            rest = words.TransferEncodingError("Not enough data to satisfy transfer length header.")
            if length:
                left = f"(received {self._n_body} of {length} bytes)"
                rest = words.ContentLengthError(f"Not enough data to satisfy content length header {left}.")
            why = f"Response payload is not completed: {rest!r}"
            self.fail(self._errors.ClientPayloadError(why if error is None else f"{why}. {error!r}"))
        elif isinstance(error, OSError):
            self.fail(self._errors.ClientOSError(*error.args))
        else:
            self.fail(self._errors.ServerDisconnectedError())
