"""What the torch engine costs: iterations against batch and context, prefills, round trips, and the clock's own share.

Run on a silent machine: ``python benchmarks/bench_torch_engine.py [--model FOLDER]`` (`specplan pair widen` makes
folders of published shapes). The figures that matter are ratios; the absolute times are the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import random
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from calibrate import pair
from calibrate.engines.protocol import Generation, Progress, Request, Times
from calibrate.engines.torch.engine import TorchConfig, TorchEngine
from calibrate.running.verifiers import ExactMatch
from calibrate.running.wall_clock import StepLimits, WallClock
from sim.algorithms import autoregressive

BATCHES = (1, 2, 4, 8, 16)
CONTEXTS = (64, 256, 512)
PREFILLS = (1, 8, 32, 128, 256)


def prompt(rng: random.Random, engine: TorchEngine, n: int) -> tuple[int, ...]:
    return tuple(rng.randrange(engine.describe()["vocab_size"]) for _ in range(n))


def fixed(ids: tuple[int, ...], n: int) -> Request:
    return Request(prompt=ids, max_tokens=n, stop=(), ignore_eos=True)


async def iteration_times(engine: TorchEngine, n: int = 60) -> dict[tuple[int, int], float]:
    """Median seconds of a decode iteration for each batch and mean context per sequence."""
    rng, found = random.Random(1), {}
    for context in CONTEXTS:
        for batch in BATCHES:
            await engine.stats(clear=True)
            requests = [fixed(prompt(rng, engine, context - n // 2), n) for _ in range(batch)]
            await asyncio.gather(*map(engine.generate, requests))
            whole = [it.seconds for it in (await engine.stats(clear=True)).iterations if it.batch == batch]
            found[batch, context] = statistics.median(whole)
    return found


async def prefill_times(engine: TorchEngine, n: int = 15) -> dict[int, float]:
    """Median seconds of a prefill for each number of uncached tokens."""
    rng, found = random.Random(2), {}
    for length in PREFILLS:
        await engine.stats(clear=True)
        for _ in range(n):
            await engine.generate(fixed(prompt(rng, engine, length), 1))
        found[length] = statistics.median(p.seconds for p in (await engine.stats(clear=True)).prefills)
    return found


async def round_trip(engine: TorchEngine, n: int = 300) -> float:
    """Median seconds of a request that are not spent in the engine: pipe, framing, wake-ups."""
    rng, excess = random.Random(3), []
    for _ in range(n):
        request = fixed(prompt(rng, engine, 50), 2)
        start = time.monotonic()
        generation = await engine.generate(request)
        excess.append(time.monotonic() - start - (generation.times.end - generation.times.prefill_start))
    return statistics.median(excess)


class InstantBackend:
    """Answers at once: what is left is the clock."""

    name, tokenizer_id = "instant", "instant"

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(range(len(text)))

    async def generate(self, request: Request, progress: Progress | None = None) -> Generation:
        now = time.monotonic()
        return Generation(
            text="step\n\n",
            token_ids=tuple(range(20)),
            n_generated=20,
            finish="stop",
            n_prompt_tokens=len(request.prompt),
            n_cached_tokens=0,
            times=Times(queued=now, prefill_start=now, first_token=now, end=now),
        )


async def clock_overhead(steps: int = 500) -> float:
    """Seconds per operation of the wall clock alone, the prefix growing to 20 steps of 20 tokens and over again."""
    backend: Any = InstantBackend()
    clock = WallClock({"target": backend}, ExactMatch(), limits=StepLimits(max_steps=20))
    root = await clock.root("a question of some length")
    start = time.perf_counter()
    for _ in range(steps // 20):
        await clock.run(autoregressive(root))
    return (time.perf_counter() - start) / steps


def transformers_token(folder: Path, n: int = 60) -> float:
    """Median seconds of one token by the forward pass of transformers, batch 1, context about 64: the yardstick."""
    import torch
    from transformers import DynamicCache

    from calibrate.engines.torch.model import load_model

    torch.set_num_threads(1)
    model = load_model(folder, dtype=torch.float32, device=torch.device("cpu"))
    seconds = []
    with torch.inference_mode():
        cache = DynamicCache(config=model.config)
        ids = torch.arange(40)[None]
        for _ in range(n):
            start = time.perf_counter()
            out = model(input_ids=ids, past_key_values=cache, use_cache=True)
            ids = out.logits[:, -1:].argmax(-1)
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[5:])


async def measure(config: TorchConfig) -> dict[str, Any]:
    engine = await TorchEngine.start(config)
    try:
        await engine.generate(fixed(prompt(random.Random(0), engine, 300), 100))  # warm
        return {
            "engine": dict(engine.describe()),
            "iterations": await iteration_times(engine),
            "prefills": await prefill_times(engine),
            "round_trip": await round_trip(engine),
            "clock": await clock_overhead(),
        }
    finally:
        await engine.close()


def show(result: dict[str, Any], yardstick: float | None) -> None:
    iterations, layers = result["iterations"], result["engine"]["n_layers"]
    print(
        f"{result['engine']['model']}: {layers} layers, {result['engine']['n_parameters']:,} parameters, "
        f"{result['engine']['dtype']} on {result['engine']['device']}, {result['engine']['n_threads']} thread(s), "
        f"{platform.machine()}"
    )
    print("\ndecode iteration, ms (times one sequence)      context per sequence")
    print("batch " + "".join(f"{context:>18}" for context in CONTEXTS))
    for batch in BATCHES:
        cells = ((iterations[batch, c], iterations[batch, c] / iterations[1, c]) for c in CONTEXTS)
        print(f"{batch:>5} " + "".join(f"{seconds * 1e3:>10.3f} ({ratio:4.2f}x)" for seconds, ratio in cells))
    single = iterations[1, CONTEXTS[0]]
    print(f"\nper layer, batch 1: {single / layers * 1e3:.3f} ms")
    if yardstick is not None:
        print(f"transformers' own forward pass takes {yardstick / single:.2f} times as long per token")
    print(
        "\nprefill of n uncached tokens, ms: " + ", ".join(f"{n}: {s * 1e3:.3f}" for n, s in result["prefills"].items())
    )
    slopes = [(b - a) / (m - n) for (n, a), (m, b) in pairwise(result["prefills"].items())]
    print(f"one more prompt token: {slopes[-1] * 1e6:.1f} us ({slopes[-1] / single:.3f} iterations)")
    trip = result["round_trip"]
    print(f"round trip outside the engine: {trip * 1e3:.3f} ms ({trip / single:.2f} iterations)")
    print(f"wall clock alone: {result['clock'] * 1e3:.3f} ms per operation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=pair.target_path())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--core", type=int, default=0, help="CPU core of the engine; -1 leaves it to the system")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    config = TorchConfig(
        name="bench",
        model=options.model,
        device=options.device,
        dtype=options.dtype,
        cores=None if options.core < 0 else (options.core,),
        max_context=1024,
    )
    result = asyncio.run(measure(config))
    if options.json:
        result["iterations"] = [[b, c, s] for (b, c), s in result["iterations"].items()]
        print(json.dumps(result, sort_keys=True))
        return
    yardstick = transformers_token(options.model) if options.device == "cpu" else None
    show(result, yardstick)


if __name__ == "__main__":
    main()
