"""Fit the times of layers with states and of sparse attention to tables of operators, and leave kinds and models out.

Run: ``python -m benchmarks.fit_mixers``. Needs ``aiconfigurator-core`` (extra ``silicon``) and pyarrow. Printed are
constants of `theory.hardware.gpu_records.StateRates`, `SparseRates` and `StreamRates` with their errors
(logarithms: mean and 95th percentile of their size), and the errors on the kind or model that was left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from specplan.worlds.measured_operators import SYSTEMS
from specplan.worlds.model_files import shape_of
from theory.hardware.engines import engine_named
from theory.hardware.formats import FORMATS
from theory.hardware.gpus import GPUS
from theory.hardware.mixers.sparse import CompressedAttention
from theory.hardware.operators import index_seconds, latent_seconds
from theory.hardware.shapes import LatentAttention

__all__ = ["main"]

Array: TypeAlias = NDArray[np.float64]
Row: TypeAlias = dict[str, Any]
_PRINTED: Final = ("NVIDIA H100 SXM", "NVIDIA H200 SXM", "NVIDIA B200 SXM")
_SHARP: Final = 0.1
"""Errors of the logarithm beyond which rows weigh less."""
_MOST_TOKENS: Final = 65536
"""Tokens of a prompt's chunk over all sequences: engines read no more at once."""
_SPARSE: Final = ("deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5")
_COMPRESSED: Final = ("deepseek-ai/DeepSeek-V4-Pro", "deepseek-ai/DeepSeek-V4-Flash")


@dataclass(frozen=True, slots=True)
class Timed:
    """Rows of one operator: what each moves, and its measured seconds."""

    kind: str
    sizes: Array
    """Shape (rows, columns of the form)."""
    seconds: Array


def main() -> None:
    """Print all fits."""
    for gpu in _PRINTED:
        timed = _states(gpu)
        decoding = {kind: _decoding(kind, rows) for kind, rows in timed.items()}
        _print(f"{gpu}: states, decoding (overhead, bandwidth)", decoding, _moved, (7e-6, 3e12))
        prompts = {kind: _prompts(kind, rows) for kind, rows in timed.items() if kind == "gdn"}
        _print(f"{gpu}: states, prompts (overhead, rate, heads)", prompts, _chunked, (2e-5, 1e13, 30.0))
        _print(f"{gpu}: sparse attention (overhead besides the form)", _sparse(gpu), _above, (1e-4,))
        start = (5e-5, 2e-5, 5e-8, 5e-8, 5e14, 5e14)
        _print(
            f"{gpu}: compressed attention (overhead, index, token, choice, scoring, attending)",
            _compressed(gpu),
            _compressing,
            start,
        )
        _print(f"{gpu}: residual streams (overhead, bandwidth)", _streams(gpu), _mixed, (3e-5, 3e12))


def _moved(values: Array, sizes: Array) -> Array:
    """Seconds of decoding: ``s + bytes / B``."""
    return np.asarray(values[0] + sizes[:, 0] / values[1])


def _chunked(values: Array, sizes: Array) -> Array:
    """Seconds of prompts: ``s + tokens numbers (heads^4 + least^4)^(1/4) / F``."""
    heads = (sizes[:, 1] ** 4 + values[2] ** 4) ** 0.25
    return np.asarray(values[0] + sizes[:, 0] * heads / values[1])


def _mixed(values: Array, sizes: Array) -> Array:
    """Seconds of residual streams: ``[s^1.5 + (bytes / B)^1.5]^(2/3)``."""
    return np.asarray((values[0] ** 1.5 + (sizes[:, 0] / values[1]) ** 1.5) ** (2.0 / 3.0))


def _above(values: Array, sizes: Array) -> Array:
    """Seconds of sparse attention: a fixed time above what the form says without it."""
    return np.asarray(values[0] + sizes[:, 0])


def _compressing(values: Array, sizes: Array) -> Array:
    """Seconds of compressed attention: fixed times, new tokens, choices, scores and attention, above what is left."""
    fixed, work = sizes[:, :4] @ np.array(values[:4]), sizes[:, 4:6] @ (1.0 / np.array(values[4:]))
    return np.asarray(fixed + work + sizes[:, 6])


