"""Forwards what step-level methods cannot serve to the target's server, and streams its answer back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import CLIENT_KEY
from specplan.live.gateway.refusals import upstream_failed

if TYPE_CHECKING:
    from starlette.types import Send

__all__ = ["forward"]

_MOST_BYTES: Final = 512 * 2**20
_PASSED_ON: Final = (b"content-type", b"retry-after")
"""Headers of the server's answer that the client gets."""


async def forward(engine: OpenAIEngine, path: str, body: bytes | dict[str, Any], send: Send) -> None:
    """Forward a request, and send its answer to the client; cancelling closes the connection to the server.

    Parameters
    ----------
    engine : engine whose server answers.
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
    wire = engine.wire
    url = f"{wire.api}{path.removeprefix('/v1')}" if path.startswith("/v1/") else f"{wire.root}{path}"
    begun, n_bytes = False, 0
    try:
        async with wire.answer("POST", url, data=data, headers=headers) as (response, silence):
            head = [(name, value) for name, value in response.raw_headers if name.lower() in _PASSED_ON]
            head.append((b"x-specplan-method", b"forwarded"))
            await send({"type": "http.response.start", "status": response.status, "headers": head})
            begun = True
            while part := await response.content.readany():
                n_bytes += len(part)
                if n_bytes > _MOST_BYTES:
                    break
                silence.reschedule(None)  # while the client takes what there is, the server is not silent
                await send({"type": "http.response.body", "body": part, "more_body": True})
                wire.heard(silence)
    except wire.broken as error:
        if begun:
            raise upstream_failed(f"the target's server broke off: {type(error).__name__}") from None
        raise upstream_failed(f"target at {wire.api}: {type(error).__name__} before it answered") from None
    await send({"type": "http.response.body", "body": b"", "more_body": False})
