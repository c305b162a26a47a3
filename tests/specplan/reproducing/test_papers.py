"""Tables of papers beside predictions: what is reached, as measured, and that no cell predicts itself."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import fmean

import pytest
from click.testing import CliRunner

from specplan.commands.reproduce import reproduce
from specplan.planning.model_error import PUBLISHED_RULES, Row, rows
from specplan.reproducing import lookahead_decoding as ld
from specplan.reproducing import lookahead_reasoning as lr

Found = dict[tuple[str, str], Row]


@pytest.fixture(scope="module")
def found() -> Found:
    """The simulated rows that are committed; `test_predict` checks that they simulate again."""
    by_name = {row.name: row for row in rows() if row.rules == PUBLISHED_RULES}
    return {(pair, data): by_name[f"lr-{pair}-{data}"] for pair in lr.PAIRS for data in lr.DATASETS}


def _cells(found: Found, *, combined: bool) -> list[lr.Cell]:
    return [lr._cell(pair, data, found, combined=combined) for pair, data in found]


def test_what_is_reached(found: Found) -> None:
    """Mean errors as measured (4.6, 4.7, 5.2 and 4.3 %), a tenth above them at most; 12 of 14 inside intervals."""
    for combined, plain, left_out in ((False, 0.051, 0.052), (True, 0.057, 0.047)):
        cells = _cells(found, combined=combined)
        assert fmean(abs(cell.error) for cell in cells) < plain
        assert fmean(abs(cell.left_out_error) for cell in cells) < left_out
        assert sum(cell.covered for cell in cells) >= 12


def test_no_cell_enters_its_own_prediction(found: Found) -> None:
    key = ("qwen3", "gsm8k")
    before = lr._cell(*key, found, combined=False)
    changed = found | {key: replace(found[key], step_published=9.0)}
    after = lr._cell(*key, changed, combined=False)
    assert (after.predicted, after.left_out, after.low) == (before.predicted, before.left_out, before.low)
    assert after.error != before.error
    assert lr._cell("qwen3", "amc23", changed, combined=False).left_out != before.left_out


def test_report_gives_errors_coverage_and_reasons(found: Found) -> None:
    text = lr.report([*_cells(found, combined=False), *_cells(found, combined=True)])
    assert text.count("inside their 95 % interval") == 6
    assert all(reason in text for reason in lr.REASONS)


def test_lookahead_decoding_is_predicted_where_its_equations_apply() -> None:
    """The balanced setting without prompts, within 5 %; nothing is said of the others."""
    errors = {cell.tag: cell.error for cell in ld.cells()}
    assert [tag for tag, error in errors.items() if error is not None] == [8]
    assert errors[8] is not None
    assert abs(errors[8]) < 0.05


def test_command_prints_a_table_and_json() -> None:
    text = CliRunner().invoke(reproduce, ["lookahead-decoding"])
    assert text.exit_code == 0
    assert "not modelled" in text.stdout
    assert all(reason in " ".join(text.stdout.split()) for reason in ld.REASONS)
    data = json.loads(CliRunner().invoke(reproduce, ["lookahead-decoding", "--json"]).stdout)
    assert len(data["cells"]) == len(ld.TABLE_3)
