"""Tables of operators timed alone, as `theory.hardware.operators` sees them, and fits of a GPU's constants to them.

Tables of NVIDIA aiconfigurator (vLLM 0.24.0, of the A100 0.14.0; Apache-2.0), which are not part of the project: as
files, and what these lack from the installed package aiconfigurator-core. Every time is asked of the operators
themselves, so that no formula stands here twice.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cache, partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from specplan.check.scoreboard.operators import Row, row_seconds
from theory.hardware.formats import FORMATS
from theory.hardware.gpu_records import AttentionRates, Gpu, LatentRates, ProductRates, SumRates
from theory.hardware.gpus import GPUS

__all__ = ["FILES", "Table", "fitted", "log_errors", "shapes_left_out", "tables"]

Array = NDArray[np.float64]
_Rates = TypeVar("_Rates", ProductRates, AttentionRates)
FILES: Final = {
    "NVIDIA H100 SXM": "h100_sxm",
    "NVIDIA H200 SXM": "h200_sxm",
    "NVIDIA B200 SXM": "b200_sxm",
    "NVIDIA A100 SXM": "a100_sxm",
    "NVIDIA L40S": "l40s",
    "NVIDIA RTX PRO 6000": "rtx_pro_6000_server",
}
"""GPU -> its name in the tables' file names."""
_VERSIONS: Final = {"vllm": "0.24.0", "sglang": "0.5.14", "trtllm": "1.3.0rc20", "nccl": "2.29.2"}
"""Engines, and the library of sums, with the version of their tables in aiconfigurator-core 0.12.0."""
_IN_BF16: Final = {"attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16", "window_size": "0"}
_PACKAGED: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    "gemm_bf16": ("gemm", "gemm", {"gemm_dtype": "bfloat16"}),
    "gemm_fp8": ("gemm", "gemm", {"gemm_dtype": "fp8"}),
    "gemm_nvfp4": ("gemm", "gemm", {"gemm_dtype": "nvfp4"}),
    "gen_attn_bf16": ("attention", "generation_attention", _IN_BF16),
    "ctx_attn_bf16": ("attention", "context_attention", _IN_BF16),
    "moe": ("moe", "moe", {}),
}
"""Table of vLLM by its name as a file -> operator and table in the package, and the values that its rows have."""
_OF_EXPERTS: Final = ("overhead_s", "bandwidth", "rate", "activation_bandwidth", "again")
_MOST: Final = 1500
"""Rows of a table that are looked at, spread evenly over it."""
_FOLDS: Final = 5


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
    for arithmetic in ("bf16", "fp8", "nvfp4"):
        found = _rows(folder, stem, f"gemm_{arithmetic}")
        if found:
            yield _products(found, arithmetic)
    attention = [row for kind in ("gen", "ctx") for row in _rows(folder, stem, f"{kind}_attn_bf16")]
    if attention:
        yield _attention(attention)
    known = {"bfloat16": "bf16", "fp8_block": "fp8-block", "fp8": "fp8", "w4a16_mxfp4": "mxfp4", "nvfp4": "nvfp4"}
    for timed, name in known.items():
        rows = _expert_rows(folder, stem, timed)
        if rows and (name != "fp8" or "fp8-block" in GPUS[gpu].experts):  # else experts in fp8 are block-wise ones
            yield _experts(rows, name)
            apart = _expert_rows(folder, stem, timed, ("2", "4", "8", "16", "32"))
            if apart:
                yield _experts(apart, name, ["elsewhere"])
    if (folder / f"aic_mla_gen_{stem}.csv.gz").exists():
        yield _latent([row for kind in ("gen", "ctx") for row in _read(folder / f"aic_mla_{kind}_{stem}.csv.gz")])
    for n_gpus in (2, 4, 8):
        rows = _best_sums(folder, stem, n_gpus)
        if rows:
            yield _sums(f"sums of {n_gpus}", rows, "sums", n_gpus)
    yield from _packaged(gpu)


def _packaged(gpu: str) -> Iterator[Table]:
    """Tables of other engines in the package aiconfigurator-core, where it is installed and has them.

    Products with block-wise fp8 are those of SGLang and TensorRT-LLM: vLLM's were timed with the host's time, 45 us on
    Hopper and over 200 us on Blackwell, which no server shows.
    """
    stem = FILES[gpu]
    products = [row for engine in ("sglang", "trtllm") for row in _package_rows(stem, "gemm", engine, "gemm")]
    in_blocks = [row for row in products if row["gemm_dtype"] == "fp8_block"]
    if in_blocks and "fp8-block" in GPUS[gpu].products:
        yield _products(sorted(in_blocks, key=_shuffled), "fp8-block")
    sums = _package_rows(stem, "comm", "trtllm", "custom_allreduce")
    for n_gpus in (2, 4, 8):
        rows = [row for row in sums if row["num_gpus"] == str(n_gpus) and 1024 <= int(row["message_size"]) <= 2**27]
        if rows and n_gpus in GPUS[gpu].fused_sums:
            yield _sums(f"fused sums of {n_gpus}", rows, "fused_sums", n_gpus)


