"""A model on a device, and the measurement of one cell of the grid."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from benchmarks.gpu.attention import choose
from benchmarks.gpu.forward import Fusion, Model, Pass, Storage, plain_fusion, random_model
from benchmarks.gpu.grid import Cell, Grid
from benchmarks.gpu.replay import Replay, Timings, described, is_fatal, prepared, seconds_of, timed
from benchmarks.gpu.telemetry import Telemetry, slowed
from theory.errors import CalibrationError

if TYPE_CHECKING:
    from benchmarks.gpu.shapes import ModelShape

__all__ = ["NOISY", "Bench", "free_bytes"]

NOISY: Final = 0.10
"""Interquartile range over median from which a cell is measured again, and marked if it stays so."""

_RESERVE_BYTES: Final = 8 << 30
"""Left free for activations and graphs; 64 sequences of 32 new tokens have 0.6 GB of scores alone."""
_LAYERS_TO_CHOOSE: Final = 8


class Bench:
    """A model with random weights, its key-value memory, and the instruments.

    Parameters
    ----------
    shape : of the model.
    device : "cuda" or "cpu".
    telemetry : of the device.
    most_tokens : tokens of all sequences together that the cells need at most.
    kv_bytes : memory for keys and values; default what the device has left, less a reserve.

    Raises
    ------
    CalibrationError : the model does not fit, or leaves no room for keys and values.
    """

    def __init__(
        self, shape: ModelShape, device: str, telemetry: Telemetry, *, most_tokens: int, kv_bytes: int | None = None
    ) -> None:
        import torch

        self.shape = shape
        self.device = device
        self.telemetry = telemetry
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        with torch.no_grad(), _fitting(shape):
            self.model = random_model(shape, device, dtype)
            room = kv_bytes if kv_bytes is not None else free_bytes(device) - _RESERVE_BYTES
            n_tokens = min(most_tokens, room // shape.kv_bytes(dtype.itemsize))
            if n_tokens < 1:
                raise CalibrationError(f"{shape.name} leaves no room for keys and values on this device")
            self.storage = Storage(shape, n_tokens, device, dtype)
            self.fusion, self.fusion_note = _usable_fusion(self.model, self.storage, device)

    def measure(self, cell: Cell, grid: Grid) -> dict[str, Any]:
        """Measure one cell; what does not fit is returned as skipped, with the reason.

        Raises
        ------
        RuntimeError : anything but a lack of memory.
        """
        import torch

        if cell.cached > self.storage.n_tokens:
            need, room = (n * self.shape.kv_bytes(self.model.dtype.itemsize) / 2**30 for n in (cell.cached, self.room))
            return {"skipped": f"needs {need:.1f} GiB of keys and values, {room:.1f} GiB are there"}
        try:
            with torch.no_grad():
                return self._measured(cell, grid)
        except torch.OutOfMemoryError as error:
            return {"skipped": f"out of memory: {described(error)}"}
        finally:
            if self.device == "cuda":  # a graph's memory is its own until the graph is gone
                gc.collect()
                torch.cuda.empty_cache()

    @property
    def room(self) -> int:
        """Tokens that the key-value memory holds."""
        return self.storage.n_tokens

    def replay(self, cell: Cell) -> tuple[Replay, dict[str, Any]]:
        """The cell's pass, ready to run, and how it is run."""
        import torch

        s = self.shape
        generator = torch.Generator(self.device).manual_seed(1)
        ids = torch.randint(s.vocab, (cell.batch, cell.tokens), device=self.device, generator=generator)
        layers = self.storage.layers(cell.batch, cell.prefix + cell.tokens)
        query = torch.randn(
            cell.batch,
            cell.tokens,
            s.heads,
            s.head_dim,
            dtype=self.model.dtype,
            device=self.device,
            generator=generator,
        ).transpose(1, 2)
        name, attend, tried = choose(query, layers[:_LAYERS_TO_CHOOSE], seconds_of(self.device), self.fusion.join)
        one_pass = Pass(self.model, layers, ids, attend, self.fusion, last_only=cell.kind == "prefill")
        replay = prepared(one_pass, self.device)
        how = {"mode": replay.mode, "attention": name, "tried": _short(tried), "fusion": self.fusion.name}
        notes = [note for note in (self.fusion_note, *replay.notes) if note]
        return replay, {**how, **({"notes": notes} if notes else {})}

    def _measured(self, cell: Cell, grid: Grid) -> dict[str, Any]:
        replay, how = self.replay(cell)
        if cell.kind == "power":
            return {**how, **self._power(replay, grid)}
        tries: list[Timings] = []
        while not tries or (len(tries) < grid.attempts and tries[-1].spread > NOISY):
            options = {"repeats": grid.repeats, "longest_s": grid.longest_s, "warm_up_s": grid.warm_up_s}
            tries.append(timed(replay.run, self.device, **options))  # type: ignore[arg-type]
        best = min(tries, key=lambda timings: timings.spread)
        state = self.telemetry.state()
        return {
            **how,
            "seconds": [round(s, 9) for s in best.samples],
            "warmup": [round(s, 9) for s in best.warmup],
            "spread": round(best.spread, 4),
            "attempts": len(tries),
            "noisy": best.spread > NOISY,
            "slowed": slowed(state),
            "state": state,
        }

    def _power(self, replay: Replay, grid: Grid) -> dict[str, Any]:
        """Repeat for seconds; energy from the counter, or from the mean of power readings."""
        if self.telemetry.power_w() is None:
            return {"skipped": "power cannot be read on this device"}
        each = timed(replay.run, self.device, repeats=5, longest_s=1.0, warm_up_s=grid.power_s / 3).median
        chunk = max(int(0.1 / each), 1)
        watts: list[float] = []
        started, energy, n = time.monotonic(), self.telemetry.energy_j(), 0
        while time.monotonic() - started < grid.power_s:
            for _ in range(chunk):
                replay.run()
            _wait(self.device)
            n += chunk
            watts.append(self.telemetry.power_w() or 0.0)
        seconds, after = time.monotonic() - started, self.telemetry.energy_j()
        joules = None if energy is None or after is None else after - energy
        return {
            "iterations": n,
            "elapsed_s": round(seconds, 6),
            "joules": joules if joules else sum(watts) / len(watts) * seconds,
            "energy_from": "counter" if joules else "mean of power readings",
            "watts": [round(w, 1) for w in watts],
            "state": self.telemetry.state(),
        }


