"""Operators of a forward pass on one GPU: matrix products, attention of all kinds, states, routed experts."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from theory.hardware.formats import Format
from theory.hardware.gpu_records import Gpu, ProductRates
from theory.hardware.mixers.sparse import CompressedAttention, Selection
from theory.hardware.mixers.states import Recurrent
from theory.hardware.shapes import Experts, LatentAttention

__all__ = [
    "attention_seconds",
    "distinct_experts",
    "experts_seconds",
    "fullest_share",
    "index_seconds",
    "is_timed",
    "latent_seconds",
    "loaded_seconds",
    "product_seconds",
    "recurrent_seconds",
]

_ACTIVATION: Final = 2.0
_UNEVEN: Final = 0.9
"""Exponent of the tokens that count as independent draws of experts, [-]: routing is uneven, and tokens of one text ask
for the same experts. Measured loads of experts follow power laws of exponents 1.0 to 1.2, between which it hardly
differs."""
_FULLEST: Final = {1: 0.0, 2: 0.56, 4: 1.03, 8: 1.42}
"""Mean of the largest of so many standard normal numbers, [-]: of the fullest GPU that experts are dealt out to."""
_CROWDED: Final = 0.3
"""Exponent of the GPUs by which the tokens of the fullest one exceed the mean, [-]: experts that are loaded by power
laws of exponents 1.0 to 1.2 crowd on some (tables of aiconfigurator-core, 2 to 32 GPUs: 0.25 to 0.36 by format)."""
_LEAST_TILE: Final = 16.0
_TILE: Final = 128.0
"""Rows of the smallest and the largest tile of routed experts; between them kernels take that of an expert's mean."""
_FURTHER: Final = 0.25
"""Tiles that the loads of served models need beyond those of even loads, over what the tables' power laws need, [-]: as
tokens touch them, experts have negative binomial loads of shape 2 to 4, which need a sixth to a third of these, where a
tile is the power of two above 1.3 times the mean (FlashInfer)."""
_SPLIT: Final = 256.0
"""Cached tokens from which on several blocks share them, before Hopper."""
_MULTIPROCESSORS: Final = 132.0
"""Of data-centre GPUs: 108 (A100) to 148 (B200)."""
_EXPONENTIALS: Final = 5e12
"""Exponentials per second that add to products, 1/s: 16 per clock of each multiprocessor are 2.4e12 (A100) to 4.4e12
(B200), part of which products hide."""

_WIDENED_BANDWIDTH: Final = 0.8
"""Bandwidth that products reach whose 4-bit weights are widened to bf16, over that with weights in bf16, [-]."""
_WIDENED_RATE: Final = 0.77
"""The same of operations. Both from experts on H100, weights in MXFP4 against bf16 (aiconfigurator, vLLM 0.24.0)."""


_SCANNED: Final = 0.75
"""Bandwidth that Mamba's kernels reach on states, over that of delta nets, [-]: nobody measured them one by one; from
served Nemotron-Nano-v2 of 9B and 12B on H100 (vLLM 0.11.1: 0.69 and 0.86, one by one)."""


def _is_widened(gpu: Gpu, weights: Format) -> bool:
    """Whether weights have 4 bits and the GPU multiplies them in bf16."""
    return weights.bytes_per_number < 1.0 and (weights.arithmetic == "bf16" or gpu.sheet.fp4 is None)


def _rates(gpu: Gpu, weights: Format) -> tuple[ProductRates, float]:
    """Rates of products in an arithmetic or the next wider one that was measured, and bytes of an activation there."""
    if _is_widened(gpu, weights):
        rates = gpu.products["bf16"]
        bandwidth, rate = rates.bandwidth * _WIDENED_BANDWIDTH, rates.rate * _WIDENED_RATE
        return replace(rates, bandwidth=bandwidth, rate=rate), _ACTIVATION
    kind = weights.name if weights.name in gpu.products else _measured(weights.arithmetic, gpu.products)
    return gpu.products[kind], _ACTIVATION if kind == "bf16" else 1.0


def _measured(arithmetic: str, known: Collection[str]) -> str:
    """An arithmetic or the next wider one that is known."""
    wider = {"fp4": "fp8", "fp8": "bf16"}
    while arithmetic not in known:
        arithmetic = wider[arithmetic]
    return arithmetic


def is_timed(gpu: Gpu, weights: Format, *, experts: bool) -> bool:
    """Return whether constants are those of kernels for weights of a format, of routed experts or of products."""
    known = gpu.experts if experts else gpu.products
    if weights.bytes_per_number < 1.0:
        return ("widened" if _is_widened(gpu, weights) else "fp4") in known
    return weights.name in known or (experts and weights.arithmetic == "fp8" and "fp8" in known)


