"""Requests to an OpenAI-compatible server: time limits, retries where they are safe, and one-line errors.

The API key comes from an environment variable and is used in the Authorization header only: messages contain the
variable's name, messages of a server are shown without the key, and the text of a 401 or 403 is not shown, because
servers quote keys in it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic_core import to_json

from calibrate.engines.http.addresses import proxy_of, split_endpoint
from calibrate.engines.http.stream import checked, fields
from calibrate.engines.http.waits import Wait, Waits
from theory.errors import CalibrationError, ParameterError, SchemaError, check_integers, shown

if TYPE_CHECKING:
    import aiohttp

__all__ = ["CLIENT_KEY", "BrokenOffError", "EngineTimeoutError", "HttpConfig", "OnEvent", "RefusedError", "Wire"]

T = TypeVar("T")
Read: TypeAlias = Callable[["aiohttp.ClientResponse", Wait], Awaitable[T]]
"""Reads an answer within its silence."""
OnEvent = Callable[[dict[str, Any], float], bool]
"""Receives an event and its arrival time; returns whether the stream may be closed."""

CLIENT_KEY: ContextVar[str | None] = ContextVar("CLIENT_KEY", default=None)
"""Key of requests in this context in place of the configured key; empty: no key; None: the configured key.
A gateway forwards its clients' keys with it; a context ends with the request that it was created for."""

_RETRIED: Final = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S: Final = 60.0
_MOST_BYTES: Final = 16 * 2**20
"""Largest page, and largest event of a stream, bytes."""
_MOST_STREAMED: Final = 512 * 2**20
"""Largest streamed answer, bytes: a million tokens with their log-probabilities."""
_TOO_LONG: Final = (
    "context length",
    "context_length_exceeded",
    "maximum input length",
    "longer than the maximum model length",
    "too long",
    "must have less than",
    "must be <=",
)
"""Parts of the errors of vLLM, SGLang, TGI, llama.cpp and OpenAI for a prompt that is too long."""


class BrokenOffError(CalibrationError):
    """A transient error of a server: a broken connection, a cut answer, or an unreachable server."""

    transient = True


class EngineTimeoutError(BrokenOffError, TimeoutError):
    """A server was silent for longer than allowed."""


