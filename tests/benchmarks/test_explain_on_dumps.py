"""Pages of servers in the folders of the public ones are explained, and the summary says how well."""

from dataclasses import replace
from pathlib import Path

import pytest
from planted_metrics import Planted, exposition

from benchmarks.explain_on_dumps import rows, summary


def test_servers_with_a_page_without_speculation_are_explained(tmp_path: Path) -> None:
    for method, planted in (("autoregressive", Planted(k=0)), ("eagle3", Planted())):
        for model in ("a", "b")[: 2 - (method == "autoregressive")]:
            page = tmp_path / "task" / "results" / model / method / "metrics.txt"
            page.parent.mkdir(parents=True)
            page.write_text(exposition(planted, 20))
    (row,) = rows(tmp_path)
    assert (row.task, row.model, row.method) == ("task", "a", "eagle3")
    assert row.measured == pytest.approx(row.with_plain.value, rel=0.02)
    assert row.without.low < row.measured < row.without.high
    slow = replace(row, measured=1.0 / row.measured)
    assert "0 of 2 open, 1 of the others of the wrong sign; measured inside the interval 1;" in summary(
        [row, slow], "with_plain"
    )
