"""A worker of a gateway: ``python -m specplan.live.gateway.workers.worker FD FD``, with two sockets inherited.

The first is its channel to the hub, from which it reads what it serves; over the second the hub hands it connections of
clients. It ends when the hub says so, or when the channel is closed, since then the hub has ended.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from specplan.live.gateway.control import Limits
from specplan.live.gateway.listening import AFTER_GRACE_S, collect_seldom, server_for
from specplan.live.gateway.plans import parse_plan
from specplan.live.gateway.servers import Endpoints, models_of, opened
from specplan.live.gateway.workers.channel import Channel
from specplan.live.gateway.workers.remote import Remote
from theory.errors import ParameterError, SpecplanError

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

__all__ = ["Worker", "main"]

_LAST_S: Final = 2.0
"""Seconds in which answers say to their clients that the hub has ended."""


class Worker:
    """The process.

    Parameters
    ----------
    sock : its channel.
    connections : where connections of clients come from.
    """

    def __init__(self, sock: socket.socket, connections: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = Channel(sock, self._take, self._alone)
        connections.setblocking(False)
        self._connections = connections
        self._begins: asyncio.Future[Mapping[str, Any]] = self._loop.create_future()
        self._early: list[Sequence[Any]] = []
        """What the hub said before there was anything to answer."""
        self._remote: Remote | None = None
        self._app: Starlette | None = None
        self._server: uvicorn.Server | None = None
        self._accepting: set[asyncio.Task[Any]] = set()
        self._grace_s = 0.0

    async def run(self) -> None:
        """Serve until the hub says to stop."""
        try:
            await self._serve(await self._begins)
        except SpecplanError as error:
            wrong = (error.name, error.value, error.rule) if isinstance(error, ParameterError) else None
            self._channel.send("fatal", str(error), wrong)
        finally:
            self._channel.close()

    async def _serve(self, begin: Mapping[str, Any]) -> None:
        limits, endpoints = Limits(**begin["limits"]), Endpoints(**begin["endpoints"])
        plan = parse_plan(begin["plan"], "the plan").servable(endpoints.helpers, trusted=begin["trust_plan"])
        settings, self._grace_s = begin["settings"], limits.grace_s
        profiled = settings is not None
        async with opened(endpoints, models_of(endpoints, plan, settings or {}), plan, timed=profiled) as servers:
            measures = not begin["trust_plan"]
            remote = self._remote = Remote(self._channel, plan, limits, measures=measures, profiled=profiled)
            remote.take(self._early)
            app = self._app = remote.application(servers)
            most_s = math.ceil(limits.grace_s) + AFTER_GRACE_S
            server = self._server = server_for(app, client_seconds=limits.client_seconds, grace_s=most_s)
            collect_seldom()
            serving = asyncio.ensure_future(server.serve(sockets=[]))
            while not server.started:
                await asyncio.sleep(0.01)
            self._loop.add_reader(self._connections, self._accept)
            self._channel.send("ready")
            await serving

    def _take(self, events: list[Sequence[Any]]) -> None:
        for name, *arguments in events:
            if name == "begin":
                self._begins.set_result(*arguments)
            elif name == "stop":
                self._stop()
            elif self._remote is not None:
                self._remote.take([(name, *arguments)])
            else:
                self._early.append((name, *arguments))

    def _accept(self) -> None:
        """Serve connections that the hub has accepted."""
        server = self._server
        assert server is not None
        try:
            _, fds, _, _ = socket.recv_fds(self._connections, 1, 16)
        except BlockingIOError:
            return
        if not fds:
            self._loop.remove_reader(self._connections)

        def protocol() -> asyncio.Protocol:
            make: Any = server.config.http_protocol_class
            made: asyncio.Protocol = make(
                config=server.config, server_state=server.server_state, app_state=server.lifespan.state
            )
            return made

        for fd in fds:
            task = self._loop.create_task(self._loop.connect_accepted_socket(protocol, socket.socket(fileno=fd)))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    def _stop(self) -> None:
        if self._app is None or self._server is None:
            os._exit(0)
        self._loop.remove_reader(self._connections)
        self._loop.call_later(self._grace_s, self._app.state.break_off)
        self._server.should_exit = True

    def _alone(self) -> None:
        """End, as the hub has."""
        if self._app is None:
            os._exit(1)
        self._app.state.break_off()
        self._loop.call_later(_LAST_S, os._exit, 1)


def main() -> None:
    """Run a worker; signals are for the hub, which ends it."""
    from uvicorn.loops.auto import auto_loop_factory

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sock, connections = (socket.socket(fileno=int(fd)) for fd in sys.argv[1:])

    async def run() -> None:
        await Worker(sock, connections).run()

    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(run())


if __name__ == "__main__":
    main()
