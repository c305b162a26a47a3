"""A signal ends engines within ten seconds, also where their device does not return."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

SOON_S = 10.0


@pytest.mark.slow
def test_sigterm_ends_a_calibration_whose_engines_are_stuck(tmp_path: Path) -> None:
    """Stopped, a worker is as one whose pass never ends: its request is given up after two seconds."""
    arguments = [sys.executable, "-m", "specplan", "calibrate", "torch", "-o", str(tmp_path / "p.json")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        workers = _busy_workers(psutil.Process(process.pid))
        for worker in workers:
            worker.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60.0)
        assert time.monotonic() - began < SOON_S
    assert process.returncode == 130
    assert "interrupted" in err
    assert not any(worker.is_running() for worker in workers)


def _busy_workers(parent: psutil.Process) -> list[psutil.Process]:
    """The engines of a calibration, as soon as all three have loaded torch, and one is at work."""
    for _ in range(600):
        workers = [one for one in parent.children() if "calibrate.engines.torch.worker" in " ".join(one.cmdline())]
        before = sum(sum(one.cpu_times()[:2]) for one in workers)
        time.sleep(0.2)
        spent = sum(sum(one.cpu_times()[:2]) for one in workers) - before
        if len(workers) == 3 and spent > 0.02 and all(one.memory_info().rss > 1 << 28 for one in workers):
            return workers
    pytest.fail("the engines did not start")
