"""Answers of the server under test, and the likeliest tokens of target and draft at each of their positions.

Answers are streams of ``/v1/completions`` with token ids, drawn at temperature 1 without top-p, top-k or penalties:
there the probabilities that servers list are those that tokens are drawn by. They are read by ``prompt_logprobs``
(vLLM), from a request whose prompt is the answer with what precedes it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from calibrate.engines.http.server import Server
from calibrate.engines.http.stream import Streamed
from calibrate.engines.http.wire import HttpConfig, RefusedError
from calibrate.running.closed_loop import all_or_none
from specplan.live.certifying.cells import Answer, Row, Scored
from theory.errors import CalibrationError, ParameterError

__all__ = ["N_SCORINGS", "Wanted", "opened", "scored_answers"]

T = TypeVar("T")

_EXACT: Final[dict[str, Any]] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Sampling from the whole law: a server's defaults, often those of the model's generation config, do not apply."""

N_SCORINGS: Final = 4
"""Requests for each answer without a draft: the stream, the target twice, and after another prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How much is drawn, and how."""

    tokens: int
    """Least number of tokens of all answers."""
    answer_tokens: int
    """Tokens of an answer."""
    top: int
    """Likeliest tokens to request at each position."""
    concurrency: int
    """Requests in flight."""
    seed: int | None
    """Seed of the first answer, plus 1 for each further one; None: none is sent."""

    @property
    def answers(self) -> int:
        """Number of answers."""
        return math.ceil(self.tokens / self.answer_tokens)


@asynccontextmanager
async def opened(url: str, target: str | None, draft: str | None, **options: Any) -> AsyncIterator[dict[str, Server]]:
    """Open the ``server`` under test, the plain ``target``, by default the same, and the ``draft`` if there is one.

    Raises
    ------
    CalibrationError : a server is unreachable, or gives no token ids.
    """
    named = {"server": url, "target": target, "draft": draft}
    servers = {name: Server(HttpConfig.of(name, at, **options)) for name, at in named.items() if at is not None}
    try:
        for server in servers.values():
            await server.explore()
        if not servers["server"].tells_ids:
            rule = "gives no token ids (return_token_ids), which bets on tokens need: vLLM does from 0.10.2 on"
            raise servers["server"].wire.error(rule)
        yield {"target": servers["server"], **servers}
    finally:
        for server in servers.values():
            await server.wire.close()


async def scored_answers(
    servers: Mapping[str, Server], prompts: Sequence[str], wanted: Wanted, report: Callable[[], None]
) -> list[Scored]:
    """Draw answers to the prompts in turns, and score them.

    Parameters
    ----------
    servers : as `opened` gives them.
    prompts : two at least, which differ.
    report : called after each request.

    Raises
    ------
    CalibrationError : a server failed, or lacks ``/tokenize`` or ``prompt_logprobs``.
    ParameterError : a server has another tokenizer, or prompts are too few or too short.
    """
    ids = [await _tokenized(servers, text) for text in dict.fromkeys(prompts)]
    if len(ids) < 2:
        raise ParameterError("prompts", len(ids), "must be at least two different texts")
    texts = [ids[i % len(ids)] for i in range(wanted.answers + 1)]
    answers: list[Answer] = []

    async def several(work: Callable[[int], Awaitable[T]], concurrency: int = wanted.concurrency) -> list[T]:
        places = asyncio.Semaphore(concurrency)

        async def placed(i: int) -> T:
            async with places:
                result = await work(i)
            report()
            return result

        return await all_or_none([placed(i) for i in range(wanted.answers)])

    def listed(name: str, *, elsewhere: bool = False) -> Callable[[int], Awaitable[list[Row]]]:
        return lambda i: _listed(servers[name], texts[i + elsewhere], answers[i], wanted.top)

    answers += await several(lambda i: _answer(servers["server"], texts[i], i, wanted))
    own = await several(listed("target"), concurrency=1)
    again = await several(listed("target"))
    elsewhere = await several(listed("target", elsewhere=True))
    drafts = await several(listed("draft")) if "draft" in servers else []
    return [
        Scored(
            answer=answer,
            target=own[i][1:],
            again=again[i][1:],
            before=own[i][:-1],
            elsewhere=elsewhere[i][1:],
            draft=drafts[i][1:] if drafts else None,
        )
        for i, answer in enumerate(answers)
    ]


