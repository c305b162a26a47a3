"""Constants of operators: errors are within what is said, the fit gives back what made its data, intervals cover."""

from dataclasses import replace

import numpy as np
import pytest
from public_tables import public_tables

from benchmarks import fit_hardware as fit
from benchmarks import operator_tables as operators
from benchmarks.fit_coverage import coverages
from benchmarks.league.standings import counted, played
from theory.hardware.gpu_records import SumRates
from theory.hardware.gpus import GPUS

OPERATORS = {
    "products bf16": 0.12,
    "products fp8": 0.13,
    "products fp8_block": 0.15,
    "products nvfp4": 0.11,
    "attention": 0.135,
    "experts bf16": 0.16,
    "experts fp8": 0.14,
    "experts fp8-block": 0.15,
    "experts mxfp4": 0.14,
    "experts nvfp4": 0.13,
    "latent attention": 0.12,
    "sums of 2": 0.06,
    "sums of 4": 0.09,
    "sums of 8": 0.12,
}
"""Bounds of the mean absolute relative error on each GPU."""


@pytest.mark.parametrize("gpu", sorted(operators.FILES))
def test_errors_of_operators_are_within_what_is_said(gpu: str) -> None:
    if gpu == "NVIDIA RTX PRO 6000":  # of which there are no files
        pytest.importorskip("aiconfigurator_core")
    found = dict(fit.operator_errors(public_tables() / "hardware", gpu))
    assert {"products bf16", "attention", "experts bf16", "sums of 2"} <= set(found)
    for name, most in OPERATORS.items():
        if name in ("sums of 4", "sums of 8") and gpu in ("NVIDIA L40S", "NVIDIA RTX PRO 6000"):
            continue  # the tables' machines are slower than served ones
        assert name not in found or found[name].mean < most, name


def _sums(truth: SumRates) -> operators.Table:
    sizes = 2.0 ** np.arange(10, 28)
    return operators.Table(
        name="sums",
        calls=tuple(lambda gpu, size=size: gpu.sum_seconds(2, size) for size in sizes),
        measured=np.array([truth.seconds(size) for size in sizes]),
        shapes=tuple(map(str, sizes)),
        constants=lambda gpu: tuple(value for kernel in gpu.sums[2].kernels for value in kernel),
        with_constants=lambda gpu, values: replace(
            gpu, sums={**gpu.sums, 2: SumRates(((values[0], values[1]), (values[2], values[3])))}
        ),
    )


def test_the_fit_finds_constants_that_made_the_data() -> None:
    truth = SumRates(((5e-6, 1e11), (3e-5, 2e11)))
    table = _sums(truth)
    found = table.constants(operators.fitted(table, GPUS["NVIDIA H100 SXM"]))
    # exact data: what is left is where the optimiser stops
    np.testing.assert_allclose(found, [5e-6, 1e11, 3e-5, 2e11], rtol=1e-3)
    assert np.abs(operators.log_errors(table, operators.fitted(table, GPUS["NVIDIA H100 SXM"]))).max() < 1e-3


def test_errors_of_known_ratios() -> None:
    found = fit.error_of(np.log([1.1, 0.9, 1.0]))
    assert found.mean == pytest.approx(0.2 / 3)
    assert found.bias == pytest.approx(0.0, abs=1e-12)
    assert str(found).split() == ["6.7%", "10.0%", "+0.0%", "3"]


def test_nothing_is_covered_without_rows() -> None:
    assert list(coverages([])) == []


@pytest.mark.slow
def test_intervals_cover_what_they_say_on_rows_left_out() -> None:
    """24 throughputs of one model are too few to tell 95 from 100 %, so that they have no upper bound."""
    folder = public_tables()
    entries, _ = played(folder, lambda _: lambda: None)
    found = {one.quantity: one for one in coverages(counted(folder, entries))}
    assert found.keys() == {"iteration", "time per token", "throughput", "gain"}
    for quantity, one in found.items():
        assert 0.92 <= one.inside <= (1.0 if quantity == "throughput" else 0.98), one
