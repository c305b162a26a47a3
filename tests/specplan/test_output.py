"""Tables of plain text, and what is shown while something long runs."""

import io
import re
import sys
import time
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.log_lines import lines_on_log
from specplan.output import progress, screen, table

WORDS = st.lists(st.text("abcdef", min_size=1, max_size=9), min_size=1, max_size=12).map(" ".join)


def test_numbers_stand_right_words_left_and_the_widest_text_is_wrapped_into_the_width() -> None:
    assert table(["name", "n"], [["a", "1"], ["bcdef", "22"]]).splitlines() == [
        "name    n",
        "-----  --",
        "a       1",
        "bcdef  22",
    ]
    told = table(["name", "n", "why"], [["a", "1", "several words that take two lines"]], width=30)
    assert told.splitlines() == [
        "name  n  why",
        "----  -  ---------------------",
        "a     1  several words that",
        "         take two lines",
    ]


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5), st.integers(30, 90))
def test_no_word_is_lost_and_no_line_wider(rows: list[tuple[str, str]], width: int) -> None:
    told = table(["first", "second"], rows, width=width).splitlines()
    assert max(map(len, told)) <= width
    cut = told[1].index("  ") + 2
    for column in (slice(None, cut), slice(cut, None)):
        wrapped = " ".join(" ".join(line[column] for line in told[2:]).split())
        wanted = " ".join(row[0 if column.start is None else 1] for row in rows)
        assert wrapped == " ".join(wanted.split())


def test_names_are_not_broken_at_their_hyphens() -> None:
    name = "meta-llama/Llama-3.3-70B-Instruct"
    block = f"A plan for a model of such a name, with a draft that has as many of them, {name}, and one more, {name}"
    assert screen(block).count(name) == screen([block]).count(name) == 2


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


def stderr(monkeypatch: pytest.MonkeyPatch, *, terminal: bool = False) -> io.StringIO:
    """What stands on stderr, on which lines come after milliseconds."""
    log = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr("specplan.log_lines._EVERY_S", 0.01 if terminal else 0.05)
    return log


@pytest.mark.parametrize(
    ("within", "line"), [("plan", "plan: 0:00, comparing plans: 1 of 3\n"), ("", "comparing plans: 0:00, 1 of 3\n")]
)
def test_a_log_gets_a_line_from_time_to_time(monkeypatch: pytest.MonkeyPatch, within: str, line: str) -> None:
    log = stderr(monkeypatch)
    with lines_on_log(within) if within else nullcontext(), progress("comparing plans", 3) as step_done:
        step_done()
        until = time.monotonic() + 5.0
        while "1 of 3" not in log.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert line in log.getvalue()


def test_what_is_soon_done_leaves_no_line_and_nothing_does_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    log = stderr(monkeypatch)
    with progress("comparing plans", 1) as step_done:
        step_done()
    terminal = stderr(monkeypatch, terminal=True)
    with lines_on_log("plan") as say:
        say("half")
        time.sleep(0.05)
    assert log.getvalue() == terminal.getvalue() == ""
