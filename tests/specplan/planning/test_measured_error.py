"""The error that validations left over: its estimate against worlds of known error, and the committed rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.configuration import Configuration
from specplan.planning.model_error import (
    KINDS,
    LEAST_ROWS,
    Validated,
    fit_kinds,
    kind_of,
    left_over,
    measured_error,
    validated,
)
from theory.errors import ParameterError

NAMES = {
    "token": "eagle k2=4",
    "step": "lr-async k1=2",
    "hybrid": "lr-async k1=2 + prompt-lookup k2=4",
    "beam": "specs",
}
residuals = st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=20)


def row(name: str = "lr-async k1=2", *, off: float = 0.0, source: str = "a", half: float = 0.05) -> Validated:
    return Validated(
        source=source, name=name, predicted=1.2, predicted_half=half, measured=1.2 * math.exp(off), measured_half=half
    )


@given(residuals, st.floats(1e-4, 0.04))
def test_what_is_left_over_makes_the_squares_sum_to_their_number(found: list[float], variance: float) -> None:
    spread = left_over(found, [variance] * len(found))
    squares = sum(r * r for r in found) / len(found)
    assert spread == pytest.approx(math.sqrt(max(squares - variance, 0.0)), abs=1e-6)
    uneven = [variance * (1 + i % 3) for i in range(len(found))]
    other = left_over(found, uneven)
    total = sum(r * r / (v + other**2) for r, v in zip(found, uneven, strict=True))
    assert total == pytest.approx(len(found), rel=1e-4) if other > 1e-3 else total <= len(found) * (1 + 1e-4)


def test_intervals_with_the_error_hold_for_further_rows() -> None:
    """200 worlds of 12 rows and one more: outside in about 5 %, beyond 22 by chance with probability 2e-4."""
    rng, outside = np.random.default_rng(2), 0
    for _ in range(200):
        offs = rng.normal(0.0, math.hypot(0.06, 0.05 / 1.96, 0.05 / 1.96), 13)
        model = fit_kinds([row(off=off) for off in offs[:12]])["step"].half_width
        outside += abs(offs[12]) > math.hypot(model, 0.05, 0.05)
    assert outside <= 22


def test_every_kind_has_its_own_error_or_that_of_all() -> None:
    assert {kind: kind_of(Configuration.parse(name)) for kind, name in NAMES.items()} == {k: k for k in KINDS}
    sure = [row(off=0.0) for _ in range(LEAST_ROWS)]
    unsure = [row(NAMES["beam"], off=0.2, source="b") for _ in range(LEAST_ROWS)]
    found = fit_kinds([*sure, *unsure])
    assert (found["step"].spread, found["step"].n) == (0.0, LEAST_ROWS)
    assert found["beam"].spread > 0.19
    assert (
        found["step"].note
        == f"model error none seen beyond chance, on {LEAST_ROWS} rows of step methods of 1 validation"
    )
    assert found["token"] == found["hybrid"]
    assert (found["token"].n, "of all methods of 2 validations" in found["token"].note) == (2 * LEAST_ROWS, True)
    assert fit_kinds(sure[1:]) == {}


@pytest.mark.parametrize("change", [{"measured": 0.0}, {"predicted": math.nan}, {"measured_half": -0.1}])
def test_rows_that_make_no_sense_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match="must be"):
        Validated(**{**row().plain(), **change})


def test_the_committed_rows_are_those_that_predictions_use() -> None:
    rows = validated()
    kinds = fit_kinds(rows)
    assert {one.kind for one in rows} <= set(KINDS)
    for kind, name in NAMES.items():
        assert measured_error(Configuration.parse(name)) == kinds[kind]
    assert measured_error(Configuration(method="autoregressive")).n == 0
