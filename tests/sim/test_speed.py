"""The simulator is at least 3 times as fast as an idiomatic SimPy program of the same timeline, operations recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.benchmark
def test_three_times_as_fast_as_the_idiomatic_program() -> None:
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_simulator.py"
    done = subprocess.run([sys.executable, str(script), "--repeats", "11"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