@cache
def _rows(folder: Path, stem: str, name: str) -> list[Row]:
    """Rows of a table of vLLM: of the file, or of the package."""
    path = folder / f"aic_{name}_{stem}.csv.gz"
    if path.exists():
        return _read(path)
    operator, table, values = _PACKAGED[name]
    rows = _package_rows(stem, operator, "vllm", table)
    return sorted((row for row in rows if values.items() <= row.items()), key=_shuffled)


def _expert_rows(folder: Path, stem: str, timed: str, gpus: Collection[str] = ("1",)) -> list[Row]:
    """Rows of experts in a format on so many GPUs, of vLLM or, where it timed none, SGLang; of the kernel with most."""
    sources = [partial(_package_rows, stem, "moe", engine, "moe") for engine in ("vllm", "sglang")]
    for source in (partial(_rows, folder, stem, "moe"), *sources):
        timed_so = [row for row in source() if row["moe_dtype"] == timed and row.get("moe_ep_size", "1") in gpus]
        if rows := list(filter(_served, timed_so)):
            kernel = Counter(row.get("kernel_source") for row in rows).most_common(1)[0][0]
            found = [row for row in rows if row.get("kernel_source") == kernel]
            return sorted(found, key=_shuffled) if kernel else found
    return []


def _shuffled(row: Row) -> int:
    """What rows are sorted by that stand in the order of their sizes, before they are thinned."""
    return crc32(repr(row).encode())


@cache
def _package_rows(stem: str, operator: str, engine: str, table: str) -> list[Row]:
    """Rows of a table of the package, as text like those of the files; none where there is no such table."""
    if find_spec("aiconfigurator_core") is None:
        return []
    from pyarrow.parquet import read_table

    folder = Path(str(files("aiconfigurator_core"))) / "systems" / "data" / stem / operator / engine
    path = folder / _VERSIONS[engine] / f"{table}_perf.parquet"
    rows = read_table(path).to_pylist() if path.exists() else []
    return [{name: str(value) for name, value in row.items()} for row in rows]


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
    operator: str,
    of: str,
    rows: Sequence[Row],
    shape: tuple[str, ...],
    kept: Callable[[Gpu], tuple[float, ...]],
    put: Callable[[Gpu, Sequence[float]], Gpu],
    seconds: Callable[[Gpu, Row], float] | None = None,
) -> Table:
    """A table of rows thinned evenly; ``shape`` names the columns whose values are left out together.

    ``of`` is a format; ``seconds`` of a row are those of the scoreboard, if it does not say other ones.
    """

    def listed(gpu: Gpu, row: Row) -> float:
        found = row_seconds(operator, gpu, row, of)
        assert found is not None
        return found[1]

    thinned = [rows[int(i)] for i in np.unique(np.linspace(0, len(rows) - 1, _MOST).astype(int))]
    return Table(
        name=f"{operator} {of}".strip(),
        calls=tuple(partial(seconds or listed, row=row) for row in thinned),
        measured=np.array([float(row["latency"]) for row in thinned]) / 1e3,
        shapes=tuple(" ".join(row[column] for column in shape) for row in thinned),
        constants=kept,
        with_constants=put,
    )


def _products(rows: list[Row], arithmetic: str) -> Table:
    """Products of at most 8192 rows with weights as large models have them."""

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        return replace(gpu, products={**gpu.products, _key(arithmetic, gpu.products): _with(rates(gpu), values)})

    def rates(gpu: Gpu) -> ProductRates:
        return gpu.products[_key(arithmetic, gpu.products)]

    def is_large(row: Row) -> bool:
        n, k = int(row["n"]), int(row["k"])
        return int(row["m"]) <= 8192 and min(n, k) >= 256 and n * k >= 2**20

    kept = [row for row in rows if is_large(row)]
    name = arithmetic.replace("-", "_")  # as the tables' files have it
    return _table("products", name, kept, ("n", "k"), lambda gpu: _fitted_of(rates(gpu)), put)


def _key(name: str, known: Collection[str]) -> str:
    """What a GPU has the constants of a format under: its name, or its arithmetic."""
    return name if name in known else FORMATS[name].arithmetic


def _fitted_of(rates: ProductRates | AttentionRates) -> tuple[float, ...]:
    """The constants of kernels that are fitted: neither tiles nor what a kernel does not do."""
    return tuple(value for value in (getattr(rates, name) for name in _names(rates)) if value and value < math.inf)


