"""Text that a model continues for the messages of a chat, by the tokenizer endpoints of its server.

vLLM renders a chat by ``/tokenize`` and converts ids to text by ``/detokenize``. The text is used only if the server
tokenizes it to the same ids: a template contains the begin-of-text token, and ``/v1/completions`` would add a second
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import RefusedError
from theory.errors import CalibrationError

__all__ = ["UserTurns", "rendered"]


async def rendered(
    engine: OpenAIEngine, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
) -> str | None:
    """Return the text that a chat's answer continues; None where no text is tokenized to the template's ids.

    ``messages`` are in the format of OpenAI's API, ``settings`` those of the template, such as ``enable_thinking``.

    Raises
    ------
    RefusedError : the server renders no chats, or not these messages.
    CalibrationError : the server failed.
    """
    body: dict[str, Any] = {"messages": list(messages), "add_generation_prompt": True, "add_special_tokens": False}
    if settings:
        body["chat_template_kwargs"] = dict(settings)
    ids = list(await _post(engine, "tokenize", body, "tokens"))
    try:
        for sent in (ids, ids[1:]):  # the second time without the template's begin-of-text token, if there were two
            text = str(await _post(engine, "detokenize", {"tokens": sent}, "prompt"))
            read = list(await _post(engine, "tokenize", {"prompt": text, "add_special_tokens": True}, "tokens"))
            if read == ids or not (read[1:] == ids and len(ids) > 1):
                break
        return text if read == ids else None
    except RefusedError as error:
        if error.transient:
            raise
        return None


class UserTurns:
    """Renders a question as the first turn of a user, by the target's chat template with these settings."""

    def __init__(self, engine: OpenAIEngine, settings: Mapping[str, Any]) -> None:
        self._engine = engine
        self._settings = dict(settings)
        self._known: dict[str, str] = {}

    async def __call__(self, question: str) -> str:
        """Return the text that the answer to a question continues.

        Raises
        ------
        CalibrationError : the server renders no chats, or no text is tokenized to its result.
        """
        if question not in self._known:
            name = self._engine.config.name
            try:
                text = await rendered(self._engine, [{"role": "user", "content": question}], self._settings)
            except RefusedError as error:
                if error.transient:
                    raise
                rule = "renders no chats (POST /tokenize and /detokenize, as vLLM has them)"
                raise CalibrationError(f"{name}: {rule}: {error.detail or error}; leave --chat out") from None
            if text is None:
                raise CalibrationError(
                    f"{name}: what its chat template renders cannot be sent as text; leave --chat out"
                )
            self._known[question] = text
        return self._known[question]


async def _post(engine: OpenAIEngine, name: str, body: dict[str, Any], field: str) -> Any:
    answer = await engine.wire.post(f"{engine.wire.root}/{name}", {"model": engine.model, **body})
    if not isinstance(answer, dict) or field not in answer:
        raise RefusedError(f"/{name} has no {field!r}", status=404, detail="")
    return answer[field]