def product_seconds(gpu: Gpu, rows: float, outputs: float, inputs: float, weights: Format) -> float:
    """Return the time of a product of (rows, inputs) with weights (inputs, outputs) of a format, s.

    >>> from theory.hardware.formats import FORMATS
    >>> from theory.hardware.gpus import GPUS
    >>> round(1e6 * product_seconds(GPUS["NVIDIA H100 SXM"], 1, 65536, 8192, FORMATS["bf16"]))  # measured: 362 us
    367
    """
    rates, size = _rates(gpu, weights)
    moved = weights.bytes_per_number * outputs * inputs + rows * (size * inputs + _ACTIVATION * outputs)
    joined = _joined(moved / rates.bandwidth, _computing(rates, rows, outputs, inputs), rates.sharpness)
    return rates.overhead_s + joined + rows * inputs / rates.quantising


def _computing(rates: ProductRates, rows: float, outputs: float, inputs: float) -> float:
    """Time of a product's operations, s: in whole tiles where one multiprocessor has all inputs of a tile."""
    if not rates.input_s:
        return 2.0 * rows * outputs * inputs / rates.rate
    tile = min(max(2.0 ** math.ceil(math.log2(rows)), rates.least_tile), rates.tile)
    padded = rates.tile * math.ceil(rows / rates.tile) if rows > rates.tile / 2.0 else rows
    longest = rates.input_s * inputs * tile / rates.tile
    return max(2.0 * padded * outputs * (inputs + rates.tile_start) / rates.rate, longest)


def attention_seconds(
    gpu: Gpu,
    *,
    sequences: float,
    tokens: float,
    context: float,
    heads: float,
    kv_heads: float,
    head_dim: int,
    cache_bytes: float,
    window: float = math.inf,
    narrow: float = 1.0,
) -> float:
    """Return the time of one layer's attention of new tokens to cached ones and to themselves, s.

    Parameters
    ----------
    sequences : > 0.
    tokens, context : per sequence; new tokens > 0, cached ones >= 0.
    heads, kv_heads, head_dim : on this GPU.
    cache_bytes : of a cached number, B.
    window : tokens that a new one looks back at, at most.
    narrow : factor of the time over a cache of fewer bytes a number than the constants were fitted to, [-].

    Blocks of threads take turns, and one multiprocessor computes the longest, half of which is left when the others
    end. Exponentials take as long as products of several tens of numbers: heads of 64 are not twice as fast as heads of
    128.
    """
    rates = gpu.attention
    read = min(context, window) + tokens
    half, whole = (tokens + 1.0) / 2.0, rates.general and tokens > 1.0
    seen = min(context, window) + half if whole else min(context + half, window)
    cache = 2.0 * cache_bytes * sequences * kv_heads * head_dim * read
    new = 2.0 * _ACTIVATION * sequences * (heads + kv_heads) * head_dim * tokens
    longest = min(tokens, rates.tile) * min(tokens, math.inf if whole else window) * _MULTIPROCESSORS
    rows = rates.tile * math.ceil(tokens / rates.tile) if whole else tokens
    pairs = max(sequences * heads * rows * seen + longest / 2.0, longest)
    parts = tokens / rates.tile if rates.packed or tokens == 1.0 else math.ceil(tokens / rates.tile)
    waiting = max(sequences * max(kv_heads, heads * parts) - _MULTIPROCESSORS, 0.0)
    seconds = _joined(rates.block_s * waiting, cache / rates.cache_bandwidth, rates.sharpness)
    seconds += new / rates.query_bandwidth + pairs * (4.0 * head_dim / rates.rate + 1.0 / _EXPONENTIALS)
    bounded = heads == kv_heads or rates.general
    alone = cache / (rates.block_bandwidth * sequences * kv_heads) if bounded else 0.0
    further = (sequences > 1.0 and kv_heads > 1.0) + (read >= _SPLIT) if context > 0.0 and heads > kv_heads else 0
    return (rates.overhead_s + further * rates.further_s + max(seconds, alone)) * (narrow if cache_bytes < 2.0 else 1.0)


