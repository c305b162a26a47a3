"""What the gateway gains, measured beside what was predicted before, on servers that run.

Start servers of target and draft (on cores or GPUs of their own), and of a judge if the target is not to judge:

    python -m benchmarks.gateway_gain --target http://127.0.0.1:8000 --draft http://127.0.0.1:8001 \\
        --method "lr-sync k1=2" --concurrency 1 --answers 24 --questions 24

They are measured by `calibrate openai` (or `--profile`, if they were before), and the gain of the method is predicted.
Then two gateways serve the same servers, one with the method and one with plain decoding; they answer other questions
in turns, as many at once as asked. Printed are the prediction, the measured gain over the turns, and their intervals.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Final

import httpx

from calibrate.measuring.engine_timings import MeasureOptions
from calibrate.models.asking import bundled_problems
from calibrate.record.profile import Profile
from sim.configuration import Configuration
from sim.estimate import Estimate, ratio_of_totals
from specplan.api.calibrating import calibrate
from specplan.api.simulating import simulate

PLAIN: Final = Configuration.parse("autoregressive")
TOKENS: Final = 600
"""Most tokens of an answer."""
ROUNDS: Final = 2
"""Questions of a turn, over those at once."""
ROUNDS_OF_TIMING: Final = 6
"""Three of each context, where servers are measured first."""


@contextmanager
def gateway(
    configuration: Configuration,
    folder: Path,
    profile: Path | None,
    roles: Mapping[str, str],
    *,
    measures: bool = False,
    said: list[tuple[float, str]] | None = None,
    workers: int = 1,
) -> Iterator[str]:
    """Serve one configuration until the end of the block; yield the URL of the API.

    Unless it ``measures``, it runs the configuration whatever it takes. ``said`` receives its log, with moments on the
    monotonic clock.
    """
    row = {
        "configuration": {
            "method": configuration.method,
            "knobs": dict(configuration.knobs),
            "token": configuration.token,
            "token_knobs": dict(configuration.token_knobs),
        },
        "speedup": {"value": 1.0},
        "acceptance": 0.5,
        "baseline_seconds": 1.0,
    }
    plan = folder / f"{configuration.method}.plan.json"
    plan.write_text(json.dumps({"schema": "specplan.plan", "schema_version": 1, "profile": "-", "rows": [row]}))
    words = ["serve", "--plan", str(plan), "--port", "0", "--patience", "60", "--workers", str(workers)]
    words += [] if measures else ["--trust-plan"]
    words += [] if profile is None else ["--profile", str(profile)]
    words += [word for role, url in roles.items() for word in (f"--{role}", url)]
    process = subprocess.Popen([sys.executable, "-m", "specplan", *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = process.stderr
    log = [] if said is None else said
    reading = Thread(target=lambda: log.extend((time.monotonic(), line.strip()) for line in lines), daemon=True)
    try:
        first = lines.readline()
        found = re.search(r"http://\S+/v1", first)
        if found is None:
            raise SystemExit(first.strip() + lines.read())
        reading.start()
        yield found[0].rstrip(":")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
        if reading.ident is not None:
            reading.join(timeout=60)
        lines.close()


async def answered(client: httpx.AsyncClient, model: str, prompt: str, seed: int) -> float:
    """Seconds of an answer."""
    body: dict[str, Any] = {"model": model, "prompt": prompt, "seed": seed, "max_tokens": TOKENS}
    begun = time.monotonic()
    (await client.post("/completions", json=body)).raise_for_status()
    return time.monotonic() - begun


async def turn(url: str, prompts: Sequence[str], first: int, at_once: int) -> float:
    """Seconds of all answers to some questions, so many at once."""
    async with httpx.AsyncClient(base_url=url, timeout=1200.0) as client:
        model = (await client.get("/models")).json()["data"][0]["id"]
        places = asyncio.Semaphore(at_once)

        async def one(prompt: str, seed: int) -> float:
            async with places:
                return await answered(client, model, prompt, seed)

        return sum(await asyncio.gather(*(one(prompt, first + i) for i, prompt in enumerate(prompts))))


def measured(plain: str, method: str, prompts: Sequence[str], at_once: int) -> Estimate:
    """The gain in turns, the two in the other order each time; the error is that between turns."""
    size = ROUNDS * at_once
    seconds: dict[str, list[float]] = {plain: [], method: []}
    for url in (plain, method):
        asyncio.run(turn(url, prompts[:1], 0, 1))  # the first is slow
    for number, first in enumerate(range(0, len(prompts) - size + 1, size)):
        for url in (plain, method) if number % 2 else (method, plain):
            seconds[url].append(asyncio.run(turn(url, prompts[first : first + size], first, at_once)))
    return ratio_of_totals(seconds[plain], seconds[method])


def predicted(profile: Profile, configuration: Configuration, at_once: int) -> Estimate:
    """The gain over plain decoding with as many answers at once."""
    found = simulate(profile, configuration, concurrency=at_once if at_once > 1 else None)
    return found.prediction.speedup if found.loaded is None else found.loaded.gain


def measured_servers(given: argparse.Namespace, roles: Mapping[str, str]) -> Profile:
    """Measure the servers as `calibrate openai` does, timed with up to so many requests as will be at once."""
    timings = MeasureOptions(batches=tuple(range(1, given.concurrency + 2)), rounds=ROUNDS_OF_TIMING)
    return calibrate("openai", answers=given.answers, name="servers", timings=timings, task="bundled", **roles)


def main() -> None:
    """Measure the servers, predict, and measure the gateway."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    for role in ("target", "draft"):
        parser.add_argument(f"--{role}", required=True, metavar="URL")
    parser.add_argument("--judge", metavar="URL", help="default the target")
    parser.add_argument("--profile", help="of these servers; default: they are measured now")
    parser.add_argument("--method", default="lr-sync k1=2")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--answers", type=int, default=24, help="to measure the servers with")
    parser.add_argument("--questions", type=int, default=24, help="to measure the gateway with")
    given = parser.parse_args()
    roles = {"target": given.target, "draft": given.draft, "judge": given.judge or given.target}
    configuration = Configuration.parse(given.method)
    known = Profile.read(given.profile) if given.profile else measured_servers(given, roles)
    before = predicted(known, configuration, given.concurrency)
    print(f"predicted {before.value:.3f} [{before.low:.3f}, {before.high:.3f}]", flush=True)
    prompts = [one.prompt for one in bundled_problems(given.questions, 77, "validation")]
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        known.write(folder / "profile.json")
        urls = [
            stack.enter_context(gateway(one, folder, folder / "profile.json", roles)) for one in (PLAIN, configuration)
        ]
        found = measured(*urls, prompts, given.concurrency)
    off = before.value / found.value - 1.0
    print(f"measured  {found.value:.3f} [{found.low:.3f}, {found.high:.3f}], {found.n} turns of {given.method}")
    print(f"predicted over measured: {off:+.1%}; {len(prompts)} questions, {given.concurrency} at once")


if __name__ == "__main__":
    main()
