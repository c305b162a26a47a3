"""Tables of operators timed alone, as `theory.hardware.operators` sees them, and fits of a GPU's constants to them.

Tables of NVIDIA aiconfigurator (vLLM 0.24.0, of the A100 0.14.0, two of SGLang and TensorRT-LLM from the installed
package aiconfigurator-core; Apache-2.0), which are not part of the project. Every
time is asked of the operators themselves, so that no formula stands here twice.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from theory.hardware.formats import FORMATS
from theory.hardware.gpu_records import AttentionRates, ExpertRates, Gpu, LatentRates, ProductRates, SumRates
from theory.hardware.operators import attention_seconds, experts_seconds, latent_seconds, product_seconds
from theory.hardware.shapes import Experts, LatentAttention

__all__ = ["FILES", "Table", "fitted", "log_errors", "shapes_left_out", "tables"]

Array = NDArray[np.float64]
Row = Mapping[str, str]

FILES: Final = {
    "NVIDIA H100 SXM": "h100_sxm",
    "NVIDIA H200 SXM": "h200_sxm",
    "NVIDIA B200 SXM": "b200_sxm",
    "NVIDIA A100 SXM": "a100_sxm",
    "NVIDIA L40S": "l40s",
}
"""GPU -> its name in the tables' file names."""
_OTHERS: Final = {"sglang": "0.5.14", "trtllm": "1.3.0rc20"}
"""Engines besides vLLM, with the version of their tables in aiconfigurator-core 0.12.0."""
_MOST: Final = 1500
"""Rows of a table that are looked at, spread evenly over it."""
_FOLDS: Final = 5
_UNGATED: Final = {(2048, 5120), (1024, 2688), (2688, 1856)}
"""Hidden and intermediate sizes whose times are those of two matrices, not three."""
_DEEPSEEK: Final = {"cache_rank": 512, "rope_dim": 64, "nope_dim": 128, "value_dim": 128, "query_rank": 1536}
_HIDDEN: Final = 7168  # of DeepSeek-V3


@dataclass(frozen=True, slots=True)
class Table:
    """Times of one operator on one GPU."""

    name: str
    calls: tuple[Callable[[Gpu], float], ...]
    """Each row's time on a GPU, s."""
    measured: Array
    shapes: tuple[str, ...]
    """What is left out together, by row."""
    constants: Callable[[Gpu], tuple[float, ...]]
    with_constants: Callable[[Gpu, Sequence[float]], Gpu]

    def seconds(self, gpu: Gpu, chosen: Iterable[int]) -> Array:
        """Times of the chosen rows on a GPU, s."""
        return np.array([self.calls[i](gpu) for i in chosen])


def tables(folder: Path, gpu: str) -> Iterator[Table]:
    """All tables of a GPU in the folder."""
    stem = FILES[gpu]
    for arithmetic in ("bf16", "fp8"):
        path = folder / f"aic_gemm_{arithmetic}_{stem}.csv.gz"
        if path.exists():
            yield _products(_read(path), arithmetic)
    yield _attention([row for kind in ("gen", "ctx") for row in _read(folder / f"aic_{kind}_attn_bf16_{stem}.csv.gz")])
    experts = _read(folder / f"aic_moe_{stem}.csv.gz")
    for timed, name in (("bfloat16", "bf16"), ("fp8_block", "fp8-block"), ("w4a16_mxfp4", "mxfp4")):
        rows = [row for row in experts if row["moe_dtype"] == timed and _served(row)]
        if rows:
            yield _experts(rows, name)
    if (folder / f"aic_mla_gen_{stem}.csv.gz").exists():
        yield _latent([row for kind in ("gen", "ctx") for row in _read(folder / f"aic_mla_{kind}_{stem}.csv.gz")])
    for n_gpus in (2, 4, 8):
        rows = _best_sums(folder / "aic_allreduce.csv", stem, n_gpus)
        if rows:
            yield _sums(f"sums of {n_gpus}", rows, "sums", n_gpus)
    yield from _packaged(stem)


