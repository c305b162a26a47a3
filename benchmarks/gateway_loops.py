"""A gateway that measures itself over real vLLM servers: closed loops beside plain decoding and the best fixed choice.

    .venv-vllm/bin/python -m benchmarks.gateway_loops --clients 4 -o loops.json

starts servers of the bundled pair on this machine: target, draft (the target judges), and the target with EAGLE.
Clients that ask again at once go through arms, one after the other, each with questions of its own:

- plain decoding, asked for directly, at the beginning and again at the end: how far the two differ, and the worst
  stretch of the one beside the mean of the other, is what the machine does by itself (placebo);
- good: the gateway may run EAGLE, which gains; and EAGLE always;
- bad: it may run Lookahead Reasoning, for which two cores are too few; and that always;
- slowed: it may run EAGLE, whose server is stopped for two thirds of the time from the middle of the arm on; and plain
  decoding, asked for directly, while that idle server is stopped in the same way, which takes time of the machine too.

Printed are tokens and answers per second, the pace over that of plain decoding, and the worst over any so many answers
in a row. Once EAGLE's server was slowed, that is plain decoding beside the slowed server, where it was measured. What
is finished is in the file, and the same command goes on from there. SIGTERM ends it with its servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.by_load import helper
from benchmarks.gateway_gain import PLAIN, gateway
from calibrate import pair
from calibrate.models.asking import bundled_problems
from sim.configuration import Configuration
from specplan.output import table

EAGLE: Final = Configuration.parse("eagle k2=4")
LOOKAHEAD: Final = Configuration.parse("lr-sync k1=2")
EAGLE_SERVER: Final = {"method": "eagle", "num_speculative_tokens": 3, "model": str(pair.head_path())}
STOPPED_S, RUNS_S = 0.02, 0.01
"""What a slowed server does in turns, s."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What is asked: plain decoding's server, or a gateway."""

    name: str
    share: float
    """Answers, as a multiple of the window; of a slowed arm each half has so many."""
    candidate: Configuration | None = None
    """What the gateway may run; None: the target's server is asked directly."""
    measures: bool = False
    slowed: bool = False


ARMS: Final = (
    Arm(name="plain", share=1.25),
    Arm(name="good: gateway", share=2.5, candidate=EAGLE, measures=True),
    Arm(name="bad: gateway", share=1.5, candidate=LOOKAHEAD, measures=True),
    Arm(name="good: always", share=0.5, candidate=EAGLE),
    Arm(name="slowed: gateway", share=1.5, candidate=EAGLE, measures=True, slowed=True),
    Arm(name="plain again", share=1.25),
    Arm(name="bad: always", share=0.3, candidate=LOOKAHEAD),
    Arm(name="plain through a gateway", share=0.5, candidate=PLAIN),
    Arm(name="slowed: plain", share=0.75, slowed=True),
)


@dataclass(kw_only=True)
class Run:
    """What came of an arm."""

    ends: list[float] = field(default_factory=list)
    """Moments at which answers ended, s since the start."""
    tokens: list[int] = field(default_factory=list)
    """Tokens of these answers."""
    changed: float | None = None
    """When the server was slowed, s since the start."""
    said: list[tuple[float, str]] = field(default_factory=list)
    """The gateway's log, s since the start."""
    date: str = ""

    def pace(self, since: float = 0.0, until: float = float("inf"), *, answers: bool = False) -> float:
        """Tokens (or answers) per second between the first end at ``since`` or later and the last end by ``until``."""
        first = next(i for i, end in enumerate(self.ends) if end >= since)
        last = max(i for i, end in enumerate(self.ends) if end <= until)
        work = last - first if answers else sum(self.tokens[first + 1 : last + 1])
        return work / (self.ends[last] - self.ends[first])

    def worst(self, window: int, since: float = 0.0, until: float = float("inf")) -> float | None:
        """Least tokens per second of so many answers in a row whose last ended in a time; None where there are none."""
        paces = [
            sum(self.tokens[i + 1 : i + window + 1]) / (self.ends[i + window] - self.ends[i])
            for i in range(len(self.ends) - window)
            if since < self.ends[i + window] <= until
        ]
        return min(paces, default=None)