def _with(rates: _Rates, values: Sequence[float]) -> _Rates:
    """Rates with other values of `_fitted_of`."""
    names = [name for name in _names(rates) if 0.0 < getattr(rates, name) < math.inf]
    found = dict(zip(names, values, strict=True))
    return replace(rates, **{**found, "sharpness": max(found["sharpness"], 1.0)})


def _names(rates: ProductRates | AttentionRates) -> list[str]:
    return [one.name for one in fields(rates) if "tile" not in one.name and one.name != "packed"]


def _attention(rows: list[Row]) -> Table:
    """Decoding and prefills, heads of 64 numbers or more."""

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        return replace(gpu, attention=_with(gpu.attention, values))

    large = [row for row in rows if int(row["head_dim"]) >= 64]
    shape = ("num_heads", "num_key_value_heads", "head_dim")
    return _table("attention", "", large, shape, lambda gpu: _fitted_of(gpu.attention), put)


def _served(row: Row) -> bool:
    """Experts as they are served: unevenly asked for, at least 256 columns each; in mxfp4 those of gpt-oss."""
    usual = int(row["inter_size"]) / int(row["moe_tp_size"]) >= 256 and int(row["num_tokens"]) <= 16384
    oss = row["moe_dtype"] != "w4a16_mxfp4" or (int(row["hidden_size"]) == 2880 and int(row["num_tokens"]) <= 1024)
    return usual and oss and row["distribution"] != "balanced"


def _experts(rows: list[Row], name: str, constants: Sequence[str] = _OF_EXPERTS) -> Table:
    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        rates = replace(gpu.experts[key(gpu)], **dict(zip(constants, values, strict=True)))
        fastest = gpu.products["bf16" if name == "mxfp4" else _key(name, gpu.products)].rate
        rates = replace(rates, rate=min(rates.rate, fastest))  # where reading tiles again says all, nothing tells it
        return replace(gpu, experts={**gpu.experts, key(gpu): rates})

    def kept(gpu: Gpu) -> tuple[float, ...]:
        return tuple(max(getattr(gpu.experts[key(gpu)], constant), 1e-12) for constant in constants)

    def key(gpu: Gpu) -> str:
        return "widened" if name == "mxfp4" else _key(name, gpu.experts)

    shape = ("hidden_size", "inter_size", "topk", "num_experts")
    title = name if constants is _OF_EXPERTS else f"{name} apart"
    return _table("experts", title, rows, shape, kept, put)


def _latent(rows: list[Row]) -> Table:
    """Latent attention of DeepSeek-V3."""

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        names = [one.name for one in fields(LatentRates)]
        return replace(gpu, latent=replace(gpu.latent, **dict(zip(names[:-1], values, strict=True))))

    return _table("latent attention", "", rows, ("num_heads",), lambda gpu: astuple(gpu.latent)[:-1], put)


def _best_sums(folder: Path, stem: str, n_gpus: int) -> list[Row]:
    """The faster of the libraries by size, 1 KiB to 128 MiB, inside a CUDA graph where that is said."""
    best: dict[int, Row] = {}
    with (folder / "aic_allreduce.csv").open(encoding="utf-8") as file:
        rows: list[Row] = [row for row in csv.DictReader(file) if row["system"] == stem]
    if not rows:
        by_nccl = [row for row in _package_rows(stem, "comm", "nccl", "nccl") if row["op_name"] == "all_reduce"]
        rows = [*_package_rows(stem, "comm", "vllm", "custom_allreduce"), *by_nccl]
    for row in rows:
        size = int(float(row["message_size"]))
        if row["num_gpus"] != str(n_gpus) or "eager" in row["kernel_source"] or not 1024 <= size <= 2**27:
            continue
        if size not in best or float(row["latency"]) < float(best[size]["latency"]):
            best[size] = row
    return [best[size] for size in sorted(best)]


def _sums(name: str, rows: list[Row], kernels: Literal["sums", "fused_sums"], n_gpus: int) -> Table:
    def seconds(gpu: Gpu, row: Row) -> float:
        return float(getattr(gpu, kernels)[n_gpus].seconds(float(row["message_size"])))

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        known = {**getattr(gpu, kernels), n_gpus: SumRates(tuple(zip(values[::2], values[1::2], strict=True)))}
        return replace(gpu, sums=known) if kernels == "sums" else replace(gpu, fused_sums=known)

    def kept(gpu: Gpu) -> tuple[float, ...]:
        return tuple(value for kernel in getattr(gpu, kernels)[n_gpus].kernels for value in kernel)

    return _table(name, "", rows, ("message_size",), kept, put, seconds)
