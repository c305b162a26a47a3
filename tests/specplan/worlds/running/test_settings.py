"""Commands to paste: they parse, no two copies share a GPU or a port, and no GPU is promised twice."""

import json
import shlex
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from deployments import block_of, deployment, head_of, model, own_layers

from calibrate.token_acceptance.schedule import BatchRange, Schedule
from sim.configuration import Configuration
from specplan.planning.loads.options import considered
from specplan.planning.loads.schedule import Depths
from specplan.worlds.arrangements import Arrangement, Drafting
from specplan.worlds.drafters.finding import find_head
from specplan.worlds.known_models import known_config
from specplan.worlds.model_files import block_drafter
from specplan.worlds.request import Deployment, ServedModel
from specplan.worlds.running.other_engines import sglang_adaptive
from specplan.worlds.running.settings import Settings, settings_of
from specplan.worlds.world import World
from theory.hardware.engines import engine_named
from theory.hardware.formats import Precision
from theory.hardware.gpus import gpu_named

SCHEDULE = Schedule((BatchRange(1, 15, 3), BatchRange(16, 63, 1), BatchRange(64, 1024, 0)))
AHEAD = Configuration.parse("lr-async k1=2")
DFLASH_OF = "z-lab/Qwen3-8B-DFlash-b16"


def options(command: str) -> tuple[list[int], dict[str, str]]:
    """The GPUs and the options of a command of vLLM."""
    visible, *words = shlex.split(command)
    assert words[:2] == ["vllm", "serve"]
    names = [word for word in words if word.startswith("--")]
    values = {name: words[words.index(name) + 1] if words[-1] != name else "" for name in names}
    return [int(gpu) for gpu in visible.removeprefix("CUDA_VISIBLE_DEVICES=").split(",")], values


def made(wanted: Deployment, configuration: Configuration, arrangement: Arrangement) -> Settings:
    schedule = SCHEDULE if configuration.token else None
    return settings_of(wanted, configuration, arrangement, sequences=16, schedule=schedule)


def test_copies_over_machines_have_a_command_on_each_and_a_port_of_their_own() -> None:
    wanted = deployment(target="deepseek-ai/DeepSeek-R1", gpus=32, head=own_layers("deepseek-ai/DeepSeek-R1"))
    place = Arrangement(tp=8, pp=2, replicas=2)
    found = made(replace(wanted, engine_said=False), Configuration.parse("eagle k2=4"), place)
    servers = [options(command) for command in found.commands]
    assert [(gpus, values["--port"], values["--node-rank"]) for gpus, values in servers] == [
        (list(range(8)), port, rank) for port in ("8000", "8001") for rank in ("0", "1")
    ]
    config = {"method": "mtp", "num_speculative_tokens": 3}  # each batch in flight would look up its own size
    assert [json.loads(values["--speculative-config"]) for _, values in servers] == 4 * [config]
    assert any("each copy runs on 2 machines" in note for note in found.notes)
    assert any("vLLM 0.32 or later" in note for note in found.notes)
    old = replace(wanted, engine_version="0.11.1", engine_said=True)
    (ray, _), notes = (one := made(old, Configuration.parse("autoregressive"), place)).commands, one.notes
    assert options(ray)[1]["--distributed-executor-backend"] == "ray"
    assert "--nnodes" not in ray
    assert "one Ray cluster" in notes[0]


@pytest.mark.parametrize(("drafting", "own", "judged"), [("own", 1, False), ("own", 2, True), ("shared", 0, True)])
@pytest.mark.parametrize("replicas", [1, 2])
def test_servers_have_ports_of_their_own_and_no_gpu_is_promised_twice(
    drafting: Drafting, own: int, judged: bool, replicas: int
) -> None:
    wanted = deployment(draft="Qwen/Qwen3-0.6B", judge="Qwen/Qwen3-1.7B" if judged else None, gpus=8)
    arrangement = Arrangement(tp=2, replicas=replicas, drafting=drafting, own_gpus=own)
    found = made(wanted, AHEAD, arrangement)
    servers = [options(command) for command in found.commands]
    assert len(servers) == replicas * (2 + judged)
    assert len({values["--port"] for _, values in servers}) == len(servers)
    taken: dict[int, float] = defaultdict(float)
    for gpus, values in servers:
        for gpu in gpus:
            taken[gpu] += float(values.get("--gpu-memory-utilization", 0.9))
        assert values.get("--tensor-parallel-size", "1") == str(len(gpus))
    assert set(taken) == set(range(arrangement.gpus))
    assert max(taken.values()) <= 0.9 + 1e-9
    urls = {found.client[role] for role in ("target", "draft", "judge")}
    assert len(urls) == 2 + judged


