"""What intervals cover on rows left out of the fits."""

import pytest
from public_tables import public_tables

from benchmarks.fit_coverage import coverages
from benchmarks.league.standings import counted, played


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
