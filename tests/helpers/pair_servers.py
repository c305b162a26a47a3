"""Real engines behind HTTP on 127.0.0.1: an OpenAI-compatible server for each model of the bundled pair.

It has what vLLM's server has and the gateway uses: completions (streamed as one chunk, for these engines tell a text
when it is whole), log-probabilities of the replies that judges are asked for, and ``/tokenize``. A client that leaves
aborts its request in the engine.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import uvicorn.server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from calibrate.engines.protocol import Backend, Sampling
from calibrate.engines.protocol import Request as Wanted
from calibrate.running.scorers import DIGITS
from specplan.live.gateway.listening import server_for

__all__ = ["PairServer", "listening", "running"]

REPLIES = (" Yes", " No", *DIGITS)


class _Prompt:
    """asyncio for uvicorn, which looks ten times a second whether it shall end: here two hundred times."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 20.0)


uvicorn.server.asyncio = _Prompt()  # type: ignore[assignment]


@asynccontextmanager
async def running(app: Any, port: int = 0, client_seconds: float = 60.0) -> AsyncIterator[str]:
    """Serve an ASGI application in this loop, as ``specplan serve`` does; yield its URL."""
    with listening(port) as sock:
        server = server_for(app, client_seconds=client_seconds, grace_s=1, log_level="error")
        server.capture_signals = nullcontext  # type: ignore[assignment,method-assign]
        task = asyncio.ensure_future(server.serve(sockets=[sock]))
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


def listening(port: int = 0) -> socket.socket:
    """A socket on 127.0.0.1."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


class PairServer:
    """One engine as a server.

    Attributes
    ----------
    n_aborted : requests for completions whose clients left before the end.
    """

    def __init__(self, engine: Backend, name: str, folder: Path) -> None:
        from transformers import AutoTokenizer

        self.engine = engine
        self.name = name
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.n_aborted = 0
        self.url = ""
        self._routes = [
            Route("/v1/models", self._models),
            Route("/version", self._version),
            Route("/tokenize", self._tokenize, methods=["POST"]),
            Route("/v1/completions", self._completion, methods=["POST"]),
        ]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[PairServer]:
        """Serve in this loop."""
        async with running(Starlette(routes=self._routes)) as url:
            self.url = url
            yield self

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"data": [{"id": self.name, "owned_by": "specplan-tests", "max_model_len": 1024}]})

    async def _version(self, request: Request) -> Response:
        return JSONResponse({"version": "0"})

    async def _tokenize(self, request: Request) -> Response:
        body = await request.json()
        if "prompt" not in body:
            return JSONResponse({"error": {"message": "renders no chats"}}, status_code=404)
        ids = self.tokenizer.encode(body["prompt"], add_special_tokens=bool(body.get("add_special_tokens", True)))
        return JSONResponse({"tokens": ids, "count": len(ids)})

    async def _completion(self, request: Request) -> Response:
        body = await request.json()
        answer = await self._while_connected(request, lambda: self._answer(body))
        if answer is None:
            self.n_aborted += 1
            return Response(status_code=499)
        chunk, usage = answer
        if not body.get("stream"):
            return JSONResponse({"choices": [chunk], "usage": usage})
        events = [{"choices": [chunk]}, {"choices": [], "usage": usage}]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return Response(text, media_type="text/event-stream")

    async def _while_connected(self, request: Request, work: Callable[[], Awaitable[Any]]) -> Any:
        task = asyncio.ensure_future(work())
        gone = asyncio.ensure_future(self._left(request))
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return None
        return task.result()

    async def _left(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    async def _answer(self, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        prompt = body["prompt"]
        if body.get("logprobs"):
            choice = await self.engine.choose(prompt, REPLIES)
            top = {t: math.log(max(p * choice.mass, 1e-30)) for t, p in zip(REPLIES, choice.probabilities, strict=True)}
            logs = {"tokens": [choice.best], "token_logprobs": [top[choice.best]], "top_logprobs": [top]}
            reply = {"text": choice.best, "logprobs": logs, "finish_reason": "length", "stop_reason": None}
            return reply, {"prompt_tokens": choice.n_prompt_tokens, "completion_tokens": 1}
        done = await self.engine.generate(
            Wanted(
                prompt=prompt,
                max_tokens=body.get("max_tokens", 16),
                stop=tuple(body.get("stop") or ()),
                sampling=Sampling(temperature=body.get("temperature", 1.0), top_p=body.get("top_p", 1.0)),
                seed=body.get("seed", 0),
                ignore_eos=bool(body.get("ignore_eos")),
            )
        )
        chunk: dict[str, Any] = {"index": 0, "text": done.text, "token_ids": list(done.token_ids), "logprobs": None}
        chunk |= {"finish_reason": "length" if done.finish == "length" else "stop"}
        chunk |= {"stop_reason": "\n\n" if done.finish == "stop" else None}
        return chunk, {"prompt_tokens": done.n_prompt_tokens, "completion_tokens": done.n_generated}