def test_tokens_are_drafted_by_batch_size() -> None:
    wanted = replace(deployment(draft="Qwen/Qwen3-0.6B", gpus=2), engine_version="0.24.0")
    drafting, two = Configuration.parse("draft-model k2=3"), Arrangement(tp=1, replicas=2)
    found = made(wanted, drafting, two)
    for command in found.commands:
        config = json.loads(options(command)[1]["--speculative-config"])
        assert config["method"] == "draft_model"
        assert config["model"] == "Qwen/Qwen3-0.6B"
        assert config["num_speculative_tokens"] == SCHEDULE.most
        assert config["num_speculative_tokens_per_batch_size"] == SCHEDULE.plain()
    assert any("2 copies" in note for note in found.notes)
    assert found.client is None
    assert json.loads(json.dumps(found.plain()))["commands"] == list(found.commands)
    old = made(replace(wanted, engine_version="0.18.0"), drafting, two)
    config = json.loads(options(old.commands[0])[1]["--speculative-config"])
    assert config == {"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 2}
    table = "[[1, 15, 3], [16, 63, 1], [64, 1024, 0]]"
    assert any("from vLLM 0.24 on" in note and table in note for note in old.notes)


@pytest.mark.parametrize(
    ("configuration", "config"),
    [
        ("eagle k2=4", {"decoding_type": "Eagle3", "max_draft_len": 3, "speculative_model": "<EAGLE-3 head>"}),
        ("prompt-lookup k2=5", {"decoding_type": "NGram", "max_draft_len": 4, "max_matching_ngram_size": 3}),
        ("block-drafter k2=8", {"decoding_type": "DFlash", "max_draft_len": 7, "speculative_model": DFLASH_OF}),
    ],
)
def test_tensorrt_llm_is_started_with_its_own_file(configuration: str, config: dict[str, object]) -> None:
    """Fields as in its reference of `MTPDecodingConfig` and its like, 1.4.0rc4."""
    block = block_of("Qwen/Qwen3-8B", DFLASH_OF)
    wanted = deployment(head=head_of("Qwen/Qwen3-8B"), block=block, engine=engine_named("trtllm"), gpus=2)
    found = made(wanted, Configuration.parse(configuration), Arrangement(tp=1, replicas=2))
    first, second = map(shlex.split, found.commands)
    assert first[:3] == ["CUDA_VISIBLE_DEVICES=0", "trtllm-serve", "Qwen/Qwen3-8B"]
    assert second[second.index("--port") + 1] == "8001"
    assert first[first.index("--extra_llm_api_options") + 1] == "trtllm.json"
    assert found.trtllm == {"speculative_config": {**config, "max_concurrency": 63}}, "63: the schedule's last batch"
    assert found.adaptive is None


def test_tensorrt_llm_makes_no_formats_when_it_loads() -> None:
    """Its PyTorch backend runs checkpoints that are quantised already (its pages on quantisation)."""
    wanted = deployment(engine=engine_named("trtllm"))
    fp8 = replace(wanted, target=replace(wanted.target, precision=Precision(weights="fp8")))
    found = made(fp8, Configuration(method="autoregressive"), Arrangement(tp=1, replicas=1))
    assert shlex.split(found.commands[0])[2] == "<Qwen/Qwen3-8B in fp8>"
    assert any("put a checkpoint in fp8" in note for note in found.notes)
    cached = replace(deployment(), target=replace(wanted.target, precision=Precision(weights="fp8", cache="fp8")))
    values = options(made(cached, Configuration(method="autoregressive"), Arrangement(tp=1, replicas=1)).commands[0])[1]
    assert (values["--quantization"], values["--kv-cache-dtype"]) == ("fp8", "fp8"), "vLLM makes them"


def test_an_assistant_is_named_as_vllm_does() -> None:
    """Gemma-4's reads the target's cache and has weights of its own; "draft_model" would not start."""
    target = "google/gemma-4-31B-it"
    head = find_head(model(target).facts).facts
    assert head.shape.cache_bytes(8192.0, head.precision) == 0.0
    for engine in ("vllm", "sglang", "trtllm"):
        wanted = deployment(
            target=target, head=ServedModel(facts=head, precision=head.precision), engine=engine_named(engine), gpus=2
        )
        found = made(wanted, Configuration.parse("eagle k2=4"), Arrangement(tp=2, replicas=1))
        (command,) = found.commands
        config = {"method": "mtp", "model": "google/gemma-4-31B-it-assistant", "num_speculative_tokens": 3}
        assert json.loads(options(command)[1]["--speculative-config"]).items() >= config.items()
    old = replace(wanted, engine=engine_named("vllm"), engine_version="0.19.0", engine_said=True)
    assert "vllm 0.21 or later: 0.19.0 has no gemma4_assistant" in considered(old, ["eagle"]).unknown["eagle"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_code_from_the_hub_is_allowed_where_it_is_needed_and_said(engine: str) -> None:
    flag = "--trust_remote_code" if engine == "trtllm" else "--trust-remote-code"
    for name, needs in (("moonshotai/Kimi-K2-Instruct", True), ("Qwen/Qwen3-235B-A22B", False)):
        wanted = deployment(target=name, head=head_of(name), gpus=16, engine=engine_named(engine))
        found = made(wanted, Configuration.parse("eagle k2=3"), Arrangement(tp=8, replicas=2))
        assert {flag in shlex.split(command) for command in found.commands} == {needs}
        assert any(f"code from the repository of {name}" in note for note in found.notes) == needs


def test_sglang_is_started_with_the_target_s_own_layers_where_it_is_planned_for() -> None:
    target = "zai-org/GLM-4.5-Air"
    wanted = deployment(target=target, head=own_layers(target), gpus=4, engine=engine_named("sglang"))
    found = made(wanted, Configuration.parse("eagle k2=3"), Arrangement(tp=4, replicas=1))
    words = shlex.split(found.commands[-1])
    assert words[words.index("--speculative-algorithm") + 1] == "EAGLE"
    assert "--speculative-draft-model-path" not in words
    assert found.adaptive == sglang_adaptive(SCHEDULE)
    table = sglang_adaptive(SCHEDULE)  # whole numbers >= 0 by batch sizes as texts, as SGLang 0.5.23 wants them
    assert {n: one["candidate_steps"] for n, one in table.items()} == {"1": [1, 3], "16": [1], "64": [0]}


def test_a_plan_for_sglang_starts_a_server_of_sglang_for_each_copy() -> None:
    wanted = deployment(head=head_of("Qwen/Qwen3-8B"), gpus=4, engine=engine_named("sglang"))
    for configuration in (Configuration.parse("eagle k2=4"), Configuration(method="autoregressive")):
        found = made(wanted, configuration, Arrangement(tp=2, replicas=2))
        servers = [command.split(" python -m sglang.launch_server ") for command in found.commands]
        assert [gpus for gpus, _ in servers] == ["CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=2,3"]
        assert [words[-11:] for _, words in servers] == ["--port 8000", "--port 8001"]
        assert not any("vLLM" in note for note in found.notes)


def test_sglang_is_started_in_the_formats_and_with_the_places_of_the_plan() -> None:
    """Not told, SGLang speculates on 48 requests at once, over all copies of attention, in the published formats."""
    wanted = deployment(head=head_of("Qwen/Qwen3-8B"))
    fp8 = replace(wanted, target=replace(wanted.target, precision=Precision(weights="fp8", cache="fp8")))
    single = ["--tp", "1", "--context-length", "300", "--max-running-requests", "64"]
    formats = ["--quantization", "fp8", "--kv-cache-dtype", "fp8_e4m3"]
    r1, mixture = "deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-235B-A22B-FP8"
    cases = (
        (fp8, Arrangement(tp=1, replicas=1), [*single, *formats]),
        (
            deployment(target=r1, head=own_layers(r1), gpus=8, engine=engine_named("sglang")),
            Arrangement(tp=8, dp=8, replicas=1),
            ["--max-running-requests", "64", "--dp", "8", "--enable-dp-attention", "--ep", "8"],
        ),
        (
            deployment(target=mixture, head=head_of(mixture), gpus=8),
            Arrangement(tp=8, replicas=1),
            ["--max-running-requests", "64", "--ep", "8"],
        ),
    )
    for one, where, told in cases:
        found = settings_of(
            one, Configuration.parse("eagle k2=4"), where, sequences=60 + (where.dp == 1) * 4, schedule=SCHEDULE
        )
        words = shlex.split(found.commands[-1])
        assert words[: words.index("--speculative-algorithm")][-len(told) :] == told


@pytest.mark.parametrize(("gpu", "backend"), [("B300", ["--attention-backend", "triton"]), ("B200", [])])
def test_sglang_is_told_of_kernels_in_triton_where_it_would_take_ones_that_are_missing(
    gpu: str, backend: list[str]
) -> None:
    wanted = deployment(target="google/gemma-4-31B-it", gpu=gpu_named(gpu), engine=engine_named("sglang"))
    found = made(wanted, Configuration(method="autoregressive"), Arrangement(tp=1, replicas=1))
    words = shlex.split(found.commands[0])
    assert [words[i : i + 2] for i, word in enumerate(words) if word == "--attention-backend"] == (
        [backend] if backend else []
    )


@pytest.mark.parametrize(
    ("name", "weights", "served"),
    [
        ("Qwen/Qwen3-8B", "nvfp4", "<Qwen/Qwen3-8B in nvfp4>"),
        ("Qwen/Qwen3-8B-AWQ", "nvfp4", "<Qwen/Qwen3-8B-AWQ in nvfp4>"),
        ("Qwen/Qwen3-8B-AWQ", "int4", "Qwen/Qwen3-8B-AWQ"),
    ],
)
def test_weights_that_the_engine_cannot_make_are_no_published_ones(name: str, weights: str, served: str) -> None:
    wanted = deployment(target=name)
    other = replace(wanted, target=replace(wanted.target, precision=Precision(weights=weights)))
    found = made(other, Configuration(method="autoregressive"), Arrangement(tp=1, replicas=1))
    words = shlex.split(found.commands[0])
    assert words[3] == served
    assert "--quantization" not in words
    assert any("is published in" in note for note in found.notes) == served.startswith("<")


def test_a_model_from_a_folder_is_served_from_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(known_config("Qwen/Qwen3-8B")[1]), encoding="utf-8")
    wanted = deployment(target=model(str(tmp_path)))
    (command,) = made(wanted, Configuration(method="autoregressive"), Arrangement(tp=1, replicas=1)).commands
    assert shlex.split(command)[3] == str(tmp_path)


def test_copies_of_the_attention_are_data_parallel_and_have_places_of_their_own() -> None:
    wanted = deployment(target="deepseek-ai/DeepSeek-R1", head=own_layers("deepseek-ai/DeepSeek-R1"), gpus=8)
    wanted = replace(wanted, engine_version="0.32.0")
    found = made(wanted, Configuration.parse("eagle k2=4"), Arrangement(tp=8, dp=8, replicas=1))
    gpus, values = options(found.commands[0])
    assert gpus == list(range(8))
    config = {"method": "mtp", "num_speculative_tokens": 3}  # vLLM drops tables by batch size with data parallelism
    assert json.loads(values["--speculative-config"]) == config
    assert values["--data-parallel-size"] == "8"
    assert "--enable-expert-parallel" in values
    assert "--tensor-parallel-size" not in values
    assert values["--max-num-seqs"] == "2", "16 answers in flight over 8 copies"


@pytest.mark.parametrize(
    ("configuration", "sequences", "graphs"),
    [
        ("autoregressive", 600, "608"),
        ("block-drafter k2=8", 64, None),
        ("block-drafter k2=8", 100, "800"),
        ("block-drafter k2=8", 512, None),
        ("eagle k2=4", 512, None),
    ],
)
def test_vllm_is_told_to_capture_graphs_of_batches_beyond_its_own_limit(
    configuration: str, sequences: int, graphs: str | None
) -> None:
    """The table of the head drafts 3 tokens in batches of up to 15 and 1 in those of up to 63."""
    wanted = deployment(block=block_of("Qwen/Qwen3-8B"), head=head_of("Qwen/Qwen3-8B"), engine_version="0.28.0")
    one, chosen = Arrangement(tp=1, replicas=1), Configuration.parse(configuration)
    schedule = SCHEDULE if chosen.token == "eagle" else None
    found = settings_of(wanted, chosen, one, sequences=sequences, schedule=schedule)
    assert options(found.commands[0])[1].get("--max-cudagraph-capture-size") == graphs


def test_batch_sizes_of_a_schedule_are_those_of_one_copy_of_the_attention() -> None:
    wanted = deployment(target="deepseek-ai/DeepSeek-R1", head=own_layers("deepseek-ai/DeepSeek-R1"), gpus=8)
    depths, split = Depths(World(wanted)), Arrangement(tp=8, dp=8, replicas=1).split
    found = depths.schedule("eagle", split, 64)
    assert found.at(8) == 0
    assert all(found.at(n) == depths.k("eagle", split, 8 * n) for n in range(1, 8))


BLOCK = Configuration.parse("block-drafter k2=8")
OWN_BLOCK = "deepseek-ai/DeepSeek-V4-Pro-0813"


@pytest.mark.parametrize(
    ("target", "drafter", "vllm", "sglang"),
    [
        (
            "Qwen/Qwen3-8B",
            DFLASH_OF,
            {"method": "dflash", "model": DFLASH_OF},
            ["DFLASH", "--speculative-draft-model-path", DFLASH_OF, "--speculative-num-draft-tokens", "8"],
        ),
        (
            "Qwen/Qwen3-8B",
            "",
            {"method": "dspark", "model": "deepseek-ai/dspark_qwen3_8b_block7", "draft_sample_method": "probabilistic"},
            [
                "DSPARK",
                "--speculative-draft-model-path",
                "deepseek-ai/dspark_qwen3_8b_block7",
                "--speculative-dspark-block-size",
                "7",
            ],
        ),
        (
            OWN_BLOCK,
            "",
            {"method": "dspark", "draft_sample_method": "probabilistic"},
            ["DSPARK", "--speculative-dspark-block-size", "7"],
        ),
    ],
)
def test_block_drafters_are_started_as_their_engines_call_them(
    target: str, drafter: str, vllm: dict[str, object], sglang: list[str]
) -> None:
    """Weights of a drafter that are in the target's checkpoint are named by neither engine."""
    wanted = deployment(target=target, gpus=8, block=block_of(target, drafter))
    found = settings_of(wanted, BLOCK, Arrangement(tp=8, replicas=1), sequences=16, schedule=None)
    (command,) = found.commands
    assert json.loads(options(command)[1]["--speculative-config"]) == {**vllm, "num_speculative_tokens": 7}
    kind, since = vllm["method"], {"dflash": "0.20", "dspark": "0.25"}
    assert f"{kind} needs vLLM {since[str(kind)]} or later" in found.notes
    scheduled = made(wanted, BLOCK, Arrangement(tp=8, replicas=1))
    assert scheduled.commands[0] == command, "a whole block is drafted at every batch size"
    assert scheduled.schedule is None
    words = shlex.split(scheduled.commands[-1])
    assert words[words.index("--speculative-algorithm") + 1 :] == sglang
    assert scheduled.adaptive is None, "SGLang adapts the steps of EAGLE heads only"


def test_a_drafter_that_is_still_to_be_trained_is_in_angle_brackets() -> None:
    target = model("Qwen/Qwen3-32B")
    facts = block_drafter(target.facts, "dflash")
    wanted = deployment(target="Qwen/Qwen3-32B", block=replace(target, facts=facts, precision=facts.precision))
    found = made(wanted, Configuration.parse("block-drafter k2=16"), Arrangement(tp=1, replicas=1))
    config = json.loads(options(found.commands[0])[1]["--speculative-config"])
    assert config["model"] == "<dflash drafter>"


def test_sglang_has_no_dspark_with_copies_of_attention() -> None:
    wanted = deployment(target=OWN_BLOCK, gpus=8, block=block_of(OWN_BLOCK))
    found = made(wanted, BLOCK, Arrangement(tp=8, dp=8, replicas=1))
    assert not any("sglang" in command for command in found.commands)
    assert "SGLang has no DSpark with copies of attention" in found.notes
