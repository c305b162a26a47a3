"""Operators that NVIDIA measured on nine GPUs: the second source of a pass's seconds.

The package ``aiconfigurator-core`` (Apache-2.0; extra ``silicon``) ships tables of an engine's operators, timed one by
one, and interpolates in them. What a pass is made of, and what an engine spends besides, stays with
`theory.hardware.passes`. `with_operators` says which source serves; docs/reference/league.md has the numbers behind it.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal, get_args

from theory.errors import ParameterError, SpecplanError
from theory.hardware.formats import Format
from theory.hardware.gpu_records import Gpu
from theory.hardware.mixers.sparse import CompressedAttention, Selection
from theory.hardware.mixers.states import Recurrent
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Experts, LatentAttention
from theory.hardware.sources import FittedOperators
from theory.hardware.work import Work

__all__ = ["SYSTEMS", "Operators", "TablesMissingError", "package_version", "with_operators"]

Operators = Literal["auto", "fitted", "measured"]
"""Whichever is known to be nearer, constants of the GPU, or the package's tables."""
_PACKAGE: Final = "aiconfigurator-core"
_SERIES: Final = "0.12."
"""Versions whose interface and tables are known."""
SYSTEMS: Final[Mapping[str, str]] = {
    "NVIDIA A100 SXM": "a100_sxm", "NVIDIA L40S": "l40s", "NVIDIA H100 SXM": "h100_sxm", "NVIDIA H200 SXM": "h200_sxm",
    "NVIDIA B200 SXM": "b200_sxm", "NVIDIA B300 SXM": "b300_sxm", "NVIDIA GB200": "gb200", "NVIDIA GB300": "gb300",
    "NVIDIA RTX PRO 6000": "rtx_pro_6000_server",
}  # fmt: skip
"""GPUs of which the package has tables, and its names of them."""
_FORMATS: Final[Mapping[str, str]] = {"bf16": "bfloat16", "fp8": "fp8", "int4": "int4_wo", "nvfp4": "nvfp4"}
"""Block-wise fp8 is left out: vLLM's products were timed with the host, and take 1.5 to 4 times what servers show."""
_EXPERTS: Final[Mapping[str, str]] = {"bf16": "bfloat16", "mxfp4": "w4a16_mxfp4", "nvfp4": "nvfp4"}
_WITH_FP4: Final[Mapping[str, str]] = {**_EXPERTS, "mxfp4": "w4a8_mxfp4_mxfp8"}
"""On GPUs that multiply in fp4, where no engine widens to bf16."""
_PLAIN_PRODUCT: Final = {"scale_num_tokens": 1, "low_precision_input": False, "seq_split": 1, "below_grid_sol": False}
_PLAIN_ATTENTION: Final = {"fmha_quant_mode": "bfloat16", "use_qk_norm": False, "cp_size": 1}
_PLAIN_EXPERTS: Final = {
    "attention_dp_size": 1, "workload_distribution": "power_law_1.2", "moe_backend": None, "enable_eplb": False,
    "is_context": True,
}  # fmt: skip
"""Fields that all operators share, as version 0.12 spells them; experts are loaded as unevenly as in servers."""
_TRIALS: Final = (Work(sequences=1.0, context=1000.0), Work(sequences=64.0, context=1000.0, prefill_tokens=1024.0))
"""Iterations of which all operators must be in the tables."""


def with_operators(passes: PassModel, wanted: Operators = "auto") -> tuple[PassModel, str | None]:
    """Return a pass model with the operators that serve it, and what to say about them, or None.

    ``auto`` takes measured operators where the GPU's own constants are only scaled by data sheets: there they are
    nearer to served iterations and loads. Elsewhere the fitted constants are as near or nearer.

    Raises
    ------
    ParameterError : ``wanted`` is none of `Operators`.
    """
    if wanted not in get_args(Operators):
        raise ParameterError("operators", wanted, f"must be one of {', '.join(get_args(Operators))}")
    # in the tables the widest heads have kernels that this engine does not run there
    if wanted == "fitted" or (wanted == "auto" and (passes.gpu.fitted or passes.general)):
        return passes, None
    try:
        source = MeasuredOperators(_tables(passes.gpu.name, passes.engine.name), passes.gpu)
    except TablesMissingError as missing:
        return passes, f"operators by constants of {passes.gpu.name}, not measured ones: {missing}"
    served = replace(passes, measured=source)
    for work in _TRIALS:
        served.seconds(work)
    if source.misses:
        lacking = ", ".join(sorted(source.misses))
        return passes, f"operators by constants of {passes.gpu.name}: measured ones lack {lacking}"
    return served, f"operators measured: {source.tables.text}"


