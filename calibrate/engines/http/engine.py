"""The HTTP backend: a model on any OpenAI-compatible server (vLLM, SGLang, TGI, llama.cpp, ...), seen from outside.

Prompts are texts. What a server can do beyond the common interface is found out when the engine starts and told by
`OpenAIEngine.describe`. Stop strings belong to the text of a step, and servers treat them in three ways: they include
them (vLLM, asked to), they leave them out and say which one it was (then it is appended here), or they leave them out
and do not tell a stop string from the end of the text; there, no stop string is sent, the text is watched here, and the
stream is closed when one appears. Whether a repeated request gives the same text is up to the server, seed or not.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import statistics
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from calibrate.engines.http.activity import activity
from calibrate.engines.http.stalls import StallWatch, tolerated
from calibrate.engines.http.stream import Streamed, first_stop
from calibrate.engines.http.wire import BrokenOffError, EngineTimeoutError, HttpConfig, OnEvent, RefusedError, Wire
from calibrate.engines.prometheus import Load, Sample, load, parse_metrics
from calibrate.engines.protocol import Choice, EngineStatistics, Finish, Generation, Progress, Prompt, Request, Times
from calibrate.engines.speculation import Speculation
from theory.errors import CalibrationError, ParameterError, SchemaError

__all__ = ["OpenAIEngine"]

_EXTRAS: Final[dict[str, Any]] = {
    "stream_options": {"include_usage": True},
    "include_stop_str_in_output": True,
    "return_token_ids": True,
    "ignore_eos": True,
    "cache_salt": "specplan",
}
"""Parameters that not every server knows; some refuse what they do not know, some ignore it."""

_TOP: Final = (20, 5, 1)
"""Likeliest tokens to ask for, as many as the server gives: vLLM's default limit, OpenAI's, the least."""

_NEGLIGIBLE: Final = 0.01
"""Share of the choices' probability up to which a choice that is not listed is taken as impossible."""

_KEPT_TEXTS: Final = 256
_KEPT_STREAMS: Final = 2048
_KEPT_TRIPS: Final = 31


