"""The rule of adaptive steps chooses what SGLang's own code chooses, on the same draws; compared with 0.5.23.

SGLang has no place in our environment: put `sglang` on the path, as for `test_settings_in_sglang.py`.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theory.adaptive.steps import DEFAULT_SLOTS, AdaptiveSteps, SlotRule

pytestmark = pytest.mark.slow

INITIAL = 3
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
import json, sys, tempfile
from sglang.srt.speculative.adaptive_spec_params import AdaptiveSpeculativeParams
initial, cases, rounds = json.load(sys.stdin)
found = []
for config, graphs in cases:
    with tempfile.NamedTemporaryFile("w") as table:
        json.dump(config, table)
        table.flush()
        params = AdaptiveSpeculativeParams(initial_steps=initial, cfg_path=None if config is None else table.name)
    params.set_cuda_graph_bs(graphs)
    steps = []
    for right in rounds:
        steps.append(params.get_steps_for_batch(len(right)))
        params.on_verify_complete([min(one, steps[-1]) for one in right], len(right))
    found.append(steps)
print(json.dumps(found))
"""


def slots_of(config: dict[str, Any]) -> dict[int, SlotRule]:
    """Slots of a configuration: what it says of all, and of each batch size."""
    alike = {name: value for name, value in config.items() if not name.isdigit()}
    said = {int(size): {**alike, **of} for size, of in config.items() if size.isdigit()}
    return {size: SlotRule(**{**of, "candidate_steps": tuple(of["candidate_steps"])}) for size, of in said.items()}


def drawn() -> list[list[int]]:
    """Tokens that a draft without end would have right, of each sequence, of rounds in batches that come and go."""
    rng, rounds = np.random.default_rng(11), []
    for batch in (1, 6, 7, 20, 40, 100, 12, 3):
        for rate in (0.9, 0.5, 0.15, 0.8):
            rounds += (rng.geometric(1.0 - rate, size=(40, batch)) - 1).tolist()
    return rounds


def test_the_steps_are_those_that_sglang_chooses() -> None:
    found = shutil.which("sglang")
    if found is None:
        pytest.skip("sglang is on no path")
    cases = [(config, graphs) for config in CONFIGURATIONS for graphs in (None, GRAPHS)]
    rounds = drawn()
    words = [str(Path(found).with_name("python")), "-c", CHOOSE]
    asked = json.dumps([INITIAL, cases, rounds])
    done = subprocess.run(words, input=asked, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for (config, graphs), theirs in zip(cases, json.loads(done.stdout.splitlines()[-1]), strict=True):
        control, ours = AdaptiveSteps(DEFAULT_SLOTS if config is None else slots_of(config), INITIAL, graphs or ()), []
        for right in rounds:
            ours.append(control.steps(len(right)))
            control.observe([min(one, ours[-1]) for one in right])
        assert ours == theirs, (config, graphs)
        assert len(set(ours)) >= 3
