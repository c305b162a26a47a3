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
from types import MappingProxyType
from typing import Final

from theory.errors import ParameterError

__all__ = [
    "SHEETS",
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
    tile_start: float = 512.0
    """Inputs that such a kernel could compute while a tile starts and its outputs are written, [-]."""


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
    general: bool = False
    """Whether kernels are SGLang's in Triton: so few blocks share the cached tokens of a key's heads that
    `block_bandwidth` bounds all of them, and several new tokens are computed in whole tiles, in windows and outside."""


@dataclass(frozen=True, slots=True)
class ExpertRates:
    """Routed experts of one layer: ``s + [(bytes / B)^3 + (operations / F)^3]^(1/3) + activations / B'``."""

    overhead_s: float
    """s, fixed time (routing, sorting, launches), s."""
    bandwidth: float
    """B, weights of touched experts read per second, B/s."""
    rate: float
    """F, operations per second on whole tiles of rows, 1/s."""
    activation_bandwidth: float
    """B', bytes of permuted activations moved per second, B/s."""
    elsewhere: float = 0.0
    """Share of the activations for experts on other GPUs that are moved here all the same, in [0, 1], [-]: kernels that
    permute, quantise or sum all tokens, wherever their experts are."""
    again: float = 0.0
    """Share of an expert's weights that each further tile of its rows reads, or widens, again, >= 0, [-]: above 1 where
    kernels bring weights of 4 bits, or scales of blocks, into another format for each."""


@dataclass(frozen=True, slots=True)
class LatentRates:
    """One layer's latent attention: ``s + |weights / B, operations / F| + |cache / B', operations / F'| + new / Q``."""

    overhead_s: float
    """s, fixed time, s."""
    bandwidth: float
    """B, weights read per second, B/s."""
    rate: float
    """F, operations of projections per second, 1/s."""
    cache_bandwidth: float
    """B', cached bytes read per second, B/s."""
    attention_rate: float
    """F', operations of attention per second, 1/s."""
    quantised_s: float
    """What projections with quantised weights take more, s: their inputs are brought into the format first."""
    query_bandwidth: float
    """Q, bytes of queries and outputs in the compressed space handled per second, B/s."""
    again: float = 0.0
    """Share of the cache that is read again where a GPU has 17 to 63 heads, [-]: tiles have 16 or 64 of them."""


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
    attending: float
    """Rate of attention to compressed entries, FLOP/s."""
    bandwidth: float
    """Index keys read per second, B/s."""
    choice_s: float
    """What a new token takes that sees more compressed entries than it reads, s: only then are some chosen."""


@dataclass(frozen=True, slots=True)
class StreamRates:
    """Residual streams of one layer, mixed before and after both of its parts: ``[s^1.5 + (bytes / B)^1.5]^(2/3)``."""

    overhead_s: float
    """s, fixed time, s."""
    bandwidth: float
    """B, bytes of streams read and written per second, B/s."""


@dataclass(frozen=True, slots=True)
class SumRates:
    """Sums over the GPUs of a machine: the fastest of some kernels, ``s + bytes / B`` each."""

    kernels: tuple[tuple[float, float], ...]
    """s and B of each, s and B/s: one in which each GPU reads what all have, from four GPUs with NVLink on one in which
    each sums a part that the others read, and NCCL's."""

    def seconds(self, size: float) -> float:
        """Return the time to sum ``size`` bytes, s."""
        return min(fixed_s + size / bandwidth for fixed_s, bandwidth in self.kernels)

    def times(self, fixed: float, bandwidth: float) -> SumRates:
        """Return the same with fixed times and bandwidths by a factor."""
        return SumRates(tuple((fixed * one, bandwidth * other) for one, other in self.kernels))


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


def _sheet(
    mib: float, bandwidth: float, bf16: float, fp8: float | None = None, fp4: float | None = None, link: float = 64.0
) -> DataSheet:
    """A data sheet in the units of data sheets: MiB, TB/s, TFLOP/s (dense, sums in float32), GB/s."""
    return DataSheet(
        memory=mib * 2.0**20,
        bandwidth=bandwidth * 1e12,
        bf16=bf16 * 1e12,
        fp8=None if fp8 is None else fp8 * 1e12,
        fp4=None if fp4 is None else fp4 * 1e12,
        link=link * 1e9,
    )


SHEETS: Final[Mapping[str, DataSheet]] = MappingProxyType(
    {
        "NVIDIA H100 SXM": _sheet(81559, 3.35, 989, 1979, link=900),
        "NVIDIA H100 PCIe": _sheet(81559, 2.0, 756, 1513, link=600),
        "NVIDIA H100 NVL": _sheet(95830, 3.9, 835, 1671, link=600),
        "NVIDIA H200 SXM": _sheet(143771, 4.8, 989, 1979, link=900),
        "NVIDIA H200 NVL": _sheet(143771, 4.8, 835, 1671, link=900),
        "NVIDIA H800 SXM": _sheet(81559, 3.35, 989, 1979, link=400),
        "NVIDIA H20": _sheet(97871, 4.0, 148, 296, link=900),
        "NVIDIA H20 141GB": _sheet(143771, 4.8, 148, 296, link=900),
        "NVIDIA GH200": _sheet(97871, 4.0, 989, 1979, link=900),
        "NVIDIA GH200 144GB": _sheet(146831, 4.9, 989, 1979, link=900),
        "NVIDIA B200 SXM": _sheet(183359, 8.0, 2250, 4500, 9000, link=1800),
        "NVIDIA B300 SXM": _sheet(275040, 8.0, 2250, 4500, 13500, link=1800),
        "NVIDIA GB200": _sheet(189471, 8.0, 2500, 5000, 10000, link=1800),
        "NVIDIA GB300": _sheet(284208, 8.0, 2500, 5000, 15000, link=1800),
        "NVIDIA A100 SXM": _sheet(81920, 2.039, 312, link=600),
        "NVIDIA A100 SXM 40GB": _sheet(40960, 1.555, 312, link=600),
        "NVIDIA A100 PCIe": _sheet(81920, 1.935, 312, link=600),
        "NVIDIA A100 PCIe 40GB": _sheet(40960, 1.555, 312, link=600),
        "NVIDIA A800": _sheet(81920, 2.039, 312, link=400),
        "NVIDIA A30": _sheet(24576, 0.933, 165, link=200),
        "NVIDIA A40": _sheet(46068, 0.696, 149.7),
        "NVIDIA A10": _sheet(23028, 0.6, 125),
        "NVIDIA A10G": _sheet(23028, 0.6, 70),
        "NVIDIA T4": _sheet(15360, 0.32, 65, link=32),
        "NVIDIA V100": _sheet(32768, 0.9, 125, link=300),
        "NVIDIA V100 16GB": _sheet(16384, 0.9, 125, link=300),
        "NVIDIA L4": _sheet(23034, 0.3, 121, 242),
        "NVIDIA L20": _sheet(46068, 0.864, 119.5, 239),
        "NVIDIA L40": _sheet(46068, 0.864, 181, 362),
        "NVIDIA L40S": _sheet(46068, 0.864, 362, 733),
        "NVIDIA RTX A4000": _sheet(16376, 0.448, 76.7),
        "NVIDIA RTX A5000": _sheet(24564, 0.768, 111.1),
        "NVIDIA RTX A6000": _sheet(49140, 0.768, 154.8),
        "NVIDIA RTX 6000 Ada": _sheet(49140, 0.96, 364, 728),
        "NVIDIA RTX PRO 4000": _sheet(24467, 0.672, 156, 312, 623, link=128),
        "NVIDIA RTX PRO 4500": _sheet(32623, 0.896, 211, 422, 844, link=128),
        "NVIDIA RTX PRO 5000": _sheet(48935, 1.344, 258, 516, 1032, link=128),
        "NVIDIA RTX PRO 6000": _sheet(97887, 1.792, 500, 1000, 2000, link=128),
        "NVIDIA RTX PRO 6000 Max-Q": _sheet(97887, 1.792, 439, 878, 1755, link=128),
        "NVIDIA RTX 3090": _sheet(24576, 0.936, 71),
        "NVIDIA RTX 3090 Ti": _sheet(24564, 1.008, 80),
        "NVIDIA RTX 4060 Ti 16GB": _sheet(16380, 0.288, 44, 88, link=32),
        "NVIDIA RTX 4080": _sheet(16376, 0.717, 97.5, 195),
        "NVIDIA RTX 4090": _sheet(24564, 1.008, 165, 330),
        "NVIDIA RTX 4090 D": _sheet(24564, 1.008, 147, 294),
        "NVIDIA RTX 5060 Ti 16GB": _sheet(16311, 0.448, 47.4, 94.9, 380),
        "NVIDIA RTX 5070 Ti": _sheet(16303, 0.896, 87.9, 175.8, 703, link=128),
        "NVIDIA RTX 5080": _sheet(16303, 0.96, 112.6, 225.1, 900, link=128),
        "NVIDIA RTX 5090": _sheet(32607, 1.792, 209.5, 419, 1676, link=128),
        "NVIDIA GB10": _sheet(122070, 0.273, 125, 250, 500),
        "NVIDIA Jetson Thor": _sheet(125772, 0.273, 258, 517, 1035),
        "AMD Strix Halo": _sheet(98304, 0.256, 59.4),
        "AMD Radeon RX 7900 XTX": _sheet(24560, 0.96, 122.8),
        "AMD Radeon PRO W7900": _sheet(49136, 0.864, 122.6),
        "AMD Radeon AI PRO R9700": _sheet(32624, 0.64, 191, 383),
        "AMD MI300X": _sheet(196592, 5.3, 1307, 2614, link=896),
        "AMD MI325X": _sheet(262128, 6.0, 1307, 2614, link=896),
        "AMD MI350X": _sheet(294896, 8.0, 2307, 4614, 9228, link=1075),
        "AMD MI355X": _sheet(294896, 8.0, 2500, 5000, 10000, link=1075),
    }
)
"""The data sheets: the makers' product pages and architecture papers, memory as the driver reports it. GeForce cards
sum in float32 at half their rate, which is the one that stands here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as the pass model needs it."""

    name: str
    sheet: DataSheet
    products: Mapping[str, ProductRates] = field(repr=False)
    """By arithmetic: bf16, fp8, fp4; where kernels of a format of weights were measured, by its name too."""
    attention: AttentionRates = field(repr=False)
    general: AttentionRates = field(repr=False)
    """The same by kernels in Triton, which engines have for heads that no kernel of the maker's takes."""
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
