"""Chats become the text that the server reads as the very tokens of its template, or are left to the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra serve")

from pair_servers import running
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from calibrate.engines.http.engine import OpenAIEngine
from calibrate.engines.http.wire import HttpConfig
from specplan.live.gateway.chat import ChatTemplate
from specplan.live.gateway.requests import Message, Refusal
from theory.errors import CalibrationError

BEGIN = "<s>"
SAID = [Message(role="user", content="hi")]


def ids(text: str) -> list[int]:
    """A tokenizer that knows one token besides characters: the begin of a text, 1."""
    return [1 if part == BEGIN else ord(part) for part in _parts(text)]


def _parts(text: str) -> list[str]:
    before, begin, after = text.partition(BEGIN)
    return [*before, *([begin] if begin else []), *(_parts(after) if after else [])]


class TokenizerServer:
    """Renders chats as vLLM does; ``adds`` begins every text with a token of its own, ``loses`` forgets its blanks."""

    def __init__(self, *, adds: bool = True, loses: bool = False, status: int = 200) -> None:
        self.adds, self.loses, self.status = adds, loses, status
        self.n_asked = 0

    async def tokenize(self, request: Request) -> Response:
        self.n_asked += 1
        body = await request.json()
        if self.status != 200:
            return JSONResponse({"error": {"message": "planted"}}, status_code=self.status)
        if "messages" not in body:
            return JSONResponse({"tokens": [1] * self.adds + ids(body["prompt"])})
        if any(message["role"] == "robot" for message in body["messages"]):
            return JSONResponse({"error": {"message": "unknown role"}}, status_code=400)
        thinks = body.get("chat_template_kwargs", {}).get("enable_thinking", True)
        text = BEGIN + "".join(f"[{m['role']}] {m['content']}\n" for m in body["messages"])
        return JSONResponse({"tokens": ids(text + ("<think>" if thinks else "<answer>"))})

    async def detokenize(self, request: Request) -> Response:
        tokens = (await request.json())["tokens"]
        text = "".join(BEGIN if token == 1 else chr(token) for token in tokens)
        return JSONResponse({"prompt": text.replace(" ", "") if self.loses else text})

    @asynccontextmanager
    async def template(self) -> AsyncIterator[ChatTemplate]:
        routes = [Route(f"/{name}", getattr(self, name), methods=["POST"]) for name in ("tokenize", "detokenize")]
        async with running(Starlette(routes=routes)) as url:
            engine = OpenAIEngine(HttpConfig(name="target", url=url, model="m", retries=0))
            yield ChatTemplate(engine)
            await engine.close()


@pytest.mark.parametrize(("adds", "text"), [(True, "[user] hi\n<think>"), (False, "<s>[user] hi\n<think>")])
async def test_the_text_is_read_as_the_templates_tokens(adds: bool, text: str) -> None:
    async with TokenizerServer(adds=adds).template() as template:
        assert await template.prompt(SAID, {}) == text
        thoughtless = await template.prompt(SAID, {"enable_thinking": False})
        assert thoughtless == text.replace("think", "answer")


@pytest.mark.parametrize(("server", "n_asked"), [({"status": 404}, 1), ({"loses": True}, 2)])
async def test_chats_that_cannot_be_told_as_text_are_left_to_the_server(server: dict[str, Any], n_asked: int) -> None:
    planted = TokenizerServer(**server)
    async with planted.template() as template:
        assert await template.prompt(SAID, {}) is None
        assert await template.prompt(SAID, {}) is None
    assert planted.n_asked == n_asked  # it is not asked again


async def test_messages_that_the_template_refuses_are_the_clients_fault() -> None:
    async with TokenizerServer().template() as template:
        await template.prompt(SAID, {})
        with pytest.raises(Refusal, match="unknown role"):
            await template.prompt([Message(role="robot", content="x")], {})
        assert await template.prompt(SAID, {}) is not None


async def test_a_server_that_fails_for_a_while_is_asked_again() -> None:
    planted = TokenizerServer(status=503)
    async with planted.template() as template:
        with pytest.raises(CalibrationError):
            await template.prompt(SAID, {})
        planted.status = 200
        assert await template.prompt(SAID, {}) is not None