def _packaged(stem: str) -> Iterator[Table]:
    """Tables of other engines in the package aiconfigurator-core, where it is installed and has them.

    Products with block-wise fp8 are those of SGLang and TensorRT-LLM: vLLM's were timed with the host's time, 45 us on
    Hopper and over 200 us on Blackwell, which no server shows.
    """
    products = [row for engine in _OTHERS for row in _package_rows(stem, "gemm", engine, "gemm_perf")]
    in_blocks = [row for row in products if row["gemm_dtype"] == "fp8_block"]
    if in_blocks:
        yield _products(sorted(in_blocks, key=lambda row: crc32(repr(row).encode())), "fp8-block")
    for n_gpus in (2, 4, 8):
        sums = list(_package_rows(stem, "comm", "trtllm", "custom_allreduce_perf"))
        rows = [row for row in sums if row["num_gpus"] == str(n_gpus) and 1024 <= int(row["message_size"]) <= 2**27]
        if rows:
            yield _sums(f"fused sums of {n_gpus}", rows, "fused_sums", n_gpus)


def _package_rows(stem: str, operator: str, engine: str, table: str) -> Iterator[Row]:
    """Rows of a table of the package, as text like those of the files."""
    if find_spec("aiconfigurator_core") is None:
        return
    from pyarrow.parquet import read_table

    path = Path(str(files("aiconfigurator_core"))) / "systems" / "data" / stem / operator / engine / _OTHERS[engine]
    if (path / f"{table}.parquet").exists():
        for row in read_table(path / f"{table}.parquet").to_pylist():
            yield {name: str(value) for name, value in row.items()}


def log_errors(table: Table, gpu: Gpu, chosen: Iterable[int] | None = None) -> Array:
    """Logarithms of predicted over measured times."""
    index = np.arange(len(table.calls)) if chosen is None else np.array(list(chosen), dtype=int)
    return np.asarray(np.log(table.seconds(gpu, index) / table.measured[index]))


def fitted(table: Table, gpu: Gpu, chosen: Iterable[int] | None = None) -> Gpu:
    """The GPU with the table's constants fitted to the chosen rows: robust least squares of log errors."""
    start = np.log(table.constants(gpu))
    index = range(len(table.calls)) if chosen is None else list(chosen)

    def residuals(logs: Array) -> Array:
        return log_errors(table, table.with_constants(gpu, [float(v) for v in np.exp(logs)]), index)

    found = least_squares(residuals, start, bounds=(start - 2.0, start + 2.0), loss="soft_l1", f_scale=0.1)
    return table.with_constants(gpu, [float(v) for v in np.exp(found.x)])


def shapes_left_out(table: Table, gpu: Gpu) -> Array:
    """Log errors of each fifth of the shapes with constants from the others."""
    fold = np.array([crc32(shape.encode()) % _FOLDS for shape in table.shapes])
    errors = np.full(len(fold), np.nan)
    for one in np.unique(fold):
        here = np.flatnonzero(fold == one)
        others = np.flatnonzero(fold != one)
        if len(others):
            errors[here] = log_errors(table, fitted(table, gpu, others), here)
    return errors[np.isfinite(errors)]


