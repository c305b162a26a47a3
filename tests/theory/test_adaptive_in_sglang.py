"""The rule of adaptive steps chooses what SGLang's own code chooses, on the same draws.

SGLang has no place in our environment: put `sglang` on the path, as for `test_settings_in_sglang.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theory.adaptive_steps import DEFAULT_SLOTS, AdaptiveSteps, slots_of

pytestmark = pytest.mark.slow

GRAPHS = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96]
CONFIGURATIONS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"1": {"candidate_steps": [1, 3, 7]}, "24": {"candidate_steps": [1, 2]}},
    {
        "ema_alpha": 0.5,
        "update_interval": 1,
        "warmup_batches": 0,
        "1": {"candidate_steps": [0, 2, 4], "up_hysteresis": 0.3, "ceiling_coeff": 1.2},
        "13": {"candidate_steps": [0, 1, 5], "down_hysteresis": 0.5},
    },
)

CHOOSE = """
import json, sys
from sglang.srt.speculative.adaptive_spec_params import AdaptiveSpeculativeParams
initial, path, graphs, rounds = json.load(sys.stdin)
params = AdaptiveSpeculativeParams(initial_steps=initial, cfg_path=path)
params.set_cuda_graph_bs(graphs)
steps = []
for right in rounds:
    steps.append(params.get_steps_for_batch(len(right)))
    params.on_verify_complete([min(one, steps[-1]) for one in right], len(right))
print(json.dumps(steps))
"""


def drawn() -> list[list[int]]:
    """Tokens that a draft without end would have right, of each sequence, of rounds in batches that come and go."""
    rng, rounds = np.random.default_rng(11), []
    for batch in (1, 6, 7, 20, 40, 100, 12, 3):
        for rate in (0.9, 0.5, 0.15, 0.8):
            rounds += (rng.geometric(1.0 - rate, size=(40, batch)) - 1).tolist()
    return rounds


def chosen_by_sglang(initial: int, table: Path | None, graphs: list[int] | None, rounds: list[list[int]]) -> list[int]:
    found = shutil.which("sglang")
    if found is None:
        pytest.skip("sglang is on no path")
    asked = json.dumps([initial, None if table is None else str(table), graphs, rounds])
    words = [str(Path(found).with_name("python")), "-c", CHOOSE]
    done = subprocess.run(words, input=asked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    steps: list[int] = json.loads(done.stdout.splitlines()[-1])
    return steps


@pytest.mark.parametrize("graphs", [None, GRAPHS])
@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_the_steps_are_those_that_sglang_chooses(
    tmp_path: Path, config: dict[str, Any] | None, graphs: list[int] | None
) -> None:
    table = None if config is None else tmp_path / "adaptive.json"
    if table is not None:
        table.write_text(json.dumps(config))
    rounds = drawn()
    control, ours = AdaptiveSteps(DEFAULT_SLOTS if config is None else slots_of(config), 3, graphs or ()), []
    for right in rounds:
        ours.append(control.steps(len(right)))
        control.observe([min(one, ours[-1]) for one in right])
    assert ours == chosen_by_sglang(3, table, graphs, rounds)
    assert len(set(ours)) >= 3
