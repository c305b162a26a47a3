"""What is printed for SGLang, read by its own parser of arguments and its own loader of adaptive tables.

SGLang has no place in our environment: put `sglang` on the path (`PATH=VENV/bin:$PATH pytest -m slow ...`). Its
arguments are read on any machine; `pip install --no-deps sglang` and what its import then asks for will do.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deployments import deployment, head_of

from calibrate.token_acceptance.schedule import BatchRange, Schedule
from sim.configuration import Configuration
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.running.settings import settings_of

pytestmark = pytest.mark.slow

SCHEDULES = (
    Schedule((BatchRange(1, 4, 3), BatchRange(8, 63, 1), BatchRange(64, 100, 0))),
    Schedule((BatchRange(1, 15, 3), BatchRange(16, 63, 1), BatchRange(64, 1024, 0))),
    Schedule((BatchRange(1, 1024, 2),)),
)

READ = """
import argparse, json, shlex, sys
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative.adaptive_spec_params import AdaptiveSpeculativeParams
command, table = sys.argv[1:]
python, module, name, *words = shlex.split(command)
assert (module, name) == ("-m", "sglang.launch_server")
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
read = parser.parse_args(words)
adaptive = AdaptiveSpeculativeParams(initial_steps=read.speculative_num_steps, cfg_path=table)
steps = [adaptive.get_steps_for_batch(batch) for batch in range(1, 129)]
named = {name: getattr(read, name) for name in vars(read) if name.startswith("speculative") or name == "model_path"}
print(json.dumps({"steps": steps, "read": {k: v for k, v in named.items() if isinstance(v, (int, str))}}))
"""


def read_by_sglang(command: str, table: Path) -> dict[str, Any]:
    found = shutil.which("sglang")
    if found is None:
        pytest.skip("sglang is on no path")
    words = [str(Path(found).with_name("python")), "-c", READ, command, str(table)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_sglang_drafts_as_the_schedule_says(tmp_path: Path, schedule: Schedule) -> None:
    found = settings_of(
        deployment(head=head_of("Qwen/Qwen3-8B")),
        Configuration.parse("eagle k2=4"),
        Arrangement(tp=1, replicas=1),
        sequences=16,
        schedule=schedule,
    )
    (command,) = (one for one in found.commands if "sglang" in one)
    table = tmp_path / "adaptive.json"
    table.write_text(json.dumps(found.adaptive))
    answer = read_by_sglang(command, table)
    assert answer["steps"] == [schedule.at(batch) for batch in range(1, 129)]
    assert answer["read"]["speculative_algorithm"] == "EAGLE3"
    assert answer["read"]["speculative_num_draft_tokens"] == schedule.most + 1
    assert answer["read"]["speculative_adaptive"] is True