async def _tokenized(servers: Mapping[str, Server], text: str) -> tuple[int, ...]:
    """The token ids of a prompt, which must be those of all servers."""
    ids = await servers["server"].tokenize(text, special=True)
    if ids is None:
        raise servers["server"].wire.error("has no /tokenize, by which prompts become token ids: vLLM's server has it")
    if len(ids) < 2:
        raise ParameterError("prompts", text, "must have at least two tokens each")
    for name, other in servers.items():
        if await other.tokenize(text, special=True) not in (None, ids):
            rule = "must have the tokenizer of the server under test: it splits a prompt otherwise"
            raise ParameterError(name, other.config.url, rule)
    return ids


async def _answer(server: Server, prompt: tuple[int, ...], number: int, wanted: Wanted) -> Answer:
    """Draw an answer of a fixed length; one that ends earlier must hold its end token."""
    streamed = Streamed()
    body = {"model": server.model, "prompt": prompt, "max_tokens": wanted.answer_tokens, "stream": True, **_EXACT}
    body |= {"return_token_ids": True, "ignore_eos": True, "stream_options": {"include_usage": True}}
    body |= {} if wanted.seed is None else {"seed": wanted.seed + number}
    await _accepted(server, server.wire.stream(f"{server.wire.api}/completions", body, streamed.take))
    if not streamed.reason:
        raise server.wire.broken_off("ended an answer in the middle, without a reason")
    n = int(streamed.usage.get("completion_tokens") or 0)
    if not streamed.ids or len(streamed.ids) < (n or wanted.answer_tokens):
        rule = f"gives the ids of {len(streamed.ids)} of {n or wanted.answer_tokens} tokens of an answer"
        raise server.wire.error(f"{rule}: bets need all of them, the end of text too")
    return Answer(prompt=prompt, tokens=tuple(streamed.ids), passes=tuple(n for _, n in streamed.arrivals))


async def _listed(server: Server, prompt: tuple[int, ...], answer: Answer, top: int) -> list[Row]:
    """The likeliest tokens at the position before the answer, and at each position of it."""
    body = {"model": server.model, "prompt": (*prompt, *answer.tokens), "max_tokens": 1, "prompt_logprobs": top}
    page = await _accepted(server, server.wire.post(f"{server.wire.api}/completions", {**body, **_EXACT}))
    try:
        entries = page["choices"][0].get("prompt_logprobs") or page.get("prompt_logprobs")
    except (LookupError, TypeError, AttributeError):
        entries = None
    if not entries:
        option = "--draft" if server.config.name == "draft" else "--target"
        raise server.wire.error(f"gives no prompt_logprobs: name a server that does with {option}, such as vLLM's")
    try:
        if len(entries) != len(prompt) + len(answer.tokens):
            raise ValueError
        return [_row(entry, top) for entry in entries[len(prompt) - 1 :]]
    except (LookupError, TypeError, ValueError, AttributeError):
        rule = "gives prompt_logprobs that are not {token id: {logprob: number}} for each token of the prompt"
        raise server.wire.error(rule) from None


def _row(entry: Any, top: int) -> Row:
    """The likeliest tokens; the prompt's token, which is listed too, is dropped where it is not one of them."""
    logs = {int(token): float(record["logprob"]) for token, record in entry.items()}
    if not logs or not all(log <= 1.0 for log in logs.values()):
        raise ValueError
    return {token: math.exp(min(logs[token], 0.0)) for token in sorted(logs, key=lambda t: (-logs[t], t))[:top]}


async def _accepted(server: Server, request: Awaitable[T]) -> T:
    """The answer to a request; a refusal of ``prompt_logprobs`` or of other parameters says what to do."""
    try:
        return await request
    except RefusedError as error:
        if error.transient or "logprob" not in error.detail.lower():
            raise
        remedy = "give a smaller --top, or start it with a larger --max-logprobs"
        raise CalibrationError(f"{server.config.name} at {server.wire.api}: {error.detail}: {remedy}") from None
