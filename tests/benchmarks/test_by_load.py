"""Planned gains by load beside closed loops of servers with planted passes, over real sockets in virtual time.

Calibration, plan and runs are those of the commands; `tests/specplan/planning/test_by_load.py` has more laws, without
the engines of the wire.
"""

from __future__ import annotations

import pytest

pytest.importorskip("httpx")

from benchmarks.by_load import LR, as_table, virtually

BARS = {1: 0.05, 4: 0.05, 16: 0.05, 32: 0.05, 64: 0.15}
"""Largest error of a draft model's gain, [-]; 64 answers at once were not timed."""
LR_BARS = {1: 0.07, 4: 0.07}


@pytest.mark.slow
def test_planned_gains_are_those_of_servers_on_the_wire() -> None:
    rows = virtually()
    told = as_table(rows)
    assert {(row.method, row.at_once) for row in rows} == {
        *(("draft-model", load) for load in BARS),
        *((LR, load) for load in LR_BARS),
    }
    for row in rows:
        assert abs(row.error) <= (LR_BARS if row.method == LR else BARS)[row.at_once], told
        assert (row.planned.value > 1.0) == (row.measured > 1.0), told
