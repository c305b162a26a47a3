"""Chats become the text that the server reads as the very tokens of its template, or are left to the server."""

import re
from typing import Any

import pytest

from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import HttpConfig, RefusedError
from specplan.live.gateway.chat import ChatTemplate
from specplan.live.gateway.requests import Message, Refusal

BEGIN = "<s>"
SAID = [Message(role="user", content="hi")]


def ids(text: str) -> list[int]:
    """A tokenizer that knows one token besides characters: the begin of a text, 1."""
    return [1 if part == BEGIN else ord(part) for part in re.findall(f"{BEGIN}|.", text, re.DOTALL)]


class Tokenizer:
    """Renders chats as vLLM does; ``adds`` begins every text with a token of its own, ``loses`` forgets its blanks."""

    def __init__(self, *, adds: bool = True, loses: bool = False, status: int = 200) -> None:
        self.adds, self.loses, self.status = adds, loses, status
        self.n_asked = 0
        engine = OpenAIEngine(HttpConfig(name="target", url="http://127.0.0.1:9", model="m"))
        engine.wire.post = self.post  # type: ignore[method-assign]
        self.template = ChatTemplate(engine)

    async def post(self, url: str, body: dict[str, Any]) -> Any:
        if url.endswith("/detokenize"):
            text = "".join(BEGIN if token == 1 else chr(token) for token in body["tokens"])
            return {"prompt": text.replace(" ", "") if self.loses else text}
        self.n_asked += 1
        if self.status != 200:
            raise RefusedError("planted", status=self.status, detail="planted")
        if "messages" not in body:
            return {"tokens": [1] * self.adds + ids(body["prompt"])}
        if body["messages"][0]["role"] == "robot":
            raise RefusedError("planted", status=400, detail="unknown role")
        thinks = body.get("chat_template_kwargs", {}).get("enable_thinking", True)
        text = BEGIN + "".join(f"[{m['role']}] {m['content']}\n" for m in body["messages"])
        return {"tokens": ids(text + ("<think>" if thinks else "<answer>"))}


@pytest.mark.parametrize(("adds", "text"), [(True, "[user] hi\n<think>"), (False, "<s>[user] hi\n<think>")])
async def test_the_text_is_read_as_the_templates_tokens(adds: bool, text: str) -> None:
    planted = Tokenizer(adds=adds, status=503)
    template = planted.template
    with pytest.raises(RefusedError):
        await template.prompt(SAID, {})
    planted.status = 200  # one that fails for a while is asked again
    assert await template.prompt(SAID, {}) == text
    with pytest.raises(Refusal, match="unknown role"):  # of messages that the template refuses the client is told
        await template.prompt([Message(role="robot", content="x")], {})
    assert await template.prompt(SAID, {"enable_thinking": False}) == text.replace("think", "answer")


@pytest.mark.parametrize(("server", "n_asked"), [({"status": 404}, 1), ({"loses": True}, 2)])
async def test_chats_that_cannot_be_told_as_text_are_left_to_the_server(server: dict[str, Any], n_asked: int) -> None:
    planted = Tokenizer(**server)
    assert await planted.template.prompt(SAID, {}) is None
    assert await planted.template.prompt(SAID, {}) is None
    assert planted.n_asked == n_asked  # it is not asked again
