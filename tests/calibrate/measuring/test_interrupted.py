"""A calibration that is interrupted says how to go on, and goes on from what is finished."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from openai_server import Planted, serving
from small_plans import SPECPLAN

from calibrate.record.profile import Profile

PLANTED = Planted(iteration_s=0.0005)
PATIENCE_S = 300.0
"""Until something is taken as hanging, s: machines have much else to do."""


def listen() -> None:
    """Where the tests run in the background of a shell or under nohup, children would be deaf to these signals."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interruption_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, and a terminal that is closed; `kill` is dealt with as that is."""
    prompts, output, journal = (tmp_path / name for name in ("prompts.jsonl", "p.json", "p.json.part"))
    prompts.write_text("".join(json.dumps({"prompt": f"Question {i} is?"}) + "\n" for i in range(6)), encoding="utf-8")
    with serving(PLANTED) as target, serving(PLANTED) as draft:
        servers = ("--target", target.url, "--draft", draft.url, "--concurrency", "1", "--prompts", str(prompts))
        # Processes compete for the machine that the sentinels watch: that is not what is tested here.
        arguments = [*SPECPLAN, "calibrate", "openai", *servers, "-n", "6", "--allow-noise", "-o", str(output)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(arguments, **pipes, text=True, preexec_fn=listen) as process:  # noqa: PLW1509
            limit = time.monotonic() + PATIENCE_S
            while not journal.exists() or journal.stat().st_size < 2000:
                assert process.poll() is None
                assert time.monotonic() < limit, "it does not get anywhere"
                time.sleep(0.002)
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (130, "")
        assert err.strip() == (
            f"specplan: interrupted; what is finished is kept in {journal}: the same command goes on from there"
        )
        assert journal.read_bytes().count(b"\n") > 1
        if number == signal.SIGINT:
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            assert done.returncode == 0, done.stderr
            assert len(Profile.read(output).answers) == 6
            assert not journal.exists()
