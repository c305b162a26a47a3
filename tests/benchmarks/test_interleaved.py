"""Medians with intervals, and rows that are called worse: what a noisy machine must not do."""

import random
import time
from dataclasses import replace

import pytest

from benchmarks.interleaved import Median, Row, Yardstick
from benchmarks.speed import reached, worse


def row(low: float, value: float, high: float) -> Row:
    ratio = Median(low=low, value=value, high=high)
    return Row(rate=ratio, ratio=ratio)


def test_intervals_of_medians_cover_as_often_as_they_say() -> None:
    """2,000 samples of nine from a skewed distribution with median 1; order statistics give 96.1 %."""
    rng = random.Random(7)
    inside = 0
    for _ in range(2000):
        found = Median.of([2.0 ** rng.gauss(0.0, 2.0) for _ in range(9)])
        inside += found.low <= 1.0 <= found.high
    assert 0.945 <= inside / 2000 <= 0.975  # four standard errors of .0043


def test_of_few_samples_the_interval_is_all_of_them() -> None:
    assert Median.of([3.0, 1.0, 2.0]) == Median(low=1.0, value=2.0, high=3.0)
    assert Median.of([float(i) for i in range(17)]) == Median(low=4.0, value=8.0, high=12.0)


def test_a_machine_that_slows_down_is_no_slower_program() -> None:
    """Work and yardstick spin for equally long; from run to run the machine takes ever longer for both."""
    slowness = iter([0.001 * 1.5 ** (i // 2) for i in range(18)])

    def spin() -> None:
        until = time.process_time() + next(slowness)
        while time.process_time() < until:
            pass

    found = Yardstick(work=spin, amount=1.0).beside(spin, 1.0)
    assert found.ratio.value == pytest.approx(1.0, rel=0.05)
    assert found.rate.high > 5.0 * found.rate.low


def test_work_that_returns_its_amount_is_counted() -> None:
    yard = Yardstick(work=lambda: sum(range(10_000)), amount=1.0)
    found = yard.beside(lambda: sum(range(10_000)) * 0 + 10, repeats=7)
    assert found.ratio.value == pytest.approx(10.0, rel=0.5)


def test_worse_is_what_both_intervals_say() -> None:
    before = {"a": row(9.0, 10.0, 11.0)}
    assert worse({"a": row(5.0, 6.0, 8.9)}, before) == ["a"]
    assert worse({"a": row(5.0, 6.0, 9.1)}, before) == []  # may be as fast
    assert worse({"a": row(8.0, 8.2, 8.5)}, before) == []  # surely slower, but by less than 1.3
    assert worse({"b": row(1.0, 1.0, 1.0)}, before) == []


def test_a_goal_inside_the_interval_is_open() -> None:
    found = Median(low=2.9, value=3.05, high=3.2)
    assert reached(found, 3.0) == "open"
    assert reached(replace(found, low=3.0), 3.0) == "met"
    assert reached(replace(found, high=2.99), 3.0) == "missed"


def test_rows_come_back_from_a_file() -> None:
    written = Row(rate=Median(low=1.0, value=2.0, high=3.0), ratio=Median(low=4.0, value=5.0, high=6.0))
    assert Row.read(written.plain()) == written
