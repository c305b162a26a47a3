"""Fit the constants of operators in `theory.hardware.gpus`, and print them with their errors on shapes left out.

Run: ``python -m benchmarks.fit_hardware FOLDER``. FOLDER holds the tables of operators that docs/scoreboard.md names.
Printed are the constants by GPU, with the committed ones, and the errors on fifths of the shapes that were left out
in turn, and with constants scaled from another GPU's by the data sheets. What engines take beyond operators:
`benchmarks.fit_serving`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.operator_tables import FILES, fitted, log_errors, shapes_left_out, tables
from theory.hardware.gpus import GPUS, unmeasured

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Error:
    """Errors of predictions."""

    mean: float
    """Mean absolute relative error, [-]."""
    p90: float
    bias: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:6.1%}  {self.p90:6.1%}  {self.bias:+6.1%}  {self.n:5d}"


def error_of(logs: Array) -> Error:
    """Errors from logarithms of predicted over measured."""
    relative = np.expm1(logs)
    size = np.abs(relative)
    return Error(float(size.mean()), float(np.quantile(size, 0.9)), float(relative.mean()), len(logs))


def operator_errors(folder: Path, gpu: str) -> Iterator[tuple[str, Error]]:
    """Errors of the committed constants by operator, on the rows they were fitted to and others like them."""
    for table in tables(folder, gpu):
        yield table.name, error_of(log_errors(table, GPUS[gpu]))


def print_operators(folder: Path) -> None:
    """Print constants, committed and fitted, and errors on shapes and with GPUs left out."""
    for name, gpu in ((name, GPUS[name]) for name in FILES):
        print(f"{name}: committed -> fitted to all; mean, p90, bias, n on shapes left out, and with the GPU left out")
        for table in tables(folder, name):
            again = table.constants(fitted(table, gpu))
            pairs = ", ".join(f"{old:.3g} -> {new:.3g}" for old, new in zip(table.constants(gpu), again, strict=True))
            errors = map(error_of, (shapes_left_out(table, gpu), log_errors(table, unmeasured(gpu))))
            print(f"  {table.name:<18}  {pairs}\n  {'':<18}  {'   '.join(map(str, errors))}", flush=True)


def main() -> None:
    """Fit, print constants and errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    print_operators(parser.parse_args().folder)


if __name__ == "__main__":
    main()
