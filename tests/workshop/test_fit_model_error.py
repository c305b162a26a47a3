"""The model error's data: read from validations and from pages, and what is told of it."""

import json
import math
from pathlib import Path

import pytest

from specplan.planning.model_error import ModelError, Validated
from theory.errors import ParameterError
from workshop.fit_model_error import from_page, from_run, read, report

PAGE = """# A page

## One engine

| method | predicted | measured | error |
| --- | --- | --- | ---: |
| lr-async k1=2 | 0.900 [0.800, 1.000] | 1.000 [0.900, 1.100] | -10.0 % |
| eagle k2=4 | 1.100 [1.000, 1.210] | 1.000 [0.950, 1.050] | +10.0 % (off) |
| LR k1 = 4, `paper` | 0.746 [0.653, 0.854] | 0.752 [0.690, 0.814] | -0.8 % |

## Another

| lr-async k1=2 | 0.500 [0.450, 0.550] | 0.600 [0.500, 0.700] | -17 % |
"""
RUN = {
    "schema": "specplan.validation",
    "rows": [
        {
            "name": "lr-async k1=2",
            "prediction": {"speedup": {"value": 1.2}, "errors": {"sampling": 0.03, "profile": 0.04, "model": 0.2}},
            "measured": {"speedup": {"value": 1.0, "low": 0.9, "high": 1.1}},
            "next_measurement": {"low": 1.2 * math.exp(-0.25), "high": 1.2 * math.exp(0.25)},
        }
    ],
}


def test_a_page_has_a_validation_for_each_heading() -> None:
    rows = from_page(PAGE, "page.md")
    assert [(row.source, row.name) for row in rows] == [
        ("page.md: One engine", "lr-async k1=2"),
        ("page.md: One engine", "eagle k2=4"),
        ("page.md: Another", "lr-async k1=2"),
    ]
    assert (rows[1].predicted, rows[1].measured, rows[1].measured_half) == (1.1, 1.0, pytest.approx(0.05))
    assert rows[1].predicted_half == pytest.approx(math.log(1.21) / 2)
    for row in rows:
        assert Validated(**row.plain()).residual == pytest.approx(row.residual, abs=2e-4)


def test_a_run_leaves_out_the_model_error_that_it_had() -> None:
    (row,) = from_run(RUN, "run")
    assert (row.predicted_half, row.measured_half, row.source) == (pytest.approx(0.05), pytest.approx(0.1), "run")
    assert row.expected_half == pytest.approx(math.sqrt(0.25**2 - 0.2**2 - 0.05**2))
    assert row.inside(ModelError(gain=1.0, spread=0.1, n=100))
    assert not row.inside(None)
    assert from_run({"schema": "specplan.profile"}, "profile") == []


def test_files_are_read_by_their_kind_and_others_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "run.json").write_text(json.dumps(RUN), encoding="utf-8")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    assert [len(read(tmp_path / name)) for name in ("page.md", "run.json")] == [3, 1]
    with pytest.raises(ParameterError, match="must be a JSON of 'specplan validate'"):
        read(tmp_path / "other.json")


def test_the_report_counts_rows_by_kind_and_leaves_each_validation_out() -> None:
    rows = [
        Validated(
            source=str(i % 2), name="specs", predicted=1.0, predicted_half=0.01, measured=1.0 + off, measured_half=0.01
        )
        for i, off in enumerate([0.0, 0.1] * 8)
    ]
    lines = {line.split()[0]: line for line in report(rows).splitlines()}
    assert [name for name in lines if not name.startswith("-")] == ["kind", "beam", "all"]
    assert "8 of 16" in lines["beam"]  # the rows that were off are one validation: the other knows of no error
