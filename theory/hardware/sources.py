"""Where the seconds of operators come from: one protocol, of which the fitted constants of a GPU are one source.

`theory.hardware.passes.PassModel` adds operators up, whatever their source. Another source answers from operators that
were measured one by one (`specplan.worlds.measured_operators`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Protocol

from theory.hardware import operators
from theory.hardware.formats import Format
from theory.hardware.gpu_records import Gpu
from theory.hardware.mixers.sparse import CompressedAttention, Selection
from theory.hardware.mixers.states import Recurrent
from theory.hardware.shapes import Experts, LatentAttention

__all__ = ["FittedOperators", "OperatorSource"]


class OperatorSource(Protocol):
    """Seconds of the operators of a pass on one GPU; arguments as in `theory.hardware.operators`.

    Every method returns seconds, > 0 and growing with the work; ``sums`` is 0 on one GPU, ``streams`` of one stream.
    """

    def product(self, rows: float, outputs: float, inputs: float, weights: Format) -> float:
        """Return the time of a product of (rows, inputs) with weights (inputs, outputs), s."""

    def attention(
        self,
        *,
        sequences: float,
        tokens: float,
        context: float,
        heads: float,
        kv_heads: float,
        head_dim: int,
        cache_bytes: float,
        window: float = math.inf,
    ) -> float:
        """Return the time of one layer's attention of new tokens to cached ones and to themselves, s."""

    def latent(
        self,
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
        """Return the time of one layer's latent or compressed attention with its products on one of ``tp`` GPUs, s."""

    def index(self, selection: Selection, *, sequences: float, tokens: float, entries: float) -> float:
        """Return the time in which sparse attention chooses what it reads, s; 0 where an earlier layer chose."""

    def recurrent(self, layer: Recurrent, *, tp: int, sequences: float, tokens: float, prompts: bool) -> float:
        """Return the time of one recurrent layer without its products on one of ``tp`` GPUs, s."""

    def streams(self, streams: int, *, hidden: int, rows: float) -> float:
        """Return the time to mix the residual streams of one layer, s; 0 for one stream."""

    def experts(
        self,
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
        """Return the time of one layer's routed experts on the fullest GPU, s."""

    def sums(self, n_gpus: int, size: float) -> float:
        """Return the time to sum ``size`` bytes over the GPUs of a machine, s."""


class FittedOperators:
    """The source that serves every GPU: a few constants, fitted to measured operators or scaled by data sheets.

    ``fused`` says whether the engine sums by kernels of TensorRT-LLM, ``narrow`` how much longer than the constants say
    its attention over a cache in fp8 takes, ``general`` whether it attends by kernels in Triton,
    ``sparse`` the share of the fixed times of compressed attention that it has, ``products`` at which share of the rate
    it computes products in bf16.
    """

    def __init__(
        self,
        gpu: Gpu,
        *,
        fused: bool = False,
        narrow: float = 1.0,
        general: bool = False,
        sparse: float = 1.0,
        products: float = 1.0,
    ) -> None:
        fixed = {name: sparse * getattr(gpu.sparse, name) for name in ("compressed_s", "entries_s")}
        compressing = replace(gpu, sparse=replace(gpu.sparse, **fixed))
        plain = gpu.products["bf16"]
        computing = replace(gpu, products={**gpu.products, "bf16": replace(plain, rate=products * plain.rate)})
        self.product = partial(operators.product_seconds, computing)
        attending = replace(gpu, attention=gpu.general) if general else gpu
        self.attention = partial(operators.attention_seconds, attending, narrow=narrow)
        self.latent = partial(operators.latent_seconds, compressing)
        self.index = partial(operators.index_seconds, compressing)
        self.recurrent = partial(operators.recurrent_seconds, gpu)
        self.streams = partial(operators.streams_seconds, gpu)
        self.experts = partial(operators.experts_seconds, gpu)
        self.sums = partial(gpu.sum_seconds, fused=fused)
