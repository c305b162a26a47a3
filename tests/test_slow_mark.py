"""Tests that take too long without the mark slow fail."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
LIMIT = "SLOW_S = 5.0"
TESTS = """
import time

import pytest


def compute():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass


def test_computes():
    compute()


@pytest.mark.slow
def test_computes_and_says_so():
    compute()


def test_waits():
    time.sleep(0.3)  # as on a machine that does other work
"""


def test_who_computes_too_long_unmarked_fails(pytester: pytest.Pytester) -> None:
    source = CONFTEST.read_text(encoding="utf-8")
    assert LIMIT in source
    pytester.makeconftest(source.replace(LIMIT, "SLOW_S = 0.1").replace('pytest_plugins = ("pytester",)', ""))
    pytester.makeini("[pytest]\nmarkers =\n    slow: over the limit")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*took 0.* s of at most 0.1: shorten it, or mark it slow*"])
    result.stdout.fnmatch_lines(["FAILED *::test_computes - *"])
