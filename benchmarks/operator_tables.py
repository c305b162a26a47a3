"""Tables of operators timed alone, as `theory.hardware.operators` sees them, and fits of a GPU's constants to them.

Tables of NVIDIA aiconfigurator (vLLM 0.24.0, of the A100 0.14.0, two of SGLang and TensorRT-LLM from the installed
package aiconfigurator-core; Apache-2.0), which are not part of the project. Every
time is asked of the operators themselves, so that no formula stands here twice.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import partial
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
from theory.hardware.gpu_records import AttentionRates, ExpertRates, Gpu, LatentRates, ProductRates, SumRates
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
}
"""GPU -> its name in the tables' file names."""
_OTHERS: Final = {"sglang": "0.5.14", "trtllm": "1.3.0rc20"}
"""Engines besides vLLM, with the version of their tables in aiconfigurator-core 0.12.0."""
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
    for arithmetic in ("bf16", "fp8"):
        path = folder / f"aic_gemm_{arithmetic}_{stem}.csv.gz"
        if path.exists():
            yield _products(_read(path), arithmetic)
    yield _attention([row for kind in ("gen", "ctx") for row in _read(folder / f"aic_{kind}_attn_bf16_{stem}.csv.gz")])
    experts = _read(folder / f"aic_moe_{stem}.csv.gz")
    known = {"bfloat16": "bf16", "fp8_block": "fp8-block", "fp8": "fp8", "w4a16_mxfp4": "mxfp4"}
    for timed, name in known.items():
        rows = [row for row in experts if row["moe_dtype"] == timed and _served(row)]
        if rows and (name != "fp8" or "fp8-block" in GPUS[gpu].experts):  # else experts in fp8 are block-wise ones
            yield _experts(rows, name)
    if (folder / f"aic_mla_gen_{stem}.csv.gz").exists():
        yield _latent([row for kind in ("gen", "ctx") for row in _read(folder / f"aic_mla_{kind}_{stem}.csv.gz")])
    for n_gpus in (2, 4, 8):
        rows = _best_sums(folder / "aic_allreduce.csv", stem, n_gpus)
        if rows:
            yield _sums(f"sums of {n_gpus}", rows, "sums", n_gpus)
    yield from _packaged(gpu)


def _packaged(gpu: str) -> Iterator[Table]:
    """Tables of other engines in the package aiconfigurator-core, where it is installed and has them.

    Products with block-wise fp8 and nvfp4 are those of SGLang and TensorRT-LLM: vLLM's were timed with the host's time,
    45 us on Hopper and over 200 us on Blackwell, which no server shows.
    """
    stem = FILES[gpu]
    products = [row for engine in _OTHERS for row in _package_rows(stem, "gemm", engine, "gemm_perf")]
    for name in ("fp8-block", "nvfp4"):
        rows = [row for row in products if row["gemm_dtype"] == name.replace("-", "_")]
        if rows and name in GPUS[gpu].products:
            yield _products(sorted(rows, key=lambda row: crc32(repr(row).encode())), name)
    for n_gpus in (2, 4, 8):
        sums = list(_package_rows(stem, "comm", "trtllm", "custom_allreduce_perf"))
        rows = [row for row in sums if row["num_gpus"] == str(n_gpus) and 1024 <= int(row["message_size"]) <= 2**27]
        if rows and n_gpus in GPUS[gpu].fused_sums:
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
        return replace(gpu, products={**gpu.products, arithmetic: _with(rates(gpu), values)})

    def rates(gpu: Gpu) -> ProductRates:
        return gpu.products.get(arithmetic) or gpu.products[FORMATS[arithmetic].arithmetic]

    def is_large(row: Row) -> bool:
        n, k = int(row["n"]), int(row["k"])
        return int(row["m"]) <= 8192 and min(n, k) >= 256 and n * k >= 2**20

    kept = [row for row in rows if is_large(row)]
    name = arithmetic.replace("-", "_")  # as the tables' files have it
    return _table("products", name, kept, ("n", "k"), lambda gpu: _fitted_of(rates(gpu)), put)


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


def _experts(rows: list[Row], name: str) -> Table:
    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        return replace(gpu, experts={**gpu.experts, key(gpu): ExpertRates(*values)})

    def key(gpu: Gpu) -> str:
        return "widened" if name == "mxfp4" else name if name in gpu.experts else FORMATS[name].arithmetic

    shape = ("hidden_size", "inter_size", "topk", "num_experts")
    return _table("experts", name, rows, shape, lambda gpu: astuple(gpu.experts[key(gpu)]), put)


def _latent(rows: list[Row]) -> Table:
    """Latent attention of DeepSeek-V3."""

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        return replace(gpu, latent=LatentRates(*values))

    return _table("latent attention", "", rows, ("num_heads",), lambda gpu: astuple(gpu.latent), put)


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
    def seconds(gpu: Gpu, row: Row) -> float:
        return float(getattr(gpu, kernels)[n_gpus].seconds(float(row["message_size"])))

    def put(gpu: Gpu, values: Sequence[float]) -> Gpu:
        known = {**getattr(gpu, kernels), n_gpus: SumRates(*values)}
        return replace(gpu, sums=known) if kernels == "sums" else replace(gpu, fused_sums=known)

    def kept(gpu: Gpu) -> tuple[float, ...]:
        return astuple(getattr(gpu, kernels)[n_gpus])

    return _table(name, "", rows, ("message_size",), kept, put, seconds)
