"""What is shown while something long runs: a bar on a terminal, a line from time to time on a log."""

import io
import re
import sys
import time

import pytest

from specplan.log_lines import lines_on_log
from specplan.output import progress


class Terminal(io.StringIO):
    """What was written to a terminal."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, *, colours: bool) -> str:
    """What a terminal of 80 columns gets of four parts."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")
    with progress("planning for lr-deepseek-humaneval", 4) as step_done:
        for _ in range(4):
            step_done()
    return terminal.getvalue()


def test_a_terminal_sees_parts_and_the_time_left_in_colours_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "\x1b[38;" in shown(monkeypatch, colours=True)
    text = shown(monkeypatch, colours=False)
    assert "\x1b[3" not in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [line for line in re.split(r"[\r\n]+", plain) if line.strip()]
    assert max(map(len, lines)) <= 80
    assert re.search(r"humaneval .* 4/4 .* left 0:00:00", lines[-1])  # nothing is cut


def test_what_is_soon_done_leaves_no_line_on_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress("comparing plans", 1) as step_done:
        step_done()
    assert log.getvalue() == ""


def test_a_log_gets_a_line_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr("specplan.log_lines._EVERY_S", 0.05)
    with lines_on_log("plan"), progress("comparing plans", 3) as step_done:
        step_done()
        step_done()
        _wait_for("2 of 3", log)
    assert "plan: 0:00, comparing plans: 2 of 3\n" in log.getvalue()


def test_each_long_work_gets_lines_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr("specplan.log_lines._EVERY_S", 0.05)
    with progress("comparing plans", 3) as step_done:
        step_done()
        _wait_for("1 of 3", log)
    assert "comparing plans: 0:00, 1 of 3\n" in log.getvalue()


def _wait_for(text: str, log: io.StringIO) -> None:
    until = time.monotonic() + 5.0
    while text not in log.getvalue() and time.monotonic() < until:
        time.sleep(0.01)


def test_a_terminal_gets_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("specplan.log_lines._EVERY_S", 0.01)
    with lines_on_log("plan") as say:
        say("half")
        time.sleep(0.05)
    assert terminal.getvalue() == ""