def latent_seconds(
    gpu: Gpu,
    attention: LatentAttention | CompressedAttention,
    *,
    hidden: int,
    tp: int,
    sequences: float,
    tokens: float,
    context: float,
    weights: Format,
    cache_bytes: float,
) -> float:
    """Return the time of one layer's latent or compressed attention with its products on one of ``tp`` GPUs, s.

    Few new tokens attend in the compressed space, many expand it, whichever is less work. Where a new token reads some
    of the cached entries only, it reads them by itself; `index_seconds` is what choosing them takes.
    """
    rates, rows = gpu.latent, sequences * tokens
    if isinstance(attention, CompressedAttention):
        return _compressed_seconds(
            gpu, attention, hidden, tp, rows, context + (tokens + 1.0) / 2.0, weights, cache_bytes
        )
    parameters = attention.parameters_on(hidden, tp)
    projected = _joined(
        parameters * weights.bytes_per_number / rates.bandwidth, 2.0 * parameters * rows / rates.rate, 2.0
    )
    overhead, heads, seen = rates.overhead_s, attention.heads / tp, context + (tokens + 1.0) / 2.0
    absorbed = tokens == 1.0 or attention.selection is not None
    if attention.selection is not None:
        entries = attention.read(seen)
        read = rows * (entries * attention.cached) * cache_bytes
        attended = rows * (2.0 * heads * entries * (attention.cached + attention.cache_rank))
    else:
        earlier, seen = attention.read(context), attention.read(seen)
        read = sequences * (earlier + tokens) * attention.cached * cache_bytes
        read *= 1.0 + (rates.again if 16.0 < heads < 64.0 else 0.0)
        compressed = 2.0 * rows * heads * seen * (attention.cached + attention.cache_rank)
        key_dim, value_dim = attention.nope_dim + attention.rope_dim, attention.value_dim
        expanded = 2.0 * rows * heads * seen * (key_dim + value_dim)
        expanded += 2.0 * sequences * earlier * attention.cache_rank * heads * (attention.nope_dim + value_dim)
        attended, absorbed = min(compressed, expanded), absorbed or compressed <= expanded
    new = _ACTIVATION * rows * heads * (attention.cached + attention.cache_rank) if absorbed else 0.0
    overhead += rates.quantised_s if weights.bytes_per_number < _ACTIVATION else 0.0
    attending = _joined(read / rates.cache_bandwidth, attended / rates.attention_rate, 2.0)
    return overhead + projected + attending + new / rates.query_bandwidth


def _compressed_seconds(
    gpu: Gpu,
    attention: CompressedAttention,
    hidden: int,
    tp: int,
    rows: float,
    seen: float,
    weights: Format,
    cache_bytes: float,
) -> float:
    """Attention of rows that see so many tokens to a window and compressed entries, and its products, s."""
    projected = sum(product_seconds(gpu, rows, *sizes, weights) for sizes in attention.products(hidden, tp))
    wide, groups = attention.heads * attention.head_dim / tp, max(attention.output_groups / tp, 1.0)
    projected += rows * wide * (1.0 - 1.0 / groups) / _rates(gpu, weights)[0].quantising  # inputs of the other groups
    numbers = rows * attention.read(seen) * attention.head_dim
    attended = 4.0 * numbers * attention.heads / tp / gpu.sparse.attending
    fixed = gpu.sparse.compressed_s + gpu.sparse.token_s * rows
    return fixed + projected + numbers * cache_bytes / gpu.latent.cache_bandwidth + attended


def index_seconds(gpu: Gpu, selection: Selection, *, sequences: float, tokens: float, entries: float) -> float:
    """Return the time to choose among so many cached entries of each sequence for its new tokens, s; products apart."""
    if selection.heads == 0:
        return 0.0
    rates, compressed = gpu.sparse, selection.kind == "compressed"
    fixed = {"tokens": rates.choosing_s, "blocks": rates.block_s, "compressed": rates.entries_s}[selection.kind]
    scored = 2.0 * sequences * tokens * entries * selection.heads * selection.dim
    rate = rates.scoring if compressed else gpu.latent.attention_rate
    if compressed and entries > selection.entries:
        fixed += rates.choice_s * sequences * tokens
    return fixed + sequences * selection.held(entries) / rates.bandwidth + scored / rate


def recurrent_seconds(gpu: Gpu, layer: Recurrent, *, tp: int, sequences: float, tokens: float, prompts: bool) -> float:
    """Return the time of one recurrent layer's convolution and state on one of ``tp`` GPUs, s; products apart.

    A state is read once. Of a prompt's chunk it is written once, after all tokens; of sequences that decode it is
    written after every new token, so that rejected ones can be taken back (measured so for Kimi-K3: a round of eight
    tokens takes 4.5 times as long as a plain step).
    """
    rates, heads = gpu.states, sequences * layer.heads / tp
    numbers = layer.key_dim * layer.value_dim
    if prompts:
        return rates.prompt_s + tokens * numbers * math.sqrt(math.hypot(heads**2, rates.heads**2)) / rates.rate
    bandwidth = rates.bandwidth * (_SCANNED if layer.kind in ("mamba1", "mamba2") else 1.0)
    return rates.overhead_s + (1.0 + tokens) * layer.state_bytes * heads * numbers / bandwidth


