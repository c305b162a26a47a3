"""CPU time of the gateway for a token, by plain decoding and by Lookahead Reasoning, beside a reverse proxy's.

    python -m benchmarks.gateway_overhead

Planted servers write a token of each answer in each pass, so that each token comes by itself; gateways and proxy are
processes of their own, whose CPU time is read before and after each round. A request with ``top_k`` cannot be served by
steps: the gateway passes its bytes on. The proxy does not read what it passes on, which is the least that one in Python
can do. Lookahead Reasoning makes requests for each step: its steps have 40 tokens, as those that papers measured, or 8.
The kinds of requests take turns; the median of their rounds is printed, and how many such tokens a process can pass on
in a second, if it has a core for itself.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import psutil
from uvicorn.loops.auto import auto_loop_factory

from benchmarks.by_load import helper
from benchmarks.gateway_gain import PLAIN, gateway
from sim.configuration import Configuration
from specplan.output import table

CLIENTS: Final = (1, 16)
ANSWERS: Final = 4
"""Answers of a round, some 800 tokens each; at least one for each client."""
PASS_S: Final = {"target": 0.004, "draft": 0.002, "judge": 0.004}
ROUNDS: Final = 3
PROXY: Final = "a reverse proxy"
AHEAD: Final = "lr-async k1=5"
STEPS: Final = {"steps of 40": (20, (20, 60)), "steps of 8": (100, (4, 12))}
"""Steps of an answer, and the tokens of a step."""
KINDS: Final[dict[str, dict[str, Any]]] = {
    "plain decoding": {},
    "forwarded bytes": {"top_k": 50},
    PROXY: {},
    **{f"{AHEAD}, {steps}": {} for steps in STEPS},
}


async def answered(client: httpx.AsyncClient, body: dict[str, Any]) -> int:
    """Stream an answer; return the number of its tokens."""
    lines = list[str]()
    async with client.stream("POST", "/completions", json=body) as response:
        response.raise_for_status()
        lines = [line async for line in response.aiter_lines() if line.startswith("data: {")]
    return int(json.loads(lines[-1].removeprefix("data: "))["usage"]["completion_tokens"])


async def in_a_round(url: str, clients: int, more: dict[str, Any]) -> int:
    """Stream the answers of a round, ``clients`` at once; return the number of their tokens."""
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=120.0, limits=limits) as client:
        alike = {"max_tokens": 2000, "stream": True, "stream_options": {"include_usage": True}, **more}
        bodies = [{"prompt": f" one {i}", "seed": i, **alike} for i in range(max(clients, ANSWERS))]
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


def started(before: list[psutil.Process]) -> psutil.Process:
    """The process that this one has started since."""
    (process,) = (one for one in psutil.Process().children() if one not in before)
    return process


def main() -> None:
    """Measure, and print the table."""
    planted, places = helper("openai_server"), dict[str, tuple[str, psutil.Process]]()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        for steps, (n_steps, lengths) in STEPS.items():
            alike = {"steps": n_steps, "step_tokens": lengths, "max_context": 8192}
            servers = {
                role: stack.enter_context(planted.serving(planted.Planted(iteration_s=seconds, **alike))).url
                for role, seconds in PASS_S.items()
            }
            before = psutil.Process().children()
            url = stack.enter_context(gateway(Configuration.parse(AHEAD), Path(folder), None, servers))
            places[f"{AHEAD}, {steps}"] = url, started(before)
        before = psutil.Process().children()
        url = stack.enter_context(gateway(PLAIN, Path(folder), None, {"target": servers["target"]}))
        places |= dict.fromkeys(("plain decoding", "forwarded bytes"), (url, started(before)))
        words = [sys.executable, "-m", "benchmarks.gateway_overhead", servers["target"]]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            places[PROXY] = other.stdout.readline().strip(), psutil.Process(other.pid)
            try:
                rounds = measured(places)
            finally:
                other.terminate()
    rows = []
    for (kind, clients), seen in rounds.items():
        cpu_us, pace = (statistics.median(values) for values in zip(*seen, strict=True))
        rows.append([kind, str(clients), f"{cpu_us:,.0f}", f"{pace:,.0f}", f"{1e6 / cpu_us:,.0f}"])
    print(table(["answers", "at once", "CPU us a token", "tokens/s", "most tokens/s"], rows))


if __name__ == "__main__":
    if sys.argv[1:]:
        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            runner.run(proxy(sys.argv[1]))
    else:
        main()
