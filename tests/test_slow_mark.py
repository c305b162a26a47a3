"""Tests that take too long without the mark slow fail, and those that CI leaves out say why."""

from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
LIMIT = "SLOW_S = 5.0"
TESTS = """
import time

import pytest


def compute():
    end = time.process_time() + 0.15
    while time.process_time() < end:
        pass


def test_computes():
    compute()


@pytest.mark.slow
def test_computes_and_says_so():
    compute()


def test_waits():
    time.sleep(0.15)  # as on a machine that does other work
"""


def prepare(pytester: pytest.Pytester, tests: str) -> None:
    """Write these tests, and this project's conftest with a limit of 0.015 s."""
    source = CONFTEST.read_text(encoding="utf-8")
    assert LIMIT in source
    pytester.makeconftest(source.replace(LIMIT, "SLOW_S = 0.015").replace('pytest_plugins = ("pytester",)', ""))
    pytester.makeini("[pytest]\nmarkers =\n    slow: over the limit\n    long: not in CI")
    pytester.makepyfile(tests)


def test_who_computes_too_long_unmarked_fails(pytester: pytest.Pytester) -> None:
    prepare(pytester, TESTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*took 0.* s of at most 0.015: shorten it, or mark it slow*"])
    result.stdout.fnmatch_lines(["FAILED *::test_computes - *"])


@pytest.mark.parametrize(("reason", "refused"), [("", True), ('("an hour")', False)])
def test_who_leaves_ci_says_why(pytester: pytest.Pytester, reason: str, refused: bool) -> None:
    prepare(pytester, f"import pytest\n\n\n@pytest.mark.long{reason}\ndef test_x(): pass")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    assert result.ret == (pytest.ExitCode.USAGE_ERROR if refused else pytest.ExitCode.OK)
    if refused:
        result.stderr.fnmatch_lines(["*test_x: the mark long needs the reason why CI does not run it*"])
