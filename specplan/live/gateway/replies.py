"""Answers in the form of OpenAI's API: whole, and as events of a stream."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, Final

from pydantic_core import to_json

from specplan.live.gateway.requests import AnswerRequest

__all__ = ["DONE", "Reply", "StopCutter", "event"]

DONE: Final = b"data: [DONE]\n\n"

_CHOICE: Final[dict[str, Any]] = {"index": 0, "logprobs": None, "finish_reason": None, "stop_reason": None}
_MARK: Final = "\ue000"
"""Stands for a piece's text where events of pieces are prepared."""


def event(data: Any) -> bytes:
    """Return an event of a stream."""
    return b"data: " + to_json(data) + b"\n\n"


class Reply:
    """Makes the objects of an answer.

    Parameters
    ----------
    request : the request that is answered.
    model : name of the model that the answer states.
    n_prompt : tokens of the prompt; may be set later, before they are said.
    """

    def __init__(self, request: AnswerRequest, model: str, n_prompt: int) -> None:
        self._request = request
        self.n_prompt = n_prompt
        self._chat = request.kind == "chat"
        self._head = {
            "id": f"{'chatcmpl' if self._chat else 'cmpl'}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }
        prepared = self._chunk({"content": _MARK} if self._chat else _MARK)
        self._before, _, self._after = prepared.rpartition(to_json(_MARK))

    def begin(self) -> bytes:
        """Return the first event of a stream: the role in a chat, else nothing."""
        return self._chunk({"role": "assistant", "content": ""}) if self._chat else b""

    def part(self, text: str, n_tokens: int) -> bytes:
        """Return an event with a piece of the answer, and with its tokens so far if that was requested."""
        if self._request.continuous_usage:
            return self._chunk({"content": text} if self._chat else text, usage=self._usage(n_tokens))
        return self._before + to_json(text) + self._after

    def end(self, finish: str, stop: str | None, n_tokens: int) -> bytes:
        """Return the last events of a stream: the finish reason, the usage if requested, and the end mark."""
        last = self._chunk({} if self._chat else "", finish_reason=finish, stop_reason=stop)
        if self._request.include_usage:
            last += event({**self._head, "object": self._object(True), "choices": [], "usage": self._usage(n_tokens)})
        return last + DONE

    def whole(self, text: str, finish: str, stop: str | None, n_tokens: int) -> dict[str, Any]:
        """Return the answer as one object; ``stop``: the client's string that ended it."""
        said = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice = {**_CHOICE, **said, "finish_reason": finish, "stop_reason": stop}
        return {**self._head, "object": self._object(False), "choices": [choice], "usage": self._usage(n_tokens)}

    def _chunk(self, said: dict[str, str] | str, *, usage: dict[str, int] | None = None, **end: str | None) -> bytes:
        choice = {**_CHOICE, **({"delta": said} if self._chat else {"text": said}), **end}
        more = {} if usage is None else {"usage": usage}
        return event({**self._head, "object": self._object(True), "choices": [choice], **more})

    def _object(self, streamed: bool) -> str:
        if not self._chat:
            return "text_completion"
        return "chat.completion.chunk" if streamed else "chat.completion"

    def _usage(self, n_tokens: int) -> dict[str, int]:
        total = self.n_prompt + n_tokens
        return {"prompt_tokens": self.n_prompt, "completion_tokens": n_tokens, "total_tokens": total}


class StopCutter:
    """Cuts a text before the client's first stop string, which may arrive in pieces.

    >>> cutter = StopCutter(("END",))
    >>> cutter.take("one E"), cutter.take("ND two"), cutter.stopped_by
    ('one ', '', 'END')
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.stopped_by: str | None = None
        """The stop string that ended the text; None before."""

    def take(self, text: str) -> str:
        """Take a piece of text; return the text that certainly precedes any stop string."""
        if not self._stops:
            return text
        held = self._held + text
        ends = [(held.index(stop), stop) for stop in self._stops if stop in held]
        if ends:
            end, self.stopped_by = min(ends)
            self._held = ""
            return held[:end]
        keep = max((_overlap(held, stop) for stop in self._stops), default=0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def rest(self) -> str:
        """Return the text that was held back, at the end of the answer."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest suffix of ``text`` that is a proper prefix of ``stop``."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if stop.startswith(text[-n:])), 0)
