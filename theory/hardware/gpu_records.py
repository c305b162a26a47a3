"""GPUs: what their data sheets say, and what products, attention, experts and sums of served models reach of it.

Constants of H100, H200, B200, A100 and L40S are fitted to measured operators by ``benchmarks/fit_hardware.py`` (NVIDIA
aiconfigurator tables for vLLM 0.24.0, of the A100 0.14.0; of block-wise fp8 and fused sums for SGLang 0.5.14 and
TensorRT-LLM 1.3.0; Apache-2.0). Of other GPUs the data sheet is known, and the fitted ones tell which share of it to
expect (`gpus`); what is planned with them has a wider interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from theory.errors import ParameterError

__all__ = [
    "AttentionRates",
    "DataSheet",
    "ExpertRates",
    "Gpu",
    "LatentRates",
    "ProductRates",
    "SparseRates",
    "StateRates",
    "StreamRates",
    "SumRates",
]


@dataclass(frozen=True, slots=True)
class ProductRates:
    """Products of m rows of k inputs: ``s + [(bytes / B)^p + max(operations / F, l k t / T)^p]^(1/p) + m k / Q``."""

    overhead_s: float
    """s, fixed time of a product, s."""
    bandwidth: float
    """B, bytes read and written per second, B/s."""
    rate: float
    """F, operations per second, 1/s."""
    sharpness: float
    """p, how sharply one limit gives way to the other, [-], >= 1."""
    input_s: float = 0.0
    """l, time per input in which one multiprocessor computes a tile, s: kernels that leave all inputs of a tile to one
    of them take that long however few tiles there are; 0 where inputs are shared out."""
    quantising: float = math.inf
    """Q, numbers of inputs that are brought into the format per second, 1/s."""
    tile: float = 256.0
    """T, rows of the largest tile of such kernels: more than half of it is computed in whole ones."""
    least_tile: float = 64.0
    """Rows of the smallest one; t is the power of two between them that holds all rows."""


@dataclass(frozen=True, slots=True)
class AttentionRates:
    """Attention of one layer: ``s + [(s' n)^p + (cache / B)^p]^(1/p) + new / B' + operations / F``, n blocks."""

    overhead_s: float
    """s, fixed time, s."""
    block_s: float
    """s', time per block of threads (of a sequence's heads with one key, and at most a tile of their queries), s."""
    cache_bandwidth: float
    """B, cached bytes read per second, B/s."""
    query_bandwidth: float
    """B', bytes of new queries, keys, values and outputs handled per second, B/s."""
    rate: float
    """F, operations of products per second, exponentials apart, 1/s."""
    sharpness: float
    """p, how far blocks start while others read, [-], >= 1."""
    tile: float
    """Queries that a block computes, at most: 64 before Hopper, 128 there, two times as many on Blackwell."""
    packed: bool
    """Whether blocks of a prompt compute all heads that share a key; those of a single token do everywhere."""
    block_bandwidth: float = math.inf
    """Bytes per second that one block reads, B/s: kernels that leave all cached tokens to it, where heads have keys of
    their own; infinite: tokens are shared out."""
    further_s: float = 0.0
    """Time of each further kernel where heads share cached keys, s: of several sequences, and of 256 tokens or more."""


@dataclass(frozen=True, slots=True)
class ExpertRates:
    """Routed experts of one layer: ``s + [(bytes / B)^3 + (operations / F)^3]^(1/3) + activations / B'``."""

    overhead_s: float
    """s, fixed time (routing, sorting, launches), s."""
    bandwidth: float
    """B, weights of touched experts read per second, B/s."""
    rate: float
    """F, operations per second on padded rows, 1/s."""
    activation_bandwidth: float
    """B', bytes of permuted activations moved per second, B/s."""


@dataclass(frozen=True, slots=True)
class LatentRates:
    """Latent attention of one layer with its projections: ``s + |weights / B, operations / F| + cache / B' + ...``."""

    overhead_s: float
    """s, fixed time, s."""
    bandwidth: float
    """B, weights read per second, B/s."""
    rate: float
    """F, operations of projections per second, 1/s."""
    cache_bandwidth: float
    """B', cached bytes read per second, B/s."""
    attention_rate: float
    """Operations of attention per second, 1/s."""
    quantised_s: float
    """What projections with quantised weights take more, s: their inputs are brought into the format first."""


@dataclass(frozen=True, slots=True)
class StateRates:
    """Recurrent layers without their products: ``s + states / B`` of decoding, ``s' + numbers / F`` of prompts."""

    overhead_s: float
    """s, fixed time (convolution and recurrence), s."""
    bandwidth: float
    """B, bytes of states read and written per second, B/s."""
    prompt_s: float
    """s', fixed time where prompts are read in chunks, s."""
    rate: float
    """F, numbers of states times tokens of prompts that are passed per second, 1/s."""
    heads: float
    """Heads of all prompts that keep the GPU busy, [-]: fewer take as long."""


@dataclass(frozen=True, slots=True)
class SparseRates:
    """Sparse and compressed attention: fixed times, and the reading of index keys; the rest as latent attention."""

    choosing_s: float
    """Fixed time of an index that chooses among all cached tokens, s."""
    block_s: float
    """The same where it chooses blocks of tokens, s."""
    compressed_s: float
    """Fixed time of attention to a window and compressed entries, s."""
    entries_s: float
    """The same of an index that chooses among compressed entries, s."""
    token_s: float
    """What a new token takes of attention to compressed entries, besides its products and reads, s."""
    scoring: float
    """Rate at which compressed entries are scored, FLOP/s."""
    bandwidth: float


@dataclass(frozen=True, slots=True)
class StreamRates:
    """Residual streams of one layer, mixed before and after both of its parts: ``[s^1.5 + (bytes / B)^1.5]^(2/3)``."""

    overhead_s: float
    """s, fixed time, s."""
    bandwidth: float
    """B, bytes of streams read and written per second, B/s."""


@dataclass(frozen=True, slots=True)
class SumRates:
    """Sums over the GPUs of a machine: the faster of a custom kernel and of NCCL, ``s + bytes / B`` each."""

    custom_s: float
    custom_bandwidth: float
    nccl_s: float
    nccl_bandwidth: float

    def seconds(self, size: float) -> float:
        """Return the time to sum ``size`` bytes, s."""
        return min(self.custom_s + size / self.custom_bandwidth, self.nccl_s + size / self.nccl_bandwidth)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSheet:
    """What the maker says."""

    memory: float
    """Memory as the driver reports it, B."""
    bandwidth: float
    """Memory bandwidth, B/s."""
    bf16: float
    """Dense arithmetic in bf16, operations per second, 1/s."""
    fp8: float | None = None
    """The same in fp8; None: it has none, and computes in bf16."""
    fp4: float | None = None
    link: float = 0.0
    """Bandwidth between GPUs of a machine, both directions, B/s."""

    def rate(self, arithmetic: str) -> float:
        """Return the rate of a format, or of the widest smaller one that the GPU has, 1/s."""
        if arithmetic == "fp4" and self.fp4 is not None:
            return self.fp4
        if arithmetic in ("fp4", "fp8") and self.fp8 is not None:
            return self.fp8
        return self.bf16


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as the pass model needs it."""

    name: str
    sheet: DataSheet
    products: Mapping[str, ProductRates] = field(repr=False)
    """By arithmetic: bf16, fp8, fp4; where kernels of a format of weights were measured, by its name too."""
    attention: AttentionRates = field(repr=False)
    latent: LatentRates = field(repr=False)
    states: StateRates = field(repr=False)
    sparse: SparseRates = field(repr=False)
    streams: StreamRates = field(repr=False)
    experts: Mapping[str, ExpertRates] = field(repr=False)
    """The same; ``widened``: of weights of 4 bits that are widened to bf16."""
    sums: Mapping[int, SumRates] = field(repr=False)
    fused_sums: Mapping[int, SumRates] = field(repr=False)
    """The same by kernels of TensorRT-LLM, which FlashInfer ships too; empty where they were not measured."""
    network: float = 5.0e10
    """Bytes per second that a GPU sends to one of another machine, B/s: 400 Gb/s, as adapters of H100 servers have. Not
    measured; aiconfigurator assumes a half (A100) to twice as much (B200), and the same time of a message."""
    network_s: float = 1.0e-5
    """Time of a message between machines besides its bytes, s."""
    fitted: bool = True
    """Whether the constants are fitted to measurements of this GPU, or scaled from others'."""

    @property
    def memory(self) -> float:
        """Memory, B."""
        return self.sheet.memory

    def sum_seconds(self, n_gpus: int, size: float, *, fused: bool = False) -> float:
        """Return the time to sum ``size`` bytes over GPUs of a machine, s; 0 for one.

        ``fused`` has the faster of the usual kernels and those of TensorRT-LLM.

        Raises
        ------
        ParameterError : more GPUs than the machine that was measured has.
        """
        if n_gpus == 1:
            return 0.0
        known = next((n for n in sorted(self.sums) if n >= n_gpus), None)
        if known is None:
            raise ParameterError("tp", n_gpus, f"must be at most {max(self.sums)}, the GPUs of a machine")
        kernels = (self.sums, self.fused_sums) if fused and self.fused_sums else (self.sums,)
        return min(rates[known].seconds(size) for rates in kernels)
