"""Answers as OpenAI's API has them: whole, and as events of a stream."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any, Final

from specplan.live.gateway.asked import Asked

__all__ = ["DONE", "Reply", "StopCutter", "event"]

DONE: Final = b"data: [DONE]\n\n"


def event(data: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class Reply:
    """Makes the objects of one answer.

    Parameters
    ----------
    asked : the request.
    model : name that is shown.
    """

    def __init__(self, asked: Asked, model: str) -> None:
        self._asked = asked
        self._chat = asked.kind == "chat"
        self._head = {
            "id": f"{'chatcmpl' if self._chat else 'cmpl'}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }

    def begin(self) -> bytes:
        """What a stream begins with: of a chat, whose turn it is."""
        return self._chunk({"role": "assistant", "content": ""}, None) if self._chat else b""

    def part(self, text: str) -> bytes:
        """A piece of the answer."""
        return self._chunk({"content": text} if self._chat else text, None)

    def end(self, finish: str, prompt_tokens: int, completion_tokens: int) -> bytes:
        """What a stream ends with: the reason, what was used if that was asked for, and the end mark."""
        last = self._chunk({} if self._chat else "", finish)
        if self._asked.include_usage:
            usage = {**self._head, "object": self._object(True), "choices": []}
            last += event({**usage, "usage": _usage(prompt_tokens, completion_tokens)})
        return last + DONE

    def whole(self, text: str, finish: str, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
        """The answer in one object."""
        said = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish}
        usage = _usage(prompt_tokens, completion_tokens)
        return {**self._head, "object": self._object(False), "choices": [choice], "usage": usage}

    def _chunk(self, said: dict[str, str] | str, finish: str | None) -> bytes:
        part = {"delta": said} if self._chat else {"text": said}
        choice = {"index": 0, **part, "logprobs": None, "finish_reason": finish}
        return event({**self._head, "object": self._object(True), "choices": [choice]})

    def _object(self, streamed: bool) -> str:
        if not self._chat:
            return "text_completion"
        return "chat.completion.chunk" if streamed else "chat.completion"


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}


class StopCutter:
    """Ends a text before the first stop string of the client, which may come in pieces.

    >>> cutter = StopCutter(("END",))
    >>> cutter.take("one E"), cutter.take("ND two"), cutter.stopped
    ('one ', '', True)
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def take(self, text: str) -> str:
        """Return what is certain to stand before any stop string."""
        held = self._held + text
        ends = [held.index(stop) for stop in self._stops if stop in held]
        if ends:
            self.stopped, self._held = True, ""
            return held[: min(ends)]
        keep = max((_overlap(held, stop) for stop in self._stops), default=0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def rest(self) -> str:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of a text with which a stop string begins."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if stop.startswith(text[-n:])), 0)
