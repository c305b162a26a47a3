"""Ctrl-C and SIGTERM end an engine within ten seconds, also where its device does not return."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from calibrate import pair
from calibrate.engines.protocol import Request
from calibrate.engines.torch.engine import TorchConfig, TorchEngine

LONG = Request(prompt=pair.problems(1, 0)[0].prompt, max_tokens=1500, stop=(), ignore_eos=True)
SOON_S = 10.0


@pytest.mark.slow
def test_a_worker_that_does_not_answer_is_killed_when_all_is_to_end() -> None:
    """Stopped, a worker is as one whose pass never ends: its request is given up after two seconds."""

    async def measure(pids: list[int]) -> None:
        engine = await TorchEngine.start(TorchConfig(name="target", model=pair.target_path(), cores=(0,)))
        try:
            pids.append(engine.pid)
            await engine.generate(LONG)
        finally:
            await engine.close()

    async def interrupted() -> tuple[float, int]:
        pids: list[int] = []
        task = asyncio.create_task(measure(pids))
        while not pids:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        os.kill(pids[0], signal.SIGSTOP)
        began = time.monotonic()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        return time.monotonic() - began, pids[0]

    seconds, pid = asyncio.run(interrupted())
    assert seconds < SOON_S
    assert not psutil.pid_exists(pid)


@pytest.mark.slow
def test_sigterm_ends_a_calibration_whose_engines_are_stuck(tmp_path: Path) -> None:
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
