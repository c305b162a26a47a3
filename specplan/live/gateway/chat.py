"""Chats as the text that the target continues, where its server renders them (`calibrate.engines.http.chat`).

Servers that do not (OpenAI's own, older SGLang, llama.cpp) get the chat as it is, and decode it plainly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrate.engines.http.chat import rendered
from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import RefusedError
from specplan.live.gateway.asked import Message
from specplan.live.gateway.refusals import Refusal

__all__ = ["ChatTemplate"]


class ChatTemplate:
    """The chat template of a target, as far as its server tells it.

    Parameters
    ----------
    engine : the target's.

    Attributes
    ----------
    known : whether the server renders chats; None: it was not asked yet.
    """

    def __init__(self, engine: OpenAIEngine) -> None:
        self._engine = engine
        self.known: bool | None = None

    async def prompt(self, messages: Sequence[Message], settings: Mapping[str, Any]) -> str | None:
        """Return the text that the chat's answer continues; None where the server cannot tell it.

        Parameters
        ----------
        messages : of the chat.
        settings : of the template, such as ``enable_thinking``.

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
            self.known = False
            return None
        self.known = text is not None
        return text
