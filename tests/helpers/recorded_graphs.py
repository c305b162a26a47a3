"""CUDA graphs on a CPU: what a pass computes is recorded operation by operation, and replayed on the same memory.

As with a real graph, Python runs only while the pass is recorded: whatever the pass takes from Python then, be it a
length or a tensor that is made anew, is the same in every replay.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class RecordedGraph:
    """In place of `torch.cuda.CUDAGraph`."""

    n_replays = 0

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def replay(self) -> None:
        RecordedGraph.n_replays += 1
        for function, args, kwargs, results in self.operations:
            anew = function(*args, **kwargs)
            for old, new in zip(tree_leaves(results), tree_leaves(anew), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class _Recorder(TorchDispatchMode):
    def __init__(self, graph: RecordedGraph) -> None:
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        self.graph.operations.append((func, args, kwargs or {}, results))
        return results


@contextlib.contextmanager
def _recorded(graph: RecordedGraph, pool: Any = None) -> Iterator[None]:
    with _Recorder(graph):
        yield


class _Stream:
    def wait_stream(self, other: object) -> None:
        """Work on a CPU is done when it is submitted."""


def install(monkeypatch: pytest.MonkeyPatch) -> type[RecordedGraph]:
    """Let graphs of torch be recorded ones; the class counts replays."""
    monkeypatch.setattr(RecordedGraph, "n_replays", 0)
    for name, stand_in in {
        "CUDAGraph": RecordedGraph,
        "graph": _recorded,
        "graph_pool_handle": object,
        "Stream": _Stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": _Stream,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return RecordedGraph
