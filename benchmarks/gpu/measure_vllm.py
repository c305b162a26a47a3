"""The same latencies through vLLM: ``python -m benchmarks.gpu.measure_vllm --model qwen3-32b --out DIR``.

Dummy weights of the model's real shape. Measures iteration times against batch and context, prefills, the fixed cost of
a request, and, with ``--draft``, speculation at acceptance rates that vLLM is told to produce
(``rejection_sample_method: synthetic``): what a pass of k + 1 tokens costs and brings, apart from what the models say.
The journal has the form of `benchmarks.gpu.measure_torch`, so `benchmarks.gpu.make_profile` takes either.

Not run yet: this script has been tested without vLLM only (arguments, journal, aggregation, with an engine that keeps
time instead of vLLM). Written for the AsyncLLM of vLLM 0.11 and later; synthetic acceptance needs 0.22 or later.

Exit codes: 0 done or stopped by the budget, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from benchmarks.gpu.grid import FULL, TINY_GRID, Cell, Grid
from benchmarks.gpu.measure_torch import Session, journal_path, provenance
from benchmarks.gpu.replay import Timings
from benchmarks.gpu.shapes import SHAPES, ModelShape, shape_of
from benchmarks.gpu.telemetry import Telemetry, slowed
from calibrate.checkpoint import Journal
from theory.errors import CalibrationError, ParameterError, SchemaError, SpecplanError

__all__ = ["Served", "fixed_cost", "iterations", "main", "open_engine"]

Chunk = tuple[float, int]
"""Arrival of some tokens of a request, s, and how many."""

_STARTED = time.monotonic()
_TOKENS: Final = 24
_REQUEST_LENGTHS: Final = (2, 8, 32, 64)
_PREFILL_REPEATS: Final = 6


class Served(Protocol):
    """An engine that generates, for as many prompts as are given, all at once."""

    async def run(self, prompts: Sequence[Sequence[int]], n_tokens: int) -> tuple[float, list[list[Chunk]]]:
        """Return the time of the requests, s, and the arrivals of each."""
        ...

    def close(self) -> None:
        """Free the device."""
        ...


class _Vllm:
    """AsyncLLM with dummy weights."""

    def __init__(self, shape: ModelShape, *, max_model_len: int, speculative: dict[str, Any] | None = None) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self._folder = tempfile.TemporaryDirectory(prefix="specplan-shape-")
        write_config(shape, Path(self._folder.name))
        options = AsyncEngineArgs(
            model=self._folder.name,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=max_model_len,
            enable_prefix_caching=False,  # every prompt is new, and looking it up would be the only effect
            speculative_config=speculative,
            seed=0,
        )
        self._engine = AsyncLLM.from_engine_args(options)
        self._n = 0

    async def run(self, prompts: Sequence[Sequence[int]], n_tokens: int) -> tuple[float, list[list[Chunk]]]:
        """Generate ``n_tokens`` for every prompt."""
        started = time.monotonic()
        return started, list(await asyncio.gather(*(self._one(prompt, n_tokens) for prompt in prompts)))

    async def _one(self, prompt: Sequence[int], n_tokens: int) -> list[Chunk]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._n += 1
        options = SamplingParams(
            temperature=0.0,
            max_tokens=n_tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        stream = self._engine.generate({"prompt_token_ids": list(prompt)}, options, f"request-{self._n}")
        return [(time.monotonic(), len(part.outputs[0].token_ids)) async for part in stream]

    def close(self) -> None:
        """Stop the engine's processes."""
        self._engine.shutdown()
        self._folder.cleanup()


def write_config(shape: ModelShape, folder: Path) -> None:
    """Write the configuration of a model of that shape, which is all that dummy weights need."""
    config = shape.transformers_config()
    config.architectures = ["Qwen3ForCausalLM" if shape.qk_norm else "Qwen2ForCausalLM"]
    config.save_pretrained(folder)


def check_installed() -> None:
    """Say what to install, before anything is written.

    Raises
    ------
    CalibrationError : vLLM is not installed.
    """
    if find_spec("vllm") is None:
        raise CalibrationError("vLLM is not installed: install the extra, pip install 'specplan[vllm]'")


def open_engine(shape: ModelShape, *, max_model_len: int, speculative: dict[str, Any] | None = None) -> Served:
    """Start vLLM.

    Raises
    ------
    CalibrationError : vLLM is not installed.
    """
    check_installed()
    return _Vllm(shape, max_model_len=max_model_len, speculative=speculative)


