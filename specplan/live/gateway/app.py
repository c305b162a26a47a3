"""The gateway as an ASGI application: routes, bounds, disconnects and errors as JSON."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from calibrate.engines.http.waits import Wait
from calibrate.engines.http.wire import CLIENT_KEY, RefusedError
from specplan.live.gateway.answering import Answering
from specplan.live.gateway.chat import ChatTemplate
from specplan.live.gateway.replies import DONE, Reply, StopCutter, event
from specplan.live.gateway.requests import AnswerRequest, Kind, Refusal, parse_body, unknown_model, upstream_failed
from theory.errors import SpecplanError

if TYPE_CHECKING:
    import aiohttp

__all__ = ["application"]

_PATHS: Final[Mapping[Kind, str]] = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
_PASSED_ON: Final = ("/tokenize", "/detokenize", "/v1/responses")
"""Paths whose requests go to the target's server as they are."""
_HEADERS: Final = (b"content-type", b"retry-after")
"""Headers of the server's answer that the client of a forwarded request gets."""
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_STOPPING: Final = Refusal(
    "the gateway is being stopped, and this answer has not ended in time (--grace): ask again",
    status=503,
    kind="server_error",
    code="service_unavailable",
    wait_s=1,
)

Work = Callable[["_Sender"], Coroutine[Any, Any, None]]
"""Writes an answer."""