def _print(title: str, timed: dict[str, Timed], form: Callable[[Array, Array], Array], start: Sequence[float]) -> None:
    """Print constants fitted to all kinds, errors by kind, and errors of each kind by the others."""
    timed = {kind: one for kind, one in timed.items() if one.seconds.size}
    if not timed:
        return
    values = _fitted(list(timed.values()), form, start)
    print(f"{title}: {', '.join(f'{value:.3g}' for value in values)}")
    for kind, one in timed.items():
        others = [other for name, other in timed.items() if name != kind]
        text = f"  {kind}: {_error(values, one, form)}"
        print(text + (f"; left out {_error(_fitted(others, form, start), one, form)}" if others else ""))


def _fitted(timed: Sequence[Timed], form: Callable[[Array, Array], Array], start: Sequence[float]) -> Array:
    def errors(logs: Array) -> Array:
        return np.concatenate([np.log(form(np.exp(logs), one.sizes) / one.seconds) for one in timed])

    found = least_squares(errors, np.log(np.array(start)), loss="soft_l1", f_scale=_SHARP)
    return np.asarray(np.exp(found.x))


def _error(values: Array, timed: Timed, form: Callable[[Array, Array], Array]) -> str:
    sizes = np.abs(np.log(form(values, timed.sizes) / timed.seconds))
    return f"{sizes.mean():.3f} (95 %: {np.quantile(sizes, 0.95):.3f}, {sizes.size} rows)"


def _rows(gpu: str, pattern: str) -> Iterator[Row]:
    """Rows of the package's tables of an engine on a GPU."""
    from pyarrow.parquet import read_table  # type: ignore[import-untyped, unused-ignore]

    spec = find_spec("aiconfigurator_core")
    if spec is None or spec.origin is None:
        raise SystemExit("aiconfigurator-core is not installed (pip install 'specplan[silicon]')")
    folder = Path(spec.origin).parent / "systems" / "data" / SYSTEMS[gpu]
    for file in sorted(folder.glob(pattern)):
        yield from read_table(file).to_pylist()


def _states(gpu: str) -> dict[str, list[Row]]:
    """Convolution and recurrence together, by kind: rows with ``seconds``."""
    found: dict[str, dict[tuple[object, ...], Row]] = defaultdict(dict)
    for kind, pattern in (("gdn", "linear_attention/vllm/*/gdn_perf.parquet"), ("kda", "kda/vllm/*/kda_perf.parquet")):
        for row in _rows(gpu, pattern):
            if row["kernel_source"] == "fused_kda_decode":  # both in one, which only Kimi-K3 has
                continue
            names = ("phase", "batch_size", "seq_len", "num_k_heads", "num_v_heads")
            known = found[kind].setdefault(tuple(row[name] for name in names), {**row, "parts": {}})
            known["parts"][row["kernel_source"]] = 1e-3 * row["latency"]
    return {kind: [row for row in rows.values() if len(row["parts"]) == 2] for kind, rows in found.items()}


def _numbers(row: Row) -> float:
    return float(row["head_k_dim"] * row["head_v_dim"])


def _decoding(kind: str, rows: Sequence[Row]) -> Timed:
    """Bytes of states in float32: read once, written after every token."""
    chosen = [row for row in rows if row["phase"] != "context"]
    moved = [4.0 * (1 + r["seq_len"]) * r["batch_size"] * r["num_v_heads"] * _numbers(r) for r in chosen]
    return Timed(kind, np.array(moved)[:, None], np.array([sum(row["parts"].values()) for row in chosen]))


def _prompts(kind: str, rows: Sequence[Row]) -> Timed:
    chosen = [row for row in rows if row["phase"] == "context" and row["batch_size"] * row["seq_len"] <= _MOST_TOKENS]
    sizes = [(r["seq_len"] * _numbers(r), r["batch_size"] * r["num_v_heads"]) for r in chosen]
    return Timed(kind, np.array(sizes, dtype=float), np.array([sum(row["parts"].values()) for row in chosen]))


