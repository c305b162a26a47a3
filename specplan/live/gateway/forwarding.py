"""Forwards what step-level methods cannot serve to the target's server, and streams its answer back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import CLIENT_KEY
from specplan.live.gateway.refusals import Refusal, upstream_failed

if TYPE_CHECKING:
    from starlette.types import Send

__all__ = ["Forwarding"]

_MOST_BYTES: Final = 512 * 2**20


class Forwarding:
    """Forwards requests to a server.

    Parameters
    ----------
    engine : engine whose server answers.
    timeout_s : longest silence of the server, s.
    """

    def __init__(self, engine: OpenAIEngine, timeout_s: float) -> None:
        import httpx

        self._engine = engine
        self._httpx = httpx
        local = engine.config.host.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 20.0), pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=not local,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def forward(self, path: str, body: bytes | dict[str, Any], send: Send) -> None:
        """Forward a request, and send its answer to the client; cancelling closes the connection to the server.

        Parameters
        ----------
        path : path of the request, with its slash.
        body : JSON, or what it is made of.
        send : ASGI's function that sends to the client.

        Raises
        ------
        Refusal : the server cannot be reached, or broke off before it answered.
        """
        key = CLIENT_KEY.get()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        wire = self._engine.wire
        url = f"{wire.api}{path.removeprefix('/v1')}" if path.startswith("/v1/") else f"{wire.root}{path}"
        begun = False
        try:
            async with self._client.stream("POST", url, content=data, headers=headers) as response:
                kind = response.headers.get("content-type", "application/json")
                head = [(b"content-type", kind.encode("latin-1")), (b"x-specplan-method", b"forwarded")]
                if "retry-after" in response.headers:
                    head.append((b"retry-after", response.headers["retry-after"].encode("latin-1")))
                await send({"type": "http.response.start", "status": response.status_code, "headers": head})
                begun, n_bytes = True, 0
                async for part in response.aiter_bytes():
                    n_bytes += len(part)
                    if n_bytes > _MOST_BYTES:
                        break
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        except self._httpx.TransportError as error:
            if begun:
                raise upstream_failed(f"the target's server broke off: {type(error).__name__}") from None
            raise _unreachable(error, self._engine) from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _unreachable(error: Exception, engine: OpenAIEngine) -> Refusal:
    return upstream_failed(f"target at {engine.wire.api}: {type(error).__name__} before it answered")