async def asked(client: httpx.AsyncClient, prompt: str, seed: int, tokens: int) -> int:
    """Stream an answer; return its tokens, by the server's count."""
    sampling = {"temperature": 0.6, "top_p": 0.95, "seed": seed, "max_tokens": tokens}
    body = {"model": "target", "prompt": prompt, "stream": True, "stream_options": {"include_usage": True}, **sampling}
    end = b""
    async with client.stream("POST", "/completions", json=body) as response:
        response.raise_for_status()
        async for part in response.aiter_raw():
            end = (end + part)[-2000:]
    return int(re.findall(rb'"completion_tokens": ?(\d+)', end)[-1])


async def closed_loop(
    url: str, clients: int, prompts: Sequence[str], most: int, tokens: int, change: Callable[[], None] | None = None
) -> Run:
    """Have clients ask until so many answers have ended; in the middle ``change`` is called."""
    run, begun, numbers, done = Run(), time.monotonic(), count(), asyncio.Event()

    async def asks(client: httpx.AsyncClient) -> None:
        while not done.is_set():
            number = next(numbers)
            n_tokens = await asked(client, prompts[number % len(prompts)], number, tokens)
            run.ends.append(time.monotonic() - begun)
            run.tokens.append(n_tokens)
            if change is not None and len(run.ends) == most // 2:
                change()
                run.changed = run.ends[-1]
            if len(run.ends) >= most:
                done.set()

    async with httpx.AsyncClient(base_url=url, timeout=600.0) as client:
        tasks = [asyncio.ensure_future(asks(client)) for _ in range(clients)]
        ending = asyncio.ensure_future(done.wait())
        try:
            await asyncio.wait((*tasks, ending), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in (*tasks, ending):
                task.cancel()
            await asyncio.gather(*tasks, ending, return_exceptions=True)
    return run


@contextmanager
def slowing(server: Any) -> Iterator[Callable[[], None]]:
    """Yield what slows a server down until the end of the block: it is stopped and goes on in turns."""
    begins, ends = threading.Event(), threading.Event()

    def work() -> None:
        begins.wait()
        while not ends.wait(RUNS_S):
            server.signal(signal.SIGSTOP)
            ends.wait(STOPPED_S)
            server.signal(signal.SIGCONT)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield begins.set
    finally:
        ends.set()
        begins.set()
        thread.join()


def ran(arm: Arm, clients: int, given: argparse.Namespace, servers: Mapping[str, Any]) -> Run:
    """Run an arm."""
    most = round(arm.share * given.window) * (2 if arm.slowed else 1)
    number = ARMS.index(arm)
    prompts = [one.prompt for one in bundled_problems(most, 100 * clients + number, "validation")]
    urls = {name: server() for name, server in servers.items()}
    roles = {"target": urls["target"], "draft": urls["draft"], "judge": urls["target"]}
    roles["speculative"] = json.dumps([{**EAGLE_SERVER, "server": urls["eagle"]}])
    said: list[tuple[float, str]] = []
    with TemporaryDirectory() as name, ExitStack() as stack:
        url, change = urls["target"], None
        if arm.candidate is not None:
            profile = helper("served_plans").write_profile(Path(name)) if arm.candidate is LOOKAHEAD else None
            inside = gateway(arm.candidate, Path(name), profile, roles, measures=arm.measures, said=said)
            url = stack.enter_context(inside)
        if arm.slowed:
            change = stack.enter_context(slowing(servers["eagle"]))
        asyncio.run(closed_loop(url, 1, prompts[-1:], 1, 16))  # the first request is slow
        begun = time.monotonic()
        run = asyncio.run(closed_loop(url, clients, prompts, most, given.tokens, change))
    run.said = [(moment - begun, line) for moment, line in said]
    run.date = datetime.now(UTC).isoformat(timespec="seconds")
    return run


def rows(clients: int, runs: Mapping[str, Run], window: int) -> Iterator[list[str]]:
    """Rows of the table: an arm each, two of one that was slowed."""
    plain = [runs[name] for name in ("plain", "plain again") if name in runs]
    if not plain:
        return
    pace = len(plain) / sum(1.0 / run.pace() for run in plain)
    for name, run in runs.items():
        other = next((one for one in plain if one is not run), None)
        beside = other.pace() if run in plain and other is not None else pace
        parts = {name: (0.0, float("inf"))}
        if run.changed is not None:
            parts = {f"{name}, before": (0.0, run.changed), f"{name}, after": (run.changed, float("inf"))}
        for part, (since, until) in parts.items():
            worst, slowed = run.worst(window, since, until), runs.get("slowed: plain", run)
            if since and slowed is not run and slowed.changed is not None:
                beside = slowed.pace(since=slowed.changed)
            yield [
                str(clients),
                part,
                str(sum(since < end <= until for end in run.ends)),
                f"{run.pace(since, until):.1f}",
                f"{run.pace(since, until, answers=True):.2f}",
                f"{run.pace(since, until) / beside:.3f}",
                "" if worst is None else f"{worst / beside:.3f}",
            ]


def shown(results: Mapping[str, Any]) -> str:
    """The table of a file."""
    by_clients: dict[int, dict[str, Run]] = {}
    for key, data in results["arms"].items():
        clients, _, name = key.partition(" clients, ")
        by_clients.setdefault(int(clients), {})[name] = Run(**data)
    heads = ["clients", "arm", "answers", "tokens/s", "answers/s", "of plain", f"worst {results['window']}"]
    return table(heads, [row for n, runs in sorted(by_clients.items()) for row in rows(n, runs, results["window"])])


def main() -> None:
    """Run the arms that the file does not have yet, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--clients", default="4", help="in a closed loop, e.g. 1,4,8")
    parser.add_argument("--arms", default=".*", help="a regular expression of their names")
    parser.add_argument("--window", type=int, default=200, help="answers in a row of which the worst are shown")
    parser.add_argument("--tokens", type=int, default=120, help="most tokens of an answer")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results: dict[str, Any] = {"window": given.window, "tokens": given.tokens, "arms": {}}
    if given.output.exists():
        results = json.loads(given.output.read_text())
    wanted = [(int(n), arm) for n in given.clients.split(",") for arm in ARMS if re.fullmatch(given.arms, arm.name)]
    wanted = [(n, arm) for n, arm in wanted if f"{n} clients, {arm.name}" not in results["arms"]]
    with TemporaryDirectory() as folder, ExitStack() as stack:
        servers = started(Path(folder), stack, ("target", "draft", "eagle")) if wanted else {}
        for n, arm in wanted:
            run = ran(arm, n, given, servers)
            results["arms"][f"{n} clients, {arm.name}"] = asdict(run)
            given.output.write_text(json.dumps(results))
            print(f"{n} clients, {arm.name}: {run.pace():.1f} tokens/s, {len(run.ends)} answers", flush=True)
            for moment, line in run.said:
                print(f"  {moment:6.1f} s  {line}", flush=True)
    print(shown(results))


def started(folder: Path, stack: ExitStack, names: Sequence[str]) -> dict[str, Any]:
    """Start servers of the bundled pair at once, and wait until they answer."""
    vllm = helper("vllm_server")
    models = {
        "target": (pair.target_path(), vllm.CORES[0], None),
        "draft": (pair.draft_path(), vllm.CORES[-1], None),
        "judge": (pair.judge_path(), vllm.CORES[-1], None),
        "eagle": (pair.target_path(), vllm.CORES[0], EAGLE_SERVER),
    }
    starting = {}
    for name in names:
        model, core, speculative = models[name]
        server = vllm.vllm_server(model, name, folder, core=core, speculative=speculative)
        starting[name] = stack.enter_context(server)
    for server in starting.values():
        server()
    return starting


if __name__ == "__main__":
    main()
