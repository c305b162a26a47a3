"""From the messages of a chat to the text that its model continues, by the tokenizer endpoint of the target's server.

vLLM renders a chat by ``/tokenize`` and turns ids back into text by ``/detokenize``. The text is used only if the
server reads it as the very same ids: a template writes the begin-of-text token itself, and ``/v1/completions`` would
put a second one before it. Servers without these endpoints (OpenAI's own, older SGLang, llama.cpp) get the chat as it
is, and decode it plainly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import RefusedError
from specplan.gateway.asked import Message
from specplan.gateway.refusals import Refusal

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
        asked: dict[str, Any] = {"messages": [message.model_dump(exclude_unset=True) for message in messages]}
        asked |= {"add_generation_prompt": True, "add_special_tokens": False}
        if settings:
            asked["chat_template_kwargs"] = dict(settings)
        try:
            ids = await self._post("tokenize", asked, "tokens")
        except RefusedError as error:
            if error.transient or error.status in (401, 403):
                raise
            if error.status in (400, 422) and self.known:
                raise Refusal(f"the chat template refuses these messages: {error.detail}", param="messages") from None
            self.known = False
            return None
        text = await self._read_alike(ids)
        self.known = text is not None
        return text

    async def _read_alike(self, ids: Sequence[int]) -> str | None:
        """A text that ``/v1/completions`` reads as these ids."""
        try:
            text = await self._text(ids)
            read = await self._ids(text)
            if read[1:] == list(ids) and len(ids) > 1:  # two begin-of-text tokens: leave the template's out
                text = await self._text(ids[1:])
                read = await self._ids(text)
            return text if read == list(ids) else None
        except RefusedError as error:
            if error.transient:
                raise
            return None

    async def _text(self, ids: Sequence[int]) -> str:
        return str(await self._post("detokenize", {"tokens": list(ids)}, "prompt"))

    async def _ids(self, text: str) -> list[int]:
        return list(await self._post("tokenize", {"prompt": text, "add_special_tokens": True}, "tokens"))

    async def _post(self, name: str, body: dict[str, Any], field: str) -> Any:
        wire = self._engine.wire
        answer = await wire.post(f"{wire.root}/{name}", {"model": self._engine.model, **body})
        if not isinstance(answer, dict) or field not in answer:
            raise RefusedError(f"/{name} has no {field!r}", status=404, detail="")
        return answer[field]
