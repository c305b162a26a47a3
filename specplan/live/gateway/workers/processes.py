"""The processes of the workers: starts them, hands them connections, starts those again that end, and ends them all."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from specplan.live.gateway.listening import AFTER_GRACE_S
from specplan.live.gateway.workers.hub import Hub, Link
from theory.errors import CalibrationError, ParameterError, SpecplanError

__all__ = ["Workers"]

_MODULE: Final = "specplan.live.gateway.workers.worker"
_LASTED_S: Final = 10.0
_AGAIN_S, _LONGEST_AGAIN_S = 0.5, 30.0
"""Seconds before a worker that has not lasted so long is started again; doubled each time, up to the second."""
_HANDED_S: Final = 0.1
"""Seconds after which a connection is offered again that no worker could take."""
_LATE_S: Final = 3.0
"""Seconds that workers may take longer to end than uvicorn gives them; then they are killed."""
_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Worker:
    """A process that is under way."""

    def __init__(self, hub: Hub, process: asyncio.subprocess.Process, sock: socket.socket, out: socket.socket) -> None:
        self.process = process
        self.connections = out
        self.ready = asyncio.Event()
        self.error: SpecplanError | None = None
        """Why it could not start."""
        self.turn = 0
        """When it was handed a connection last, in connections."""
        self.link: Link = hub.connect(sock, {"ready": self.ready.set, "fatal": self._fatal})

    def _fatal(self, message: str, wrong: tuple[str, object, str] | None) -> None:
        self.error = CalibrationError(message) if wrong is None else ParameterError(*wrong)

    async def ended(self) -> str:
        """Wait for its end; return how it was."""
        code = await self.process.wait()
        await self.link.closed.wait()
        self.ready.clear()
        self.connections.close()
        if self.error is not None:
            return str(self.error)
        return f"it ended with status {code}" if code >= 0 else f"it was ended by {signal.Signals(-code).name}"


class Workers:
    """The workers of a gateway.

    Parameters
    ----------
    hub : decides for them.
    begin : what they serve, as plain data.
    n : number of workers.
    tell : called with a line for each that ends before its time.
    """

    def __init__(self, hub: Hub, begin: Mapping[str, Any], n: int, *, tell: Callable[[str], None]) -> None:
        self._hub, self._begin, self._n, self._tell = hub, begin, n, tell
        self._workers: list[_Worker] = []
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._n_handed = 0

    async def serve(self, sock: socket.socket, grace_s: float, started: Callable[[], None]) -> None:
        """Serve connections of a socket that listens until a signal; ``started`` is called when all are ready.

        Raises
        ------
        SpecplanError : a worker cannot start.
        """
        self._sock, self._grace_s = sock, grace_s
        sock.setblocking(False)
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            self._loop.add_signal_handler(number, self._stop)
        keeping: list[asyncio.Task[None]] = []
        try:
            first = await asyncio.gather(*(self._start() for _ in range(self._n)))
            await asyncio.gather(*map(self._first, first))
            if not self._stopping.is_set():
                started()
                self._accepts()
            keeping += [asyncio.ensure_future(self._keep(i, one)) for i, one in enumerate(first, 1)]
            await asyncio.gather(*keeping)
        finally:
            for number in numbers:
                self._loop.remove_signal_handler(number)
            if not self._stopping.is_set():
                self._loop.remove_reader(sock)
            for task in keeping:
                task.cancel()
            self._kill()
            await asyncio.gather(*(one.process.wait() for one in self._workers))

    async def _start(self) -> _Worker:
        (ours, theirs), (out, into) = socket.socketpair(), socket.socketpair(type=socket.SOCK_DGRAM)
        out.setblocking(False)
        here = str(Path(__file__).resolve().parents[4])
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
        with theirs, into:
            fds = theirs.fileno(), into.fileno()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", _MODULE, *map(str, fds)),
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=fds,
                start_new_session=True,  # else Ctrl-C were for the workers too
            )
        worker = _Worker(self._hub, process, ours, out)
        self._workers.append(worker)
        worker.link.channel.send("begin", self._begin)
        if self._stopping.is_set():
            worker.link.channel.send("stop")
        return worker

    async def _first(self, worker: _Worker) -> None:
        """Wait until one of the first workers is ready."""
        ready, ended = (asyncio.ensure_future(one) for one in (worker.ready.wait(), worker.process.wait()))
        await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if ended.done() and not self._stopping.is_set():
            how = await worker.ended()
            raise worker.error or CalibrationError(f"a worker cannot start: {how}")
        ended.cancel()

    async def _keep(self, number: int, worker: _Worker) -> None:
        """Start a worker again whenever it has ended, until all stop."""
        again_s = _AGAIN_S
        while True:
            begun = time.monotonic()
            how = await worker.ended()
            self._workers.remove(worker)
            if self._stopping.is_set():
                return
            again_s = _AGAIN_S if time.monotonic() - begun > _LASTED_S else min(2.0 * again_s, _LONGEST_AGAIN_S)
            n = worker.link.n_lost
            lost = f" with {n} answer{'' if n == 1 else 's'}" if n else ""
            self._tell(f"worker {number} (process {worker.process.pid}) is gone{lost}: {how}; starting it again")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), again_s)
                return
            worker = await self._start()

    def _accepts(self) -> None:
        if not self._stopping.is_set():
            self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._loop.remove_reader(self._sock)
            self._loop.call_later(_AGAIN_S, self._accepts)
            return
        self._hand(connection)

    def _hand(self, connection: socket.socket) -> None:
        """Hand a connection to the worker with the fewest answers, of these the one that has waited longest.

        Workers that accept from one socket themselves take all that there are, so that one would get a burst.
        """
        ready = [one for one in self._workers if one.ready.is_set()]
        for worker in sorted(ready, key=lambda one: (len(one.link.places), one.turn)):
            with suppress(OSError):  # it takes no more at the moment, or has just ended
                socket.send_fds(worker.connections, [b"."], [connection.fileno()])
                connection.close()
                self._n_handed += 1
                worker.turn = self._n_handed
                return
        self._loop.call_later(_HANDED_S, self._hand, connection)

    def _stop(self) -> None:
        """Accept no more, and have answers end; at the second signal end at once."""
        if self._stopping.is_set():
            self._kill()
            return
        self._stopping.set()
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for worker in self._workers:
            worker.link.channel.send("stop")
        self._loop.call_later(self._grace_s + AFTER_GRACE_S + _LATE_S, self._kill)

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.process.returncode is None:
                worker.process.kill()
