"""CPU time that a hypervisor gave to others."""

from __future__ import annotations

import sys

import pytest

from calibrate.measuring.stolen import CpuTimes


def test_the_share_is_of_the_time_that_was_wanted() -> None:
    before, after = CpuTimes(busy=100, stolen=10), CpuTimes(busy=190, stolen=20)
    assert after.stolen_since(before) == pytest.approx(0.1)
    assert before.stolen_since(before) == 0.0


@pytest.mark.parametrize("text", ["", "intr 1 2 3", "cpu 1 2 3"])
def test_another_system_tells_nothing(text: str) -> None:
    assert CpuTimes.read(text) is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/stat is Linux's")
def test_this_machine_is_busy() -> None:
    now = CpuTimes.now()
    assert now is not None
    assert now.busy > 0