class _Gateway:
    """State and methods that the routes share."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.limits = answering.limits
        self.observer = answering.observer
        self.works: set[asyncio.Task[None]] = set()
        """Answers on their way."""
        self.stops = False
        """Whether they are being broken off."""
        self.template = ChatTemplate(answering.servers.target)
        self.model = answering.servers.target.model

    async def body(self, request: Request) -> bytes:
        """Return the body of a request; refuse it if it is too large or too slow."""
        data = bytearray()
        try:
            async with asyncio.timeout(self.limits.client_seconds):
                async for part in request.stream():
                    data += part
                    if len(data) > (most := self.limits.body_bytes):
                        rule = f"the body has more than {most} bytes: shorten it, or start the gateway with a larger"
                        raise Refusal(f"{rule} --max-body", status=413, code="request_too_large")
        except TimeoutError:
            rule = f"the body took longer than {self.limits.client_seconds:g} s to arrive: send it again"
            raise Refusal(rule, status=408, code="request_timeout") from None
        return bytes(data)

    async def serve(self, request: Request, kind: Kind | None = None) -> Response:
        """Return a response that generates an answer while it is sent; without a kind, it forwards the request."""
        stack, path, limits, answering = ExitStack(), request.url.path, self.limits, self.answering
        try:
            data = await self.body(request)
            if kind is None:
                work = partial(self._forwarded, path, data)
            else:
                defaults, most = answering.servers.defaults, limits.answer_tokens
                parsed = parse_body(data, kind, model=self.model, defaults=defaults, max_tokens=most)
                work = partial(self._written, parsed, stack)
            if path.startswith("/v1/"):
                stack.callback(await answering.control.place())
        except ClientDisconnect:
            return Response(status_code=400)
        except Refusal as refusal:
            self.observer.count("requests_refused", str(refusal.status))
            return _refused(refusal)
        key = _key(request.headers.get("authorization", ""))
        return _Live(stack, partial(self._sent, work, key), self.works)

    def break_off(self) -> None:
        """End all answers with an error that says why."""
        self.stops = True
        for work in self.works:
            work.cancel()

    async def _sent(self, work: Work, key: str, sender: _Sender) -> None:
        """Send what ``work`` writes, or the error that it ends with."""
        CLIENT_KEY.set(key)  # for this task and those that it starts
        try:
            await work(sender)
        except (SpecplanError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self.stops:
                raise  # the client has left
            refusal = _STOPPING if isinstance(error, asyncio.CancelledError) else _refusal_of(error)
            self.observer.count("requests_refused", str(refusal.status))
            await sender.fail(refusal)

    async def _written(self, request: AnswerRequest, stack: ExitStack, sender: _Sender) -> None:
        prompt: str | None = request.prompt
        if not request.whole and request.kind == "chat":
            prompt = await self.template.prompt(request.messages, request.template_kwargs)
        if request.whole or prompt is None:
            self.observer.count("requests_forwarded", request.cause)
            body = {**request.body, "model": self.model, "temperature": request.temperature, "top_p": request.top_p}
            await self._forwarded(_PATHS[request.kind], body, sender)
            return
        cutter, texts, n_sent = StopCutter(request.stop), list[str](), 0
        async with self.answering.answer(request, prompt) as (answer, pieces):
            reply = Reply(request, self.model, answer.n_prompt)
            async for written in pieces:
                data = b""
                for piece, n_sent in written:
                    text = cutter.take(piece)
                    if not request.stream:
                        texts.append(text)
                    elif text:
                        data += reply.part(text, n_sent)
                    if cutter.stopped_by:
                        break
                if request.stream:
                    await sender.stream(reply, data)
                if cutter.stopped_by:
                    break
        stack.close()  # its place is free before its client learns that it has ended, and asks again
        finish, n_tokens = ("stop", n_sent) if cutter.stopped_by else (answer.finish, answer.n_tokens)
        texts.append(cutter.rest())
        if request.include_usage or not request.stream:
            reply.n_prompt = await self.answering.prompt_tokens(answer)
        if not request.stream:
            await sender.whole(reply.whole("".join(texts), finish, cutter.stopped_by, n_tokens), answer.methods)
            return
        if texts[-1]:
            await sender.stream(reply, reply.part(texts[-1], n_tokens))
        await sender.stream(reply, reply.end(finish, cutter.stopped_by, n_tokens))
        await sender.end()

    async def _forwarded(self, path: str, body: bytes | dict[str, Any], sender: _Sender) -> None:
        """Forward a request, and send the server's answer; cancelling closes the connection to the server."""
        wire, begun = self.answering.servers.target.wire, False
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"{wire.api}{path.removeprefix('/v1')}" if path.startswith("/v1/") else f"{wire.root}{path}"

        async def pass_on(response: aiohttp.ClientResponse, silence: Wait) -> None:
            nonlocal begun
            head = [(name, value) for name, value in response.raw_headers if name.lower() in _HEADERS]
            head.append((b"x-specplan-method", b"forwarded"))
            await sender.raw({"type": "http.response.start", "status": response.status, "headers": head})
            begun = True
            silence.again()
            while part := await response.content.readany():
                silence.pause()  # while the client takes what there is, the server is not silent
                await sender.raw({"type": "http.response.body", "body": part, "more_body": True})
                silence.again()

        try:
            async with asyncio.timeout(self.limits.answer_seconds) as whole:
                await wire.exchange("POST", url, pass_on, data)
                await sender.end()
        except wire.broken as error:
            if whole.expired():
                what = f"took longer than {self.limits.answer_seconds:g} s (--max-seconds)"
            elif begun:
                what = f"broke off: {type(error).__name__}"
            else:
                raise upstream_failed(f"target at {wire.api}: {type(error).__name__} before it answered") from None
            raise upstream_failed(f"the target's server {what}") from None


