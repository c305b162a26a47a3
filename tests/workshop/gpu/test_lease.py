"""The script for a GPU, rehearsed on a CPU with the smallest shapes that hold the bundled pair."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long("a calibration of 32 layers, 11 minutes and more"),
    pytest.mark.timeout(3600),
]

ROOT = Path(__file__).parents[3]
LEASE = ROOT / "workshop" / "gpu" / "lease.sh"


def shape(folder: Path, hidden: int) -> Path:
    """A config.json whose layers hold those of the bundled models."""
    heads = hidden // 32
    sizes = {"hidden_size": hidden, "intermediate_size": 2 * hidden, "num_attention_heads": heads, "head_dim": 32}
    more = {"num_hidden_layers": 32, "num_key_value_heads": 1, "vocab_size": 384, "max_position_embeddings": 4096}
    known = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "float32"}
    path = folder / f"{hidden}" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({**known, **sizes, **more}))
    return path


def test_all_stages_pass_and_leave_at_most_eight_files(tmp_path: Path) -> None:
    small, large = shape(tmp_path, 96), shape(tmp_path, 160)
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "WORK": str(tmp_path / "work"),
        "DRAFT_SHAPE": str(small),
        "JUDGE_SHAPE": str(large),
        "ANSWERS": "3",
        "TESTS": "tests/calibrate/engines/torch/cuda/test_devices.py",
        **{f"{stage}_S": "1800" for stage in ("MACHINE", "CALIBRATE", "VALIDATE", "TESTS")},
    }
    out = tmp_path / "out"
    done = subprocess.run([LEASE, out, "cpu", large], env=environment, capture_output=True, text=True, check=False)
    log = (out / "log.txt").read_text()
    assert done.returncode == 0, log[-3000:]
    stages = [line.split("\t") for line in (out / "stages.tsv").read_text().splitlines()[1:]]
    assert [(name, status) for name, status, _ in stages] == [
        (name, "0") for name in ("machine", "widen", "calibrate", "validate", "tests")
    ]
    assert len(list(out.iterdir())) <= 8
    rows = json.loads((out / "validation.json").read_text())["rows"]
    assert len(rows) == 7
    assert "Traceback" not in log
