"""The HTTP backend: a model on any OpenAI-compatible server (vLLM, SGLang, TGI, llama.cpp, ...).

Prompts are texts, or token ids that a server of the model has stated. Extensions of the common interface are detected
when the engine starts and reported by `OpenAIEngine.describe`. Stop strings are part of a step's text, and servers
treat them in three ways: they include them (vLLM, by a parameter), they omit them and report which one it was (then it
is appended here), or they omit them and do not distinguish a stop string from the end of the text; then no stop string
is sent, the text is searched here, and the stream is closed when one appears. Whether a repeated request gives the same
text depends on the server, even with a seed.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrate.engines.http.activity import activity
from calibrate.engines.http.replies import Replies
from calibrate.engines.http.server import KEPT_TEXTS, Server
from calibrate.engines.http.stalls import StallWatch, tolerated
from calibrate.engines.http.stream import Streamed, prompt_tokens
from calibrate.engines.http.wire import HttpConfig
from calibrate.engines.prometheus import ServerCounts
from calibrate.engines.protocol import Choice, Finish, Generation, Progress, Prompt, Request, Times
from calibrate.engines.speculation import Speculation
from calibrate.engines.stop_strings import first_stop
from calibrate.engines.work import EngineStatistics
from theory.errors import ParameterError

__all__ = ["OpenAIEngine"]


class OpenAIEngine(Server):
    """A model on a server (a `Backend`). Create it with `start`; it belongs to the event loop it started in.

    Raises
    ------
    CalibrationError : from every method, in one line: unreachable, key refused, no such model, prompt too long, broken
        answer, ...; `EngineTimeoutError` if the server was silent for too long.
    """

    def __init__(self, config: HttpConfig) -> None:
        super().__init__(config)
        self._stop_mode = "unknown"
        self._ids: dict[str, tuple[int, ...]] = {}
        self._replies = Replies(self)
        self.counted: dict[str, int] = {}
        """Latest prompts of `count_tokens` -> their tokens; servers of one model may share it."""
        self.whole_ids: set[int] = set()
        """Tokens that are whole characters by themselves; servers of one model may share it."""
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """Counts of timings on this engine, by what was timed and by outcome."""
        self.watch: StallWatch | None = None
        """Detects whether this process reads answers late; None: not checked."""
        self.n_answered = self.n_late = 0
        """Requests of answers, and the number of them that were read late."""
        self.speculating: dict[Speculation, OpenAIEngine] = {}
        """Speculation -> server of the same model with it, for such requests. This engine closes the servers."""
        self.speculates: Speculation | None = None
        """Speculation of the server itself, for all requests; None: none or unknown."""

    @classmethod
    async def start(cls, config: HttpConfig) -> OpenAIEngine:
        """Connect to the server, check the model's name, and detect the server's extensions.

        Raises
        ------
        CalibrationError : unreachable, key refused, or the model is not among those that the server offers.
        """
        engine = cls(config)
        try:
            await engine.explore()
        except BaseException:
            await engine.close()
            raise
        return engine

    @property
    def name(self) -> str:
        """The configured name."""
        return self.config.name

    @property
    def tokenizer_id(self) -> str | None:
        """None: prompts are texts."""
        return None

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        """Continue a prompt; see `Backend.generate`. A cancellation closes the connection.

        ``token_ids`` are empty if the server does not report them. Times are those of the client: the prefill begins
        when the request was sent.

        Raises
        ------
        ParameterError : no server of ``speculating`` has the request's speculation: a server speculates for all
            requests or for none.
        """
        if request.speculation is not None:
            return await self._speculating(request.speculation).generate(replace(request, speculation=None), progress)
        progress = progress or Progress()
        streamed = Streamed(on_text=progress.on_text, whole_ids=self.whole_ids)
        progress.tokens = lambda: streamed.tokens
        try:
            await self.stream(request, streamed)
            finish = self._settle(streamed, request.stop)
            if finish is None:  # stop string or end of text? From now on the client searches
                self._stop_mode = "watched"
                streamed = Streamed()
                await self.stream(request, streamed)
                finish = self._settle(streamed, request.stop) or "eos"
        finally:
            tokens = streamed.tokens
            streamed.prompt_ids = []  # streams are kept, prompts are not
            progress.n_generated, progress.tokens = sum(n for _, n in streamed.arrivals), lambda: tokens
        progress.n_generated = streamed.n_tokens
        self._count(streamed)
        ids, spec = streamed.ids[: len(streamed.ids) - (finish == "eos")], self.speculates
        return Generation(
            text=streamed.text,
            token_ids=tuple(ids),
            n_generated=streamed.n_tokens,
            finish=finish,
            n_prompt_tokens=streamed.n_prompt,
            n_cached_tokens=streamed.n_cached,
            times=self._times(streamed),
            passes=() if spec is None else streamed.passes(spec.k2, always=spec.method != "ngram"),
        )

    async def choose(self, prompt: Prompt, choices: Sequence[str]) -> Choice:
        """Probabilities of single-token replies, from the likeliest tokens that the server lists.

        A choice that is not listed is at most as likely as the last listed token. If that could exceed 1 % of the
        choices together, the server is constrained to that choice (`structured_outputs`), which gives its probability;
        if that is not supported, it counts as 0.

        Raises
        ------
        ParameterError : a choice is not one token of this model (where the server has ``/tokenize``).
        CalibrationError : no log-probabilities, or none of the choices is among the likeliest tokens.
        """
        if not isinstance(prompt, str):
            raise ParameterError("prompt", prompt[:8], "must be a text: a server's token ids are its own")
        streamed, logs = await self._replies.logprobs(prompt, choices)
        self._count(streamed)
        return Choice.of_logs(
            choices,
            [logs.get(choice, -math.inf) for choice in choices],
            n_prompt_tokens=streamed.n_prompt,
            n_cached_tokens=streamed.n_cached,
            times=self._times(streamed),
        )

    def encode(self, text: str) -> tuple[int, ...] | None:
        """Token ids of a text that `count_tokens` has sent to ``/tokenize``, if answers have ids as well."""
        return self._ids.get(text) if self.tells_ids else None

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text as a prompt: by ``/tokenize``, else by the server's count for a request."""
        if text in self.counted:
            return self.counted[text]
        if (ids := await self.tokenize(text, special=True)) is not None:
            count, self._ids[text] = len(ids), ids
        else:
            count = prompt_tokens(await self.wire.post(f"{self.wire.api}/completions", self.body(text, 1)))
            if not count:
                raise self.wire.error("counts no tokens: it has no /tokenize, and its answers have no usage")
        self.counted[text] = count
        for kept in (self.counted, self._ids):
            while len(kept) > KEPT_TEXTS:
                del kept[next(iter(kept))]
        return count

    def describe(self) -> Mapping[str, Any]:
        """Model, server, version, limits, and extensions of the common interface."""
        modes = {
            "unknown": "not seen yet",
            "included": "included by the server",
            "appended": "left out by the server, appended here",
            "watched": "watched here, the stream is closed at the first",
        }
        return {
            "engine": self.card.get("owned_by") or "openai-compatible server",
            "name": self.name,
            "model": self.model,
            "url": self.wire.api,
            "version": self.version,
            "max_context": self.card.get("max_model_len"),
            "accepts": sorted(self.extras),
            "tells_token_ids": self.tells_ids,
            "has_tokenize": bool(self.tokenizes),
            "stop_strings": modes[self._stop_mode],
            "n_retries": self.wire.n_retries,
        }

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """Work of the server, estimated from its latest streams (`http.activity`); ``clear`` empties the records."""
        own = activity(self.streams, trip_s=self.trip_s, k2=1 if self.speculates is None else self.speculates.k2)
        if clear:
            self.streams.clear()
        return own.with_speculating([await other.stats(clear=clear) for other in self.speculating.values()])

    async def counts(self, speculation: Speculation | None) -> ServerCounts:
        """Return the counters of the server for requests with a speculation: those of ``/metrics``, if it has any.

        Raises
        ------
        CalibrationError : the server cannot be reached.
        ParameterError : no server of ``speculating`` has the speculation.
        """
        server = self if speculation is None else self._speculating(speculation)
        return ServerCounts.read(await server.metrics() or (), server.wire.n_retries)

    async def forget(self) -> None:
        """Exclude earlier prompts from the server's prefix cache by a new cache salt, if it has any (vLLM, SGLang)."""
        self._salt = secrets.token_hex(8)
        self._texts = deque(maxlen=self._texts.maxlen)  # requests in flight still have the old salt
        for other in self.speculating.values():
            await other.forget()

    async def close(self) -> None:
        """Close the connections; requests in flight fail. A second call has no effect."""
        for engine in (self, *self.speculating.values()):
            await engine.wire.close()

    async def stream(self, request: Request, streamed: Streamed) -> Streamed:
        """Send a request, and collect its answer in ``streamed`` as it arrives; return it when it is complete.

        Raises
        ------
        CalibrationError : the server refused, failed, or ended the stream without an end.
        """
        prompt = request.prompt
        body = self.body(prompt, request.max_tokens) | self.extras | self.salted()
        body |= {"temperature": request.sampling.temperature, "top_p": request.sampling.top_p, "stream": True}
        body["seed"] = request.seed & 0x7FFFFFFF  # some servers take 32 bits
        if not request.ignore_eos:
            body.pop("ignore_eos", None)
        if isinstance(prompt, str):
            streamed.n_prompt_ids = self.counted.get(prompt, 0)  # usage comes last, if the answer is not cut
        else:
            streamed.prompt_ids = list(prompt)
        if self._stop_mode == "watched":
            streamed.stops = request.stop
        elif request.stop:
            body["stop"] = list(request.stop)
        return await self.complete(body, streamed)

    async def check_logprobs(self) -> None:
        """Check that the server reports log-probabilities, which judges and gates need.

        Raises
        ------
        CalibrationError : it does not report them.
        """
        await self.again(lambda: self._replies.likeliest("Yes or No? Answer:"))

    def _speculating(self, speculation: Speculation) -> OpenAIEngine:
        if speculation not in self.speculating:
            rule = f"must be the speculation of a server that was configured for {self.name!r}"
            raise ParameterError("speculation", speculation.method, rule)
        return self.speculating[speculation]

    def _settle(self, streamed: Streamed, stops: tuple[str, ...]) -> Finish | None:
        """Reason why the answer ended, after completing or cutting its text; None if the server does not report it."""
        reason, by = streamed.reason, streamed.stopped_by
        if streamed.closed:
            return "stop"
        if (end := first_stop(streamed.text, stops)) is not None:
            self._stop_mode = "included"
            streamed.parts = [streamed.text[:end]]
            return "stop"
        if reason == "length":
            return "length"
        if reason not in ("stop", "eos_token", "stop_sequence"):
            what = f"ended an answer for the reason {reason!r}"  # vLLM aborts what is in flight when it is stopped
            raise self.wire.broken_off(what) if reason == "abort" else self.wire.error(what)
        if isinstance(by, str) and by in stops:
            self._stop_mode = "appended"
            streamed.parts.append(by)
            return "stop"
        known = streamed.tells_stop or reason == "eos_token" or not stops or self._stop_mode in ("included", "watched")
        return "eos" if known else None

    def _count(self, streamed: Streamed) -> None:
        if self.watch is not None:
            self.n_answered += 1
            self.n_late += self.watch.longest(streamed.sent, streamed.end) > tolerated(streamed.end - streamed.sent)

    def _times(self, streamed: Streamed) -> Times:
        """Times of a request at the client; its latency outside the engine is a round trip and its stream's end."""
        arrivals = streamed.arrivals or ((streamed.end, 0),)
        first, last = arrivals[0][0], arrivals[-1][0]
        begun = min(streamed.sent + self.trip_s, first)
        return Times(queued=streamed.sent, prefill_start=begun, first_token=first, end=last)