class _Sender:
    """Sends an answer, and records whether it has begun; ``direct`` sends past the layers of `_Application`."""

    def __init__(self, send: Send, direct: Send) -> None:
        self._send = send
        self._direct = direct
        self._begun = self._streams = False

    async def raw(self, message: Any) -> None:
        """Send an ASGI message as it is."""
        self._begun = True
        self._streams = self._streams or any(b"event-stream" in v for _, v in message.get("headers", ()))
        await self._send(message)

    async def stream(self, reply: Reply, data: bytes) -> None:
        """Send a piece of a stream, which begins with the first of them: what fails before has a status of its own."""
        if not self._begun:
            head = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
            await self.raw({"type": "http.response.start", "status": 200, "headers": head})
            data = reply.begin() + data
        if data:
            await self._direct({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """End a stream."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(self, answer: Mapping[str, Any], methods: tuple[str, ...]) -> None:
        """Send an answer in one piece."""
        response = JSONResponse(dict(answer), headers={"x-specplan-method": "; ".join(methods)})
        await response({"type": "http"}, _nothing, self._send)

    async def fail(self, refusal: Refusal) -> None:
        """Send an error: as the response, or as an event of a stream that has begun."""
        if not self._begun:
            await _refused(refusal)({"type": "http"}, _nothing, self._send)
            return
        if self._streams:
            await self._direct({"type": "http.response.body", "body": event(refusal.plain()) + DONE, "more_body": True})
        await self.end()


class _Live(Response):
    """A response whose work is cancelled when the client disconnects."""

    def __init__(self, stack: ExitStack, work: Work, works: set[asyncio.Task[None]]) -> None:
        super().__init__()
        self._stack = stack
        self._work = work
        self._works = works

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do the work until it is complete or the client disconnects."""
        with self._stack:
            work = asyncio.create_task(self._work(_Sender(send, scope["direct"])))
            self._works.add(work)
            work.add_done_callback(self._works.discard)
            gone = asyncio.ensure_future(_left(receive))
            try:
                await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                work.cancel()  # has no effect on a task that is done
                gone.cancel()
                await asyncio.wait((work, gone))
        if not work.cancelled():
            error = work.exception()
            if error is not None and not isinstance(error, OSError):  # the client disconnected between two pieces
                raise error


class _Application(Starlette):
    """Starlette; of what is sent, its layers look at the first message only, and ``direct`` takes the others."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["direct"] = send
        await super().__call__(scope, receive, send)


async def _left(receive: Receive) -> None:
    """Wait until the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> Any:
    return {"type": "http.disconnect"}


def _key(header: str) -> str:
    """The key of an Authorization header; empty if it has none, or one that cannot be forwarded."""
    scheme, _, key = header.partition(" ")
    key = key.strip()
    return key if scheme.lower() == "bearer" and key.isascii() and key.isprintable() else ""


def _refusal_of(error: SpecplanError) -> Refusal:
    """Turn an error of a server into a refusal of the gateway; a refusal is one already."""
    if isinstance(error, Refusal):
        return error
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, RefusedError):
        cause = cause.__cause__
    if cause is None:
        return upstream_failed(str(error))
    if cause.status in (401, 403):
        return Refusal(str(error), status=401, kind="authentication_error", code="invalid_api_key")
    if cause.status == 429:
        wait = 1 if cause.wait_s is None else math.ceil(cause.wait_s)
        return Refusal(str(error), status=429, kind="rate_limit_error", code="too_many_requests", wait_s=wait)
    if cause.status in (400, 413, 422):
        return Refusal(str(error), status=400, code="context_length_exceeded" if "context" in str(error) else None)
    return upstream_failed(str(error))


def _refused(refusal: Refusal) -> Response:
    headers = {} if refusal.wait_s is None else {"retry-after": str(refusal.wait_s)}
    return JSONResponse(refusal.plain(), status_code=refusal.status, headers=headers)


def application(answering: Answering) -> Starlette:
    """Return the application; ``app.state.break_off()`` ends all answers with an error that says why."""
    engine = answering.servers.target
    gateway, observer = _Gateway(answering), answering.observer

    card: dict[str, Any] = {"id": engine.model, "object": "model", "created": 0, "owned_by": "specplan"}
    limit = answering.servers.context
    card |= {"max_model_len": limit} if limit < math.inf else {}

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [card]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        return JSONResponse(card) if name == engine.model else _refused(unknown_model(name, engine.model))

    async def health(request: Request) -> Response:
        return JSONResponse(await observer.health())

    async def page(request: Request) -> Response:
        return PlainTextResponse(await observer.page(), media_type=_METRICS_TYPE)

    async def failed(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)
        what = "there is nothing at this path" if status == 404 else "this path takes another method"
        what = what if status in (404, 405) else "internal error"
        return _refused(Refusal(f"{request.method} {request.url.path}: {what}", status=status))

    app = _Application(
        routes=[
            *(Route(path, partial(gateway.serve, kind=kind), methods=["POST"]) for kind, path in _PATHS.items()),
            *(Route(path, gateway.serve, methods=["POST"]) for path in _PASSED_ON),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route("/metrics", page),
            Route("/health", health),
        ],
        exception_handlers={404: failed, 405: failed, 500: failed},
    )
    app.state.break_off = gateway.break_off
    return app
