"""Events between two processes, as lines of JSON on a pair of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json

__all__ = ["Channel"]

_LATE_S: Final = 0.01
"""Longest time that an event waits for others, s: a line for each token takes as long as passing the token on."""
_READ: Final = 2**20


class Channel:
    """One end; belongs to the event loop in which it is made. An event is a name and what belongs to it, as plain data.

    It writes past the transports of the loop, so that what is sent at once is with the other process when the call
    returns, before anything that this process says to its clients next.

    Parameters
    ----------
    sock : the end.
    take : called with the events that came together.
    closed : called when the other end is closed, as by the end of its process.
    """

    def __init__(
        self, sock: socket.socket, take: Callable[[list[Sequence[Any]]], None], closed: Callable[[], None]
    ) -> None:
        sock.setblocking(False)
        self._sock, self._take, self._closed = sock, take, closed
        self._loop = asyncio.get_running_loop()
        self._events: list[Sequence[Any]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._unsent, self._unread = bytearray(), b""
        self._full = False
        """Whether the other end takes no more at the moment."""
        self._loop.add_reader(sock, self._read)

    def send(self, *event: Any, at_once: bool = True) -> None:
        """Send an event after those before, or have it wait for others."""
        self._events.append(event)
        if at_once:
            self._flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(_LATE_S, self._flush)

    def close(self) -> None:
        """Send what waits, and close this end."""
        if self._sock.fileno() >= 0:
            self._flush()
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._events and self._sock.fileno() >= 0:
            self._unsent += to_json(self._events, fallback=str) + b"\n"
            self._events = []
            if not self._full:
                self._write()

    def _write(self) -> None:
        try:
            del self._unsent[: self._sock.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # the other end is closed, which reading says
            self._unsent.clear()
        if self._full != bool(self._unsent):
            self._full = not self._full
            if self._full:
                self._loop.add_writer(self._sock, self._write)
            else:
                self._loop.remove_writer(self._sock)

    def _read(self) -> None:
        try:
            data = self._sock.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self._closed()
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._take(from_json(line))
