r"""What a forward pass of a dense decoder costs on a GPU: seconds against batch, new tokens, context and model shape.

A pass is a sum of operators, each a roofline with the constants of a GPU:

.. math::

    t_{\text{matmul}} &= s + \left[\left(\tfrac{\text{bytes}}{B_w}\right)^p
                             + \left(\tfrac{\text{flops}}{F}\right)^p\right]^{1/p} \\
    t_{\text{attention}} &= \sqrt{a^2 + (a' b)^2} + \tfrac{\text{cache bytes}}{B_c}
                             + \tfrac{\text{query bytes}}{B_q} + \tfrac{\text{flops}}{F_a} \\
    t_{\text{pass}} &= L\,(t_{\text{matmuls}} + t_{\text{attention}} + 2 t_{\text{sum}} + \ell) + t_{\text{head}} + u b

b is the number of sequences. A matrix product reads its weights or computes, whichever takes longer (p = 3 rounds the
corner); attention re-reads the cached keys and values of every sequence, which is why parallel sequences are not free;
:math:`\ell` (per layer) and u (per sequence) are what a serving engine spends beyond these operators.

The constants are fitted by ``benchmarks/fit_hardware.py`` to measured operators (NVIDIA aiconfigurator tables for vLLM
0.24.0) and to served Qwen3 models (ML.ENERGY Benchmark v3, vLLM 0.11.1, H100), both Apache-2.0. `ERRORS` has the
errors on rows that were left out. What was not measured: several new tokens on a cached prefix (a pass over q tokens
is interpolated between decoding and prefilling), served models on the H200 (:math:`\ell` and u are the H100's), and
the elementwise work of long prefills, which is left out. u is that of a loaded server whose requests come and go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final

from theory.errors import ParameterError

__all__ = [
    "ERRORS",
    "GPUS",
    "ForwardCost",
    "Gpu",
    "Shape",
    "allreduce_seconds",
    "attention_seconds",
    "matmul_seconds",
    "pass_seconds",
]

_BYTES: Final = 2
"""Of a bf16 number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A dense decoder with grouped-query attention and a gated feed-forward layer, in bf16."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_count(field.name, getattr(self, field.name))
        if self.heads % self.kv_heads:
            raise ParameterError("heads", self.heads, f"must be a multiple of kv_heads={self.kv_heads}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Constants of a GPU."""

    name: str
    matmul_s: float
    """Fixed time of a matrix product, s."""
    weight_bandwidth: float
    """Memory bandwidth that matrix products reach, B/s."""
    matmul_rate: float
    """Arithmetic rate that they reach, operations/s."""
    sharpness: float
    """p, how sharply one limit gives way to the other, [-], >= 1."""
    attention_s: float
    """Fixed time of an attention, s."""
    attention_sequence_s: float
    """Time per sequence of a large batch, s; joined with the fixed time in squares."""
    cache_bandwidth: float
    """Bandwidth at which cached keys and values are read, B/s."""
    query_bandwidth: float
    """Bytes of queries and outputs handled per second, B/s."""
    attention_rate: float
    """Arithmetic rate of attention, operations/s."""
    allreduce: tuple[tuple[int, float, float], ...]
    """Sums over GPUs of a node: (GPUs, fixed time in s, message bandwidth in B/s)."""
    layer_s: float
    """Per layer beyond these operators (norms, activations, launches), s."""
    sequence_s: float
    """Per sequence and iteration beyond them (scheduling, sampling, transport), s."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0.0):
                raise ParameterError(field.name, value, "must be finite and >= 0")
        for name in ("weight_bandwidth", "matmul_rate", "cache_bandwidth", "query_bandwidth", "attention_rate"):
            if getattr(self, name) <= 0.0:
                raise ParameterError(name, getattr(self, name), "must be > 0")
        if self.sharpness < 1.0:
            raise ParameterError("sharpness", self.sharpness, "must be >= 1")


_FITTED: Final = {  # H100, H200
    "matmul_s": (3.611e-6, 3.945e-6),
    "weight_bandwidth": (2.920e12, 4.019e12),
    "matmul_rate": (8.059e14, 8.010e14),
    "sharpness": (3.012, 3.302),
    "attention_s": (1.223e-5, 1.221e-5),
    "attention_sequence_s": (7.053e-8, 7.379e-8),
    "cache_bandwidth": (3.060e12, 4.229e12),
    "query_bandwidth": (1.259e12, 1.301e12),
    "attention_rate": (6.628e14, 6.528e14),
    "layer_s": (2.761e-5, 2.761e-5),
    "sequence_s": (6.338e-5, 6.338e-5),
}
_ALLREDUCE: Final = (
    ((2, 4.239e-6, 1.206e11), (4, 4.776e-6, 8.209e10), (8, 5.350e-6, 8.339e10)),
    ((2, 4.395e-6, 1.240e11), (4, 4.711e-6, 8.569e10), (8, 5.213e-6, 8.979e10)),
)

GPUS: Final[Mapping[str, Gpu]] = MappingProxyType(
    {
        short: Gpu(
            name=f"NVIDIA {short.upper()} SXM",
            allreduce=_ALLREDUCE[column],
            **{field: values[column] for field, values in _FITTED.items()},
        )
        for column, short in enumerate(("h100", "h200"))
    }
)
"""Fitted constants by short name."""

ERRORS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "matmul, h100": 0.063,
        "matmul, h200": 0.063,
        "attention, h100": 0.101,
        "attention, h200": 0.100,
        "sum over 2 GPUs, h100": 0.031,
        "sum over 4 GPUs, h100": 0.070,
        "sum over 8 GPUs, h100": 0.131,
        "sum over 2 GPUs, h200": 0.035,
        "sum over 4 GPUs, h200": 0.062,
        "sum over 8 GPUs, h200": 0.114,
        "served meta-llama/Llama-3.1-8B-Instruct on 1, h100": 0.086,
        "served google/gemma-3-12b-it on 1, h100": 0.061,
        "served google/gemma-3-27b-it on 1, h100": 0.002,
        "served google/gemma-3-27b-it on 2, h100": 0.027,
    }
)
"""Mean absolute relative error, [-], on rows that were not fitted to: other shapes of the operators, other models than
Qwen3 for what is served. Single rows err more: matrix products by up to 66 %, attention by up to 89 % (short contexts
of few heads), served models by up to 13.5 % (Llama 3.1 8B with 128 sequences)."""


def matmul_seconds(gpu: Gpu, rows: Any, outputs: Any, inputs: Any) -> Any:
    """Time of a product of (rows, inputs) with weights (inputs, outputs), s.

    Parameters
    ----------
    gpu : constants.
    rows, outputs, inputs : sizes, > 0; numbers or arrays that broadcast.

    >>> round(1e6 * matmul_seconds(GPUS["h100"], 1, 65536, 8192))  # measured: 362 us
    371
    """
    moved = _BYTES * (outputs * inputs + rows * inputs + rows * outputs) / gpu.weight_bandwidth
    computed = 2.0 * rows * outputs * inputs / gpu.matmul_rate
    return gpu.matmul_s + (moved**gpu.sharpness + computed**gpu.sharpness) ** (1.0 / gpu.sharpness)


def attention_seconds(gpu: Gpu, batch: Any, tokens: Any, context: Any, heads: Any, kv_heads: Any, head_dim: Any) -> Any:
    """Time of one layer's attention of ``tokens`` new tokens to ``context`` cached ones and to themselves, s.

    Parameters
    ----------
    gpu : constants.
    batch : sequences, > 0.
    tokens, context : per sequence; new tokens > 0, cached ones >= 0.
    heads, kv_heads, head_dim : on this GPU.
    """
    cache = 2.0 * _BYTES * batch * kv_heads * head_dim * (context + tokens)
    queries = 2.0 * _BYTES * batch * heads * head_dim * tokens
    operations = 4.0 * batch * heads * head_dim * (tokens * context + tokens * (tokens + 1.0) / 2.0)
    fixed = (gpu.attention_s**2 + (gpu.attention_sequence_s * batch) ** 2) ** 0.5
    return fixed + cache / gpu.cache_bandwidth + queries / gpu.query_bandwidth + operations / gpu.attention_rate


def allreduce_seconds(gpu: Gpu, n_gpus: int, size: Any) -> Any:
    """Time to sum ``size`` bytes over the GPUs of a node, s; 0 for one GPU.

    Raises
    ------
    ParameterError : nothing was measured for that many GPUs.
    """
    if n_gpus == 1:
        return 0.0 * size
    for n, fixed, bandwidth in gpu.allreduce:
        if n == n_gpus:
            return fixed + size / bandwidth
    known = ", ".join(str(n) for n, _, _ in gpu.allreduce)
    raise ParameterError("n_gpus", n_gpus, f"must be 1 or one of {known}, which were measured")


def pass_seconds(
    gpu: Gpu, shape: Shape, batch: float, *, tokens: float = 1, context: float = 0.0, n_gpus: int = 1
) -> float:
    """Time of a forward pass with the scores of every new token, s.

    Parameters
    ----------
    gpu, shape : constants.
    batch : sequences, > 0; need not be whole (the mean of a loaded server).
    tokens : new tokens per sequence, > 0; 1 is plain decoding, more is a verification or a prefill.
    context : cached tokens per sequence, >= 0.
    n_gpus : tensor-parallel GPUs that share every layer; must divide the heads.

    Raises
    ------
    ParameterError : outside these ranges.

    >>> shape = Shape(layers=36, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=12288, vocab=151936)
    >>> pass_seconds(GPUS["h100"], shape, 8, context=760) < 1.2 * pass_seconds(GPUS["h100"], shape, 1, context=760)
    True
    """
    for name, value, least in (("batch", batch, 0.0), ("tokens", tokens, 0.0)):
        if not (math.isfinite(value) and value > least):
            raise ParameterError(name, value, "must be finite and > 0")
    if not (math.isfinite(context) and context >= 0.0):
        raise ParameterError("context", context, "must be finite and >= 0")
    _check_count("n_gpus", n_gpus)
    if shape.heads % n_gpus:
        raise ParameterError("n_gpus", n_gpus, f"must divide the {shape.heads} heads")
    return _layers_seconds(gpu, shape, batch, tokens, context, n_gpus) + gpu.sequence_s * batch


def _layers_seconds(gpu: Gpu, shape: Shape, batch: float, tokens: float, context: float, n_gpus: int) -> float:
    rows = batch * tokens
    heads, kv_heads = shape.heads // n_gpus, max(shape.kv_heads // n_gpus, 1)
    intermediate = shape.intermediate / n_gpus
    layer = (
        matmul_seconds(gpu, rows, (heads + 2 * kv_heads) * shape.head_dim, shape.hidden)
        + attention_seconds(gpu, batch, tokens, context, heads, kv_heads, shape.head_dim)
        + matmul_seconds(gpu, rows, shape.hidden, heads * shape.head_dim)
        + matmul_seconds(gpu, rows, 2 * intermediate, shape.hidden)
        + matmul_seconds(gpu, rows, shape.hidden, intermediate)
        + 2.0 * allreduce_seconds(gpu, n_gpus, _BYTES * rows * shape.hidden)
        + gpu.layer_s
    )
    return float(shape.layers * layer + matmul_seconds(gpu, rows, shape.vocab / n_gpus, shape.hidden))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardCost:
    """A model on a GPU as the simulator's engines want it: seconds per iteration, per prefill and per request."""

    gpu: Gpu
    shape: Shape
    n_gpus: int = 1
    """GPUs that share every layer."""
    request_s: float = 0.0
    """Latency of a request outside the engine, s."""
    cached: float = 0.0
    """Tokens that a prefill finds in the cache."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.request_s) and self.request_s >= 0.0):
            raise ParameterError("request_s", self.request_s, "must be a finite number of seconds >= 0")
        pass_seconds(self.gpu, self.shape, 1, context=self.cached, n_gpus=self.n_gpus)  # checks the rest

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration of ``batch`` sequences with ``context`` cached tokens in all."""
        return pass_seconds(self.gpu, self.shape, batch, context=context / batch, n_gpus=self.n_gpus)

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill of ``n_tokens`` uncached prompt tokens; at least one is computed."""
        tokens = max(n_tokens, 1)
        return pass_seconds(self.gpu, self.shape, 1, tokens=tokens, context=self.cached, n_gpus=self.n_gpus)


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(name, value, "must be an integer >= 1")
