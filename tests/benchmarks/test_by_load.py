"""Planned gains by load beside whole answers in closed loops, of servers with planted passes, on the wire.

How exact plans are is tested in virtual time (`tests/specplan/planning/test_by_load.py`): here the machine's other work
is measured too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("httpx")

from benchmarks.by_load import TIMED, as_table, calibrated, compared, planted, questions

LOADS = (1, 4, 16)


@pytest.mark.slow
def test_planned_gains_are_near_to_what_servers_measure(tmp_path: Path) -> None:
    with planted() as models:
        profile = calibrated(models, tmp_path)
        rows = compared(profile, models, questions(64, first=100), LOADS)
    assert [one.at_once for one in profile.engines["target"].by_load if not one.method] == list(TIMED)
    told = as_table(rows)
    assert len(told.splitlines()) == 2 + len(rows) == 5
    for row in rows:
        assert abs(row.error) <= 0.15, told
        assert row.planned.value > 1.0
        assert row.measured > 1.0
