"""The shipped constants are what the fit gives, and their errors on rows left out are what is said of them."""

from __future__ import annotations

import math
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # a script of the checkout, not a part of the installed distribution
    sys.path.insert(0, str(ROOT))

from benchmarks import fit_hardware as fit  # noqa: E402
from theory.cost import ERRORS, GPUS  # noqa: E402

DATA = ROOT.parent / "shared" / "data" / "hardware"

needs_data = pytest.mark.skipif(
    not DATA.is_dir(),
    reason="the measured latencies are not part of the project, and not at ../shared/data/hardware",
)


@needs_data
@pytest.mark.parametrize("name", sorted(GPUS))
def test_errors_on_rows_left_out_are_as_stated(name: str) -> None:
    found = fit.errors(DATA, name, GPUS[name])
    stated = {what.removesuffix(f", {name}"): error for what, error in ERRORS.items() if what.endswith(f", {name}")}
    assert {what for what in found if "fitted" not in what and "decoding" not in what} == set(stated)
    for what, error in stated.items():
        assert found[what].mean == pytest.approx(error, abs=0.001)  # stated with three digits
    assert found["matmul"].worst < 0.67
    assert found["attention"].worst < 0.89
    served = {what: error.worst for what, error in found.items() if what.startswith("served")}
    assert bool(served) == (name == "h100")
    assert all(worst < 0.136 for worst in served.values())


@needs_data
@pytest.mark.parametrize("name", sorted(GPUS))
def test_no_row_is_both_fitted_to_and_tested_on(name: str) -> None:
    for rows, shape in (
        (fit.matmul_rows(DATA, name), ("outputs", "inputs")),
        (fit.attention_rows(DATA, name), ("heads", "kv_heads")),
    ):
        seen = [set(zip(*(rows.part(train)[0][column] for column in shape), strict=True)) for train in (True, False)]
        assert not seen[0] & seen[1]
        assert min(map(len, seen)) >= 20
    assert not any(model in what for what in ERRORS for model in fit.FITTED)


@needs_data
@pytest.mark.slow
def test_the_shipped_constants_are_those_of_the_fit() -> None:
    gpu = fit.fit_serving(DATA, fit.fit_operators(DATA, "h100", GPUS["h100"]))
    for field in fields(gpu):
        got, shipped = getattr(gpu, field.name), getattr(GPUS["h100"], field.name)
        if field.name != "name":
            # four digits are shipped; the optimiser stops at 1e-8 of the cost, a few 1e-4 of a constant
            np.testing.assert_allclose(got, shipped, rtol=3e-3)


def _rows(seconds: np.ndarray, columns: dict[str, np.ndarray]) -> fit.Rows:
    return fit.Rows(columns, seconds, np.arange(seconds.size) % 2 == 0)


def test_the_fit_finds_constants_that_made_the_data() -> None:
    truth = replace(GPUS["h100"], matmul_s=5e-6, weight_bandwidth=1e12, matmul_rate=2e14, sharpness=2.0)
    rng = np.random.default_rng(0)
    columns = {name: 2.0 ** rng.integers(low, 14, 400) for name, low in (("rows", 0), ("outputs", 9), ("inputs", 9))}
    rows = _rows(fit.matmul_seconds(truth, **columns), columns)
    names = ("matmul_s", "weight_bandwidth", "matmul_rate", "sharpness")
    found = fit._fitted(GPUS["h100"], names, rows, fit.matmul_seconds)
    for name in names:
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=1e-4)


def test_relative_errors() -> None:
    error = fit.error_of([1.1, 0.8, 1.0], [1.0, 1.0, 1.0])
    assert (error.mean, error.median, error.n) == (pytest.approx(0.1), pytest.approx(0.1), 3)
    assert (error.worst, error.bias) == (pytest.approx(0.2), pytest.approx(-0.1 / 3))
    assert math.isclose(error.mean, float(str(error).split()[1]) / 100, abs_tol=1e-3)


def test_whole_shapes_are_left_out() -> None:
    outputs, inputs = np.array([1.0, 1.0, 2.0, 2.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0, 5.0])
    # sorted: (1, 1), (1, 5), (2, 1): the first and the third are fitted to
    assert fit._alternate(outputs, inputs).tolist() == [True, True, True, True, False]
