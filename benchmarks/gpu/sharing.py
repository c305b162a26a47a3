"""Two models on one GPU at once: how much each is slowed down.

Each replays its pass on a stream of its own, fed by a thread of its own, so that neither waits for the other's
launches; only passes that lie wholly inside the time when both were running count. (On a CPU the two threads are the
streams.) Two processes share a GPU differently: they take turns unless a multi-process service runs.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.gpu.replay import Replay

__all__ = ["Lane", "run_together", "slowdown"]

_AHEAD: Final = 8
_MOST_KEPT: Final = 60

Span = tuple[float, float]


@dataclass(slots=True)
class Lane:
    """One model's work on a stream."""

    replay: Replay
    device: str
    spans: list[Span] = field(default_factory=list)
    """Start and end of every pass, s after a common origin."""
    error: BaseException | None = None

    def feed(self, origin: Any, ready: threading.Barrier, stop: Callable[[], bool]) -> None:
        """Replay until ``stop``; errors are kept for the caller."""
        try:
            (self._feed_cuda if self.device == "cuda" else self._feed_cpu)(origin, ready, stop)
        except BaseException as error:  # a thread has no other way to report
            ready.abort()
            self.error = error

    def _feed_cpu(self, origin: float, ready: threading.Barrier, stop: Callable[[], bool]) -> None:
        import torch

        with torch.no_grad():
            self.replay.run()
            ready.wait()
            while not stop():
                started = time.perf_counter()
                self.replay.run()
                self.spans.append((started - origin, time.perf_counter() - origin))

    def _feed_cuda(self, origin: Any, ready: threading.Barrier, stop: Callable[[], bool]) -> None:
        import torch

        events = []
        flying: deque[Any] = deque()
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_event(origin)
            self.replay.run()
            torch.cuda.current_stream().synchronize()
            ready.wait()
            while not stop():
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                self.replay.run()
                end.record()
                events.append((begin, end))
                flying.append(end)
                if len(flying) > _AHEAD:
                    flying.popleft().synchronize()
            torch.cuda.current_stream().synchronize()
        self.spans = [(origin.elapsed_time(a) / 1e3, origin.elapsed_time(b) / 1e3) for a, b in events]


def run_together(replays: Sequence[Replay], device: str, seconds: float) -> list[list[float]]:
    """Run every replay on its own lane at the same time; return each one's durations while all were running.

    Raises
    ------
    BaseException : the first error of a lane.
    """
    lanes = [Lane(replay, device) for replay in replays]
    origin = _origin(device)
    ready = threading.Barrier(len(lanes) + 1)
    deadline = [float("inf")]
    threads = [
        threading.Thread(target=lane.feed, args=(origin, ready, lambda: time.monotonic() > deadline[0]), daemon=True)
        for lane in lanes
    ]
    for thread in threads:
        thread.start()
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        deadline[0] = 0.0
    else:
        deadline[0] = time.monotonic() + seconds
    for thread in threads:
        thread.join()
    for lane in lanes:
        if lane.error is not None and not isinstance(lane.error, threading.BrokenBarrierError):
            raise lane.error
    return overlapping([lane.spans for lane in lanes])


def overlapping(lanes: Sequence[Sequence[Span]]) -> list[list[float]]:
    """Durations of the spans that lie wholly within the time when every lane was running.

    >>> overlapping([[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], [(0.5, 1.0), (1.0, 2.5)]])
    [[1.0], [0.5, 1.5]]
    """
    if not all(lanes):
        return [[] for _ in lanes]
    first = max(spans[0][0] for spans in lanes)
    last = min(spans[-1][1] for spans in lanes)
    return [[end - start for start, end in spans if start >= first and end <= last] for spans in lanes]


def slowdown(alone: Sequence[float], shared: Sequence[float]) -> dict[str, Any]:
    """Medians and their ratio, with raw samples thinned evenly to 60 of each."""
    result: dict[str, Any] = {"alone": thinned(alone), "shared": thinned(shared)}
    if alone and shared:
        result["slowdown"] = round(statistics.median(shared) / statistics.median(alone), 4)
    return result


def thinned(values: Sequence[float]) -> list[float]:
    """At most 60 of the values, evenly spaced."""
    step = max(-(-len(values) // _MOST_KEPT), 1)
    return [round(value, 9) for value in values[::step]]


def _origin(device: str) -> Any:
    if device != "cuda":
        return time.perf_counter()
    import torch

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