def _sparse(gpu: str) -> dict[str, Timed]:
    """Decoding modules of sparse attention by model, each with the seconds of the form besides fixed times.

    Those with a cache in bf16: kernels on one in fp8 widen what they gather first.
    """
    known, timed = GPUS[gpu], {}
    for name in _SPARSE:
        shape = shape_of(name).shape
        mixer = next(group.attention for group in shape.layers)
        assert isinstance(mixer, LatentAttention)
        assert mixer.selection is not None
        sizes, seconds = [], []
        for row, tp in _modules(gpu, "vllm/*/dsa_generation", mixer.heads, "bfloat16"):
            if row["model"] == name:
                work = {"sequences": float(row["batch_size"]), "tokens": 1.0}
                context = float(row["step"])
                form = latent_seconds(
                    known, mixer, hidden=shape.hidden, tp=tp, context=context, **work,
                    weights=FORMATS["fp8-block"], cache_bytes=2.0,
                )  # fmt: skip
                form += index_seconds(known, mixer.selection, entries=context + 1.0, **work)
                sizes.append(form - known.latent.overhead_s - known.sparse.choosing_s)
                seconds.append(1e-3 * row["latency"])
        timed[name] = Timed(name, np.array(sizes)[:, None], np.array(seconds))
    return timed


def _compressed(gpu: str) -> dict[str, Timed]:
    """Modules of compressed attention by model, of prompts and of decoding, in all engines."""
    known = GPUS[gpu]
    without = {"compressed_s": 0.0, "entries_s": 0.0, "token_s": 0.0, "choice_s": 0.0}
    bare, timed = replace(known, sparse=replace(known.sparse, **without, scoring=math.inf, attending=math.inf)), {}
    for name in _COMPRESSED:
        sizes, seconds, shape = [], [], shape_of(name).shape
        for table, ratio in (("csa", 4), ("hca", 128)):
            mixer = next(one.attention for one in shape.layers if getattr(one.attention, "ratio", None) == ratio)
            assert isinstance(mixer, CompressedAttention)
            for row, tp in _modules(gpu, f"*/*/dsv4_{table}_[cg]*", mixer.heads, "fp8"):
                tokens = float(row["isl"]) if "context" in row["op_name"] else 1.0
                read, context = tokens * row["batch_size"], float(row["step"])
                if name.split("-")[-1] not in row["model"] or context > _MOST_TOKENS or read > _MOST_TOKENS / 2:
                    continue
                work = {"sequences": float(row["batch_size"]), "tokens": tokens}
                form = latent_seconds(
                    bare, mixer, hidden=shape.hidden, tp=tp, context=context, **work,
                    weights=FORMATS["fp8-block"], cache_bytes=1.0,
                )  # fmt: skip
                scored, choices, chosen = 0.0, 0.0, mixer.selection
                if chosen is not None:
                    entries = (context + (tokens + 1.0) / 2.0) / ratio
                    form += index_seconds(bare, chosen, entries=entries, **work)
                    scored = 2.0 * read * entries * chosen.heads * chosen.dim
                    choices = read * (entries > chosen.entries)
                attended = 4.0 * read * mixer.read(context + (tokens + 1.0) / 2.0) * mixer.head_dim * row["num_heads"]
                started = engine_named(row["framework"]).kernels(gpu)["sparse"]
                index = started * (chosen is not None)
                sizes.append((started, index, read, choices, scored, attended, form))
                seconds.append(1e-3 * row["latency"])
        timed[name] = Timed(name, np.array(sizes), np.array(seconds))
    return timed


def _modules(gpu: str, pattern: str, heads: int, cache: str) -> Iterator[tuple[Row, int]]:
    """Rows of attention modules in block-wise fp8 with a format of the cache, and the GPUs that share the heads."""
    for row in _rows(gpu, f"sparse_attention/{pattern}_module_perf.parquet"):
        tp = heads / row["num_heads"]
        known = row["gemm_type"] == "fp8_block" and row["kv_cache_dtype"].startswith(cache)
        if known and tp >= 1.0 and tp == round(tp):
            yield row, round(tp)


def _streams(gpu: str) -> dict[str, Timed]:
    """Mixing before and after both parts of a layer together, by hidden size."""
    found: dict[int, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in _rows(gpu, "mhc/vllm/0.24.0/mhc_module_perf.parquet"):
        found[row["hidden_size"]][row["num_tokens"]].append(row)
    timed = {}
    for hidden, rows in found.items():
        both = {n: parts for n, parts in rows.items() if len(parts) == 2}  # before and after
        moved = [8.0 * n * (2 * parts[0]["hc_mult"] + 1) * hidden for n, parts in both.items()]
        seconds = [1e-3 * sum(part["latency"] for part in parts) for parts in both.values()]
        timed[f"hidden {hidden}"] = Timed(str(hidden), np.array(moved)[:, None], np.array(seconds))
    return timed


if __name__ == "__main__":
    main()