class OpenAIEngine:
    """A model on a server (a `Backend`). Make one with `start`; it belongs to the event loop it started in.

    Raises
    ------
    CalibrationError : from every method: unreachable, key refused, no such model, prompt too long, broken answer, ...
        in one line; as `EngineTimeoutError` if the server was silent for too long.
    """

    def __init__(self, config: HttpConfig) -> None:
        self.config = config
        self.wire = Wire(config)
        self.model = config.model
        self._card: dict[str, Any] = {}
        self._version = ""
        self._extras: dict[str, Any] = {}
        self._tells_ids = False
        self._tells_usage = False
        self._stop_mode = "unknown"
        self._n_top = _TOP[0]
        self._tokenizes: bool | None = None
        self._counts: dict[str, int] = {}
        self._ids: dict[str, tuple[int, ...]] = {}
        self._single: set[tuple[str, ...]] = set()
        self.load_at_start: Load | None = None
        """Requests on the server before ours; None where it does not say."""

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

        self._salt = secrets.token_hex(8)
        self._read: deque[str] = deque(maxlen=_KEPT_TEXTS)
        self._streams: deque[Streamed] = deque(maxlen=_KEPT_STREAMS)
        self._trips: deque[float] = deque(maxlen=_KEPT_TRIPS)

    @classmethod
    async def start(cls, config: HttpConfig) -> OpenAIEngine:
        """Reach the server, check the model's name, and find out what the server can do.

        Raises
        ------
        CalibrationError : unreachable, key refused, or the model is not among those that the server offers.
        """
        engine = cls(config)
        try:
            await engine._find_model()
            engine.load_at_start = load(await engine.metrics() or ())
            await engine._again(engine._probe)
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

    @property
    def tells_tokens(self) -> bool:
        """Whether each chunk of a stream comes with the ids of its tokens, so that they can be counted."""
        return self._tells_ids

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        """Continue a prompt; see `Backend.generate`. A cancellation closes the connection.

        ``token_ids`` are empty where the server does not tell them; a log-probability's ids where it names tokens by
        their text only. The times are those seen from here: the prefill begins when the request was sent.

        Raises
        ------
        ParameterError : the request asks for speculation, and none of ``speculating`` does that: a server speculates
            for all requests or for none.
        """
        if request.speculation is not None:
            return await self._speculating(request.speculation).generate(replace(request, speculation=None), progress)
        streamed = Streamed()
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
        text = _text_only(prompt)
        await self._check_single(tuple(choices))
        streamed, listed = await self._likeliest(text)
        logs = _matched(listed, choices)
        if len(logs) < len(choices):
            # The K-th likeliest: vLLM lists the drawn token besides, however unlikely.
            floor = sorted(listed.values(), reverse=True)[min(self._n_top, len(listed)) - 1]
            bound = math.exp(floor) * (len(choices) - len(logs))
            if bound > _NEGLIGIBLE * sum(map(math.exp, logs.values())):
                logs |= await self._forced(text, [c for c in choices if c not in logs], floor)
        if not logs:
            raise self.wire.error(
                f"none of the replies {', '.join(map(repr, choices))} is among the {len(listed)} likeliest tokens: "
                "the model does not answer the question (is it instruction-tuned?)"
            )
        self._count(streamed)
        top = max(logs.values())
        weights = [math.exp(logs[c] - top) if c in logs else 0.0 for c in choices]
        return Choice(
            choices=tuple(choices),
            probabilities=tuple(w / sum(weights) for w in weights),
            mass=min(1.0, sum(map(math.exp, logs.values()))),
            n_prompt_tokens=streamed.n_prompt,
            n_cached_tokens=streamed.n_cached,
            times=self._times(streamed),
        )

    def encode(self, text: str) -> tuple[int, ...] | None:
        """Token ids of a text that `count_tokens` has sent to ``/tokenize``, if answers come with ids as well."""
        return self._ids.get(text) if self._tells_ids else None

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text as a prompt: by ``/tokenize``, else as the server counts the prompt of a request."""
        if text in self._counts:
            return self._counts[text]
        ids = await self._tokenize(text, special=True)
        if ids is None:
            answer = await self.wire.post(f"{self.wire.api}/completions", self._body(text, 1))
            count = int((answer.get("usage") or {}).get("prompt_tokens") or 0)
            if not count:
                raise self.wire.error("counts no tokens: it has no /tokenize, and its answers have no usage")
        else:
            count = len(ids)
            self._ids[text] = ids
        self._counts[text] = count
        for kept in (self._counts, self._ids):
            while len(kept) > _KEPT_TEXTS:
                del kept[next(iter(kept))]
        return count

    async def metrics(self) -> list[Sample] | None:
        """What the server's ``/metrics`` says; None where it has none or they cannot be read."""
        try:
            return parse_metrics(await self.wire.text(f"{self.wire.root}/metrics"))
        except (RefusedError, SchemaError):
            return None

    def describe(self) -> Mapping[str, Any]:
        """Model, server, version, its limits, and what it knows beyond the common interface."""
        modes = {
            "unknown": "not seen yet",
            "included": "included by the server",
            "appended": "left out by the server, appended here",
            "watched": "watched here, the stream is closed at the first",
        }
        return {
            "engine": self._card.get("owned_by") or "openai-compatible server",
            "name": self.name,
            "model": self.model,
            "url": self.wire.api,
            "version": self._version,
            "max_context": self._card.get("max_model_len"),
            "accepts": sorted(self._extras),
            "tells_token_ids": self._tells_ids,
            "has_tokenize": bool(self._tokenizes),
            "stop_strings": modes[self._stop_mode],
            "n_retries": self.wire.n_retries,
        }

    async def stats(self, *, clear: bool = False) -> EngineStatistics:
        """What the server did, as its latest streams show it (`openai_activity`); ``clear`` starts afresh."""
        k2 = 1 if self.speculates is None else self.speculates.k2
        found = activity(self._streams, trip_s=self.trip_s, k2=k2)
        if clear:
            self._streams.clear()
        return found.beside([await other.stats(clear=clear) for other in self.speculating.values()])

    @property
    def trip_s(self) -> float:
        """Median of the latest round trips of a request that needs no model, s; 0 before there was one."""
        return statistics.median(self._trips) if self._trips else 0.0

    async def forget(self) -> None:
        """See that nothing that the server has read is found again, by a new salt of its prefix cache (vLLM, SGLang).

        Servers without it go on to find what they have read.
        """
        self._salt = secrets.token_hex(8)
        self._read.clear()
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
        body = self._body(_text_only(request.prompt), request.max_tokens)
        body |= {"temperature": request.sampling.temperature, "top_p": request.sampling.top_p}
        body |= {"seed": request.seed & 0x7FFFFFFF, "stream": True}  # some servers take 32 bits
        body |= {k: v for k, v in self._extras.items() if k != "ignore_eos" or request.ignore_eos} | self._salted()
        if self._stop_mode == "watched":
            streamed.stops = request.stop
        elif request.stop:
            body["stop"] = list(request.stop)
        if request.n_logprobs:
            body |= {"logprobs": request.n_logprobs}
        try:
            return await self._streamed(body, streamed, streamed.take)
        except RefusedError as error:
            raise self._explained(error) from None

    async def round_trip(self) -> float:
        """Seconds of a request that needs no model."""
        started = time.monotonic()
        await self.wire.text(f"{self.wire.api}/models")
        self._trips.append(time.monotonic() - started)
        return self._trips[-1]

    async def check_logprobs(self) -> None:
        """See that the server gives log-probabilities, which judges and gates live on.

        Raises
        ------
        CalibrationError : it does not.
        """
        await self._again(lambda: self._likeliest("Yes or No? Answer:"))

    async def _again(self, once: Callable[[], Awaitable[Any]]) -> None:
        """Do something that begins a measurement; a few times where answers break off in the middle."""
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

    async def _streamed(self, body: dict[str, Any], streamed: Streamed, take: OnEvent) -> Streamed:
        streamed.read_before = self._share_read(body["prompt"])
        streamed.sent = time.monotonic()
        try:
            streamed.sent = await self.wire.stream(f"{self.wire.api}/completions", body, take)
        finally:
            streamed.end = time.monotonic()
            self._streams.append(streamed)
            self._read.append(body["prompt"] + streamed.text)
        return self._complete(streamed)

    def _share_read(self, prompt: str) -> float:
        """The share of a prompt that is the beginning of something that was read or written before, in [0, 1]."""
        low, high = 0, len(prompt)
        while low < high:
            middle = (low + high + 1) // 2
            if any(text.startswith(prompt[:middle]) for text in self._read):
                low = middle
            else:
                high = middle - 1
        return low / max(len(prompt), 1)

    def _salted(self) -> dict[str, str]:
        return {"cache_salt": self._salt} if "cache_salt" in self._extras else {}

    def _speculating(self, speculation: Speculation) -> OpenAIEngine:
        if speculation not in self.speculating:
            rule = f"must be how a server speculates that was named beside {self.name!r}'s"
            raise ParameterError("speculation", speculation.method, rule)
        return self.speculating[speculation]

    def _complete(self, streamed: Streamed) -> Streamed:
        """Refuse an answer that was cut where the connection broke between two events."""
        n = sum(n for _, n in streamed.arrivals)
        if not streamed.reason and not streamed.closed:
            raise self.wire.broken_off(f"ended an answer in the middle, after {n} tokens and without a reason")
        if self._tells_usage and not streamed.usage and not streamed.closed:
            raise self.wire.broken_off(f"ended an answer of {n} tokens without its usage, which it gave before")
        return streamed

    def _explained(self, error: RefusedError) -> CalibrationError:
        return self.wire.error(f"no longer offers the model {self.model!r}") if error.status == 404 else error

    def _body(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        return {"model": self.model, "prompt": prompt, "max_tokens": max_tokens}

    def _settle(self, streamed: Streamed, stops: tuple[str, ...]) -> Finish | None:
        """Why the answer ended, its text completed or cut accordingly; None if the server leaves that open."""
        reason, by = streamed.reason, streamed.stopped_by
        if streamed.closed:
            return "stop"
        found = first_stop(streamed.text, stops)
        if found is not None:
            self._stop_mode = "included"
            streamed.text = streamed.text[:found]
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
            logprobs=tuple(streamed.logprobs),
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

    async def _find_model(self) -> None:
        try:
            answer = await self.wire.get(f"{self.wire.api}/models")
        except RefusedError as error:
            if error.status != 404:
                raise
            raise self.wire.error("no /models there: not the address of an OpenAI-compatible server") from None
        cards = answer.get("data") if isinstance(answer, dict) else None
        offered = {str(card.get("id")): card for card in cards or () if isinstance(card, dict)}
        shown = ", ".join(offered) or "none"
        if not self.model and len(offered) != 1:
            raise self.wire.error(f"offers several models or none ({shown}); name one as URL#model")
        self.model = self.model or next(iter(offered))
        if self.model not in offered:
            raise self.wire.error(f"has no model {self.model!r} (404); it offers: {shown}")
        self._card = offered[self.model]
        try:
            about = await self.wire.get(f"{self.wire.root}/version")  # vLLM; others name no version
            self._version = str(about.get("version", "")) if isinstance(about, dict) else ""
        except CalibrationError:
            pass

    async def _probe(self) -> None:
        """Find out which extra parameters the server takes: all at once, or one by one if it refuses."""
        try:
            streamed = await self._try_extras(_EXTRAS)
            self._extras = dict(_EXTRAS)
        except RefusedError as error:
            if error.status not in (400, 422):
                raise
            for name, value in _EXTRAS.items():
                try:
                    await self._try_extras({name: value})
                except RefusedError as refused:
                    if refused.transient:
                        raise
                    continue
                self._extras[name] = value
            streamed = await self._try_extras(self._extras)
        self._tells_ids = bool(streamed.ids)
        self._tells_usage = bool(streamed.usage)

    async def _try_extras(self, extras: Mapping[str, Any]) -> Streamed:
        streamed = Streamed()
        body = {**self._body("1 2 3", 2), "stream": True, "temperature": 0.0, **extras}
        await self.wire.stream(f"{self.wire.api}/completions", body, streamed.take)
        return self._complete(streamed)

    async def _likeliest(self, text: str) -> tuple[Streamed, dict[str, float]]:
        """The likeliest next tokens by their text, with natural-log probabilities of the model's own distribution."""
        while True:
            # Temperature 1: some servers report probabilities after it was applied.
            body = {**self._body(text, 1), "stream": True, "temperature": 1.0, "logprobs": self._n_top}
            streamed = Streamed()
            seen: list[dict[str, Any]] = []
            body |= {k: v for k, v in self._extras.items() if k == "stream_options"} | self._salted()

            def take(
                event: dict[str, Any], now: float, into: Streamed = streamed, kept: list[dict[str, Any]] = seen
            ) -> bool:
                kept += [c["logprobs"] for c in event.get("choices") or () if c.get("logprobs")]
                return into.take(event, now)

            try:
                await self._streamed(body, streamed, take)
            except RefusedError as error:
                if "logprob" in error.detail.lower() and self._n_top != _TOP[-1]:
                    self._n_top = _TOP[_TOP.index(self._n_top) + 1]
                    continue
                raise self._explained(error) from None
            tops = next((c.get("top_logprobs") for c in seen if c.get("top_logprobs")), None)
            if not tops or not tops[0]:
                raise self.wire.error(
                    "gives no log-probabilities (logprobs) of its tokens, which a judge or gate needs "
                    "(vLLM: --max-logprobs of at least 5)"
                )
            return streamed, {str(token): float(value) for token, value in tops[0].items()}

    async def _forced(self, text: str, missing: Sequence[str], floor: float) -> dict[str, float]:
        """Log-probabilities of replies that are not among the likeliest, where the server can be made to give them.

        Servers that report probabilities after the constraint was applied say 0 = log 1; that contradicts ``floor``,
        the least of the listed ones, and is not used.
        """
        found: dict[str, float] = {}
        for choice in missing:
            body = {**self._body(text, 1), "temperature": 1.0, "logprobs": 1}
            body |= {"structured_outputs": {"choice": [choice]}, **self._salted()}
            try:
                answer = await self.wire.post(f"{self.wire.api}/completions", body)
                reply = answer["choices"][0]
                value = float(reply["logprobs"]["token_logprobs"][0])
            except (RefusedError, LookupError, TypeError) as error:
                _raise_transient(error)
                return found
            if reply["text"].strip() == choice.strip() and value <= floor + 1e-3:
                found[choice] = value
        return found

    async def _tokenize(self, text: str, *, special: bool) -> tuple[int, ...] | None:
        """Ids by ``/tokenize`` (vLLM); None where there is none."""
        if self._tokenizes is False:
            return None
        body = {"model": self.model, "prompt": text, "add_special_tokens": special}
        try:
            ids = tuple(int(token) for token in (await self.wire.post(f"{self.wire.root}/tokenize", body))["tokens"])
        except (RefusedError, LookupError, TypeError, ValueError) as error:
            _raise_transient(error)
            self._tokenizes = False
            return None
        self._tokenizes = True
        return ids

    async def _check_single(self, choices: tuple[str, ...]) -> None:
        if choices in self._single:
            return
        if len(set(choices)) < max(len(choices), 1):
            raise ParameterError("choices", choices, "must be one or more different tokens")
        for choice in choices:
            ids = await self._tokenize(choice, special=False)
            if ids is not None and len(ids) != 1:
                raise ParameterError("choices", choice, f"must each be one token of {self.name!r}, this is {len(ids)}")
        self._single.add(choices)


def _raise_transient(error: Exception) -> None:
    """Do not take a server that is busy or away for one that cannot do what it was asked."""
    if getattr(error, "transient", False):
        raise error


def _text_only(prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    raise ParameterError("prompt", prompt[:8], "must be a text: a server's token ids are its own")


def _matched(listed: Mapping[str, float], choices: Sequence[str]) -> dict[str, float]:
    """Log-probabilities of the choices that are listed.

    Vocabularies write a leading blank as ``Ġ`` or ``▁``, and decoding a token by itself can lose it: where no choice is
    found to the letter, blanks around tokens and choices are ignored, and the likeliest such token counts.
    """
    plain = {token.replace("Ġ", " ").replace("▁", " "): value for token, value in listed.items()}
    exact = {choice: plain[choice] for choice in choices if choice in plain}
    if exact or len({choice.strip() for choice in choices}) < len(choices):
        return exact
    bare: dict[str, float] = {}
    for token, value in plain.items():
        bare[token.strip()] = max(value, bare.get(token.strip(), -math.inf))
    return {choice: bare[choice.strip()] for choice in choices if choice.strip() in bare}
