"""Fit the constants of `theory.hardware`, and print them with their errors on what was left out.

Run: ``python -m benchmarks.fit_hardware FOLDER [--operators | --served]``. FOLDER holds the tables that
docs/scoreboard.md names. Operators: constants by GPU, beside the committed ones, and the errors on fifths of the shapes
that were left out in turn. Served iterations (ML.ENERGY Benchmark v3, vLLM 0.11.1): the engine's constants, errors with
each family of models left out in turn, and how many of these fall within `PassModel.half_width`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.operator_tables import FILES, fitted, log_errors, shapes_left_out, tables
from specplan.check.scoreboard.deployments import facts_of, precision_of, served_parallel
from specplan.check.scoreboard.doubts import served_doubt
from specplan.check.scoreboard.rows import Served
from specplan.check.scoreboard.served import ENGINE, unexplained
from specplan.check.scoreboard.tables import read_folder
from theory.errors import SpecplanError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import GPUS, gpu_named
from theory.hardware.passes import PassModel
from theory.hardware.work import Work

Array = NDArray[np.float64]
Chosen = NDArray[np.bool_]

_PROMPT_TOKENS: Final = {"gpqa": 250.0}
_OTHER_PROMPT: Final = 150.0
_FAMILIES: Final = ("30B-A3B", "235B-A22B", "480B-A35B", "gemma-3", "Llama-3.1-405B", "gpt-oss", "Llama-4")
"""Parts of names by which models are left out together: one shape under several names, or one design in sizes."""
_NAMES: Final = ("norm_s", "sequence_s", "untuned", "untuned_small")
"""The engine's constants that are fitted."""
_SCALES: Final = np.array([1e-5, 1e-5, 1.0, 1.0])


@dataclass(frozen=True, slots=True)
class Iterations:
    """Served iterations: time = base + slopes . (constants of the engine)."""

    base: Array
    slopes: Array
    """Shape (rows, 4)."""
    measured: Array
    half_width: Array
    family: NDArray[np.str_]
    group: NDArray[np.str_]
    usual: Chosen
    """Rows that the constants are fitted to: dense models, and experts in bf16. Experts in fp8 and fp4 run kernels of
    their own and are predicted, none of their rows fitted to; Llama 4 is known not to be explained."""

    def errors(self, constants: Array, chosen: Chosen) -> Array:
        """Log errors of the chosen rows."""
        return np.asarray(np.log((self.base + self.slopes @ constants)[chosen] / self.measured[chosen]))

    def fitted(self, chosen: Chosen) -> Array:
        """The constants, from the chosen rows."""
        found = least_squares(
            lambda x: self.errors(_SCALES * x, chosen), np.ones(4), bounds=(0, 20), loss="soft_l1", f_scale=0.05
        )
        return np.asarray(_SCALES * found.x)

    def left_out(self) -> Array:
        """Log errors of each family's rows with constants from the usual rows of all others."""
        errors = np.empty(len(self.base))
        for family in np.unique(self.family):
            here = self.family == family
            errors[here] = self.errors(self.fitted(~here & self.usual), here)
        return errors


def iterations(rows: Sequence[Served]) -> Iterations:
    """The trusted rows of models that are modelled."""
    numbers: list[tuple[float, ...]] = []
    labels: list[tuple[str, str]] = []
    for row in rows:
        if served_doubt(row) is not None:
            continue
        try:
            facts = facts_of(row.model_id)
            model = PassModel(
                gpu=gpu_named(row.gpu),
                shape=facts.shape,
                precision=precision_of(facts, row.weight_precision),
                parallel=served_parallel(row),
                engine=engine_named(*ENGINE),
            )
        except SpecplanError:
            continue
        context = row.mean_pos_len_biased + _PROMPT_TOKENS.get(row.task, _OTHER_PROMPT)
        work = Work(sequences=row.avg_batch, context=context)
        base, *slopes = _linear(model, work)
        group = _group(model, unexplained(facts, model) is not None)
        usual = group.endswith(("dense", "bf16"))
        numbers.append((base, *slopes, 1e-3 * row.median_itl_ms, model.half_width(work), usual))
        family = next((part for part in _FAMILIES if part in row.model_id), row.model_id)
        labels.append((family, group))
    table, names = np.array(numbers), np.array(labels)
    return Iterations(table[:, 0], table[:, 1:5], table[:, 5], table[:, 6], *names.T, table[:, 7] > 0.0)


