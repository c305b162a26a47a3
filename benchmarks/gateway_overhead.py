"""CPU time of the gateway for a token, by plain decoding and by Lookahead Reasoning, beside a reverse proxy's.

    python -m benchmarks.gateway_overhead
    python -m benchmarks.gateway_overhead --workers 2

Planted servers write a token of each answer in each pass, so that each token comes by itself; gateways and proxy are
processes of their own, whose CPU time is read before and after each round. A request with ``top_k`` cannot be served by
steps: the gateway passes its bytes on. The proxy does not read what it passes on, which is the least that one in Python
can do. Lookahead Reasoning makes requests for each step: its steps have 40 tokens, as those that papers measured, or 8.
The kinds of requests take turns; the median of their rounds is printed, and how many such tokens a process can pass on
in a second, if it has a core for itself. With ``--workers`` gateways with so many workers take turns with those
of one process, and what their hub takes is printed apart; plain decoding measures itself there, as each token of it is
then an event for the hub, and most tokens per second are those of all workers, or of the hub if that is less.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
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
BY_WORKERS: Final = {"plain decoding, measured": (PLAIN, True), AHEAD: (Configuration.parse(AHEAD), False)}
"""What is served by one process and by several: its configuration, and whether it is measured."""


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


Rounds = dict[tuple[str, int], list[tuple[float, float, float]]]
"""Kind and clients -> CPU microseconds for a token, of the process and of those below it, and tokens per second."""


def measured(places: dict[str, tuple[str, psutil.Process]], clients: Sequence[int] = CLIENTS) -> Rounds:
    """What each round took; by kind a URL, and the process behind it."""
    rounds: Rounds = {(kind, n): [] for n in clients for kind in places}
    for number in range(ROUNDS + 1):
        for (kind, n), seen in rounds.items():
            url, process = places[kind]
            before, begun = used(process), time.perf_counter()
            n_tokens = asyncio.run(in_a_round(url, n, KINDS.get(kind, {})))
            after, seconds = used(process), time.perf_counter() - begun
            own, below = (1e6 * (b - a) / n_tokens for a, b in zip(before, after, strict=True))
            if number:  # the first round opens connections
                seen.append((own, below, n_tokens / seconds))
    return rounds


def used(process: psutil.Process) -> tuple[float, float]:
    """CPU time of a process, and of those below it, s."""
    times = [one.cpu_times() for one in (process, *process.children())]
    own, *below = [one.user + one.system for one in times]
    return own, sum(below)


def started(before: list[psutil.Process]) -> psutil.Process:
    """The process that this one has started since."""
    (process,) = (one for one in psutil.Process().children() if one not in before)
    return process


def planted_servers(stack: ExitStack, steps: int, step_tokens: tuple[int, int]) -> dict[str, str]:
    """Start a server for each role; return their URLs."""
    planted = helper("openai_server")
    alike = {"steps": steps, "step_tokens": step_tokens, "max_context": 8192}
    return {
        role: stack.enter_context(planted.serving(planted.Planted(iteration_s=seconds, **alike))).url
        for role, seconds in PASS_S.items()
    }


def by_workers(workers: int) -> None:
    """Measure gateways of one process and of so many workers, and print the table."""
    places = dict[str, tuple[str, psutil.Process]]()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        servers = planted_servers(stack, *STEPS["steps of 8"])
        for kind, (configuration, measures) in BY_WORKERS.items():
            behind = {role: servers[role] for role in (("target",) if configuration == PLAIN else PASS_S)}
            for n in (1, workers):
                before = psutil.Process().children()
                inside = gateway(configuration, Path(folder), None, behind, measures=measures, workers=n)
                url = stack.enter_context(inside)
                places[f"{kind}, {n}"] = url, started(before)
        rounds = measured(places, CLIENTS[-1:])
    rows = []
    for (kind, clients), seen in rounds.items():
        own, below, pace = (statistics.median(values) for values in zip(*seen, strict=True))
        most = min(1e6 / own, workers * 1e6 / below if below else math.inf)
        rows.append([kind, str(clients), *(f"{value:,.1f}" for value in (own, below, own + below)), f"{pace:,.0f}"])
        rows[-1].append(f"{most:,.0f}")
    heads = ["answers, workers", "at once", "first process us a token", "workers", "sum", "tokens/s", "most tokens/s"]
    print(table(heads, rows))


def main() -> None:
    """Measure, and print the table."""
    places = dict[str, tuple[str, psutil.Process]]()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        for steps, (n_steps, lengths) in STEPS.items():
            servers = planted_servers(stack, n_steps, lengths)
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
        cpu_us, _, pace = (statistics.median(values) for values in zip(*seen, strict=True))
        rows.append([kind, str(clients), f"{cpu_us:,.0f}", f"{pace:,.0f}", f"{1e6 / cpu_us:,.0f}"])
    print(table(["answers", "at once", "CPU us a token", "tokens/s", "most tokens/s"], rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--workers"]:
        by_workers(int(sys.argv[2]))
    elif sys.argv[1:]:
        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            runner.run(proxy(sys.argv[1]))
    else:
        main()
