"""What is printed to be pasted, read by the installed vLLM's own parser and checks."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from deployments import deployment, head_of, own_layers
from planted_metrics import Planted, exposition

from calibrate.token_acceptance.schedule import BatchRange, Schedule
from sim.configuration import Configuration
from specplan.live.explaining.explanation import explained, point_of
from specplan.live.explaining.reading import read_metrics
from specplan.live.explaining.window import since_start
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.running.settings import settings_of

pytest.importorskip("vllm")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of what vLLM imports
]

GAPPED = Schedule((BatchRange(1, 4, 3), BatchRange(8, 63, 1), BatchRange(64, 100, 0)))
WHOLE = Schedule((BatchRange(1, 15, 3), BatchRange(16, 63, 1), BatchRange(64, 1024, 0)))


@pytest.fixture(scope="module")
def parser() -> Any:
    """The parser of ``vllm serve``."""
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    whole = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(whole.add_subparsers(dest="subparser"))
    return whole


@pytest.mark.parametrize("schedule", [GAPPED, WHOLE])
def test_vllm_drafts_as_many_tokens_at_each_batch_size(schedule: Schedule) -> None:
    from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup

    table = build_dynamic_sd_schedule_lookup(schedule.plain(), 128, schedule.most)
    assert table[1:] == [schedule.at(batch) for batch in range(1, 129)]


@pytest.mark.parametrize(
    ("name", "models", "replicas", "drafting", "own"),
    [
        ("autoregressive", {}, 2, "none", 0),
        ("prompt-lookup k2=4", {}, 1, "none", 0),
        ("draft-model k2=3", {"draft": "Qwen/Qwen3-0.6B"}, 1, "none", 0),
        ("eagle k2=4", {"head": head_of("Qwen/Qwen3-8B")}, 1, "none", 0),
        ("eagle k2=4", {"target": "Qwen/Qwen3-235B-A22B-FP8", "head": head_of("Qwen/Qwen3-235B-A22B")}, 1, "none", 0),
        ("eagle k2=3", {"target": "zai-org/GLM-4.5-Air", "head": own_layers("zai-org/GLM-4.5-Air")}, 1, "none", 0),
        ("draft-model k2=3", {"draft": "Qwen/Qwen3-0.6B", "engine_version": "0.18.0"}, 1, "none", 0),
        ("lr-async k1=2", {"draft": "Qwen/Qwen3-0.6B", "judge": "Qwen/Qwen3-1.7B"}, 1, "own", 1),
        ("lr-async k1=2 + prompt-lookup k2=4", {"draft": "Qwen/Qwen3-0.6B"}, 1, "shared", 0),
    ],
)
def test_every_command_is_one_that_vllm_takes(
    parser: Any, name: str, models: dict[str, Any], replicas: int, drafting: Any, own: int
) -> None:
    configuration = Configuration.parse(name)
    found = settings_of(
        deployment(gpus=8, **{"engine_version": "0.32.0", **models}),
        configuration,
        Arrangement(tp=8 if "target" in models else 2, replicas=replicas, drafting=drafting, own_gpus=own),
        sequences=16,
        schedule=WHOLE if configuration.token else None,
    )
    commands = [command for command in found.commands if "sglang" not in command]
    assert commands
    for command in commands:
        visible, *words = shlex.split(command)
        assert visible.startswith("CUDA_VISIBLE_DEVICES=")
        assert words[0] == "vllm"
        read = parser.parse_args(words[1:])
        options = [word.removeprefix("--").replace("-", "_") for word in words if word.startswith("--")]
        for option in options:
            given = words[words.index(f"--{option.replace('_', '-')}") + 1 :][:1]
            value = getattr(read, option)
            if isinstance(value, bool):
                assert value is True
            elif isinstance(value, dict):
                assert value == json.loads(given[0])
            else:
                assert str(value) == given[0] or float(value) == float(given[0])
        assert read.model_tag == words[2]


PLANTED = (
    Planted(k=12, conditional=0.6, row_s=2e-5),
    Planted(k=3, draft_s=0.01, conditional=0.8),
    Planted(k=5, cache=3200),
    Planted(k=6, prompt=4000, answer=200),
    Planted(k=5, places=4),
)


def test_the_cures_that_are_printed_are_flags_of_vllm(parser: Any) -> None:
    """Each option that `specplan explain` names, and those of its speculative configuration."""
    from vllm.config import SpeculativeConfig

    flags = []
    for planted in PLANTED:
        plain = since_start(read_metrics(exposition(planted.with_k(0), 64), "base.prom"))
        readings = [read_metrics(exposition(planted, n), f"{n}.prom") for n in (24, 96)]
        causes = explained(readings, baselines=[point_of(plain)], plain_cache=plain.cache_tokens).causes
        flags += [flag for cause in causes for flag in cause.flags]
    named = {word for flag in flags for word in re.findall(r"--[a-z][a-z-]+", flag)}
    assert len(named) >= 5
    known = parser._subparsers._group_actions[0].choices["serve"]._option_string_actions
    assert named <= set(known)
    fields = {name for flag in flags for name in re.findall(r'"([a-z_]+)":', flag)}
    assert {"num_speculative_tokens", "method"} <= fields
    assert fields <= set(SpeculativeConfig.__dataclass_fields__)
