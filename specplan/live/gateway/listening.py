"""The HTTP server under the application: uvicorn, with bounds on clients that the application does not see.

A request reaches the application when its head is whole, and a piece of an answer leaves it when the system takes it:
without bounds here a client that sends a byte now and then, or reads nothing, would keep its connection, and in the
latter case its place, as long as it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["server_for"]

_MOST_HEAD: Final = 64 * 2**10
"""Bytes of a request's head."""

_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def server_for(app: Starlette, *, client_seconds: float, grace_s: int, log_level: str = "warning") -> uvicorn.Server:
    """Return a server of the application, to be run on sockets.

    Parameters
    ----------
    app : the application.
    client_seconds : a client may take so long to send the head of a request, or to make room for more of its answer,
        s, > 0.
    grace_s : answers in flight may take so long to end when the server is told to stop, s.
    log_level : uvicorn's.
    """

    class Bounded(_BoundedProtocol):
        seconds = client_seconds

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Bounded,
            log_level=log_level,
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=grace_s,
            h11_max_incomplete_event_size=_MOST_HEAD,
        )
    )


class _BoundedProtocol(H11Protocol):
    """Ends connections whose client is too slow: uvicorn waits for ever, or as long as bytes trickle in.

    Between two requests uvicorn's own limit of idle connections holds, until the first byte of the next one.
    """

    seconds = 60.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head, self._room = _Deadline(self), _Deadline(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._head.begin(self._refuse)

    def data_received(self, data: bytes) -> None:
        """Stop waiting when the head is whole; begin to wait with the first bytes of a further one."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._head.begin(self._refuse)
        else:
            self._head.end()

    def pause_writing(self) -> None:
        """Begin to wait for room: the client does not take what was written."""
        super().pause_writing()
        self._room.begin(self.transport.abort)

    def resume_writing(self) -> None:
        """Stop waiting: there is room again."""
        self._room.end()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._head.end()
        self._room.end()
        super().connection_lost(exc)

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
            self.transport.close()


class _Deadline:
    """Does something if a protocol's seconds are over before it is ended."""

    def __init__(self, protocol: _BoundedProtocol) -> None:
        self._protocol = protocol
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, then: Callable[[], None]) -> None:
        """Begin, unless it has begun."""
        if self._timer is None:
            self._timer = self._protocol.loop.call_later(self._protocol.seconds, then)

    def end(self) -> None:
        """End it, if it has begun."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
