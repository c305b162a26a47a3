"""Ctrl-C during a plan under load: what is known is printed, and progress is shown meanwhile."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

PLAN = "plan --target meta-llama/Llama-3.1-8B-Instruct --eagle trained --gpu H100 --answer-tokens 6000 --concurrency"


def parts_done(terminal: int) -> Iterator[int]:
    """The numbers of finished parts that the progress on a terminal shows, as they come."""
    text = ""
    while chunk := os.read(terminal, 4096).decode(errors="replace"):
        text += chunk
        yield from map(int, re.findall(r"planning\D*(\d+)/\d+", text)[-1:])


def interrupted(loads: str, after: int) -> tuple[int, str]:
    """Exit code and stdout of a plan that gets SIGINT when so many parts are done."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "specplan", *PLAN.split(), loads]
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # background jobs ignore it
    ) as process:
        os.close(theirs)
        try:
            next(done for done in parts_done(ours) if done >= after)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            os.close(ours)
    return process.returncode, out


@pytest.mark.slow
def test_what_is_planned_before_ctrl_c_is_printed() -> None:
    """The first part searches one answer at once, the second plans it: from there on, it is known."""
    code, out = interrupted("1,512", after=2)
    assert code == 130
    assert out.startswith("At 1 answer at once: ")
    assert "Not planned: load 512, before which you interrupted." in out


@pytest.mark.slow
def test_nothing_is_printed_where_no_load_is_planned_yet() -> None:
    assert interrupted("512", after=1) == (130, "")
