"""What doctests share with tests: those that take more than five seconds are marked slow, or fail."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator

import pytest

pytest_plugins = ("pytester",)

SLOW_EXAMPLES = ("specplan.api.calibrating.calibrate", "specplan.api.validating.validate")
"""Doctests that start engines, tens of seconds each."""

SLOW_S = 5.0
"""What a test without a mark may take, s: the smaller of wall and CPU time, so that other work on the machine does not
count."""

NOISE = 2.0
"""By what factor the CPU time of a test varies where cores, caches and memory are shared."""

LOOP, LOOP_S = range(1_000_000), 0.035
"""What a silent core sums in how many seconds: on a busy machine, CPU time is longer as well."""

LARGE_IMPORT = 300
"""Modules from which on an import is large, such as that of torch: which test comes first to it is by chance."""

UNTIMED = ("slow", "gpu", "vllm", "benchmark", "docs")
"""Marks of tests that may take longer."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark examples, before tests are chosen by their marks; refuse a test that leaves CI without saying why."""
    for item in items:
        long = item.get_closest_marker("long")
        if long and not long.args:
            raise pytest.UsageError(f"{item.nodeid}: the mark long needs the reason why CI does not run it")
        if isinstance(item, pytest.DoctestItem) and item.name in SLOW_EXAMPLES:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that is slow without saying so. Fixtures and large imports, which later tests share, do not count."""
    n_modules, began = len(sys.modules), _clocks()
    yield
    seconds = min(after - before for before, after in zip(began, _clocks(), strict=True))
    exempt = len(sys.modules) - n_modules >= LARGE_IMPORT or any(map(item.get_closest_marker, UNTIMED))
    if seconds > NOISE * SLOW_S and not exempt and (seconds := seconds / _slowness()) > NOISE * SLOW_S:
        pytest.fail(f"took {seconds:.1f} s of at most {SLOW_S:g}: shorten it, or mark it slow", pytrace=False)


def _slowness() -> float:
    """By how much the machine computes slower now than a silent core, at least 1."""
    began = time.process_time()
    for _ in range(5):
        sum(number for number in LOOP)
    return max((time.process_time() - began) / (5 * LOOP_S), 1.0)


def _clocks() -> tuple[float, float]:
    """Wall time and CPU time, that of finished children included, s."""
    *cpu, wall = os.times()
    return wall, sum(cpu)
