"""Operators timed alone (NVIDIA aiconfigurator's tables), beside what the constants of their GPU say.

These rows are what most constants of `theory.hardware.gpus` are fitted to. There are hundreds of thousands, so only
errors by operator, GPU and format are kept.
"""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from calibrate.record.files import opened
from specplan.check.scoreboard.board import rows_of, table_files
from specplan.check.scoreboard.deployments import facts_of
from specplan.check.scoreboard.score import errors_of
from theory.errors import ParameterError, SchemaError
from theory.hardware import operators
from theory.hardware.formats import FORMATS, Format
from theory.hardware.gpu_records import Gpu
from theory.hardware.gpus import gpu_named
from theory.hardware.shapes import Experts, LatentAttention

__all__ = ["OperatorErrors", "Row", "operator_errors", "row_seconds"]

Row = Mapping[str, str]

_FORMAT_OF: Final[Mapping[str, Format]] = {
    "bfloat16": FORMATS["bf16"], "float16": FORMATS["bf16"], "bf16": FORMATS["bf16"], "fp8": FORMATS["fp8"],
    "fp8_block": FORMATS["fp8-block"], "nvfp4": FORMATS["nvfp4"], "int4_wo": FORMATS["int4"],
    "w4a16_mxfp4": replace(FORMATS["mxfp4"], arithmetic="bf16"),
}  # fmt: skip
_ON_CHIP: Final[Mapping[str, tuple[float, float]]] = {"NVIDIA L40S": (96e6, 3.0)}
"""Second-level cache by the maker, B, and its bandwidth over the memory's: operators were timed again and again on the
same keys and weights, which stay there if they fit; a server's layers evict them. On the others, whose memory is
faster, no such factor tells more of the tables."""
_IN_TURNS: Final = 6.0
"""Weights of products that took turns as they were timed, [-]: more than a sixth of the cache were read from memory."""
_ALONE: Final = {"NVIDIA H100 SXM": 6.2e-5, "NVIDIA H200 SXM": 6.5e-5, "NVIDIA B200 SXM": 5e-6}
"""What latent attention took longer, timed alone, than where DeepSeek-R1 is served, s: its dozen kernels were started
one by one, on Hopper outside graphs."""
_UNGATED: Final = {(2048, 5120), (1024, 2688), (2688, 1856)}
"""Hidden and intermediate sizes of experts with two matrices; A100's table, which is older, timed three of all."""
_WIDENED: Final = "w4a16_mxfp4"
_GPT_OSS: Final = 2880
"""Its hidden size: on Blackwell its experts in mxfp4 have TensorRT-LLM's kernel by bf16, which vLLM takes there by
default. Those of Kimi-K3 were timed by Marlin, which no engine takes there for it, and to which nothing is fitted."""
_DRAWS: Final = 5
"""Loads of experts that a row of the tables is the mean of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorErrors:
    """Relative errors of an operator on a GPU."""

    operator: str
    gpu: str
    weights: str
    """Format."""
    n: int
    mean: float
    median: float
    p90: float
    signed: float


def operator_errors(path: Path, step_done: Callable[[], None] = lambda: None) -> list[OperatorErrors]:
    """Predict every row of every table of operators in a folder; ``step_done`` is called after each file.

    Raises
    ------
    ParameterError : there is no such folder, or no such table in it.
    SchemaError : a cell is not a number, or a file's name says no GPU that is known; the text names the file.
    """
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for file in table_files(path):
        for key, error in _errors(file):
            found[key].append(error)
        step_done()
    if not found:
        raise ParameterError("FOLDER", str(path), "holds no table of operators (columns m, n, k and latency, say)")
    return [
        OperatorErrors(operator=operator, gpu=gpu, weights=weights, **errors_of(errors))
        for (operator, gpu, weights), errors in sorted(found.items())
    ]


def _errors(path: Path) -> Iterator[tuple[tuple[str, str, str], float]]:
    with opened(path, "a table", packed=True) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
        columns, rows = rows_of(file, path)
        operator = next((one for one, (known_by, _) in _OPERATORS.items() if known_by <= columns), None)
        if operator is None:
            return
        fastest: dict[tuple[str, str, float], float] = {}  # of sums, engines take the fastest kernel
        for line, row in rows:
            try:
                gpu = _gpu(row.get("system") or path.name)
                one = row_seconds(operator, gpu, row, path.name)
                measured = 1e-3 * float(row["latency"])
            except (ValueError, KeyError, TypeError, ArithmeticError) as error:
                raise SchemaError(f"{path.name}:{line}: {error}") from None
            if one is None or not 0.0 < measured < math.inf:
                continue
            name = gpu.name.removeprefix("NVIDIA ")
            if operator == "sums":
                fastest[name, *one] = min(measured, fastest.get((name, *one), measured))
            else:
                yield (operator, name, one[0]), one[1] / measured - 1.0
        yield from (((operator, gpu, of), seconds / best - 1.0) for (gpu, of, seconds), best in fastest.items())


def row_seconds(operator: str, gpu: Gpu, row: Row, file: str) -> Predicted:
    """Return the format of a row of an operator's table and its predicted seconds; None where it is not predicted.

    ``file`` is the table's name, which tells the format of products.
    """
    return _OPERATORS[operator][1](gpu, row, file)


@cache
def _gpu(name: str) -> Gpu:
    """The GPU of that name, or that a file's name ends with."""
    words = name.partition(".")[0].split("_")
    for start in range(len(words)):
        try:
            return gpu_named("_".join(words[start:]))
        except ParameterError:
            continue
    raise SchemaError(f"{name}: ends with no GPU that is known")


