"""The HTTP server under the application: uvicorn, with time limits on slow clients.

A request reaches the application when its head is complete, and a piece of an answer leaves it when the system takes
it. Without limits here, a client that sends a byte now and then, or reads nothing, would keep its connection, and in
the latter case its place among the answers in flight, for ever.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["AFTER_GRACE_S", "collect_seldom", "server_for"]

AFTER_GRACE_S: Final = 5
"""Longest time that clients may take to read the end of broken-off answers, s."""

_MOST_HEAD: Final = 64 * 2**10
"""Most bytes of a request's head, and of what else it has between two parts of its body."""

_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def server_for(app: Starlette, *, client_seconds: float, grace_s: int) -> uvicorn.Server:
    """Return a server of the application, which is run on sockets and handles no signals.

    Parameters
    ----------
    app : the application.
    client_seconds : longest time in which a client sends the head of a request, or reads more of its answer, s, > 0.
    grace_s : longest time until requests are cancelled after a signal to stop, s.
    """

    class Bounded(_BoundedProtocol):
        seconds = client_seconds

    config = uvicorn.Config(
        app,
        http=Bounded,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=grace_s,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """Handles no signals: they are for the command, which has more to do at its end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def collect_seldom() -> None:
    """Have the garbage collector look seldom at what a gateway has in work, and at what stays never."""
    gc.collect()
    gc.freeze()  # what stays, modules above all, is not looked through again and again
    gc.set_threshold(10_000, 20, 20)  # by the default requests that are under way are looked through often


class _BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose client is too slow or sends too large a head; uvicorn has no such limits here.

    Between two requests uvicorn's own limit of idle connections holds, until the first byte of the next one.
    """

    seconds = 60.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head, self._room = _Deadline(self), _Deadline(self)
        self._n_loose = 0
        """Bytes since the latest part of a body, or end of a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Start the deadline of the first head."""
        super().connection_made(transport)
        self._head.begin(self._refuse)

    def data_received(self, data: bytes) -> None:
        """Stop the deadline when the head is complete; start it with the first bytes of the next one."""
        self._n_loose += len(data)
        super().data_received(data)
        if self._n_loose > _MOST_HEAD and not self.transport.is_closing():
            self.send_400_response("Too large a head.")
        elif self.cycle is None or self.cycle.response_complete:
            self._head.begin(self._refuse)
        else:
            self._head.end()

    def on_headers_complete(self) -> None:
        """Refuse a head that is too large, but came at once with its end."""
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > _MOST_HEAD:
            raise ValueError("too large a head")  # uvicorn answers 400
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count anew from this part of a body on."""
        self._n_loose = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count anew from the end of a request on."""
        self._n_loose = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Start the deadline of reading: the client does not read its answer."""
        super().pause_writing()
        self._room.begin(self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the deadline: the client reads again."""
        self._room.end()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both deadlines."""
        self._head.end()
        self._room.end()
        super().connection_lost(exc)

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            self.transport.close()


class _Deadline:
    """Calls a function if it is not ended within the protocol's seconds."""

    def __init__(self, protocol: _BoundedProtocol) -> None:
        self._protocol = protocol
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, then: Callable[[], None]) -> None:
        """Start the timer unless it runs."""
        if self._timer is None:
            self._timer = self._protocol.loop.call_later(self._protocol.seconds, then)

    def end(self) -> None:
        """Cancel the timer if it runs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