def streams_seconds(gpu: Gpu, streams: int, *, hidden: int, rows: float) -> float:
    """Return the time to mix the residual streams of so many tokens in one layer (hyper-connections), s.

    Before and after both parts of a layer all streams and one vector are read or written, twice.
    """
    if streams == 1:
        return 0.0
    moved = 4.0 * _ACTIVATION * rows * (2 * streams + 1) * hidden
    return _joined(gpu.streams.overhead_s, moved / gpu.streams.bandwidth, 1.5)


def distinct_experts(count: int, per_token: int, tokens: float) -> float:
    """Return how many experts so many tokens touch, at most all of them; routing is uneven.

    >>> distinct_experts(128, 8, 1.0)
    8.0
    """
    if tokens <= 1.0:
        return per_token * min(tokens, 1.0)
    return -count * math.expm1(tokens**_UNEVEN * math.log1p(-per_token / count)) if per_token < count else float(count)


def fullest_share(count: int, touched: float, ep: int) -> float:
    """Return the touched experts of the fullest of ``ep`` GPUs that experts are dealt out to."""
    if ep == 1:
        return touched
    share = touched / count
    nearest = min(_FULLEST, key=lambda n: abs(math.log(n / ep)))
    spread = _FULLEST[nearest] * math.sqrt(count * share * (1.0 - share) / ep)
    return min(touched / ep + spread, count / ep)


def experts_seconds(
    gpu: Gpu,
    experts: Experts,
    *,
    hidden: int,
    tokens: float,
    asking: float,
    ep: int,
    expert_tp: int,
    weights: Format,
    padding: float = 0.0,
) -> float:
    """Return the time of one layer's routed experts on the fullest GPU, s; ``asking`` as `Work.asking_rows`.

    ``padding`` rows are moved beside those of tokens for each expert that the GPU holds, touched or not.
    """
    touched = distinct_experts(experts.count, experts.per_token, asking)
    here, rows = fullest_share(experts.count, touched, ep), tokens * experts.per_token * math.pow(ep, _CROWDED - 1.0)
    return loaded_seconds(
        gpu,
        experts,
        hidden=hidden,
        tokens=tokens,
        here=here,
        rows=rows,
        expert_tp=expert_tp,
        weights=weights,
        padding=padding * experts.count / ep,
        further=_FURTHER,
    )


def loaded_seconds(
    gpu: Gpu,
    experts: Experts,
    *,
    hidden: int,
    tokens: float,
    here: float,
    rows: float,
    expert_tp: int,
    weights: Format,
    padding: float = 0.0,
    further: float = 1.0,
) -> float:
    """Return the time of one layer's routed experts on a GPU of whose experts ``here`` get so many rows together, s.

    ``padding`` rows are moved beside them. An expert's rows are computed in tiles as large as the mean of all experts,
    of which each after the first reads a share of the weights again: ``further`` of those that power laws need, [-].
    """
    if not _is_widened(gpu, weights):
        rates = gpu.experts.get(weights.name, gpu.experts[_measured(weights.arithmetic, gpu.experts)])
    elif "widened" in gpu.experts:
        rates = gpu.experts["widened"]
    else:
        rates = gpu.experts["bf16"]
        rates = replace(rates, bandwidth=rates.bandwidth * _WIDENED_BANDWIDTH, rate=rates.rate * _WIDENED_RATE)
    intermediate, everywhere = experts.intermediate / expert_tp, tokens * experts.per_token
    size = experts.matrices * hidden * intermediate
    tile = min(max(everywhere / experts.count, _LEAST_TILE), _TILE)
    mean = everywhere / experts.count / tile
    even = here * max(mean, 1.0)
    tiles = even + further * (here / -math.expm1(-1.0 / mean) - even)  # power laws: as geometric loads
    read = (here + rates.again * (tiles - here)) * size * weights.bytes_per_number / rates.bandwidth
    moved = rows + rates.elsewhere * (everywhere - rows) + padding
    activations = _ACTIVATION * moved * (2.0 * hidden + 3.0 * intermediate) / rates.activation_bandwidth
    return rates.overhead_s + _joined(read, 2.0 * size * tile * tiles / rates.rate, 3.0) + activations


def _joined(one: float, other: float, sharpness: float) -> float:
    """Two limits of which the larger decides, rounded at the corner."""
    high, low = max(one, other), min(one, other)
    return high * (1.0 + (low / high) ** sharpness) ** (1.0 / sharpness) if high > 0.0 else 0.0