Predicted = tuple[str, float] | None
"""Format and seconds; None where the row is not predicted."""


def _product(gpu: Gpu, row: Row, file: str) -> Predicted:
    weights = _FORMAT_OF[next((word for word in ("fp8_block", "fp8", "nvfp4") if word in file), "bf16")]
    rows, outputs, inputs = float(row["m"]), float(row["n"]), float(row["k"])
    gpu = _on_chip(gpu, _IN_TURNS * weights.bytes_per_number * outputs * inputs)
    return weights.name, operators.product_seconds(gpu, rows, outputs, inputs, weights)


def _on_chip(gpu: Gpu, touched: float) -> Gpu:
    """The GPU as it is where so many bytes are read again and again."""
    size, faster = _ON_CHIP.get(gpu.name, (0.0, 1.0))
    if touched >= size:
        return gpu
    return replace(
        gpu,
        attention=replace(gpu.attention, cache_bandwidth=faster * gpu.attention.cache_bandwidth),
        products={of: replace(one, bandwidth=faster * one.bandwidth) for of, one in gpu.products.items()},
        experts={of: replace(one, bandwidth=faster * one.bandwidth) for of, one in gpu.experts.items()},
    )


def _attention(gpu: Gpu, row: Row, _: str) -> Predicted:
    tokens, heads = float(row["isl"]), float(row["num_heads"])
    sequences, context, head_dim = float(row["batch_size"]), float(row["step"]), int(row["head_dim"])
    kv_heads = float(row["num_key_value_heads"]) or heads
    seconds = operators.attention_seconds(
        _on_chip(gpu, 4.0 * sequences * kv_heads * head_dim * (context + tokens)),
        sequences=sequences,
        tokens=tokens,
        context=context,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        cache_bytes=2.0,
    )
    return "one token" if tokens == 1.0 else "prompts", seconds


def _latent(gpu: Gpu, row: Row, _: str) -> Predicted:
    shape = facts_of(row["model"]).shape
    attention = shape.layers[0].attention
    if not isinstance(attention, LatentAttention):
        return None
    tokens = float(row["isl"])
    seconds = operators.latent_seconds(
        gpu,
        attention,
        hidden=shape.hidden,
        tp=attention.heads // int(row["num_heads"]),
        sequences=float(row["batch_size"]),
        tokens=tokens,
        context=float(row["step"]),
        weights=_FORMAT_OF[row["gemm_type"]],
        cache_bytes=1.0 if "fp8" in row["kv_cache_dtype"] else 2.0,
    )
    return "one token" if tokens == 1.0 else "prompts", seconds + _ALONE.get(gpu.name, 0.0)