def _read(path: Path) -> list[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _table(
    name: str,
    rows: Sequence[Row],
    call: Callable[[Row], Callable[[Gpu], float]],
    shape: tuple[str, ...],
    kept: Callable[[Gpu], Any],
    put: Callable[[Gpu, Sequence[float]], Gpu],
) -> Table:
    """A table of rows thinned evenly; ``shape`` names the columns whose values are left out together."""
    thinned = [rows[int(i)] for i in np.unique(np.linspace(0, len(rows) - 1, _MOST).astype(int))]
    return Table(
        name=name,
        calls=tuple(call(row) for row in thinned),
        measured=np.array([float(row["latency"]) for row in thinned]) / 1e3,
        shapes=tuple(" ".join(row[column] for column in shape) for row in thinned),
        constants=lambda gpu: astuple(kept(gpu)),
        with_constants=put,
    )


def _products(rows: list[Row], arithmetic: str) -> Table:
    """Products of at most 8192 rows with weights as large models have them."""

    def call(row: Row) -> Callable[[Gpu], float]:
        sizes = float(row["m"]), float(row["n"]), float(row["k"])
        return lambda gpu: product_seconds(gpu, *sizes, FORMATS[arithmetic])

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        overhead, bandwidth, rate, sharpness = values
        new = ProductRates(overhead, bandwidth, rate, max(sharpness, 1.0))
        return replace(gpu, products={**gpu.products, arithmetic: new})

    def is_large(row: Row) -> bool:
        n, k = int(row["n"]), int(row["k"])
        return int(row["m"]) <= 8192 and min(n, k) >= 256 and n * k >= 2**20

    kept = [row for row in rows if is_large(row)]
    return _table(f"products {arithmetic}", kept, call, ("n", "k"), lambda gpu: gpu.products[arithmetic], put)


def _attention(rows: list[Row]) -> Table:
    """Decoding and prefills, heads of 64 numbers or more."""

    def call(row: Row) -> Callable[[Gpu], float]:
        heads, kv_heads = float(row["num_heads"]), float(row["num_key_value_heads"])
        sizes = {"sequences": float(row["batch_size"]), "tokens": float(row["isl"]), "context": float(row["step"])}
        of = {"heads": heads, "kv_heads": kv_heads or heads, "head_dim": int(row["head_dim"]), "cache_bytes": 2.0}
        return lambda gpu: attention_seconds(gpu, **sizes, **of)  # type: ignore[arg-type]  # numbers all

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        return replace(gpu, attention=AttentionRates(*values))

    kept = [row for row in rows if int(row["head_dim"]) >= 64]
    shape = ("num_heads", "num_key_value_heads", "head_dim")
    return _table("attention", kept, call, shape, lambda gpu: gpu.attention, put)


def _served(row: Row) -> bool:
    """Experts as they are served: unevenly asked for, at least 256 columns each; in mxfp4 those of gpt-oss."""
    usual = int(row["inter_size"]) / int(row["moe_tp_size"]) >= 256 and int(row["num_tokens"]) <= 16384
    oss = row["moe_dtype"] != "w4a16_mxfp4" or (int(row["hidden_size"]) == 2880 and int(row["num_tokens"]) <= 1024)
    return usual and oss and row["distribution"] != "balanced"


def _experts(rows: list[Row], name: str) -> Table:
    weights = FORMATS[name]

    def call(row: Row) -> Callable[[Gpu], float]:
        hidden, intermediate = int(row["hidden_size"]), int(row["inter_size"])
        gated = (hidden, intermediate) not in _UNGATED
        of = Experts(
            count=int(row["num_experts"]), per_token=int(row["topk"]), intermediate=intermediate, gated=gated
        )  # fmt: skip
        tokens, split = float(row["num_tokens"]), int(row["moe_tp_size"])
        return lambda gpu: experts_seconds(
            gpu, of, hidden=hidden, tokens=tokens, asking=tokens, ep=1, expert_tp=split, weights=weights
        )

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        return replace(gpu, experts={**gpu.experts, weights.arithmetic: ExpertRates(*values)})

    shape = ("hidden_size", "inter_size", "topk", "num_experts")
    return _table(f"experts {name}", rows, call, shape, lambda gpu: gpu.experts[weights.arithmetic], put)


def _latent(rows: list[Row]) -> Table:
    """Latent attention of DeepSeek-V3 with bf16 weights and cache."""

    def call(row: Row) -> Callable[[Gpu], float]:
        of = LatentAttention(heads=int(row["num_heads"]), **_DEEPSEEK)
        sizes = {"sequences": float(row["batch_size"]), "tokens": float(row["isl"]), "context": float(row["step"])}
        return lambda gpu: latent_seconds(
            gpu, of, hidden=_HIDDEN, tp=1, **sizes, weights=FORMATS["bf16"], cache_bytes=2.0
        )

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        return replace(gpu, latent=LatentRates(*values))

    kept = [row for row in rows if row["kv_cache_dtype"] == row["gemm_type"] == "bfloat16"]
    return _table("latent attention", kept, call, ("num_heads",), lambda gpu: gpu.latent, put)


def _best_sums(path: Path, stem: str, n_gpus: int) -> list[Row]:
    """The faster of the libraries by size, 1 KiB to 128 MiB, inside a CUDA graph where that is said."""
    best: dict[int, Row] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            size = int(float(row["message_size"]))
            alike = (row["system"], row["num_gpus"]) == (stem, str(n_gpus)) and "eager" not in row["kernel_source"]
            if not alike or not 1024 <= size <= 2**27:
                continue
            if size not in best or float(row["latency"]) < float(best[size]["latency"]):
                best[size] = row
    return [best[size] for size in sorted(best)]


def _sums(name: str, rows: list[Row], kernels: Literal["sums", "fused_sums"], n_gpus: int) -> Table:
    def call(row: Row) -> Callable[[Gpu], float]:
        size = float(row["message_size"])
        return lambda gpu: float(getattr(gpu, kernels)[n_gpus].seconds(size))

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        known = {**getattr(gpu, kernels), n_gpus: SumRates(*values)}
        return replace(gpu, sums=known) if kernels == "sums" else replace(gpu, fused_sums=known)

    return _table(name, rows, call, ("message_size",), lambda gpu: getattr(gpu, kernels)[n_gpus], put)
