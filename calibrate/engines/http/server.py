"""A model server as its engine sees it: its model, its extensions, and the latest requests."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from calibrate.engines.http.stream import Streamed
from calibrate.engines.http.wire import BrokenOffError, EngineTimeoutError, HttpConfig, RefusedError, Wire
from calibrate.engines.prometheus import Load, Sample, load, parse_metrics
from calibrate.engines.protocol import Prompt
from theory.errors import CalibrationError, SchemaError, shown

__all__ = ["KEPT_TEXTS", "Server", "raise_transient"]

_EXTRAS: Final[dict[str, Any]] = {
    "stream_options": {"include_usage": True},
    "include_stop_str_in_output": True,
    "return_token_ids": True,
    "ignore_eos": True,
    "cache_salt": "specplan",
}
"""Parameters that not every server supports; some refuse unknown parameters, some ignore them."""

_OF_STREAMS: Final = ("stream", "stream_options", "return_token_ids")
"""Parameters that a request for a whole answer has not: its usage is always reported, and its ids are not used."""

_MOST_WHOLE: Final = 256
"""Longest answer that is requested whole, tokens: the server is silent until all of it is there."""

_SEEN: Final = 8
"""One in so many answers that could be requested whole is streamed where times of tokens are measured."""

KEPT_TEXTS: Final = 256
_KEPT_STREAMS: Final = 2048
_KEPT_TRIPS: Final = 31


class Server:
    """A server with one model; `explore` detects its extensions.

    Attributes
    ----------
    model, card : the model's name there (before `explore` the configured one), and the server's description of it.
    version : version of the server; empty if it does not report one.
    load_at_start : requests on the server before ours; None if it does not report them.
    extras : parameters beyond the common interface that it accepts.
    tells_ids : whether each chunk of a stream has the ids of its tokens, so that they can be counted.
    tokenizes : whether it has ``/tokenize``; None: not tested.
    streams : the latest streams of answers.
    """

    def __init__(self, config: HttpConfig) -> None:
        self.config = config
        self.wire = Wire(config)
        self.model = config.model
        self.load_at_start: Load | None = None
        self.card: dict[str, Any] = {}
        self.version = ""
        self.extras: dict[str, Any] = {}
        self.tells_ids = self._tells_usage = False
        self.tokenizes: bool | None = None
        self.streams: deque[Streamed] = deque(maxlen=_KEPT_STREAMS)
        self._n_unread = -1
        """Answers so far that could be requested whole; -1: none is."""
        self._timed = True
        self._salt = secrets.token_hex(8)
        self._texts: deque[str] = deque(maxlen=KEPT_TEXTS)
        self._trips: deque[float] = deque(maxlen=_KEPT_TRIPS)

    async def explore(self) -> None:
        """Check the model's name, and detect which extra parameters the server accepts.

        Raises
        ------
        CalibrationError : unreachable, key refused, or the model is not among those that the server offers.
        """
        await self._find_model()
        self.load_at_start = load(await self.metrics() or ())
        await self.again(self._probe)

    async def again(self, once: Callable[[], Awaitable[Any]]) -> None:
        """Run the first request of a measurement; repeat it a few times if answers break off."""
        for attempt in range(self.config.retries + 1):
            try:
                await once()
                return
            except EngineTimeoutError:
                raise
            except BrokenOffError:
                if attempt == self.config.retries:
                    raise
            await asyncio.sleep(self.config.backoff_s)

    async def complete(self, body: dict[str, Any], streamed: Streamed) -> Streamed:
        """Send a request for a completion, and collect its answer in ``streamed``; return it at its end.

        Raises
        ------
        CalibrationError : the server refused, failed, or ended the stream without an end.
        """
        if self._comes_whole(body["max_tokens"], streamed):
            body = {name: value for name, value in body.items() if name not in _OF_STREAMS}
        texts = self._texts
        text = body["prompt"] if texts.maxlen and isinstance(body["prompt"], str) else ""  # ids are not compared
        if text:
            streamed.read_before = self._share_known(text)
        streamed.sent = time.monotonic()
        try:
            streamed.sent = await self.wire.stream(f"{self.wire.api}/completions", body, streamed.take)
        except RefusedError as error:
            if error.status == 404:
                raise self.wire.error(f"no longer offers the model {self.model!r}") from None
            raise
        finally:
            streamed.end = time.monotonic()
            self.streams.append(streamed)
            if texts.maxlen:
                texts.append(text + streamed.text)
        return self._whole(streamed)

    def _share_known(self, text: str) -> float:
        """Share of a text with which one of the latest texts begins, in [0, 1]."""

        def is_new(n: int) -> bool:
            return not any(known.startswith(text[:n]) for known in self._texts)

        return bisect_left(range(1, len(text) + 1), True, key=is_new) / len(text)

    def salted(self) -> dict[str, str]:
        """The cache salt of a request: only prompts with the same salt share the prefix cache."""
        return {"cache_salt": self._salt} if "cache_salt" in self.extras else {}

    def _whole(self, streamed: Streamed) -> Streamed:
        """Refuse an answer that was cut by a broken connection between two events."""
        n = sum(n for _, n in streamed.arrivals)
        if not streamed.reason and not streamed.closed:
            raise self.wire.broken_off(f"ended an answer in the middle, after {n} tokens and without a reason")
        if self._tells_usage and not streamed.usage and not streamed.closed:
            raise self.wire.broken_off(f"ended an answer of {n} tokens without its usage, which it gave before")
        return streamed

    def body(self, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
        """Body of every request for a completion."""
        return {"model": self.model, "prompt": prompt, "max_tokens": max_tokens}

    async def metrics(self) -> list[Sample] | None:
        """The load by the server's ``/metrics``; None where it has none or they cannot be read."""
        try:
            return parse_metrics(await self.wire.text(f"{self.wire.root}/metrics"))
        except (RefusedError, SchemaError):
            return None

    async def round_trip(self) -> float:
        """Time a request that needs no model, s."""
        started = time.monotonic()
        await self.wire.text(f"{self.wire.api}/models")
        self._trips.append(time.monotonic() - started)
        return self._trips[-1]

    @property
    def trip_s(self) -> float:
        """Median of the latest round trips of a request that needs no model, s; 0 before the first."""
        return statistics.median(self._trips) if self._trips else 0.0

    def keep_nothing(self, *, timed: bool) -> None:
        """Record no texts and streams from now on, and send no cache salt: for requests of other clients.

        Answers whose text nobody reads before its end are requested whole, if ``timed`` most of them: one event takes
        less time to read than one for each token. Only of servers that tell ids (vLLM), as others may write on to the
        end when the connection is closed.
        """
        self._timed = timed
        self.streams = deque(maxlen=0)
        self._texts = deque(maxlen=0)
        self.extras.pop("cache_salt", None)
        self._n_unread = 0 if self.tells_ids else -1

    def _comes_whole(self, most: int, streamed: Streamed) -> bool:
        """Whether an answer of at most so many tokens is requested whole."""
        if self._n_unread < 0 or streamed.on_text is not None or streamed.stops or most > _MOST_WHOLE:
            return False
        self._n_unread += most > 1
        return most == 1 or not self._timed or self._n_unread % _SEEN > 0

    async def _find_model(self) -> None:
        try:
            answer = await self.wire.get(f"{self.wire.api}/models")
        except RefusedError as error:
            if error.status != 404:
                raise
            raise self.wire.error("no /models there: not the address of an OpenAI-compatible server") from None
        cards = answer.get("data") if isinstance(answer, dict) else None
        listing = cards if isinstance(cards, list) else ()
        offered = {str(card.get("id")): card for card in listing if isinstance(card, dict)}
        listed = shown(", ".join(offered), 400) or "none"
        if not self.model and len(offered) != 1:
            raise self.wire.error(f"offers several models or none ({listed}); name one as URL#model")
        self.model = self.model or next(iter(offered))
        if self.model not in offered:
            raise self.wire.error(f"has no model {self.model!r} (404); it offers: {listed}")
        if not self.model.isprintable() or len(self.model) > 500:
            raise self.wire.error(f"offers a model of an odd name: {shown(repr(self.model))}")
        self.card = offered[self.model]
        try:
            about = await self.wire.get(f"{self.wire.root}/version")  # vLLM; others name no version
            self.version = shown(str(about.get("version", "")), 60) if isinstance(about, dict) else ""
        except CalibrationError:
            pass

    async def _probe(self) -> None:
        """Detect which extra parameters the server accepts: all at once, or one by one if it refuses."""
        self.extras = dict(_EXTRAS)
        try:
            streamed = await self._try_extras(_EXTRAS)
        except RefusedError as error:
            if error.status not in (400, 422):
                raise
            for name, value in _EXTRAS.items():
                try:
                    await self._try_extras({name: value})
                except RefusedError as refused:
                    raise_transient(refused)
                    del self.extras[name]
            streamed = await self._try_extras(self.extras)
        self.tells_ids = bool(streamed.ids)
        self._tells_usage = bool(streamed.usage)

    async def _try_extras(self, extras: Mapping[str, Any]) -> Streamed:
        streamed = Streamed()
        body = {**self.body("1 2 3", 2), "stream": True, "temperature": 0.0, **extras}
        await self.wire.stream(f"{self.wire.api}/completions", body, streamed.take)
        return self._whole(streamed)

    async def tokenize(self, text: str, *, special: bool) -> tuple[int, ...] | None:
        """Token ids by ``/tokenize`` (vLLM); None where the server does not have it."""
        if self.tokenizes is False:
            return None
        body = {"model": self.model, "prompt": text, "add_special_tokens": special}
        try:
            ids = tuple(int(token) for token in (await self.wire.post(f"{self.wire.root}/tokenize", body))["tokens"])
        except (RefusedError, LookupError, TypeError, ValueError, OverflowError) as error:
            raise_transient(error)
            self.tokenizes = False
            return None
        self.tokenizes = True
        return ids


def raise_transient(error: Exception) -> None:
    """Raise transient errors again: a busy or unreachable server does not show that a feature is missing."""
    if getattr(error, "transient", False):
        raise error
