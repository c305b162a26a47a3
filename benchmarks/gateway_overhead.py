"""CPU time of the gateway for a token, where it does not speculate, beside a reverse proxy's.

    python -m benchmarks.gateway_overhead

A planted server writes a token of each answer in each pass, so that each token comes by itself; gateway and proxy are
processes of their own, whose CPU time is read before and after each round. A request with ``top_k`` cannot be served by
steps: the gateway passes its bytes on. The proxy does not read what it passes on, which is the least that one in Python
can do. The kinds of requests take turns; the median of their rounds is printed.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import psutil
from uvicorn.loops.auto import auto_loop_factory

from benchmarks.by_load import helper
from benchmarks.gateway_gain import PLAIN, gateway
from specplan.output import table

CLIENTS: Final = (1, 16)
ANSWERS: Final = 4
"""Answers of a round, some 800 tokens each; at least one for each client."""
PASS_S: Final = 0.004
ROUNDS: Final = 3
PROXY: Final = "a reverse proxy"
KINDS: Final[dict[str, dict[str, Any]]] = {"plain decoding": {}, "forwarded bytes": {"top_k": 50}, PROXY: {}}


async def answered(client: httpx.AsyncClient, body: dict[str, Any]) -> int:
    """Stream an answer; return the number of its tokens."""
    n_tokens = 0
    async with client.stream("POST", "/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            n_tokens += line.startswith("data: {")
    return n_tokens


async def in_a_round(url: str, clients: int, more: dict[str, Any]) -> int:
    """Stream the answers of a round, ``clients`` at once; return the number of their tokens."""
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=120.0, limits=limits) as client:
        bodies = [
            {"prompt": f" one {i}", "seed": i, "max_tokens": 2000, "stream": True, **more}
            for i in range(max(clients, ANSWERS))
        ]
        return sum(await asyncio.gather(*(answered(client, body) for body in bodies)))


async def proxy(url: str) -> None:
    """Pass all bytes on to the server at a URL, and back; print the address."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*urlsplit(url).netloc.split(":"))
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def measured(places: dict[str, tuple[str, psutil.Process]]) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """CPU microseconds for a token, and tokens per second, of each round; by kind a URL, and the process behind it."""
    rounds: dict[tuple[str, int], list[tuple[float, float]]] = {(k, n): [] for n in CLIENTS for k in KINDS}
    for number in range(ROUNDS + 1):
        for (kind, clients), seen in rounds.items():
            url, process = places[kind]
            before, begun = process.cpu_times(), time.perf_counter()
            n_tokens = asyncio.run(in_a_round(url, clients, KINDS[kind]))
            after, seconds = process.cpu_times(), time.perf_counter() - begun
            cpu = after.user + after.system - before.user - before.system
            if number:  # the first round opens connections
                seen.append((1e6 * cpu / n_tokens, n_tokens / seconds))
    return rounds


def main() -> None:
    """Measure, and print the table."""
    planted = helper("openai_server")
    with (
        TemporaryDirectory() as folder,
        planted.serving(planted.Planted(steps=100, max_context=8192, iteration_s=PASS_S)) as server,
        gateway(PLAIN, Path(folder), None, {"target": server.url}) as url,
    ):
        (process,) = psutil.Process().children()
        words = [sys.executable, "-m", "benchmarks.gateway_overhead", server.url]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            passed_on = other.stdout.readline().strip(), psutil.Process(other.pid)
            try:
                rounds = measured({kind: passed_on if kind == PROXY else (url, process) for kind in KINDS})
            finally:
                other.terminate()
    rows = [
        [kind, str(clients), *(f"{statistics.median(values):,.0f}" for values in zip(*seen, strict=True))]
        for (kind, clients), seen in rounds.items()
    ]
    print(table(["answers", "at once", "CPU us a token", "tokens/s"], rows))


if __name__ == "__main__":
    if sys.argv[1:]:
        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            runner.run(proxy(sys.argv[1]))
    else:
        main()