def _experts(gpu: Gpu, row: Row, _: str) -> Predicted:
    if row["distribution"] == "balanced":
        return None  # no model routes so
    hidden, intermediate, tokens = int(row["hidden_size"]), int(row["inter_size"]), float(row["num_tokens"])
    experts = Experts(
        count=int(row["num_experts"]),
        per_token=int(row["topk"]),
        intermediate=intermediate,
        gated=(hidden, intermediate) not in _UNGATED or gpu.name == "NVIDIA A100 SXM",
    )
    weights, shared, apart = _FORMAT_OF[row["moe_dtype"]], int(row["moe_tp_size"]), int(row.get("moe_ep_size") or 1)
    here, routed = _drawn(experts, int(tokens), float(row["distribution"].rpartition("_")[2]), apart)
    read = here * weights.bytes_per_number / shared
    seconds = operators.loaded_seconds(
        _on_chip(gpu, read * experts.matrices * hidden * intermediate),
        experts,
        hidden=hidden,
        tokens=tokens,
        here=here,
        rows=routed,
        expert_tp=shared,
        weights=weights,
    )
    by_marlin = row["moe_dtype"] == _WIDENED and hidden != _GPT_OSS and gpu.sheet.fp4 is not None
    return weights.name + (", K3" if by_marlin else ""), seconds


@cache
def _drawn(experts: Experts, tokens: int, exponent: float, gpus: int) -> tuple[float, float]:
    """How many experts of the fullest of so many GPUs the tokens of a row touch, and how often, on average.

    The tables' loads were drawn from a power law between 1 token (a hundredth, where there are fewer choices than
    experts) and 0.8 (2) of all, scaled to the choices and rounded; what is lacking was given to the emptiest experts
    (`_generate_power_law_distribution` of aiconfigurator's collector).
    """
    chosen, random = tokens * experts.per_token, np.random.default_rng(0)
    ends = (1.0, 0.8 * tokens) if chosen > experts.count else (0.01, 2.0)
    low, high = (end ** (1.0 - exponent) for end in ends)
    shape = (_DRAWS, experts.count)
    spread = (random.permuted(np.tile(np.arange(experts.count), (_DRAWS, 1)), axis=1) + random.random(shape)) / shape[1]
    loads = (low + (high - low) * spread) ** (1.0 / (1.0 - exponent))
    loads = np.rint(loads * chosen / loads.sum(axis=1, keepdims=True))
    kept = np.minimum(loads, tokens)  # a token chooses an expert once
    lacking = np.maximum(chosen - kept.sum(axis=1), 0.0)
    parts = kept.reshape(_DRAWS, gpus, -1)
    nth = np.cumsum(parts == 0.0, axis=2) + np.arange(gpus)[:, None] / gpus  # empty experts, the GPUs taking turns
    nth = np.where(parts == 0.0, nth, np.inf).reshape(_DRAWS, -1)
    parts += (nth.argsort(axis=1).argsort(axis=1) < np.minimum(lacking, (nth < np.inf).sum(axis=1))[:, None]).reshape(
        parts.shape
    )
    fullest = parts[np.arange(_DRAWS), parts.sum(axis=2).argmax(axis=1)]
    return float((fullest > 0.0).sum(axis=1).mean()), float(fullest.sum(axis=1).mean()) if gpus > 1 else float(chosen)


def _sum(gpu: Gpu, row: Row, _: str) -> Predicted:
    n = int(row["num_gpus"])
    return f"{n} GPUs", gpu.sum_seconds(n, float(row["message_size"]))


_OPERATORS: Final[Mapping[str, tuple[frozenset[str], Callable[[Gpu, Row, str], Predicted]]]] = {
    "products": (frozenset({"m", "n", "k", "latency"}), _product),
    "latent attention": (frozenset({"kv_cache_dtype", "gemm_type", "step", "latency"}), _latent),
    "attention": (frozenset({"num_key_value_heads", "head_dim", "step", "latency"}), _attention),
    "experts": (frozenset({"moe_dtype", "num_experts", "latency"}), _experts),
    "sums": (frozenset({"num_gpus", "message_size", "latency"}), _sum),
}
"""Operator -> (columns by which its table is known, seconds of a row)."""