class TablesMissingError(SpecplanError):
    """The package is not there, or has no tables of a GPU and engine."""


def package_version() -> str:
    """Return the installed version of the package; raise `TablesMissingError` without one whose interface is known."""
    try:
        installed = version(_PACKAGE)
    except PackageNotFoundError:
        raise TablesMissingError(f"{_PACKAGE} is not installed (pip install 'specplan[silicon]')") from None
    if not installed.startswith(_SERIES):
        raise TablesMissingError(f"{_PACKAGE} {installed} is installed, {_SERIES}x is needed")
    return installed


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of an engine on a GPU."""

    handle: Any
    lanes: Mapping[str, tuple[str, ...]]
    """Kernels of attention in order of preference, for decoding (``generation``) and for several tokens."""
    text: str
    known: dict[tuple[object, ...], float] = field(default_factory=dict)


@cache
def _tables(gpu: str, engine: str) -> _Tables:
    """The tables of an engine on a GPU, read once; it takes 2 to 3 s."""
    installed = package_version()
    if gpu not in SYSTEMS:
        raise TablesMissingError(f"{_PACKAGE} has no tables of it")
    from aiconfigurator_core.sdk import perf_database
    from aiconfigurator_core.sdk.engine import EngineHandle
    from aiconfigurator_core.sdk.operations.attention import resolved_lane_order_for_op

    logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)  # it warns of every table that it fills up
    try:
        current = perf_database.resolve_query_version(SYSTEMS[gpu], engine, "current")
        database = perf_database.get_database_view(SYSTEMS[gpu], engine, current, database_mode="SILICON")
        names = {kind: f"_{kind}_attention_data" for kind in ("generation", "context")}
        lanes = {kind: tuple(resolved_lane_order_for_op(database, name)) for kind, name in names.items()}
        handle = EngineHandle.for_database(database)
    except (RuntimeError, ValueError, AttributeError) as error:  # AttributeError: there is no such database
        raise TablesMissingError(f"{_PACKAGE} has no tables of {engine} on it ({type(error).__name__})") from None
    return _Tables(handle, lanes, f"{_PACKAGE} {installed}, {engine} {current} on {gpu}")


class MeasuredOperators:
    """Interpolated times of measured operators of an engine on a GPU.

    What the tables do not hold (latent attention, formats and shapes that nobody timed) is answered by the GPU's fitted
    constants, and named in ``misses``. Amounts that are not whole are interpolated between whole ones.
    """

    def __init__(self, tables: _Tables, gpu: Gpu) -> None:
        self.tables, self.misses = tables, set[str]()
        self._fitted = FittedOperators(gpu)
        self._experts = _EXPERTS if gpu.sheet.fp4 is None else _WITH_FP4

    def product(self, rows: float, outputs: float, inputs: float, weights: Format) -> float:
        """Return the time of a product, s."""
        spec = {"n": round(outputs), "k": round(inputs), "quant_mode": _FORMATS.get(weights.name), **_PLAIN_PRODUCT}
        return self._or(
            f"products in {weights.name}",
            lambda: self._between(rows, lambda n: self._ask("Gemm", spec, x=n)),
            lambda: self._fitted.product(rows, outputs, inputs, weights),
        )

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
        """Return the time of attention, s; of several tokens on a cache no less than reading that cache takes."""
        shape = {
            "n": round(heads), "n_kv": round(kv_heads), "head_size": head_dim,
            "window_size": 0 if math.isinf(window) else round(window),
            "kv_cache_dtype": "fp8" if cache_bytes == 1.0 else "bfloat16",
        }  # fmt: skip
        decoding = {**shape, "lane_order": self.tables.lanes["generation"]}
        reading = {**shape, "lane_order": self.tables.lanes["context"], **_PLAIN_ATTENTION}
        step, chunk = {"s": round(context) + 1}, {"s": round(tokens), "prefix": round(context), "is_context": True}

        def seconds(n: int) -> float:
            least = self._ask("GenerationAttention", decoding, batch_size=n, **step)
            return least if tokens <= 1.0 else max(least, self._ask("ContextAttention", reading, batch_size=n, **chunk))

        given = {"sequences": sequences, "tokens": tokens, "context": context, "heads": heads, "kv_heads": kv_heads}
        return self._or(
            f"attention of {heads:g} heads of {head_dim} over {kv_heads:g}",
            lambda: self._between(sequences, seconds),
            lambda: self._fitted.attention(**given, head_dim=head_dim, cache_bytes=cache_bytes, window=window),
        )

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
        """Return the time of one layer's routed experts, s; what tokens that choose alike add is by the constants."""
        spec = {
            "hidden_size": hidden, "inter_size": experts.intermediate, "topk": experts.per_token,
            "num_experts": experts.count, "moe_tp_size": expert_tp, "moe_ep_size": ep, "is_gated": experts.gated,
            "quant_mode": self._experts.get(weights.name), **_PLAIN_EXPERTS,
        }  # fmt: skip
        given: dict[str, Any] = {"hidden": hidden, "ep": ep, "expert_tp": expert_tp, "weights": weights}
        seconds = partial(self._fitted.experts, experts, asking=asking, padding=padding, **given)
        more = seconds(tokens=tokens) / seconds(tokens=asking)
        return self._or(
            f"{experts.count} experts of {hidden} x {experts.intermediate} in {weights.name}",
            lambda: self._between(asking, lambda n: self._ask("Moe", spec, x=n)) * more,
            lambda: seconds(tokens=tokens),
        )

    def sums(self, n_gpus: int, size: float) -> float:
        """Return the time to sum ``size`` bytes over the GPUs of a machine, s."""
        spec = {"hidden_size": 1, "tp_size": n_gpus, "quant": "half", "seq_split": 1}
        return 0.0 if n_gpus == 1 else self._or(
            f"sums over {n_gpus} GPUs",
            lambda: self._ask("CustomAllReduce", spec, x=max(1, round(size / 2.0))),
            lambda: self._fitted.sums(n_gpus, size),
        )  # fmt: skip

    def latent(self, attention: LatentAttention | CompressedAttention, **given: Any) -> float:
        """Return the fitted constants' time: the tables time parts of it whose borders differ by engine."""
        self.misses.add("latent attention with its projections")
        return self._fitted.latent(attention, **given)

    def index(self, selection: Selection, **given: float) -> float:
        """Return the fitted constants' time: the tables time it with the products and the attention around it."""
        self.misses.add("indexes of sparse attention")
        return self._fitted.index(selection, **given)

    def recurrent(self, layer: Recurrent, **given: Any) -> float:
        """Return the fitted constants' time, which is one form for all kinds of states."""
        self.misses.add("layers with states")
        return self._fitted.recurrent(layer, **given)

    def streams(self, streams: int, **given: Any) -> float:
        """Return the fitted constants' time, which are those of the tables."""
        return self._fitted.streams(streams, **given)

    def _or(self, what: str, mine: Callable[[], float], theirs: Callable[[], float]) -> float:
        try:
            return mine()
        except (RuntimeError, ValueError):  # the package's: no row, no neighbour, no such format
            self.misses.add(what)
            return theirs()

    def _ask(self, kind: str, fields: Mapping[str, Any], **sizes: int) -> float:
        key, known = (kind, *fields.values(), *sizes.items()), self.tables.known
        if key not in known:
            operator = json.dumps([{kind: {"name": kind, "scale_factor": 1.0, **fields}}])
            given = {"is_context": False, "batch_size": 1, "s": 1, **sizes}
            ((_, milliseconds, *_),) = self.tables.handle.evaluate_ops_json(operator, **given)
            known[key] = 1e-3 * milliseconds
        return known[key]

    @staticmethod
    def _between(amount: float, seconds: Callable[[int], float]) -> float:
        low = max(1, math.floor(amount))
        share = max(0.0, amount - low)
        return seconds(low) if share == 0.0 else (1.0 - share) * seconds(low) + share * seconds(low + 1)
