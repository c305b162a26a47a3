"""A gateway over real vLLM servers that are killed: nothing of an answer is lost or written twice.

    .venv-vllm/bin/python -m benchmarks.gateway_kills --minutes 10 -o kills.json

starts servers of the bundled pair on this machine (target, draft, judge, and the target with EAGLE) and a gateway that
runs Lookahead Reasoning over EAGLE. Clients ask greedily, by streams and whole answers in turns. Meanwhile the draft's,
the judge's and EAGLE's servers are killed with all their processes at random moments, one at a time or several at once,
and started again; in the middle the target's is stopped by SIGTERM and started again. An answer that was refused before
it began is asked for again, as clients do; one that ends otherwise than with its text is lost.

Afterwards each answer is compared, byte for byte, with what the servers say directly: at each place the text must go on
as the target or the draft does after all the text before it, greedily, and end where one of them ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.by_load import helper
from benchmarks.gateway_gain import gateway
from benchmarks.gateway_loops import EAGLE_SERVER, started
from calibrate.models.asking import bundled_problems
from sim.configuration import Configuration
from specplan.output import table

RUNS: Final = Configuration.parse("lr-async k1=2 + eagle k2=4")
HELPERS: Final = ("draft", "judge", "eagle")
BETWEEN_S: Final = (5.0, 25.0)
"""Seconds between two kills."""
GONE_S: Final = (0.0, 10.0)
"""Seconds until a killed server is started again; until it answers it takes some ten more."""
TOKENS: Final = 300
"""Most tokens of an answer."""
STEP_TOKENS: Final = 100
_SHOWN: Final = 60


@dataclass(kw_only=True)
class Given:
    """An answer that a client received."""

    question: str
    stream: bool
    text: str = ""
    finish: str | None = None
    refused: int = 0
    """Times that it was refused before it began."""
    lost: str = ""
    """How it ended, if not with its text."""
    seconds: float = 0.0


async def asked(client: httpx.AsyncClient, question: str, *, stream: bool, until: float) -> Given:
    """Ask until an answer has begun, and receive it."""
    body = {
        "model": "target",
        "prompt": question,
        "max_tokens": TOKENS,
        "temperature": 0.0,
        "seed": 1,
        "stream": stream,
    }
    given = Given(question=question, stream=stream)
    begun, lines = time.monotonic(), list[str]()
    while True:
        async with client.stream("POST", "/completions", json=body) as response:
            if response.status_code in (429, 502, 503) and time.monotonic() < until + 300.0:
                await response.aread()
                given.refused += 1
            else:
                try:
                    async for line in response.aiter_lines():
                        lines += [line] if line else []
                except httpx.TransportError as error:
                    given.lost = f"broken off: {error}"
                break
        await asyncio.sleep(1.0)
    given.seconds = time.monotonic() - begun
    if response.status_code != 200:
        given.lost = given.lost or lines[0]
    if given.lost:
        return given
    events = [line.removeprefix("data: ") for line in lines]
    given.lost = "no end mark" if stream and events.pop() != "[DONE]" else ""
    for data in map(json.loads, events):
        if "error" in data:
            given.lost = str(data["error"])
            break
        (choice,) = data["choices"]
        given.text += choice["text"]
        given.finish = choice["finish_reason"] or given.finish
    return given


async def clients(url: str, n: int, questions: list[str], until: float) -> list[Given]:
    """Ask in a closed loop until a moment, and wait for what was asked."""
    answers, numbers = list[Given](), count()

    async def asks(client: httpx.AsyncClient) -> None:
        while time.monotonic() < until:
            number = next(numbers)
            question = questions[number % len(questions)]
            answers.append(await asked(client, question, stream=number % 2 == 0, until=until))

    async with httpx.AsyncClient(base_url=url, timeout=900.0) as client:
        await asyncio.gather(*(asks(client) for _ in range(n)))
    return answers


async def killing(servers: dict[str, Any], until: float, seed: int, told: list[str]) -> None:
    """Kill helpers at random until a moment, restart the target in the middle, and wait until all answer again."""
    rng, begun = random.Random(seed), time.monotonic()
    coming: dict[str, asyncio.Task[None]] = {}

    async def again(name: str, *, gently: bool, gone_s: float) -> None:
        told.append(f"{time.monotonic() - begun:.0f} s: {name} {'is stopped' if gently else 'is killed'}")
        await asyncio.to_thread(servers[name].end, gently=gently)
        await asyncio.sleep(gone_s)
        servers[name].start()
        await asyncio.to_thread(servers[name])
        told.append(f"{time.monotonic() - begun:.0f} s: {name} answers again")

    middle = 0.5 * (begun + until)
    while time.monotonic() < until:
        await asyncio.sleep(rng.uniform(*BETWEEN_S))
        if "target" not in coming and time.monotonic() > middle:
            coming["target"] = asyncio.ensure_future(again("target", gently=True, gone_s=0.0))
        up = [name for name in HELPERS if name not in coming or coming[name].done()]
        if up and time.monotonic() < until:
            name = rng.choice(up)
            coming[name] = asyncio.ensure_future(again(name, gently=False, gone_s=rng.uniform(*GONE_S)))
    await asyncio.gather(*coming.values())


class Direct:
    """What target and draft say directly, each text asked for once."""

    def __init__(self, servers: dict[str, Any]) -> None:
        self._urls = {name: servers[name]() for name in ("target", "draft")}
        self._client = httpx.AsyncClient(timeout=300.0)
        self._known: dict[tuple[str, str, int], asyncio.Task[tuple[str, bool]]] = {}
        self._places = asyncio.Semaphore(8)

    async def says(self, role: str, prompt: str, tokens: int) -> tuple[str, bool]:
        """A step after a text, or with more tokens than a step's the whole rest; and whether the answer ends there."""
        key = role, prompt, tokens
        if key not in self._known:
            self._known[key] = asyncio.ensure_future(self._asked(role, prompt, tokens))
        return await self._known[key]

    async def _asked(self, role: str, prompt: str, tokens: int) -> tuple[str, bool]:
        body: dict[str, Any] = {"model": role, "prompt": prompt, "max_tokens": tokens, "temperature": 0.0, "seed": 1}
        if tokens <= STEP_TOKENS:
            body |= {"stop": ["\n\n"], "include_stop_str_in_output": True}
        async with self._places:
            answer = await self._client.post(f"{self._urls[role]}/completions", json=body)
        answer.raise_for_status()
        (choice,) = answer.json()["choices"]
        return choice["text"], choice["finish_reason"] == "stop" and choice["stop_reason"] is None

    async def compared(self, given: Given) -> str:
        """How an answer came about; a fault begins with ``not``."""
        if (await self.says("target", given.question, TOKENS)) == (given.text, given.finish == "stop"):
            return "the target's, whole"
        at, within = 0, 0
        while at < len(given.text):
            options = [await self.says(role, given.question + given.text[:at], STEP_TOKENS) for role in self._urls]
            rest = given.text[at:]
            if any((text, ends) == (rest, True) for text, ends in options):
                return _composed(within)
            n, whole = max((_common(rest, text), _common(rest, text) == len(text)) for text, _ in options)
            if not whole and at + n < len(given.text):
                n, within = max(rest[:n].rfind(" "), rest[:n].rfind("\n")), within + 1
            if n <= 0:
                return f"not as either goes on at {at} of {len(given.text)}: {rest[:_SHOWN]!r}, {options}"
            at += n
        if given.finish == "length":
            return _composed(within)
        ends = [await self.says(role, given.question + given.text, STEP_TOKENS) for role in self._urls]
        return _composed(within) if ("", True) in ends else f"not at its end after {given.text[-_SHOWN:]!r}"


