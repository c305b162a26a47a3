"""Fit the constants of `theory.cost` to measured latencies, and print them with their errors on rows left out.

Run: ``python benchmarks/fit_hardware.py FOLDER``. The tables in FOLDER are not part of the project: operators from
NVIDIA aiconfigurator (vLLM 0.24.0), served models from the ML.ENERGY Benchmark v3 (vLLM 0.11.1), both Apache-2.0.
Operators are fitted to every second shape and tested on the others; what lies between the operators is fitted to
served Qwen3 models and tested on Llama 3.1 and Gemma 3, which share nothing with the fit but the GPU.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from theory.cost import GPUS, Gpu, Shape, allreduce_seconds, attention_seconds, matmul_seconds, pass_seconds

Array = NDArray[np.float64]

_QWEN3 = {"kv_heads": 8, "head_dim": 128, "vocab": 151936}
SERVED: Final[dict[str, Shape]] = {
    "Qwen/Qwen3-8B": Shape(layers=36, hidden=4096, heads=32, intermediate=12288, **_QWEN3),
    "Qwen/Qwen3-14B": Shape(layers=40, hidden=5120, heads=40, intermediate=17408, **_QWEN3),
    "meta-llama/Llama-3.1-8B-Instruct": Shape(
        layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=14336, vocab=128256
    ),
    "google/gemma-3-12b-it": Shape(
        layers=48, hidden=3840, heads=16, kv_heads=8, head_dim=256, intermediate=15360, vocab=262208
    ),
    "google/gemma-3-27b-it": Shape(
        layers=62, hidden=5376, heads=32, kv_heads=16, head_dim=128, intermediate=21504, vocab=262208
    ),
}
"""Dense models in the serving table, as their published configurations give them. (Gemma 3 attends to a window of 1024
tokens in five of six layers; the contexts served were shorter.)"""
FITTED: Final = ("Qwen/Qwen3-8B", "Qwen/Qwen3-14B")
_PROMPT_TOKENS: Final = {"lm-arena-chat": 150, "gpqa": 250}


@dataclass(frozen=True, slots=True)
class Rows:
    """Measured times with what was timed, one array per column; ``train`` marks the rows to fit to."""

    columns: dict[str, Array]
    seconds: Array
    train: NDArray[np.bool_]

    def part(self, train: bool) -> tuple[dict[str, Array], Array]:
        """The rows to fit to, or the others."""
        chosen = self.train == train
        return {name: values[chosen] for name, values in self.columns.items()}, self.seconds[chosen]


@dataclass(frozen=True, slots=True)
class Served:
    """A row of the serving table."""

    model: str
    n_gpus: int
    batch: float
    context: float
    """Mean cached tokens of a running sequence."""
    seconds: float
    """Median inter-token latency."""


def _table(path: Path) -> dict[str, Array]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def _alternate(*keys: Array) -> NDArray[np.bool_]:
    """True for every second distinct key, in sorted order: whole shapes are left out, not single rows."""
    pairs = list(zip(*keys, strict=True))
    chosen = set(sorted(set(pairs))[::2])
    return np.array([pair in chosen for pair in pairs])


def matmul_rows(folder: Path, gpu: str) -> Rows:
    """Matrix products of at most 8192 rows with both weight sizes of 1024 or more, as large models have them."""
    table = _table(folder / f"aic_gemm_bf16_{gpu}_sxm.csv.gz")
    kept = (table["n"] >= 1024) & (table["k"] >= 1024) & (table["m"] <= 8192)
    columns = {new: table[old][kept] for new, old in (("rows", "m"), ("outputs", "n"), ("inputs", "k"))}
    return Rows(columns, table["latency"][kept] / 1e3, _alternate(columns["outputs"], columns["inputs"]))


def attention_rows(folder: Path, gpu: str) -> Rows:
    """Attention of one layer, heads of 128: decoding of up to 512 sequences, and prefills."""
    decode, prefill = (_table(folder / f"aic_{kind}_attn_bf16_{gpu}_sxm.csv.gz") for kind in ("gen", "ctx"))
    both = {name: np.concatenate((decode[name], prefill[name])) for name in decode}
    kept = (both["head_dim"] == 128) & (both["batch_size"] <= 512)
    both = {name: values[kept] for name, values in both.items()}
    columns = {
        "batch": both["batch_size"],
        "tokens": both["isl"],
        "context": both["step"],
        "heads": both["num_heads"],
        "kv_heads": both["num_key_value_heads"],
        "head_dim": both["head_dim"],
    }
    return Rows(columns, both["latency"] / 1e3, _alternate(columns["heads"], columns["kv_heads"]))


def allreduce_rows(folder: Path, gpu: str, n_gpus: int) -> Rows:
    """Sums over GPUs inside a CUDA graph, up to 8 MiB; beyond that engines use another library."""
    with (folder / "aic_allreduce.csv").open(encoding="utf-8") as file:
        wanted = {"system": f"{gpu}_sxm", "kernel_source": "vLLM_custom_graph", "num_gpus": str(n_gpus), "fw": "0.24.0"}
        rows = [row for row in csv.DictReader(file) if wanted.items() <= row.items()]
    rows = [row for row in rows if int(row["message_size"]) <= 8 << 20]
    size = np.array([float(row["message_size"]) for row in rows])
    return Rows({"size": size}, np.array([float(row["latency"]) for row in rows]) / 1e3, _alternate(size))


def served_rows(folder: Path) -> list[Served]:
    """Served dense models on H100, without rows whose cache was full or whose median mixes prefills in."""
    with (folder / "mlenergy_itl.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["gpu"] == "H100" and row["model_id"] in SERVED]
    found = []
    for row in rows:
        batch, length = float(row["avg_batch"]), float(row["avg_output_len"])
        if batch < 0.95 * float(row["max_num_seqs"]) or batch / length > 0.35:
            continue
        context = _PROMPT_TOKENS[row["task"]] + float(row["mean_pos_len_biased"])
        found.append(Served(row["model_id"], int(row["tp"]), batch, context, float(row["median_itl_ms"]) / 1e3))
    return found


def served_seconds(gpu: Gpu, row: Served) -> float:
    """What the model says of a row of the serving table."""
    return pass_seconds(gpu, SERVED[row.model], row.batch, context=row.context, n_gpus=row.n_gpus)


def fit_operators(folder: Path, name: str, start: Gpu) -> Gpu:
    """Constants of matrix products, attention and sums over GPUs."""
    matmul = ("matmul_s", "weight_bandwidth", "matmul_rate", "sharpness")
    attention = ("attention_s", "attention_sequence_s", "cache_bandwidth", "query_bandwidth", "attention_rate")
    gpu = _fitted(start, matmul, matmul_rows(folder, name), matmul_seconds)
    gpu = _fitted(gpu, attention, attention_rows(folder, name), attention_seconds)
    sums = []
    for n_gpus in (2, 4, 8):
        columns, seconds = allreduce_rows(folder, name, n_gpus).part(train=True)
        design = np.column_stack((np.ones_like(seconds), columns["size"])) / seconds[:, None]
        (latency, per_byte), _ = nnls(design, np.ones_like(seconds))
        sums.append((n_gpus, float(latency), float(1.0 / per_byte)))
    return replace(gpu, allreduce=tuple(sums))


def _fitted(start: Gpu, names: tuple[str, ...], rows: Rows, seconds: Callable[..., Any]) -> Gpu:
    """Least squares on log times (relative errors), robust, over the logs of the named constants."""
    columns, measured = rows.part(train=True)

    def residuals(logs: Array) -> Array:
        return np.asarray(np.log(seconds(_with(start, names, np.exp(logs)), **columns) / measured))

    begin = np.log([getattr(start, name) for name in names])
    low = np.where([name == "sharpness" for name in names], 0.0, begin - 3.0)  # within a factor of 20, sharpness >= 1
    found = least_squares(residuals, begin, bounds=(low, begin + 3.0), loss="soft_l1", f_scale=0.1)
    return _with(start, names, np.exp(found.x))


def _with(gpu: Gpu, names: Sequence[str], values: Array) -> Gpu:
    changes: dict[str, Any] = dict(zip(names, map(float, values), strict=True))
    return replace(gpu, **changes)


def fit_serving(folder: Path, gpu: Gpu) -> Gpu:
    """Time per layer and per sequence beyond the operators, from served Qwen3 models on one GPU."""
    bare = replace(gpu, layer_s=0.0, sequence_s=0.0)
    rows = [row for row in served_rows(folder) if row.model in FITTED and row.n_gpus == 1]
    measured = np.array([row.seconds for row in rows])
    rest = measured - [served_seconds(bare, row) for row in rows]
    design = np.array([[SERVED[row.model].layers, row.batch] for row in rows])
    (layer_s, sequence_s), _ = nnls(design / measured[:, None], rest / measured)
    return replace(gpu, layer_s=float(layer_s), sequence_s=float(sequence_s))


@dataclass(frozen=True, slots=True)
class Error:
    """Relative error of predictions, [-]."""

    mean: float
    """Mean of the absolute values."""
    median: float
    worst: float
    bias: float
    n: int

    def __str__(self) -> str:
        parts = (f"{name} {100 * getattr(self, name):.1f} %" for name in ("mean", "median", "worst", "bias"))
        return f"{', '.join(parts)}, {self.n} rows"


def error_of(predicted: Any, measured: Any) -> Error:
    """Relative errors of predictions."""
    relative = np.asarray(predicted) / np.asarray(measured) - 1.0
    size = np.abs(relative)
    return Error(float(size.mean()), float(np.median(size)), float(size.max()), float(relative.mean()), size.size)


def errors(folder: Path, name: str, gpu: Gpu) -> Mapping[str, Error]:
    """Errors on the rows that the constants were not fitted to."""
    found = {}
    for what, rows, seconds in (
        ("matmul", matmul_rows(folder, name), matmul_seconds),
        ("attention", attention_rows(folder, name), attention_seconds),
    ):
        columns, measured = rows.part(train=False)
        found[what] = error_of(seconds(gpu, **columns), measured)
        if what == "attention":
            kept = (columns["context"] >= 500) & (columns["batch"] <= 64)
            chosen = {key: values[kept] for key, values in columns.items()}
            found["attention, decoding, context >= 500, batch <= 64"] = error_of(seconds(gpu, **chosen), measured[kept])
    for n_gpus in (2, 4, 8):
        columns, measured = allreduce_rows(folder, name, n_gpus).part(train=False)
        found[f"sum over {n_gpus} GPUs"] = error_of(allreduce_seconds(gpu, n_gpus, columns["size"]), measured)
    if name == "h100":
        served = served_rows(folder)
        for model, n_gpus in sorted({(row.model, row.n_gpus) for row in served}):
            rows_ = [row for row in served if (row.model, row.n_gpus) == (model, n_gpus)]
            label = f"served {model} on {n_gpus}" + (" (fitted)" if model in FITTED else "")
            found[label] = error_of([served_seconds(gpu, row) for row in rows_], [row.seconds for row in rows_])
    return found


def main() -> int:
    """Fit, print constants and errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    serving: dict[str, Any] = {"layer_s": 0.0, "sequence_s": 0.0}
    for name, start in GPUS.items():
        gpu = fit_operators(folder, name, start)
        if name == "h100":
            gpu = fit_serving(folder, gpu)
            serving = {"layer_s": gpu.layer_s, "sequence_s": gpu.sequence_s}
        gpu = replace(gpu, **serving)  # no served models are published for the H200
        print(gpu)
        for what, error in errors(folder, name, gpu).items():
            print(f"  {what}: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
