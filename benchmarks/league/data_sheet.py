"""Operators at the rates of a data sheet: the larger of bytes over bandwidth and operations over arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Final

from theory.hardware.engines import EngineConstants, Launches
from theory.hardware.formats import Format
from theory.hardware.gpu_records import DataSheet
from theory.hardware.mixers.sparse import CompressedAttention, Selection
from theory.hardware.mixers.states import Recurrent
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Experts, LatentAttention

__all__ = ["DataSheetOperators", "at_data_sheet"]

_ACTIVATION: Final = 2.0
"""Bytes of an activation, B."""


def at_data_sheet(passes: PassModel) -> PassModel:
    """Return the passes by the data sheet of their GPU, under an engine that takes no time."""
    free = {one.name: 0.0 for one in fields(EngineConstants) if isinstance(getattr(passes.engine, one.name), float)}
    return replace(
        passes,
        measured=DataSheetOperators(passes.gpu.sheet),
        engine=replace(passes.engine, launches=Launches(), **free),
    )


@dataclass(frozen=True, slots=True)
class DataSheetOperators:
    """The roofline of each operator, s; arguments as `theory.hardware.sources.OperatorSource` has them."""

    sheet: DataSheet

    def product(self, rows: float, outputs: float, inputs: float, weights: Format) -> float:
        """Return the roofline of a product."""
        size = weights.bytes_per_number * outputs * inputs + _ACTIVATION * rows * (inputs + outputs)
        return self._roofline(size, 2.0 * rows * outputs * inputs, weights.arithmetic)

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
        """Return the roofline of attention: its cache is read once."""
        seen = min(context, window) + tokens
        size = 2.0 * cache_bytes * sequences * kv_heads * head_dim * seen
        return self._roofline(size, 4.0 * sequences * heads * head_dim * tokens * (seen - (tokens - 1.0) / 2.0), "bf16")

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
        """Return the roofline of latent or compressed attention with its projections."""
        rows, seen = sequences * tokens, attention.read(context + tokens)
        projections = self.product(rows, attention.parameters_on(hidden, 1) / tp / hidden, hidden, weights)
        entry = attention.head_dim if isinstance(attention, CompressedAttention) else attention.cached
        both = entry + (entry if isinstance(attention, CompressedAttention) else attention.cache_rank)
        operations = 2.0 * rows * attention.heads / tp * seen * both
        return projections + self._roofline(sequences * seen * entry * cache_bytes, operations, "bf16")

    def index(self, selection: Selection, *, sequences: float, tokens: float, entries: float) -> float:
        """Return the roofline of scoring all entries."""
        scored = 2.0 * sequences * tokens * entries * selection.heads * selection.dim
        return self._roofline(sequences * selection.held(entries), scored, "fp8")

    def recurrent(self, layer: Recurrent, *, tp: int, sequences: float, tokens: float, prompts: bool) -> float:
        """Return the roofline of reading and writing states."""
        written = 1.0 if prompts else tokens
        state = sequences * layer.state / tp
        return self._roofline((1.0 + written) * layer.state_bytes * state, 6.0 * tokens * state, "bf16")

    def streams(self, streams: int, *, hidden: int, rows: float) -> float:
        """Return the roofline of mixing residual streams: all are read and written once for each part of a layer."""
        return 0.0 if streams == 1 else 8.0 * rows * (streams + 1) * hidden / self.sheet.bandwidth

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
        """Return the roofline of routed experts, evenly loaded."""
        distinct = -experts.count * math.expm1(asking * math.log1p(-experts.per_token / (experts.count + 1e-9)))
        touched = min(float(experts.count), max(distinct, 1.0)) / ep
        matrix = experts.matrices * hidden * experts.intermediate / expert_tp
        size = touched * matrix * weights.bytes_per_number
        return self._roofline(size, 2.0 * matrix * tokens * experts.per_token / ep, weights.arithmetic)

    def sums(self, n_gpus: int, size: float) -> float:
        """Return what a ring takes: each GPU sends and receives twice the share of the others."""
        return 0.0 if n_gpus == 1 else 2.0 * (n_gpus - 1) / n_gpus * size / (self.sheet.link / 2.0)

    def _roofline(self, size: float, operations: float, arithmetic: str) -> float:
        return max(size / self.sheet.bandwidth, operations / self.sheet.rate(arithmetic))
