"""Requests that no client sends by accident: each gets an error, and nothing is left."""

import asyncio

from gateways import planted_gateway

from sim.configuration import Configuration
from specplan.live.gateway.control import Limits

ASYNC = Configuration.parse("lr-async k1=2")


async def test_bodies_and_heads_that_do_not_end_hold_no_place() -> None:
    """Slow bodies, lies about lengths, heads without an end: others are not held up, and places stay free."""
    heads = {
        "slow body": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
        "slow chunks": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        "no end of the head": b"GET /health HTTP/1.1\r\nHost: x\r\nX: ",
        "huge head": b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        "no object": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]",
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
    assert b'"type":"invalid_request_error"' in said["no object"]
    for name in ("no object", "huge head", "no HTTP", "two lengths", "negative length"):
        assert said[name].startswith(b"HTTP/1.1 400"), said[name][:100]
    assert said["path up"].startswith(b"HTTP/1.1 404")