def _composed(within: int) -> str:
    return "of both, by steps" if not within else "of both, changing within a step"


def _common(one: str, other: str) -> int:
    """Length of the longest common beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


async def compared(servers: dict[str, Any], answers: list[Given]) -> list[str]:
    """How each answer came about."""
    direct = Direct(servers)
    return await asyncio.gather(*(direct.compared(one) for one in answers))


def main() -> None:
    """Run, compare and report; exit with 1 if anything was lost, or is not as the servers say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    questions = [one.prompt for one in bundled_problems(options.questions, 42, "validation")]
    told, log = list[str](), list[tuple[float, str]]()
    with TemporaryDirectory() as name, ExitStack() as stack:
        servers = started(Path(name), stack, ("target", *HELPERS))
        roles = {role: servers[role]() for role in ("target", "draft", "judge")}
        roles["speculative"] = json.dumps([{**EAGLE_SERVER, "server": servers["eagle"]()}])

        async def work(url: str) -> list[Given]:
            until = time.monotonic() + 60.0 * options.minutes
            asking = clients(url, options.clients, questions, until)
            answers, _ = await asyncio.gather(asking, killing(servers, until, options.seed, told))
            return answers

        profile = helper("served_plans").write_profile(Path(name))
        stack.callback(lambda: print("\n".join(dict.fromkeys(line for _, line in log))))
        with gateway(RUNS, Path(name), profile, roles, said=log) as url:
            answers = asyncio.run(work(url))
            page = httpx.get(f"{url.removesuffix('/v1')}/metrics").text
        whole = [one for one in answers if not one.lost]
        options.output.write_text(json.dumps([asdict(one) for one in answers]))  # whatever comes of comparing
        found = asyncio.run(compared(servers, whole))
    counted = [
        line for line in page.splitlines() if line.startswith(("specplan_fallbacks_total", "specplan_committed"))
    ]
    data = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": RUNS.name,
        "minutes": options.minutes,
        "clients": options.clients,
        "events": told,
        "log": [line for _, line in log],
        "metrics": counted,
        "answers": [asdict(one) for one in answers],
        "found": found,
    }
    options.output.write_text(json.dumps(data, indent=1))
    print("\n".join([*told, *counted]))
    for one in answers:
        if one.lost:
            print(f"lost: {one.lost} ({'stream' if one.stream else 'whole'}, after {one.seconds:.0f} s)")
    for text in found:
        if text.startswith("not"):
            print(text)
    kinds = Counter("not so" if text.startswith("not") else text for text in found)
    refused = sum(one.refused > 0 for one in answers)
    longest = max(one.seconds for one in answers)
    print(
        table(["answers", "n"], [["asked", str(len(answers))], *([kind, str(n)] for kind, n in sorted(kinds.items()))])
    )
    print(f"{len(answers) - len(whole)} lost; {refused} refused before they began; the longest took {longest:.0f} s")
    sys.exit(1 if kinds["not so"] or len(whole) < len(answers) else 0)


if __name__ == "__main__":
    main()