def iterations(streams: Sequence[Sequence[Chunk]]) -> tuple[list[float], list[int]]:
    """Durations of the iterations during which every request was decoding, s, and the tokens that each brought.

    They are the gaps between arrivals of the first request, from the moment when all have their first token to the
    moment when one has its last: all requests of a batch share their iterations.

    >>> iterations([[(0.0, 1), (1.0, 1), (2.0, 1), (4.0, 1)], [(0.5, 1), (1.0, 1), (2.0, 1)]])
    ([1.0], [1])
    """
    if not all(streams):
        return [], []
    first = max(stream[0][0] for stream in streams)
    last = min(stream[-1][0] for stream in streams)
    inside = [(at, n) for at, n in streams[0] if first <= at <= last]
    return [b - a for (a, _), (b, _) in pairwise(inside)], [n for _, n in inside[1:]]


def fixed_cost(lengths: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Cost of a request beyond its tokens, and cost of a token, s: least squares of latency against tokens.

    >>> [round(value, 9) for value in fixed_cost([1, 2, 3], [0.007, 0.008, 0.009])]
    [0.006, 0.001]
    """
    slope, intercept = np.polyfit(np.asarray(lengths, float), np.asarray(seconds, float), 1)
    return max(float(intercept), 0.0), float(slope)


class _Meter:
    """Measures cells on an engine that is started when the first cell asks for it."""

    def __init__(self, shape: ModelShape, grid: Grid, telemetry: Telemetry) -> None:
        self.grid = grid
        self.telemetry = telemetry
        self.vocab = shape.vocab
        longest = max(c.prefix + c.tokens for c in grid.cells())
        self.engine = open_engine(shape, max_model_len=longest + 2 * max(_TOKENS, *_REQUEST_LENGTHS))
        self._rng = random.Random(0)

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Measure a cell of the grid."""
        if cell.kind == "prefill":
            return self._result(asyncio.run(self._prefills(cell)))
        return self._result(asyncio.run(self._decodes(cell)))

    def _prompt(self, n: int) -> list[int]:
        return [self._rng.randrange(self.vocab) for _ in range(n)]

    async def _decodes(self, cell: Cell) -> list[float]:
        found: list[float] = []
        for repeat in range(2):  # the first one warms up
            _, streams = await self.engine.run([self._prompt(cell.prefix) for _ in range(cell.batch)], _TOKENS)
            gaps, tokens = iterations(streams)
            # a reader that falls behind gets two tokens at once: they took two iterations
            found = [gap / n for gap, n in zip(gaps, tokens, strict=True)] if repeat else []
        if len(found) < 5:
            raise CalibrationError(f"{cell.key}: the requests were never all decoding at once: too many for the cache?")
        return found

    async def _prefills(self, cell: Cell) -> list[float]:
        found = []
        for _ in range(_PREFILL_REPEATS + 1):
            started, streams = await self.engine.run([self._prompt(cell.tokens)], 1)
            found.append(streams[0][0][0] - started)
        return found[1:]

    async def requests(self) -> dict[str, Any]:
        """Latency against tokens, and the fixed cost in it."""
        lengths, seconds = [], []
        for n in _REQUEST_LENGTHS * 4:
            started, streams = await self.engine.run([self._prompt(16)], n)
            lengths.append(n)
            seconds.append(streams[0][-1][0] - started)
        fixed, token = fixed_cost(lengths, seconds)
        return {"tokens": lengths, "latency_s": seconds, "fixed_s": fixed, "token_s": token}

    def _result(self, seconds: Sequence[float]) -> dict[str, Any]:
        timings, state = Timings(warmup=(), samples=tuple(seconds)), self.telemetry.state()
        return {
            "mode": "vllm",
            "attention": "vllm",
            "fusion": "vllm",
            "seconds": [round(s, 9) for s in seconds],
            "warmup": [],
            "spread": round(timings.spread, 4),
            "noisy": timings.spread > 0.10,
            "slowed": slowed(state),
            "state": state,
        }


def _speculation(shape: ModelShape, draft: ModelShape, rate: float, k: int, n_tokens: int = 256) -> dict[str, Any]:
    """Speculate ``k`` tokens with a draft model that is accepted at a given rate, position by position."""
    with tempfile.TemporaryDirectory(prefix="specplan-draft-") as folder:
        write_config(draft, Path(folder))
        options = {
            "method": "draft_model",
            "model": folder,
            "num_speculative_tokens": k,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": [rate ** (i + 1) for i in range(k)],
        }
        engine = open_engine(shape, max_model_len=4 * n_tokens, speculative=options)
        try:
            for _ in range(2):
                _, streams = asyncio.run(engine.run([list(range(64))], n_tokens))
        finally:
            engine.close()
    gaps, tokens = iterations(streams)
    return {
        "pass_s": [round(gap, 9) for gap in gaps],
        "tokens": tokens,
        "tokens_per_pass": statistics.fmean(tokens),
        "expected_tokens_per_pass": sum(rate**i for i in range(k + 1)),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and return the exit code."""
    args = _parser().parse_args(argv)
    started = _STARTED if argv is None else time.monotonic()
    try:
        return _measure(args, deadline=started + args.budget_s)
    except SpecplanError as error:
        print(f"measure_vllm: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ParameterError, SchemaError)) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure_vllm", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, choices=sorted(SHAPES))
    parser.add_argument("--draft", choices=sorted(SHAPES), help="measure speculation with this draft instead")
    parser.add_argument("--acceptance", default="0.5,0.7,0.9", help="rates to impose; default 0.5,0.7,0.9")
    parser.add_argument("--speculate", default="1,3,7", help="tokens to draft; default 1,3,7")
    parser.add_argument("--out", required=True, type=Path, help="folder of the journals")
    parser.add_argument("--tiny", action="store_true", help="toy sizes and a small grid")
    parser.add_argument("--budget-s", type=float, default=420.0, help="stop between cells after this time, s")
    return parser


def _numbers(name: str, text: str, kind: Callable[[str], Any], low: float, high: float) -> list[Any]:
    with suppress(ValueError):
        found = [kind(part) for part in text.split(",")]
        if all(low <= value <= high for value in found):
            return found
    raise ParameterError(name, text, f"must be comma-separated numbers in [{low:g}, {high:g}]")


def _measure(args: argparse.Namespace, deadline: float) -> int:
    rates = _numbers("acceptance", args.acceptance, float, 0.0, 1.0)
    depths = _numbers("speculate", args.speculate, int, 1, 64)
    check_installed()
    grid = TINY_GRID if args.tiny else FULL
    names = [args.model, *([args.draft] if args.draft else [])]
    shapes = [shape_of(name).shrunk() if args.tiny else shape_of(name) for name in names]
    args.out.mkdir(parents=True, exist_ok=True)
    path = journal_path(args.out, f"vllm-{args.model}", args.draft)
    telemetry = Telemetry("cuda")
    with Journal(path, _settings(shapes, grid, telemetry)) as journal:
        session = Session(journal, deadline, telemetry)
        if args.draft:
            cells = [_Speculation(rate, k) for rate in rates for k in depths]
            session.run(cells, lambda: lambda one: _speculation(shapes[0], shapes[1], one.rate, one.k))
        else:
            cells_ = [c for c in grid.cells() if c.tokens == 1 or (c.kind == "prefill" and c.prefix == 0)]
            session.run([c for c in cells_ if c.kind != "power"], lambda: _loaded(shapes[0], grid, telemetry, journal))
        return session.status()


class _Speculation:
    """A cell of the speculation grid."""

    def __init__(self, rate: float, k: int) -> None:
        self.rate = rate
        self.k = k
        self.key = f"speculation:a{rate:g}:k{k}"


def _loaded(shape: ModelShape, grid: Grid, telemetry: Telemetry, journal: Journal) -> Callable[[Any], dict[str, Any]]:
    meter = _Meter(shape, grid, telemetry)
    if "request" not in journal:
        journal.add("request", asyncio.run(meter.requests()))
    return meter.measure


def _settings(shapes: Sequence[ModelShape], grid: Grid, telemetry: Telemetry) -> dict[str, Any]:
    about = provenance(telemetry)
    versions = {
        "torch": about["packages"].get("torch", ""),
        "vllm": about["packages"].get("vllm", ""),
        "cuda": about["cuda"],
    }
    models = [asdict(shape) for shape in shapes]
    settings = {"format": 1, "models": models, "grid": asdict(grid), "device": about["device"] or "cpu", **versions}
    return dict(json.loads(json.dumps(settings)))


if __name__ == "__main__":
    sys.exit(main())
