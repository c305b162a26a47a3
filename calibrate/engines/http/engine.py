"""The HTTP backend: a model on any OpenAI-compatible server (vLLM, SGLang, TGI, llama.cpp, ...), seen from outside.

Prompts are texts. What a server can do beyond the common interface is found out when the engine starts and told by
`OpenAIEngine.describe`. Stop strings belong to the text of a step, and servers treat them in three ways: they include
them (vLLM, asked to), they leave them out and say which one it was (then it is appended here), or they leave them out
and do not tell a stop string from the end of the text; there, no stop string is sent, the text is watched here, and the
stream is closed when one appears. Whether a repeated request gives the same text is up to the server, seed or not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrate.engines.choosing import shares
from calibrate.engines.http.activity import activity
from calibrate.engines.http.replies import Replies
from calibrate.engines.http.server import KEPT_TEXTS, Server
from calibrate.engines.http.stalls import StallWatch, tolerated
from calibrate.engines.http.stream import Streamed, first_stop, prompt_tokens
from calibrate.engines.http.wire import HttpConfig
from calibrate.engines.protocol import Choice, Finish, Generation, Progress, Prompt, Request, Times
from calibrate.engines.speculation import Speculation
from calibrate.engines.work import EngineStatistics
from theory.errors import ParameterError

__all__ = ["OpenAIEngine"]


class OpenAIEngine(Server):
    """A model on a server (a `Backend`). Make one with `start`; it belongs to the event loop it started in.

    Raises
    ------
    CalibrationError : from every method: unreachable, key refused, no such model, prompt too long, broken answer, ...
        in one line; as `EngineTimeoutError` if the server was silent for too long.
    """

    def __init__(self, config: HttpConfig) -> None:
        super().__init__(config)
        self._stop_mode = "unknown"
        self._counts: dict[str, int] = {}
        self._ids: dict[str, tuple[int, ...]] = {}
        self._replies = Replies(self)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """What was timed on this engine and what became of it, in numbers."""

        self.watch: StallWatch | None = None
        """Sees whether this process reads answers late; None: nobody looks."""

        self.n_answered = self.n_late = 0
        """Requests of answers, and how many of them were read late."""

        self.speculating: dict[Speculation, OpenAIEngine] = {}
        """Servers of the same model that speculate, by how: requests that ask for it go there. They belong to this."""

        self.speculates: Speculation | None = None
        """How the server itself speculates, for all requests; None: it is not known to."""

    @classmethod
    async def start(cls, config: HttpConfig) -> OpenAIEngine:
        """Reach the server, check the model's name, and find out what the server can do.

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

        ``token_ids`` are empty where the server does not tell them. The times are those seen from here: the prefill
        begins when the request was sent.

        Raises
        ------
        ParameterError : the request asks for speculation, and none of ``speculating`` does that: a server speculates
            for all requests or for none.
        """
        if request.speculation is not None:
            return await self._speculating(request.speculation).generate(replace(request, speculation=None), progress)
        streamed = Streamed(on_text=progress.on_text if progress is not None else None)
        try:
            await self.stream(request, streamed)
            finish = self._settle(streamed, request.stop)
            if finish is None:  # a stop string or the end of the text? This server will not say: watch it from now on
                self._stop_mode = "watched"
                streamed = Streamed()
                await self.stream(request, streamed)
                finish = self._settle(streamed, request.stop) or "eos"
        finally:
            if progress is not None:
                progress.n_generated = sum(n for _, n in streamed.arrivals)
        if progress is not None:
            progress.n_generated = streamed.n_tokens
        self._count(streamed)
        return self._generation(streamed, finish)

    async def choose(self, prompt: Prompt, choices: Sequence[str]) -> Choice:
        """Probabilities of single-token replies, from the likeliest tokens that the server lists.

        A choice that is not listed is at most as likely as the last one that is. Where that could matter (more than
        1 % of the choices together), the server is made to answer it (`structured_outputs`), which tells its
        probability; where that is unknown too, it counts as 0.

        Raises
        ------
        ParameterError : a choice is not one token of this model (where the server has ``/tokenize``).
        CalibrationError : no log-probabilities, or none of the choices is among the likeliest tokens.
        """
        streamed, logs = await self._replies.logprobs(_text_only(prompt), choices)
        self._count(streamed)
        probabilities, mass = shares([logs.get(choice, -math.inf) for choice in choices])
        return Choice(
            choices=tuple(choices),
            probabilities=probabilities,
            mass=mass,
            n_prompt_tokens=streamed.n_prompt,
            n_cached_tokens=streamed.n_cached,
            times=self._times(streamed),
        )

    def encode(self, text: str) -> tuple[int, ...] | None:
        """Token ids of a text that `count_tokens` has sent to ``/tokenize``, if answers come with ids as well."""
        return self._ids.get(text) if self.tells_ids else None

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text as a prompt: by ``/tokenize``, else as the server counts the prompt of a request."""
        if text in self._counts:
            return self._counts[text]
        ids = await self.tokenize(text, special=True)
        if ids is None:
            answer = await self.wire.post(f"{self.wire.api}/completions", self.body(text, 1))
            count = prompt_tokens(answer)
            if not count:
                raise self.wire.error("counts no tokens: it has no /tokenize, and its answers have no usage")
        else:
            count = len(ids)
            self._ids[text] = ids
        self._counts[text] = count
        for kept in (self._counts, self._ids):
            while len(kept) > KEPT_TEXTS:
                del kept[next(iter(kept))]
        return count

    def describe(self) -> Mapping[str, Any]:
        """Model, server, version, its limits, and what it knows beyond the common interface."""
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
        """What the server did, as its latest streams show it (`http.activity`); ``clear`` starts afresh."""
        k2 = 1 if self.speculates is None else self.speculates.k2
        own = activity(self.streams, trip_s=self.trip_s, k2=k2)
        if clear:
            self.streams.clear()
        return own.with_speculating([await other.stats(clear=clear) for other in self.speculating.values()])

    async def forget(self) -> None:
        """See that nothing that the server has read is found again, by a new salt of its prefix cache (vLLM, SGLang).

        Servers without it go on to find what they have read.
        """
        self.change_salt()
        for other in self.speculating.values():
            await other.forget()

    async def close(self) -> None:
        """Close the connections; requests in flight fail. Twice does no harm."""
        for engine in (self, *self.speculating.values()):
            await engine.wire.close()

    async def stream(self, request: Request, streamed: Streamed) -> Streamed:
        """Send a request, and collect its answer in ``streamed`` as it comes; return it when it is complete.

        Raises
        ------
        CalibrationError : the server refused, failed, or ended the stream without an end.
        """
        body = self.body(_text_only(request.prompt), request.max_tokens)
        body |= {"temperature": request.sampling.temperature, "top_p": request.sampling.top_p}
        body |= {"seed": request.seed & 0x7FFFFFFF, "stream": True}  # some servers take 32 bits
        body |= {k: v for k, v in self.extras.items() if k != "ignore_eos" or request.ignore_eos} | self.salted()
        if self._stop_mode == "watched":
            streamed.stops = request.stop
        elif request.stop:
            body["stop"] = list(request.stop)
        return await self.complete(body, streamed)

    async def check_logprobs(self) -> None:
        """See that the server gives log-probabilities, which judges and gates live on.

        Raises
        ------
        CalibrationError : it does not.
        """
        await self.again(lambda: self._replies.likeliest("Yes or No? Answer:"))

    def _speculating(self, speculation: Speculation) -> OpenAIEngine:
        if speculation not in self.speculating:
            rule = f"must be how a server speculates that was named with {self.name!r}'s"
            raise ParameterError("speculation", speculation.method, rule)
        return self.speculating[speculation]

    def _settle(self, streamed: Streamed, stops: tuple[str, ...]) -> Finish | None:
        """Why the answer ended, its text completed or cut accordingly; None if the server leaves that open."""
        reason, by = streamed.reason, streamed.stopped_by
        if streamed.closed:
            return "stop"
        end = first_stop(streamed.text, stops)
        if end is not None:
            self._stop_mode = "included"
            streamed.text = streamed.text[:end]
            return "stop"
        if reason == "length":
            return "length"
        if reason not in ("stop", "eos_token", "stop_sequence"):
            raise self.wire.error(f"ended an answer for the reason {reason!r}")
        if isinstance(by, str) and by in stops:
            self._stop_mode = "appended"
            streamed.text += by
            return "stop"
        known = streamed.tells_stop or reason == "eos_token" or not stops or self._stop_mode in ("included", "watched")
        return "eos" if known else None

    def _generation(self, streamed: Streamed, finish: Finish) -> Generation:
        ids, spec = streamed.ids[: len(streamed.ids) - (finish == "eos")], self.speculates
        return Generation(
            text=streamed.text,
            token_ids=tuple(ids),
            n_generated=streamed.n_tokens,
            finish=finish,
            n_prompt_tokens=streamed.n_prompt,
            n_cached_tokens=streamed.n_cached,
            n_iterations=max(len(streamed.arrivals) - 1, 0),
            times=self._times(streamed),
            passes=() if spec is None else streamed.passes(spec.k2, always=spec.method != "ngram"),
        )

    def _count(self, streamed: Streamed) -> None:
        if self.watch is not None:
            self.n_answered += 1
            self.n_late += self.watch.longest(streamed.sent, streamed.end) > tolerated(streamed.end - streamed.sent)

    def _times(self, streamed: Streamed) -> Times:
        """When things happened as seen from here: what a request takes besides is a round trip and its stream's end."""
        moments = [moment for moment, _ in streamed.arrivals] or [streamed.end]
        return Times(
            queued=streamed.sent,
            prefill_start=min(streamed.sent + self.trip_s, moments[0]),
            prefill_end=moments[0],
            first_token=moments[0],
            end=moments[-1],
        )


def _text_only(prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    raise ParameterError("prompt", prompt[:8], "must be a text: a server's token ids are its own")
