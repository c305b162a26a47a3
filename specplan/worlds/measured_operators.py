"""Operators as NVIDIA's package aiconfigurator-core measured them, engine by engine, as a source of a pass's seconds.

The package (Apache-2.0, extra ``silicon``) ships tables of single operators and interpolates in them. Only its
evaluation of operators is used: what a pass is made of stays with `theory.hardware.passes`, and what an engine takes
beside operators is fitted again for this source (`_ENGINES`), since its sums lack what ours absorb.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from theory.hardware.engines import EngineConstants
from theory.hardware.formats import Format
from theory.hardware.shapes import Experts, LatentAttention
from theory.errors import ParameterError

_SYSTEMS: Final = {
    "NVIDIA A100 SXM": "a100_sxm", "NVIDIA H100 SXM": "h100_sxm", "NVIDIA H200 SXM": "h200_sxm",
    "NVIDIA B200 SXM": "b200_sxm", "NVIDIA B300 SXM": "b300_sxm", "NVIDIA GB200": "gb200", "NVIDIA GB300": "gb300",
    "NVIDIA L40S": "l40s", "NVIDIA RTX PRO 6000": "rtx_pro_6000_server",
}  # fmt: skip
_PRODUCTS: Final = {"bf16": "bfloat16", "fp8": "fp8", "fp8-block": "fp8_block", "int4": "int4_wo", "nvfp4": "nvfp4"}
_EXPERTS: Final = {**_PRODUCTS, "mxfp4": "w4a16_mxfp4", "int4-group32": "int4_wo"}
_ROUTING: Final = "power_law_1.2"


class MeasuredOperators:
    def __init__(self, handle: Any, lanes: dict[str, list[str]]) -> None:
        self._handle = handle
        self._lanes = lanes
        self._known: dict[tuple[str, ...], float] = {}

    def product(self, rows: float, outputs: float, inputs: float, weights: Format) -> float:
        spec = {
            "Gemm": {
                "n": round(outputs), "k": round(inputs), "quant_mode": _PRODUCTS[weights.name], "scale_num_tokens": 1,
                "low_precision_input": False, "seq_split": 1, "below_grid_sol": False,
            }
        }  # fmt: skip
        return self._between(rows, lambda n: self._ask(spec, x=n))

    def attention(self, *, sequences, tokens, context, heads, kv_heads, head_dim, cache_bytes, window=math.inf):
        cache = "fp8" if cache_bytes == 1.0 else "bfloat16"
        shape = {
            "n": round(heads), "n_kv": round(kv_heads), "head_size": head_dim,
            "window_size": 0 if math.isinf(window) else int(window), "kv_cache_dtype": cache,
        }
        one = {"GenerationAttention": {**shape, "lane_order": self._lanes["generation"]}}
        decode = self._between(sequences, lambda n: self._ask(one, batch_size=n, s=max(1, round(context + 1))))
        if tokens <= 1.0:
            return decode
        many = {"ContextAttention": {**shape, "fmha_quant_mode": "bfloat16", "use_qk_norm": False, "cp_size": 1, "lane_order": self._lanes["context"]}}
        wide = self._between(sequences, lambda n: self._ask(many, is_context=True, batch_size=n, s=max(1, round(tokens)), prefix=round(context)))
        return max(wide, decode) if context else wide

    def latent(self, attention, *, hidden, tp, sequences, tokens, context, weights, cache_bytes):
        raise ParameterError("attention", "latent", "not measured")

    def experts(self, experts, *, hidden, tokens, asking, ep, expert_tp, weights, padding=0.0):
        spec = {"Moe": {"hidden_size": hidden, "inter_size": experts.intermediate, "topk": experts.per_token, "num_experts": experts.count,
            "moe_tp_size": expert_tp, "moe_ep_size": ep, "attention_dp_size": 1, "quant_mode": _EXPERTS[weights.name],
            "workload_distribution": _ROUTING, "is_gated": experts.gated, "moe_backend": None, "enable_eplb": False, "is_context": True}}
        return self._between(tokens, lambda n: self._ask(spec, x=n))

    def sums(self, n_gpus: int, size: float) -> float:
        if n_gpus == 1:
            return 0.0
        spec = {"CustomAllReduce": {"hidden_size": 1, "tp_size": n_gpus, "quant": "half", "seq_split": 1}}
        return self._ask(spec, x=max(1, round(size / 2)))

    def _ask(self, spec, *, is_context=False, batch_size=1, s=1, prefix=0, x=None) -> float:
        (kind, fields), = spec.items()
        ops = json.dumps([{kind: {"name": "op", "scale_factor": 1.0, **fields}}])
        key = (ops, is_context, batch_size, s, prefix, x)
        if key not in self._known:
            ((_, ms, *_),) = self._handle.evaluate_ops_json(ops, is_context=is_context, batch_size=batch_size, s=s, prefix=prefix, x=x)
            self._known[key] = 1e-3 * ms
        return self._known[key]

    def _between(self, amount: float, seconds: Callable[[int], float]) -> float:
        low = max(1, math.floor(amount))
        share = min(max(amount - low, 0.0), 1.0)
        return seconds(low) if share == 0 else (1-share)*seconds(low) + share*seconds(low+1)


@cache
def measured(gpu: str, engine: str, mode="SILICON") -> MeasuredOperators:
    from aiconfigurator_core.sdk import perf_database
    from aiconfigurator_core.sdk.engine import EngineHandle
    from aiconfigurator_core.sdk.operations.attention import resolved_lane_order_for_op
    version = perf_database.resolve_query_version(_SYSTEMS[gpu], engine, "current")
    db = perf_database.get_database_view(_SYSTEMS[gpu], engine, version, database_mode=mode)
    lanes = {k: resolved_lane_order_for_op(db, f"_{k}_attention_data") for k in ("generation","context")}
    return MeasuredOperators(EngineHandle.for_database(db), lanes)
