"""CUDA's interface kept by a CPU, so that the lines that only run on a GPU run somewhere before they meet one.

Events, streams and graphs have torch's own signatures and keep its rules (an event must be recorded before it is asked,
a graph captured before it is replayed); tensors that are asked for on "cuda" are made on the CPU. What a GPU computes,
and how fast, it cannot show.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

__all__ = ["GRAPH_S", "UUID", "calls", "install"]

GRAPH_S = 2e-4
"""What a replayed graph takes, s."""
UUID = "11111111-2222-3333-4444-555555555555"

calls: list[str] = []
"""What was asked of the graphs, in order."""

_here = threading.local()


class Stream:
    """Work is done when it is submitted: there is nothing to wait for."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.waited_for: list[object] = []

    def wait_stream(self, stream: Stream) -> None:
        self.waited_for.append(stream)

    def wait_event(self, event: Event) -> None:
        event.check()
        self.waited_for.append(event)

    def synchronize(self) -> None:
        pass


class Event:
    """A moment on a stream."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        self.timed = enable_timing
        self.at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.at = time.perf_counter()

    def check(self) -> float:
        assert self.at is not None, "an event must be recorded first"
        return self.at

    def synchronize(self) -> None:
        self.check()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds, as CUDA has it."""
        assert self.timed and end_event.timed, "both events need enable_timing=True"  # noqa: PT018
        return 1e3 * (end_event.check() - self.check())


class CUDAGraph:
    """What was captured takes as long as any graph here."""

    captured = False

    def replay(self) -> None:
        assert self.captured, "a graph must be captured before it is replayed"
        calls.append("replay")
        time.sleep(GRAPH_S)


@contextlib.contextmanager
def graph(
    cuda_graph: CUDAGraph,
    pool: Any = None,
    stream: Stream | None = None,
    capture_error_mode: str = "global",
    enable_annotations: bool = False,
    check_input_liveness: bool = False,
) -> Iterator[None]:
    assert not torch.is_grad_enabled(), "a forward pass is captured, not its gradients"
    calls.append("capture")
    yield
    cuda_graph.captured = True


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    before = current_stream()
    _here.stream = stream
    yield
    _here.stream = before


def current_stream(device: Any = None) -> Stream:
    if not hasattr(_here, "stream"):
        _here.stream = Stream()
    found: Stream = _here.stream
    return found


class _OnCpu(TorchFunctionMode):
    """Makes what is asked for on "cuda" on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device")) == "cuda":
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


class _Generator(torch.Generator):
    """Of random numbers, on the CPU."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        made: _Generator = super().__new__(cls, "cpu")
        return made


def _compiler() -> ModuleType:
    module = ModuleType("torch._dynamo")
    vars(module)["config"] = SimpleNamespace(recompile_limit=8)
    return module


def compiled(model: Any, mode: str | None = None) -> Any:
    """The function itself: importing torch's compiler takes longer than all of these tests."""
    calls.append("compile")
    return model


def _agree(ours: Any, theirs: Any) -> None:
    """A stand-in whose signature is not torch's would let wrong calls through."""
    wanted = [(p.name, p.kind) for p in inspect.signature(theirs).parameters.values() if p.name not in ("self", "cls")]
    assert [(p.name, p.kind) for p in inspect.signature(ours).parameters.values() if p.name != "self"] == wanted


def _nvml() -> ModuleType:
    """NVML for one GPU: 300 W, throttled by heat."""
    module = ModuleType("pynvml")
    energy = iter(range(1_000_000, 1 << 60, 30_000))
    known: dict[str, Any] = {
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlDeviceGetHandleByUUID": lambda uuid: {f"GPU-{UUID}": "handle"}[uuid],
        "nvmlDeviceGetTotalEnergyConsumption": lambda handle: next(energy),
        "nvmlDeviceGetPowerUsage": lambda handle: 300_000,
        "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 1980, 2: 3201}[kind],
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {1: 1980}[kind],
        "nvmlDeviceGetTemperature": lambda handle, sensor: 80,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x20,
    }
    vars(module).update(known)
    return module


def install(patch: pytest.MonkeyPatch) -> contextlib.AbstractContextManager[Any]:
    """Put the stand-in in the place of torch.cuda; tensors are made on the CPU within the context returned."""
    _agree(Event.__init__, torch.cuda.Event.__new__)
    _agree(Stream.__init__, torch.cuda.Stream.__new__)
    _agree(graph, torch.cuda.graph.__init__)
    _agree(CUDAGraph.replay, torch.cuda.CUDAGraph.replay)
    _agree(current_stream, torch.cuda.current_stream)
    _agree(stream, torch.cuda.stream)
    calls.clear()
    properties = SimpleNamespace(total_memory=80 << 30, uuid=UUID)
    for name, value in {
        "is_available": lambda: True,
        "get_device_name": lambda: "Stand-in GPU",
        "get_device_properties": lambda device=None: properties,
        "mem_get_info": lambda: (12 << 30, 80 << 30),
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "current_stream": current_stream,
        "stream": stream,
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": CUDAGraph,
        "graph": graph,
    }.items():
        patch.setattr(torch.cuda, name, value)
    patch.setattr(torch.version, "cuda", "13.0")
    patch.setitem(sys.modules, "pynvml", _nvml())
    patch.setattr(gc, "collect", lambda: 0)  # after every cell, a fifth of a second where much is imported
    patch.setattr(torch, "Generator", _Generator)
    patch.setattr(torch, "compile", compiled)
    patch.setitem(sys.modules, "torch._dynamo", _compiler())
    return _OnCpu()