class RefusedError(CalibrationError):
    """A server answered with an HTTP error: its code, its message, and the requested wait, s."""

    def __init__(self, message: str, *, status: int, detail: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail
        self.wait_s = wait_s
        self.transient = status in _RETRIED
        """Whether the same request may succeed later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """A model on a server, with time limits and retries of requests."""

    name: str
    """Short name for messages, e.g. ``"target"``."""

    url: str
    """``http(s)://host[:port][/path]``, the root of the API with or without ``/v1``."""

    model: str = ""
    """Name of the model; empty: the only one that the server offers."""

    api_key_env: str = ""
    """Environment variable that holds the key; empty: no key is sent."""

    timeout_s: float = 120.0
    """Longest silence of the server, before the first byte and between two of them, s."""

    retries: int = 4
    """Most retries of a request after a failure before the first byte of its answer."""

    backoff_s: float = 0.25
    """Wait before the first retry, doubled for each further retry, s; the server's Retry-After has precedence."""

    def __post_init__(self) -> None:
        split_endpoint(self.url)
        if not self.timeout_s > 0.0 or self.timeout_s == float("inf"):
            raise ParameterError("timeout", self.timeout_s, "must be a finite number of seconds > 0")
        check_integers(self, retries=0)
        key = os.environ.get(self.api_key_env, "")
        if self.api_key_env and not key:
            named = self.api_key_env if self.api_key_env.isidentifier() else "(hidden)"  # a key by mistake?
            raise ParameterError("api_key_env", named, "must name an environment variable that is set")
        if not (key.isascii() and key.isprintable()):
            raise ParameterError("api_key_env", self.api_key_env, "must hold a key of printable ASCII characters")

    @classmethod
    def of(cls, name: str, endpoint: str, **options: Any) -> Self:
        """Create a configuration from ``URL[#model]``."""
        url, model = split_endpoint(endpoint)
        return cls(name=name, url=url, model=model, **options)

    @property
    def host(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc


class Wire:
    """An HTTP client for one server."""

    def __init__(self, config: HttpConfig) -> None:
        try:
            import aiohttp
        except ImportError:
            raise CalibrationError("servers need aiohttp: pip install 'specplan[openai]'") from None
        self.config = config
        self.api, _ = split_endpoint(config.url)
        self.root = self.api.removesuffix("/v1")
        self.n_retries = 0
        """Requests so far that were sent again."""
        self._aiohttp = aiohttp
        self._own_key = os.environ.get(config.api_key_env, "")
        self._session: aiohttp.ClientSession | None = None
        self._read = set[aiohttp.ClientResponse]()
        self._silences = Waits(config.timeout_s)
        self.broken = aiohttp.ClientError, TimeoutError
        """Errors of `exchange` by its connection, a silence among them."""

    async def exchange(self, method: str, url: str, read: Read[T], data: bytes | None = None) -> T:
        """Send a request, a POST with JSON; return what ``read`` makes of its answer, whose body is still on its way.

        ``read`` gets the answer and the silence until it ends. If it leaves before the end of the body, the connection
        is closed.
        """
        aiohttp, limit = self._aiohttp, self.config.timeout_s
        if self._session is None:  # it belongs to the event loop that runs now
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4.0)  # uvicorn, so vLLM, closes after 5 s
            timeout = aiohttp.ClientTimeout(connect=min(limit, 20.0))
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, proxy=proxy_of(self.api))
        body = None if data is None else aiohttp.BytesPayload(data, content_type="application/json")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else None
        # aiohttp's own limit of a silence does not hold after a broken chunk, nor does its end of a session end a read
        with Wait(self._silences) as silence:
            response = await self._session.request(method, url, allow_redirects=False, data=body, headers=headers)
            self._read.add(response)
            try:
                return await read(response, silence)
            finally:
                self._read.discard(response)
                if not response.closed:
                    response.release()

    async def close(self) -> None:
        """Close all connections, which aborts requests in flight."""
        for response in tuple(self._read):
            response.close()
        if self._session is not None:
            await self._session.close()

    async def text(self, url: str) -> str:
        """GET a page."""
        return await self._patiently(lambda: self._page("GET", url))

    async def get(self, url: str) -> Any:
        """GET a JSON document."""
        return self._json(await self.text(url), url)

    async def post(self, url: str, body: dict[str, Any]) -> Any:
        """POST a JSON document, and return the JSON answer."""
        return self._json(await self._patiently(lambda: self._page("POST", url, to_json(body))), url)

    async def stream(self, url: str, body: dict[str, Any], on_event: OnEvent) -> float:
        """POST and pass on the events of the answer as they arrive; return the time at which the last attempt was sent.

        An answer is one event without ``stream`` in its request. There is no retry after it has begun. Cancelling
        closes the connection, and so does ``on_event`` when it returns True: the server detects that and aborts the
        request.
        """
        sent, begun = 0.0, False

        async def read(response: aiohttp.ClientResponse, silence: Wait) -> None:
            nonlocal begun
            begun = response.status == 200
            if not begun:
                self._check(response, _text(await self._bounded(response)))
            if "html" in response.headers.get("content-type", "").lower():
                raise self.error("sent an HTML page instead of a completion: not the address of an API?")
            if "stream" in body:
                await self._events(response, silence, on_event)
            else:
                on_event(self._event(await self._bounded(response)), time.monotonic())

        async def once() -> None:
            nonlocal sent, begun
            sent, begun = time.monotonic(), False
            try:
                await self.exchange("POST", url, read, to_json(body))
            except self.broken as error:
                if begun:
                    raise self._failure(error, "in the middle of an answer") from None
                raise

        await self._patiently(once)
        return sent

    def error(self, what: str) -> CalibrationError:
        """Return an error that names this server."""
        return CalibrationError(f"{self._who}: {self._clean(what)}")

    def broken_off(self, what: str) -> BrokenOffError:
        """Return a transient error that names this server."""
        return BrokenOffError(f"{self._who}: {self._clean(what)}")

    async def _page(self, method: str, url: str, data: bytes | None = None) -> str:
        async def read(response: aiohttp.ClientResponse, _: Wait) -> str:
            text = _text(await self._bounded(response))
            self._check(response, text)
            return text

        return await self.exchange(method, url, read, data)

    async def _bounded(self, response: aiohttp.ClientResponse) -> bytes:
        """The bytes of an answer of limited size, all of it within the limit of a silence."""
        content, data = response.content, bytearray()
        while not content.at_eof():
            data += await content.readany()
            if len(data) > _MOST_BYTES:
                raise self.error(f"sent more than {_MOST_BYTES // 2**20} MiB where a page belongs")
        return bytes(data)

    async def _events(self, response: aiohttp.ClientResponse, silence: Wait, on_event: OnEvent) -> None:
        rest, n_bytes = b"", 0
        silence.again()
        while True:
            data = await response.content.readany()
            lines = (rest + data).split(b"\n")
            rest, n_bytes = lines.pop() if data else b"", n_bytes + len(data)
            for line in lines:
                if not line.startswith(b"data:"):
                    continue
                now = time.monotonic()  # events that were read at once have moments of their own: each is a pass
                silence.again()  # bytes without a whole line end no silence
                if (text := line[5:].strip()) == b"[DONE]":
                    continue
                if on_event(self._event(text), now):
                    return
            if not data:
                return
            if len(rest) > _MOST_BYTES or n_bytes > _MOST_STREAMED:
                raise self.error("sent a stream without an end, or an event of more than 16 MiB")

    def _event(self, data: bytes) -> dict[str, Any]:
        """The object of an event."""
        event: dict[str, Any] = fields(data) or self._odd(_text(data))
        if event.get("error"):
            raise self.broken_off(f"failed in the middle of an answer: {_said(json.dumps(event))}")
        return event

    def _odd(self, text: str) -> dict[str, Any]:
        """The object of an event that was not read at once."""
        event = self._json(text, "the stream")
        if not isinstance(event, dict):
            raise self.error(f"sent {str(event)[:40]!r} in a stream where an object belongs")
        try:
            checked({} if event.get("error") else event)
        except SchemaError as error:
            raise self.error(f"sent an event that does not match the API: {error}") from None
        return event

    def _json(self, text: str, where: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self.broken_off(f"sent broken JSON ({where.rpartition('/')[2]}): {text[:60]!r}") from None

    async def _patiently(self, once: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request until it succeeds, fails permanently, or retries are used up."""
        for attempt in range(self.config.retries + 1):
            failure: RefusedError | BrokenOffError
            wait = self.config.backoff_s * 2.0**attempt
            try:
                return await once()
            except RefusedError as error:
                failure, wait = error, wait if error.wait_s is None else error.wait_s
            except BrokenOffError:
                raise  # in the middle of an answer
            except self.broken as error:
                failure = self._failure(error, "before it answered")
            final = isinstance(failure, EngineTimeoutError) or not failure.transient
            if final or attempt == self.config.retries or wait > _LONGEST_WAIT_S:
                raise failure from None
            self.n_retries += 1
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _failure(self, error: Exception, when: str) -> BrokenOffError:
        aiohttp, limit = self._aiohttp, self.config.timeout_s
        reason = self._clean(str(error) or type(error).__name__)
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return EngineTimeoutError(f"{self._who}: unreachable: no connection after {min(limit, 20.0):g} s")
        if isinstance(error, TimeoutError):
            return EngineTimeoutError(f"{self._who}: silent for {limit:g} s {when} (--timeout)")
        if isinstance(error, aiohttp.ClientConnectorError):
            refused = isinstance(error.os_error, ConnectionRefusedError)
            return BrokenOffError(f"{self._who}: unreachable: {'connection refused' if refused else reason}")
        return BrokenOffError(f"{self._who}: broke the connection {when}: {reason}")

    def _check(self, response: aiohttp.ClientResponse, page: str) -> None:
        """Raise an error with a remedy for any status but 200."""
        status = response.status
        if status == 200:
            return
        env = self.config.api_key_env
        detail = self._clean(_said(page))
        if status in (401, 403):
            hint = f"the key in the variable {env}" if env else "a request without a key; name one with --api-key-env"
            hint = "the client's key" if CLIENT_KEY.get() else hint
            text, detail = f"refused {hint} ({status})", ""
        elif status in (400, 413, 422) and any(part in detail.lower() for part in _TOO_LONG):
            text = f"the prompt and its answer are too long for the model's context ({status}): {detail}"
        elif 300 <= status < 400 and "location" in response.headers:
            text = f"redirects elsewhere ({status}); give the address that it redirects to"
        else:
            text = f"answered {status}: {detail or 'without a word'}"
        wait_s = _wait_s(response.headers.get("retry-after", ""))
        raise RefusedError(f"{self._who}: {text}", status=status, detail=detail, wait_s=wait_s)

    @property
    def _key(self) -> str:
        given = CLIENT_KEY.get()
        return self._own_key if given is None else given

    @property
    def _who(self) -> str:
        return f"{self.config.name} at {self.api}"

    def _clean(self, text: str) -> str:
        text = text.replace(self._key, "***") if self._key else text
        return shown(" ".join(text.split()), 500)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _said(text: str) -> str:
    """Message of a server's error in any format: at most 300 characters."""
    try:
        answer = json.loads(text)
        for key in ("error", "message", "detail"):
            while isinstance(answer, dict) and key in answer:
                answer = answer[key]
        return str(answer)[:300]
    except (ValueError, RecursionError):
        return text[:300]


def _wait_s(retry_after: str) -> float | None:
    """Seconds of a Retry-After header; None without a valid one."""
    try:
        seconds = float(retry_after)
        return None if math.isnan(seconds) else max(seconds, 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
