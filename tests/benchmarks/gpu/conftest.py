"""The benchmarks are scripts of the checkout, not a part of the installed distribution."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from calibrate.record.profile import Profile

ROOT = Path(__file__).resolve().parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


TRIPLE = {"target": "qwen3-32b", "draft": "qwen3-1.7b", "judge": "qwen2.5-7b"}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Journals of three toys, and of two of them at once."""
    from benchmarks.gpu.measure_torch import main as measure

    out = tmp_path_factory.mktemp("runs")
    common = ["--out", str(out), "--device", "cpu", "--tiny"]
    for model in TRIPLE.values():
        # room for 70 tokens, so that something is skipped
        assert measure(["--model", model, *common, "--kv-gib", str(70 * 512 / 2**30)]) == 0
    assert measure(["--model", TRIPLE["target"], "--beside", TRIPLE["draft"], *common]) == 0
    return out


def arguments(runs: Path, output: Path, *more: str) -> list[str]:
    """Arguments for a profile of the toys."""
    roles = [part for role, model in TRIPLE.items() for part in (f"--{role}", model)]
    return ["--runs", str(runs), *roles, "--name", "toy", "-o", str(output), *more]


@pytest.fixture(scope="session")
def profile(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """The toys' latency profile, as the scripts make it."""
    from benchmarks.gpu.make_profile import main as make_profile

    path = tmp_path_factory.mktemp("profile") / "toy.json"
    assert make_profile(arguments(runs, path)) == 0
    return Profile.read(path)
