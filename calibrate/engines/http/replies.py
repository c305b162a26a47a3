"""Probabilities of single-token replies to a prompt, from a server's list of its likeliest tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from calibrate.engines.http.server import Server, raise_transient
from calibrate.engines.http.stream import Streamed
from calibrate.engines.http.wire import RefusedError
from theory.errors import ParameterError

__all__ = ["Replies"]

_TOP: Final = (20, 5, 1)
"""Numbers of likeliest tokens to request, tried in turn: vLLM's default limit, OpenAI's, the least."""

_NEGLIGIBLE: Final = 0.01
"""Share of the choices' probability below which a choice that is not listed counts as 0."""


class Replies:
    """Requests the probabilities of replies from a server, as far as it reports them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._n_top = _TOP[0]
        self._single: set[tuple[str, ...]] = set()

    async def logprobs(self, text: str, choices: Sequence[str]) -> tuple[Streamed, dict[str, float]]:
        """Return the natural-log probabilities of replies to a prompt, as far as they are known, and the stream.

        Raises
        ------
        ParameterError : a choice is not one token of this model (where the server has ``/tokenize``).
        CalibrationError : no log-probabilities, or none of the choices is among the likeliest tokens.
        """
        await self._check_single(tuple(choices))
        streamed, listed = await self.likeliest(text)
        logs = _matched(listed, choices)
        if len(logs) < len(choices):
            # The K-th likeliest: vLLM also lists the sampled token, however unlikely.
            floor = sorted(listed.values(), reverse=True)[min(self._n_top, len(listed)) - 1]
            bound = math.exp(floor) * (len(choices) - len(logs))
            if bound > _NEGLIGIBLE * sum(map(math.exp, logs.values())):
                logs |= await self._forced(text, [c for c in choices if c not in logs], floor)
        if not logs:
            raise self._server.wire.error(
                f"none of the replies {', '.join(map(repr, choices))} is among the {len(listed)} likeliest tokens: "
                "the model does not answer the question (is it instruction-tuned? a draft's is left out by --no-gate)"
            )
        return streamed, logs

    async def likeliest(self, text: str) -> tuple[Streamed, dict[str, float]]:
        """Return the likeliest next tokens by their text, with natural-log probabilities before sampling settings.

        Raises
        ------
        CalibrationError : the server reports none.
        """
        server = self._server
        usage = {name: value for name, value in server.extras.items() if name == "stream_options"}
        while True:
            # Temperature 1: some servers report probabilities after applying it.
            options = {"stream": True, "temperature": 1.0, "logprobs": self._n_top, **usage, **server.salted()}
            try:
                streamed = await server.complete(server.body(text, 1) | options, Streamed())
            except RefusedError as error:
                if "logprob" not in error.detail.lower() or self._n_top == _TOP[-1]:
                    raise
                self._n_top = _TOP[_TOP.index(self._n_top) + 1]
                continue
            if streamed.likeliest:
                return streamed, {str(token): float(value) for token, value in streamed.likeliest.items()}
            raise server.wire.error(
                "gives no log-probabilities (logprobs) of its tokens, which a judge or gate needs "
                "(vLLM: --max-logprobs of at least 5)"
            )

    async def _forced(self, text: str, missing: Sequence[str], floor: float) -> dict[str, float]:
        """Log-probabilities of replies that are not among the likeliest, if the server supports constrained output.

        A server that reports log 1, after the constraint, contradicts ``floor``, the least of the listed ones.
        """
        forced: dict[str, float] = {}
        for choice in missing:
            body = {**self._server.body(text, 1), "temperature": 1.0, "logprobs": 1, **self._server.salted()}
            body["structured_outputs"] = {"choice": [choice]}
            try:
                answer = await self._server.wire.post(f"{self._server.wire.api}/completions", body)
                reply = answer["choices"][0]
                value, text_of_reply = float(reply["logprobs"]["token_logprobs"][0]), str(reply["text"])
            except (RefusedError, LookupError, TypeError, ValueError) as error:
                raise_transient(error)
                return forced
            if text_of_reply.strip() == choice.strip() and value <= floor + 1e-3:
                forced[choice] = value
        return forced

    async def _check_single(self, choices: tuple[str, ...]) -> None:
        if choices in self._single:
            return
        if len(set(choices)) < max(len(choices), 1):
            raise ParameterError("choices", choices, "must be one or more different tokens")
        for choice in choices:
            ids = await self._server.tokenize(choice, special=False)
            if ids is not None and len(ids) != 1:
                raise ParameterError(
                    "choices", choice, f"must each be one token of {self._server.config.name!r}, this is {len(ids)}"
                )
        self._single.add(choices)


def _matched(listed: Mapping[str, float], choices: Sequence[str]) -> dict[str, float]:
    """Log-probabilities of the choices that are listed.

    Vocabularies write a leading blank as ``Ġ`` or ``▁``, and decoding a single token can lose it: if no choice matches
    exactly, blanks around tokens and choices are ignored, and the likeliest such token counts.
    """
    if choices and all(choice in listed for choice in choices):
        return {choice: listed[choice] for choice in choices}
    plain = {token.replace("Ġ", " ").replace("▁", " "): value for token, value in listed.items()}
    exact = {choice: plain[choice] for choice in choices if choice in plain}
    if exact or len({choice.strip() for choice in choices}) < len(choices):
        return exact
    bare: dict[str, float] = {}
    for token, value in plain.items():
        bare[token.strip()] = max(value, bare.get(token.strip(), -math.inf))
    return {choice: bare[choice.strip()] for choice in choices if choice.strip() in bare}
