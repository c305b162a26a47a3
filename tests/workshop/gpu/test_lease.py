"""The script for a GPU, rehearsed on a CPU with the smallest shapes that hold the bundled pair."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from bundled_pair import brief_problems

from calibrate.record.profile import Profile

ROOT = Path(__file__).parents[3]
LEASE = ROOT / "workshop" / "gpu" / "lease.sh"
ENDS_S = 20.0
"""Within which a SIGTERM ends the script, its engines included, s: on a GPU it is asked to take 10."""
LEASE_S = 900


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


class Lease:
    """Calls of the script with the same OUT."""

    def __init__(self, folder: Path) -> None:
        self.out, small = folder / "out", shape(folder, 96)
        self.large = shape(folder, 160)
        questions = folder / "questions.jsonl"
        asked = [json.dumps({"prompt": one.prompt}) for one in brief_problems(2, 0, "calibration")]
        questions.write_text("\n".join(asked))
        self.environment = {
            **os.environ,
            "PYTHON": sys.executable,
            "WORK": str(folder / "work"),
            "DRAFT_SHAPE": str(small),
            "JUDGE_SHAPE": str(self.large),
            "QUESTIONS": str(questions),
            "ANSWERS": "2",
            # Starting an engine takes 5 s, three times: a judge and a head of its own are tested elsewhere.
            "CALIBRATE_OPTIONS": "--contexts 64 --eagle none --judge target",
            "LARGE_SHAPE": "",
            "TESTS": "tests/calibrate/engines/torch/cuda/test_devices.py",
            "SLOWER": "20",
        }

    def start(self, stages: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start the script with these stages."""
        variables = {**self.environment, "STAGES": stages, **environment}
        return subprocess.Popen([LEASE, self.out, "cpu", self.large], env=variables, stdout=subprocess.DEVNULL)

    def run(self, stages: str, **environment: str) -> int:
        """Run the script to its end; return its exit code."""
        return self.start(stages, **environment).wait()

    @property
    def log(self) -> str:
        """What the stages printed."""
        return (self.out / "log.txt").read_text()

    @property
    def stages(self) -> list[tuple[str, str]]:
        """Names and statuses of all calls' stages."""
        lines = (self.out / "stages.tsv").read_text().splitlines()[1:]
        return [(name, status) for name, status, _ in (line.split("\t") for line in lines)]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Rows of a validation."""
        rows: list[dict[str, Any]] = json.loads((self.out / name).read_text())["rows"]
        return rows


def kept(journal: Path, key: str) -> dict[str, Any] | None:
    """A piece of a journal; None: it is not there yet."""
    if not journal.exists():
        return None
    lines = journal.read_text().splitlines(keepends=True)[1:]
    pieces = [json.loads(line) for line in lines if line.endswith("\n")]
    return next((piece["value"] for piece in pieces if piece["key"] == key), None)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_stages_go_on_where_they_were_stopped_and_keep_what_others_lose(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    stopped, journal = lease.start("calibrate"), lease.out / "torch.json.part"
    while (timed := kept(journal, "engine:target:0")) is None:
        assert stopped.poll() is None, lease.log[-3000:]
        time.sleep(0.2)
    began = time.monotonic()
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait() == 143
    assert time.monotonic() - began < ENDS_S
    assert lease.stages == [("machine", "0"), ("widen", "0"), ("calibrate", "130")]

    assert lease.run("calibrate validate", RUNS="no-such-method") == 1
    assert lease.stages[3:] == [("calibrate", "0"), ("validate", "2")], lease.log[-3000:]
    target = Profile.read(lease.out / "torch.json").engines["target"]
    before = [sample["seconds"] for sample in (*timed["warmup_decode"], *timed["decode"])]
    recorded = [sample.seconds for sample in (*target.warmup_decode, *target.decode)]
    assert recorded[: len(before)] == before, "what was measured before the signal is measured again"

    rest = "calibrate validate costs tests" + ("" if find_spec("vllm") else " servers")
    assert lease.run(rest) == 0, lease.log[-3000:]
    without = [("servers", "skipped: vLLM cannot be imported")] if "servers" in rest else []
    assert lease.stages[5:] == [("validate", "0"), *without, ("tests", "0")]
    assert len(lease.rows("validation.json")) == 7
    assert "Traceback" not in lease.log
    assert len(list(lease.out.iterdir())) <= 8
    assert not list((tmp_path / "work").glob("large*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_costs_of_a_larger_shape_are_a_calibration_of_their_own(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    options = {"LARGE_SHAPE": str(lease.large), "LARGE_CONTEXTS": "64", "LARGE_CONTEXT": "3072"}
    assert lease.run("costs", **options) == 0, lease.log[-3000:]
    assert lease.stages[2:] == [("costs-widen", "0"), ("costs", "0")]
    assert Profile.read(lease.out / "large.json").engines["target"].decode
    assert not (tmp_path / "work" / "large").exists()


@pytest.mark.long("ten minutes of three servers, whose calibration and validation tests/calibrate/models measures too")
@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_servers_of_the_widened_pair_are_calibrated_and_validated(tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    from calibrate.engines.vllm.plugin import VARIABLE
    from calibrate.engines.vllm.repair import EXTENSION

    lease = Lease(tmp_path)
    options = (
        f"--max-model-len 2048 --max-num-seqs 16 --block-size 32 --enforce-eager --worker-extension-cls {EXTENSION}"
    )
    runs = "lr-async k1=2\ndraft-model k2=4\nprompt-lookup k2=4"
    on_cpu = {VARIABLE: "1", "TORCHDYNAMO_DISABLE": "1", "VLLM_OPTIONS": options, "CACHE_GB": "0.5"}
    assert lease.run("servers", **on_cpu, LOADS="2", RUNS=runs) == 0, lease.log[-3000:]
    names = ["machine", "widen", "servers", "servers-calibrate", "servers-validate"]
    assert lease.stages == [(name, "0") for name in names]
    assert len(lease.rows("servers-validation.json")) == 3


def test_the_budgets_fit_a_lease() -> None:
    budgets = {name: int(seconds) for name, seconds in re.findall(r"\w+ ([a-z][\w-]+) (\d+) [\"$]", LEASE.read_text())}
    assert sum(budgets.values()) <= LEASE_S
    parts = {"calibrate", "validate", "machine", "widen"}, {"servers", "servers-calibrate", "servers-validate"}
    assert {*budgets} == {*parts[0], *parts[1], "costs", "costs-widen", "tests"}
    assert all(sum(budgets[name] for name in part) <= LEASE_S * 8 / 15 for part in parts)
