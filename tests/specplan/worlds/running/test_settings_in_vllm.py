"""What is printed to be pasted, read by the installed vLLM's own parser and checks."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from command_grid import GPUS, TARGETS
from command_grid import commands as grid
from planted_metrics import Planted, exposition

from calibrate.token_acceptance.schedule import BatchRange, Schedule
from sim.configuration import Configuration
from specplan.live.explaining.explanation import explained, point_of
from specplan.live.explaining.reading import read_metrics
from specplan.live.explaining.window import since_start
from specplan.worlds.known_models import known_config

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


def read_as_printed(parser: Any, command: str) -> Any:
    """Arguments of a command as vLLM reads them, each with the value that was printed."""
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
    return read


@pytest.mark.parametrize("target", TARGETS)
def test_commands_for_well_known_models_are_taken_by_vllms_parser_and_configurations(parser: Any, target: str) -> None:
    from vllm.config import CacheConfig, ParallelConfig, SpeculativeConfig
    from vllm.config.speculative import SpeculativeMethod

    methods = set(_literals(SpeculativeMethod))
    for command in {command for gpu in GPUS for _, _, command in grid(target, gpu)}:
        read = read_as_printed(parser, command)
        made = ParallelConfig(
            tensor_parallel_size=read.tensor_parallel_size,
            data_parallel_size=read.data_parallel_size,
            enable_expert_parallel=read.enable_expert_parallel,
        )
        assert made.world_size_across_dp == command.partition(" ")[0].count(",") + 1
        CacheConfig(gpu_memory_utilization=read.gpu_memory_utilization, cache_dtype=read.kv_cache_dtype)
        config = read.speculative_config or {}
        assert config.keys() <= set(SpeculativeConfig.__dataclass_fields__)
        assert not config or config["method"] in methods


@pytest.mark.parametrize(
    ("target", "gpus", "stages"), [("deepseek-ai/DeepSeek-R1", 16, 2), ("moonshotai/Kimi-K3", 32, 4)]
)
def test_commands_over_machines_are_taken_by_vllms_parser_and_configuration(
    parser: Any, target: str, gpus: int, stages: int
) -> None:
    """One command for each machine; together they have all the GPUs, and the first of them serves."""
    from vllm.config import ParallelConfig

    commands = [command for _, _, command in grid(target, "H100", gpus=gpus)]
    assert len(commands) >= 2 * stages
    for rank, command in enumerate(commands):
        read = read_as_printed(parser, command)
        made = ParallelConfig(
            tensor_parallel_size=read.tensor_parallel_size,
            pipeline_parallel_size=read.pipeline_parallel_size,
            nnodes=read.nnodes,
            node_rank=read.node_rank,
            master_addr=read.master_addr,
            distributed_executor_backend="mp",
        )
        assert (made.pipeline_parallel_size, made.nnodes, made.world_size) == (stages, stages, gpus)
        assert made.local_world_size == command.partition(" ")[0].count(",") + 1 == 8
        assert made.node_rank == rank % stages
        assert read.headless == (made.node_rank > 0)


def test_whole_engines_over_machines_are_configured_with_every_drafter(parser: Any, tmp_path: Path) -> None:
    """Those of DeepSeek-R1, without its quantisation, which wants a GPU."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    name, methods = "deepseek-ai/DeepSeek-R1", []
    folder = _folder(tmp_path, name, architectures=["DeepseekV3ForCausalLM"], quantization_config=None)
    for _, _, command in grid(name, "H100", gpus=16):
        read = read_as_printed(parser, command)
        if not read.headless:
            arguments = AsyncEngineArgs.from_cli_args(read)
            arguments.model, arguments.skip_tokenizer_init = str(folder), True
            made = arguments.create_engine_config()
            assert made.parallel_config.pipeline_parallel_size == made.parallel_config.nnodes == 2
            methods.append(None if made.speculative_config is None else made.speculative_config.method)
    assert methods == [None, "ngram", "mtp"]


def _literals(kind: Any) -> Iterator[str]:
    """All values of nested literals."""
    for one in get_args(kind):
        yield from [one] if isinstance(one, str) else _literals(one)


@pytest.mark.parametrize("method", ["autoregressive", "prompt-lookup k2=4", "draft-model k2=4"])
@pytest.mark.parametrize("target", ["Qwen/Qwen3-8B", "Qwen/Qwen3-32B"])
def test_whole_engines_are_configured_by_the_commands(parser: Any, tmp_path: Path, target: str, method: str) -> None:
    """From folders that hold the models' configurations: nothing is downloaded, and no weights are read."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    configuration = Configuration.parse(method)
    command = next(one for _, found, one in grid(target, "H200") if found.method == configuration.method)
    read = read_as_printed(parser, command)
    read.model = str(_folder(tmp_path, target))
    if "model" in (read.speculative_config or {}):
        read.speculative_config["model"] = str(_folder(tmp_path, read.speculative_config["model"]))
    arguments = AsyncEngineArgs.from_cli_args(read)
    arguments.skip_tokenizer_init = True
    made = arguments.create_engine_config()
    assert made.scheduler_config.max_num_seqs == 64
    assert made.model_config.max_model_len == 8192
    speculative = made.speculative_config
    assert (speculative is None) == (not configuration.speculates)
    assert speculative is None or speculative.num_speculative_tokens == 3


def _folder(parent: Path, name: str, **changed: Any) -> Path:
    folder = parent / name.replace("/", "--")
    folder.mkdir(exist_ok=True)
    config = {**known_config(name)[1], "architectures": ["Qwen3ForCausalLM"], "torch_dtype": "bfloat16", **changed}
    config = {key: value for key, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


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