def _linear(model: PassModel, work: Work) -> tuple[float, ...]:
    """Seconds without the engine's constants, and what each adds per unit: times are linear in them."""

    def seconds(**constants: float) -> float:
        engine = replace(model.engine, **{**dict.fromkeys(_NAMES, 0.0), **constants})
        return replace(model, engine=engine).seconds(work)

    base = seconds()
    return base, *(seconds(**{name: 1.0}) - base for name in _NAMES)


def _group(model: PassModel, wide: bool) -> str:
    gpu = model.gpu.name.split()[1]
    if not model.shape.has_experts:
        return f"{gpu} dense"
    arithmetic = model.precision.expert_format.arithmetic
    return f"{gpu} experts {'not explained' if wide else arithmetic}"


@dataclass(frozen=True, slots=True)
class Error:
    """Errors of predictions."""

    mean: float
    """Mean absolute relative error, [-]."""
    p90: float
    bias: float
    covered: float | None
    """Share of rows within their 95 % intervals, [-]."""
    n: int

    def __str__(self) -> str:
        covered = "" if self.covered is None else f"  {self.covered:6.1%}"
        return f"{self.mean:6.1%}  {self.p90:6.1%}  {self.bias:+6.1%}  {self.n:5d}{covered}"


def error_of(logs: Array, half_width: Array | None = None) -> Error:
    """Errors from logarithms of predicted over measured."""
    relative = np.expm1(logs)
    size = np.abs(relative)
    covered = None if half_width is None else float(np.mean(np.abs(logs) <= half_width))
    return Error(float(size.mean()), float(np.quantile(size, 0.9)), float(relative.mean()), covered, len(logs))


def served_errors(table: Iterations) -> dict[str, Error]:
    """Errors by group and by group and family, each family left out of the fit."""
    logs = table.left_out()
    found = {}
    for group in np.unique(table.group):
        here = table.group == group
        found[str(group)] = error_of(logs[here], table.half_width[here])
        for family in np.unique(table.family[here]):
            both = here & (table.family == family)
            found[f"  {group}: {family}"] = error_of(logs[both], table.half_width[both])
    return found


def read_served(folder: Path) -> list[Served]:
    """Rows of the ML.ENERGY table."""
    return [row for row in read_folder(folder, ("served",)).rows if isinstance(row, Served)]


def operator_errors(folder: Path, gpu: str) -> Iterator[tuple[str, Error]]:
    """Errors of the committed constants by operator, on the rows they were fitted to and others like them."""
    for table in tables(folder, gpu):
        yield table.name, error_of(log_errors(table, GPUS[gpu]))


def print_operators(folder: Path) -> None:
    """Print constants, committed and fitted, and errors on shapes left out."""
    for name in FILES:
        print(f"{name}\n  operator            committed -> fitted to all; mean, p90, bias, n on shapes left out")
        for table in tables(folder, name):
            gpu = GPUS[name]
            again = table.constants(fitted(table, gpu))
            pairs = ", ".join(f"{old:.3g} -> {new:.3g}" for old, new in zip(table.constants(gpu), again, strict=True))
            print(f"  {table.name:<18}  {pairs}\n  {'':<18}  {error_of(shapes_left_out(table, gpu))}", flush=True)


def print_served(folder: Path) -> None:
    """Print the engine's constants and the errors on families left out."""
    table = iterations(read_served(folder))
    committed = engine_named(*ENGINE)
    for name, value in zip(_NAMES, table.fitted(table.usual), strict=True):
        print(f"{name}: {getattr(committed, name):.3g} -> {value:.3g}")
    print(f"{'families left out':<46}  {'mean':>6}  {'p90':>6}  {'bias':>6}  {'n':>5}  covered")
    for what, error in served_errors(table).items():
        print(f"{what:<46}  {error}")


def main() -> None:
    """Fit, print constants and errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--operators", action="store_true", help="operators only")
    only.add_argument("--served", action="store_true", help="served iterations only")
    chosen = parser.parse_args()
    if not chosen.served:
        print_operators(chosen.folder)
    if not chosen.operators:
        print_served(chosen.folder)


if __name__ == "__main__":
    main()