@contextmanager
def _fitting(shape: ModelShape) -> Iterator[None]:
    """Say in one line that a model does not fit."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        raise CalibrationError(f"{shape.name} does not fit on this device: {described(error)}") from error


def _usable_fusion(model: Model, storage: Storage, device: str) -> tuple[Fusion, str]:
    """Compiled functions where they can be had and agree with the plain ones in a whole pass, else the plain ones."""
    import torch

    from benchmarks.gpu.attention import masked

    plain = plain_fusion()
    if device != "cuda":
        return plain, ""
    ids = torch.arange(2 * 3, device=device).view(2, 3) % model.shape.vocab
    layers = storage.layers(2, 8)

    def scores(fusion: Fusion) -> torch.Tensor:
        return Pass(model, layers, ids, masked, fusion, last_only=False).scores().float()

    try:
        compiled = plain.compiled()
        want, got = scores(plain), scores(compiled)
    except Exception as error:
        if is_fatal(error):
            raise
        return plain, f"not compiled: {described(error)}"
    error_ = float(torch.linalg.vector_norm(got - want) / torch.linalg.vector_norm(want))
    # bf16 rounds to 2**-9 in every operation, which the layers of random weights bring to some per cent; scores that
    # have nothing to do with each other differ by 1.4.
    if not error_ <= 0.3:
        return plain, f"not compiled: compiled scores differ by {error_:.2g}"
    return compiled, ""


def free_bytes(device: str) -> int:
    """Memory that is free, bytes."""
    if device == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0])
    return 16 << 30  # toys only: see the reserve


def _short(tried: dict[str, str | float]) -> dict[str, str | float]:
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in tried.items()}


def _wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
