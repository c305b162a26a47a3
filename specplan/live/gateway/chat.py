"""Renders chats into the text that the target continues, on its server (`calibrate.engines.http.chat`).

Chats for servers that cannot render (OpenAI's own, older SGLang, llama.cpp) are forwarded and decoded plainly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrate.engines.http.chat import rendered
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import RefusedError
from specplan.live.gateway.requests import Message, Refusal

__all__ = ["ChatTemplate"]


class ChatTemplate:
    """The chat template of a target, applied by its server; ``known``: whether it renders chats, None at first."""

    def __init__(self, engine: OpenAIEngine) -> None:
        self._engine = engine
        self.known: bool | None = None

    async def prompt(self, messages: Sequence[Message], settings: Mapping[str, Any]) -> str | None:
        """Return the text that the chat's answer continues; None where the server cannot render it.

        ``settings`` are arguments of the template, such as ``enable_thinking``.

        Raises
        ------
        Refusal : the template refuses these messages.
        CalibrationError : the server failed.
        """
        if self.known is False:
            return None
        chat = [message.model_dump(exclude_unset=True) for message in messages]
        try:
            text = await rendered(self._engine, chat, settings)
        except RefusedError as error:
            if error.transient or error.status in (401, 403):
                raise
            if error.status in (400, 422) and self.known:
                raise Refusal(f"the chat template refuses these messages: {error.detail}", param="messages") from None
            text = None
        self.known = text is not None
        return text
