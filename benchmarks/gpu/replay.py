"""Running one fixed piece of work again and again: captured in a CUDA graph where that can be done, and timed.

Launching the thousand kernels of a forward pass from Python takes longer than a small model's pass; serving engines
replay a CUDA graph, and so does this. If capture fails the work is compiled (``torch.compile``, which uses graphs of
its own), and if that fails it runs as it is; which one was used is part of every result.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

__all__ = ["MODES", "Replay", "Timings", "described", "is_fatal", "prepared", "seconds_of", "timed"]

MODES: Final = ("cuda-graph", "compile", "eager")
_FEWEST: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A piece of work, ready to run."""

    run: Callable[[], Any]
    mode: str
    """``cuda-graph``, ``compile`` or ``eager``."""
    notes: tuple[str, ...] = ()
    """Why the better modes were not used."""
    kept: tuple[Any, ...] = field(default=(), repr=False)
    """What must live as long as the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Durations of consecutive runs, s."""

    warmup: tuple[float, ...]
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the samples, s."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Interquartile range over median, [-]."""
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.median


def prepared(work: Callable[[], Any], device: str, modes: Sequence[str] = MODES) -> Replay:
    """Make ``work`` ready in the first of ``modes`` that the device allows.

    Raises
    ------
    torch.OutOfMemoryError : it does not fit, in any mode.
    """
    if device != "cuda":
        return Replay(run=work, mode="eager")
    notes: list[str] = []
    for mode in modes:
        try:
            run, kept = _MAKERS[mode](work)
        except Exception as error:
            if mode == modes[-1] or is_fatal(error):
                raise
            notes.append(f"{mode}: {described(error)}")
            continue
        return Replay(run=run, mode=mode, notes=tuple(notes), kept=kept)
    raise AssertionError("the last mode returns or raises")


def is_fatal(error: BaseException) -> bool:
    """Whether another mode cannot help: out of memory, or a context that an earlier error has destroyed."""
    import torch

    text = str(error)
    lost = ("illegal memory access", "device-side assert", "unspecified launch failure", "CUDA error: misaligned")
    return isinstance(error, torch.OutOfMemoryError) or any(sign in text for sign in lost)


def _captured(work: Callable[[], Any]) -> tuple[Callable[[], Any], tuple[Any, ...]]:
    import torch

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # lazy initialisation (handles, workspaces, compilation) must not be captured
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(
        graph, stream=aside
    ):  # a stream of its own: graphs that run at once must not share workspaces
        result = work()
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay, (graph, result)


def _compiled(work: Callable[[], Any]) -> tuple[Callable[[], Any], tuple[Any, ...]]:
    import torch

    compiled = torch.compile(work, mode="reduce-overhead")
    for _ in range(3):
        compiled()
    torch.cuda.synchronize()
    return compiled, ()


def _eager(work: Callable[[], Any]) -> tuple[Callable[[], Any], tuple[Any, ...]]:
    import torch

    work()
    torch.cuda.synchronize()
    return work, ()


def described(error: BaseException) -> str:
    """An error in one short line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


_MAKERS: Final = {"cuda-graph": _captured, "compile": _compiled, "eager": _eager}


def timed(run: Callable[[], Any], device: str, *, repeats: int, longest_s: float, warm_up_s: float) -> Timings:
    """Time runs back to back, after a warm-up of at least three runs.

    Parameters
    ----------
    run : the work; on CUDA it may return before it is done.
    device : "cuda" (timed by events on the stream) or "cpu" (by the wall clock).
    repeats : runs that count, at most.
    longest_s : what they may take together; at least 5 are made all the same.
    warm_up_s : what the runs before them take, about; 200 at most.
    """
    first = _durations(run, device, 3)
    each = max(first[-1], 1e-7)
    more = min(max(int(warm_up_s / each), 0), 200)
    warmup = [*first, *(_durations(run, device, more) if more else [])]
    n = min(max(int(longest_s / each), _FEWEST), repeats)
    return Timings(warmup=tuple(warmup[:10]), samples=tuple(_durations(run, device, n)))


def _durations(run: Callable[[], Any], device: str, n: int) -> list[float]:
    if device != "cuda":
        return [_wall(run) for _ in range(n)]
    import torch

    events = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
    run()  # keeps the device busy while the first timed run is launched
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in pairwise(events)]


def _wall(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def seconds_of(device: str) -> Callable[[Callable[[], Any]], float]:
    """A clock for short work: median of a few runs, by graph replay on CUDA, so that launches do not count."""

    def clock(work: Callable[[], Any]) -> float:
        replay = prepared(work, device, ("cuda-graph", "eager"))  # compiling every candidate would take minutes
        return statistics.median(_durations(replay.run, device, 7)[2:])

    return clock
