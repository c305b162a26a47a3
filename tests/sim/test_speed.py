"""The simulator is at least 2.5 times as fast as an idiomatic SimPy program of the same timeline, in one run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.benchmark
def test_two_and_a_half_times_as_fast_as_the_idiomatic_program() -> None:
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "bench_simulator.py"
    done = subprocess.run([sys.executable, str(script), "--repeats", "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
