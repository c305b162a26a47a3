"""The simulator is at least 3 times as fast as an idiomatic SimPy program of the same timeline, operations recorded."""

import pytest

from benchmarks.speed import RATIOS, RECORDING, simpy_rows, unit


@pytest.mark.benchmark
def test_three_times_as_fast_as_the_idiomatic_program() -> None:
    assert simpy_rows(unit())[RECORDING].ratio.high >= RATIOS[RECORDING] == 3.0
