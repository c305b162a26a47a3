"""Five people with a question each, and the one or two commands that answer it on one screen of 80 columns.

Typed as they would type them; a screen is what is printed without ``-v``, at most 40 lines.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from measured_profiles import measured
from screens import Main

from specplan.output import SCREEN

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "slow-server"
_LINES = 40


def screen(run_main: Main, line: str) -> str:
    """What a command prints, which fits a screen."""
    code, out, err = run_main(*line.split())
    assert code == 0, err
    lines = out.splitlines()
    assert max(map(len, lines)) <= SCREEN
    assert len(lines) <= _LINES
    return out


@pytest.mark.slow
def test_shall_i_switch_speculation_on(run_main: Main) -> None:
    out = screen(run_main, "plan --target Qwen/Qwen3-8B --gpu H100 --concurrency 1,32")
    assert re.match(r"At 1 answer at once: eagle3, k = \d on TP 1, \d\.\d\d times plain decoding, between", out)
    assert "At 32 answers at once: " in out
    assert "Speculation pays" in out
    assert "Assumed: eagle3 makes" in out


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_does_it_reproduce_the_paper(run_main: Main) -> None:
    out = screen(run_main, "reproduce lookahead-reasoning")
    assert "Table 1" in out
    assert re.search(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\] / \d\.\d\d", out)


def test_what_do_my_two_folders_gain(run_main: Main, tmp_path: Path) -> None:
    """The second command, on what the first one writes; the first is run by the tests of calibrations."""
    assert "--target TEXT" in screen_of_help(run_main, "calibrate torch --help")
    measured([True, True, False, True] * 5).write(tmp_path / "mine.json")
    found = screen(run_main, f"plan -p {tmp_path / 'mine.json'}")
    assert re.search(r"\d\.\d\d", found)
    assert "plain decoding" in found


def screen_of_help(run_main: Main, line: str) -> str:
    """The options of a command, in 80 columns."""
    out = run_main(*line.split())[1]
    assert max(map(len, out.splitlines())) <= SCREEN
    return out


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_does_it_cost_on_which_gpu(run_main: Main, tmp_path: Path) -> None:
    report = tmp_path / "boss.html"
    prices = "--gpu H100,L40S --gpu-price H100=2.5,L40S=1.0"
    out = screen(run_main, f"plan --target Qwen/Qwen3-8B {prices} --methods eagle3 --report {report}")
    assert re.search(r"cheapest is 1 x (H100 SXM|L40S) with eagle3, k = \d, \$[\d.]+ per\s+million tokens", out)
    assert "Break-even: " in out
    page = report.read_text(encoding="utf-8")
    assert "Where does the cheapest type change?" in page
    assert "$ per million tokens" in page


def test_why_is_mine_slow(run_main: Main) -> None:
    out = screen(run_main, f"explain {TUTORIAL / 'before.prom'} {TUTORIAL / 'after.prom'}")
    assert "k" in out
    assert "num_speculative_tokens" in out
