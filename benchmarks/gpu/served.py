"""vLLM with dummy weights of a given shape, and what can be read off the arrival of its tokens.

An engine lives on one event loop from its first request to its last, which `Served` keeps to itself: its callers are
plain functions.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.gpu.shapes import ModelShape
from theory.errors import CalibrationError

__all__ = ["Answered", "Served", "check_installed", "iterations", "open_engine", "outside", "write_config"]

_SHUTDOWN_S: Final = 20.0

Chunk = tuple[float, int]
"""Arrival of some tokens of a request, s, and how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One request, seen from here and from inside the engine."""

    sent: float
    """When it was sent, s."""
    chunks: tuple[Chunk, ...]
    scheduled: float
    """When the engine began with it, s on the engine's own clock, as the next two."""
    first: float
    """When its first token was there."""
    last: float


class Served(Protocol):
    """An engine that generates, for as many prompts as are given, all at once."""

    @property
    def n_tokens(self) -> int | None:
        """Tokens of all sequences together that its cache holds; None if it does not tell."""
        ...

    def run(self, prompts: Sequence[Sequence[int]], n_tokens: int) -> list[Answered]:
        """Generate ``n_tokens`` for every prompt."""
        ...

    def close(self) -> None:
        """Free the device."""
        ...


class _Vllm:
    """AsyncLLM with dummy weights."""

    def __init__(
        self, shape: ModelShape, *, device: str, max_model_len: int, speculative: dict[str, Any] | None = None
    ) -> None:
        _quiet(device)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self._folder = tempfile.TemporaryDirectory(prefix="specplan-shape-")
        self._runner = asyncio.Runner()
        self._n = 0
        write_config(shape, Path(self._folder.name))
        options = AsyncEngineArgs(
            model=self._folder.name,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=max_model_len,
            enable_prefix_caching=True,  # decoding is timed on prompts that are in the cache already
            enforce_eager=device == "cpu",  # toys: compiling them takes longer than measuring them
            speculative_config=speculative,
            seed=0,
        )
        self._engine = AsyncLLM.from_engine_args(options)

    @property
    def n_tokens(self) -> int | None:
        """Tokens that the cache holds."""
        with suppress(AttributeError, TypeError):
            cache = self._engine.vllm_config.cache_config
            return int(cache.num_gpu_blocks * cache.block_size)
        return None

    def run(self, prompts: Sequence[Sequence[int]], n_tokens: int) -> list[Answered]:
        """Generate ``n_tokens`` for every prompt."""

        async def together() -> list[Answered]:
            return list(await asyncio.gather(*(self._one(prompt, n_tokens) for prompt in prompts)))

        return self._runner.run(together())

    async def _one(self, prompt: Sequence[int], n_tokens: int) -> Answered:
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
        sent, chunks, metrics = time.monotonic(), [], None
        stream = self._engine.generate({"prompt_token_ids": list(prompt)}, options, f"request-{self._n}")
        async for part in stream:
            metrics = part.metrics
            if part.outputs[0].token_ids:
                chunks.append((time.monotonic(), len(part.outputs[0].token_ids)))
        if metrics is None or not chunks:
            raise CalibrationError("vLLM returned a request without tokens or without its times")
        inside = {"scheduled": metrics.scheduled_ts, "first": metrics.first_token_ts, "last": metrics.last_token_ts}
        return Answered(sent=sent, chunks=tuple(chunks), **inside)

    def close(self) -> None:
        """Stop the engine's processes."""
        self._engine.shutdown(timeout=_SHUTDOWN_S)
        self._runner.close()
        del self._engine  # else it shuts itself down again at the interpreter's end, when half of that is gone
        self._folder.cleanup()


def _quiet(device: str) -> None:
    """Settings that vLLM reads from the environment, where the user has not made them."""
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # standard output is for what is left to do
    if device == "cpu":
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")


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


def open_engine(
    shape: ModelShape, *, device: str, max_model_len: int, speculative: dict[str, Any] | None = None
) -> Served:
    """Start vLLM on "cuda" or "cpu" (which is a build of its own: see the README).

    Raises
    ------
    CalibrationError : vLLM is not installed.
    """
    check_installed()
    return _Vllm(shape, device=device, max_model_len=max_model_len, speculative=speculative)


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


def outside(request: Answered) -> float:
    """Seconds that a request spent outside the engine's own work on it: round trip less prefill and iterations."""
    return max(request.chunks[-1][0] - request.sent - (request.last - request.scheduled), 0.0)
