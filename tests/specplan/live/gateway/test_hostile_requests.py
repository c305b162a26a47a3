"""Requests that no client sends by accident: each gets an error in OpenAI's form or an answer, and nothing is left."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from openai_server import Planted

from sim.configuration import Configuration
from specplan.live.gateway.control import Limits

pytest.importorskip("uvicorn", reason="needs the extra serve")

from gateways import planted_gateway

ASYNC = Configuration.parse("lr-async k1=2")
TINY = {"model": "tiny", "prompt": "one", "max_tokens": 30}

REFUSED: dict[str, Any] = {
    "nothing": b"",
    "text": b"prompt=one",
    "cut": b'{"model": "tiny", "prompt": "o',
    "list": b"[1, 2]",
    "null": b"null",
    "deep": b"[" * 100_000,
    "deep field": json.dumps({**TINY, "metadata": {}}).encode().replace(b"{}", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "not UTF-8": b'{"model": "tiny", "prompt": "\xff"}',
    "digits": b'{"model": "tiny", "prompt": "a", "max_tokens": ' + b"9" * 5000 + b"}",
    "infinite temperature": b'{"model": "tiny", "prompt": "a", "temperature": 1e999}',
    "temperature that is none": b'{"model": "tiny", "prompt": "a", "temperature": NaN}',
    **{
        f"{name} {value!r:.20}": {**TINY, name: value}
        for name, values in {
            "max_tokens": (-1, 0, 1.5, "many", True, [1], 10**9),
            "temperature": (-1, "hot", True, [0.5]),
            "top_p": (0, -0.5, 1.5, "all"),
            "seed": (1.5, "x", 2**80),
            "stop": ("", [""], ["x"] * 100, 5, [5], "s" * 5000),
            "stream": ("yes", 5, [True]),
            "stream_options": (5, [1]),
            "prompt": ("", [], None, 5, {"a": 1}, [{"a": 1}], "\ud800"),
            "model": ("other", "x" * 5000, 5, "\x1b[31m", ["tiny"]),
            "metadata": (5, "x", {"stream": 5}, {"stream": ["a"]}),
        }.items()
        for value in values
    },
}
CHATS: dict[str, Any] = {
    f"{name}": {"model": "tiny", "max_tokens": 20, "messages": messages}
    for name, messages in {
        "none": [],
        "null": None,
        "text": "hello",
        "numbers": [1],
        "no role": [{"content": "a"}],
        "long role": [{"role": "r" * 5000, "content": "a"}],
        "role of another kind": [{"role": 5, "content": "a"}],
        "content of another kind": [{"role": "user", "content": 5}],
        "half a character": [{"role": "user", "content": "\ud800"}],
    }.items()
}


async def test_hostile_bodies_are_refused_in_openais_form() -> None:
    wrong = []
    async with planted_gateway(ASYNC, planted=Planted(chats=True)) as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=60.0) as client:
            for path, bodies in (("completions", REFUSED), ("chat/completions", CHATS)):
                for name, body in bodies.items():
                    data = body if isinstance(body, bytes) else json.dumps(body).encode()
                    answer = await client.post(f"/v1/{path}", content=data)
                    said = answer.json().get("error", {}) if answer.status_code >= 400 else {}
                    if not 400 <= answer.status_code < 500 or not said.get("message") or not said.get("type"):
                        wrong.append(f"{path} {name}: {answer.status_code} {answer.text[:200]}")
                    elif len(said["message"]) > 1000 or not said["message"].isprintable():
                        wrong.append(f"{path} {name}: {said['message'][:200]!r}")
            good = await client.post("/v1/completions", json=TINY)
        assert served.serving.control.in_flight == 0
    assert not wrong, "\n".join(wrong)
    assert good.status_code == 200


async def test_bodies_and_heads_that_do_not_end_hold_no_place() -> None:
    """Slow bodies, lies about lengths, heads without an end: others are not held up, and places stay free."""
    heads = {
        "slow body": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
        "slow chunks": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        "no end of the head": b"GET /health HTTP/1.1\r\nHost: x\r\nX: ",
        "huge head": b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        "no HTTP": b"\x16\x03\x01 hello\r\n\r\n",
        "two lengths": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\n{}",
        "negative length": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n{}",
        "path up": b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    }
    async with planted_gateway(ASYNC, limits=Limits(in_flight=2, client_seconds=0.5)) as served:
        host, port = served.url.removeprefix("http://").split(":")
        said = {}

        async def talk(name: str) -> None:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(heads[name])
            said[name] = await asyncio.wait_for(reader.read(65_536), 30.0)
            writer.close()

        talks = [asyncio.ensure_future(talk(name)) for name in heads]
        answers = await asyncio.gather(*(served.answer(f"{i}") for i in range(2)))
        await asyncio.gather(*talks)
        assert served.serving.control.in_flight == 0
    assert all(answer.choices[0].text for answer in answers)
    assert said["slow body"].startswith(b"HTTP/1.1 408")
    assert said["slow chunks"].startswith(b"HTTP/1.1 408")
    assert said["no end of the head"].startswith(b"HTTP/1.1 408")
    for name in ("huge head", "no HTTP", "two lengths", "negative length"):
        assert said[name].startswith(b"HTTP/1.1 400"), said[name][:100]
    assert said["path up"].startswith(b"HTTP/1.1 404")
