"""Applications on 127.0.0.1, served as ``specplan serve`` does."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn.server

from specplan.live.gateway.listening import server_for


class _Prompt:
    """asyncio for uvicorn, which looks ten times a second whether it shall end: here two hundred times."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 20.0)


uvicorn.server.asyncio = _Prompt()  # type: ignore[assignment]


@asynccontextmanager
async def running(app: Any, client_seconds: float = 60.0) -> AsyncIterator[str]:
    """Serve an ASGI application in this loop, as ``specplan serve`` does; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = server_for(app, client_seconds=client_seconds, grace_s=1)
        task = asyncio.ensure_future(server.serve(sockets=[sock]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
