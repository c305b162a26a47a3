"""Commands to paste: they parse, no two copies share a GPU or a port, and no GPU is promised twice."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deployments import block_of, deployment, head_of, model, own_layers
from told_commands import told

from calibrate.token_acceptance.schedule import BatchRange, Schedule
from sim.configuration import Configuration
from specplan.planning.loads.options import considered
from specplan.worlds.arrangements import Arrangement, Drafting
from specplan.worlds.drafters.finding import find_head
from specplan.worlds.known_models import known_config
from specplan.worlds.model_files import block_drafter
from specplan.worlds.request import ServedModel
from specplan.worlds.running.settings import Settings, settings_of
from theory.hardware.engines import engine_named
from theory.hardware.formats import Precision
from theory.hardware.gpus import gpu_named

SCHEDULE = Schedule((BatchRange(1, 15, 3), BatchRange(16, 63, 1), BatchRange(64, 1024, 0)))
TABLE = {"num_speculative_tokens_per_batch_size": [[1, 15, 3], [16, 63, 1], [64, 1024, 0]]}
QWEN, R1, GLM, GEMMA = "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-R1", "zai-org/GLM-4.5-Air", "google/gemma-4-31B-it"
V4, MIXTURE = "deepseek-ai/DeepSeek-V4-Pro-0813", "Qwen/Qwen3-235B-A22B-FP8"
DSPARK_OF, DFLASH_OF = "deepseek-ai/dspark_qwen3_8b_block7", "z-lab/Qwen3-8B-DFlash-b16"
SGLANG, TRTLLM = engine_named("sglang"), engine_named("trtllm")


def made(
    configuration: str = "autoregressive",
    where: Arrangement = Arrangement(tp=1, replicas=1),  # noqa: B008 (it cannot change)
    sequences: int = 16,
    schedule: Schedule = SCHEDULE,
    **changed: Any,
) -> Settings:
    """The commands of a configuration for a deployment that is changed as told; tokens are drafted by the schedule."""
    chosen = Configuration.parse(configuration)
    return settings_of(
        deployment(**changed), chosen, where, sequences=sequences, schedule=schedule if chosen.token else None
    )


def in_formats(name: str, **formats: str) -> ServedModel:
    """A model in other formats than published."""
    return replace(model(name), precision=Precision(**formats))


GEMMAS = {"target": GEMMA, "head": ServedModel.published(find_head(model(GEMMA).facts).facts), "gpus": 2}
ASSISTANT = {"method": "mtp", "model": f"{GEMMA}-assistant", "num_speculative_tokens": 3}
TRAINED = ServedModel.published(block_drafter(model("Qwen/Qwen3-32B").facts, "dflash"))
WHOLE, COPIES = Arrangement(tp=8, replicas=1), Arrangement(tp=8, dp=8, replicas=1)
R1_COPIES = {"target": R1, "head": own_layers(R1), "gpus": 8, "where": COPIES}
DRAFTED = {"block": block_of(QWEN), "head": head_of(QWEN), "engine_version": "0.28.0"}
BLOCKS = {"where": WHOLE, "configuration": "block-drafter k2=8"}
TWICE = {"where": Arrangement(tp=8, replicas=2), "configuration": "eagle k2=3"}
SPECULATIVE, ALGORITHM, DRAFT = "--speculative-config", "--speculative-algorithm", "--speculative-draft-model-path"
FIRST: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, bool]]] = {
    "TensorRT-LLM's PyTorch backend runs checkpoints that are quantised already": (
        {"target": in_formats(QWEN, weights="fp8"), "engine": TRTLLM},
        {"served": f"<{QWEN} in fp8>"},
        {"put a checkpoint in fp8": True},
    ),
    "vLLM makes fp8": (
        {"target": in_formats(QWEN, weights="fp8", cache="fp8")},
        {"served": QWEN, "--quantization": "fp8", "--kv-cache-dtype": "fp8", SPECULATIVE: None},
        {"is published in": False, "copies: deal the answers out": False},
    ),
    **{
        f"it makes no {weights} of {name}": (
            {"target": in_formats(name, weights=weights)},
            {"served": served, "--quantization": None},
            {"is published in": served != name},
        )
        for name, weights, served in (
            (QWEN, "nvfp4", f"<{QWEN} in nvfp4>"),
            (f"{QWEN}-AWQ", "nvfp4", f"<{QWEN}-AWQ in nvfp4>"),
            (f"{QWEN}-AWQ", "int4", f"{QWEN}-AWQ"),
        )
    },
    **{
        f"an assistant reads the target's cache, so that vLLM runs it, planned for {engine}": (
            {**GEMMAS, "engine": engine_named(engine), "configuration": "eagle k2=4"},
            {"engine": "vllm", SPECULATIVE: ASSISTANT | ({} if engine == "vllm" else TABLE)},
            {"the commands start vLLM": engine != "vllm"},
        )
        for engine in ("vllm", "trtllm")
    },
    "vLLM drops tables with copies of attention, which share 16 places": (
        {**R1_COPIES, "engine_version": "0.32.0", "configuration": "eagle k2=4"},
        {
            "gpus": list(range(8)),
            "--data-parallel-size": "8",
            "--enable-expert-parallel": "",
            "--tensor-parallel-size": None,
            "--max-num-seqs": "2",
            SPECULATIVE: {"method": "mtp", "num_speculative_tokens": 3},
        },
        {},
    ),
    "fewer tokens than a checkpoint's own blocks": (
        {"target": V4, "gpus": 8, "block": block_of(V4), "where": WHOLE, "configuration": "block-drafter k2=4"},
        {},
        {"vLLM 0.26 refuses fewer than 5 tokens from this checkpoint": True},
    ),
    "adaptive verification has no table by batch": (
        {**DRAFTED, "engine_version": "", "configuration": "block-drafter k2=8 least=0.25", "sequences": 64},
        {
            SPECULATIVE: {
                **{"method": "dspark", "model": DSPARK_OF, "num_speculative_tokens": 7},
                **{"draft_sample_method": "probabilistic", "enable_adaptive_verification": True},
            }
        },
        {"adaptive verification needs vLLM 0.28 or later": True},
    ),
    "a drafter still to be trained": (
        {"block": TRAINED, "target": "Qwen/Qwen3-32B", "configuration": "block-drafter k2=16"},
        {SPECULATIVE: {"method": "dflash", "model": "<dflash drafter>", "num_speculative_tokens": 15}},
        {"dflash needs vLLM 0.20 or later": True},
    ),
    **{  # by the table the head drafts 3 tokens in batches of up to 15 and 1 in those of up to 63
        f"graphs of {sequences} sequences of {configuration}": (
            {**DRAFTED, "configuration": configuration, "sequences": sequences},
            {"--max-cudagraph-capture-size": graphs},
            {},
        )
        for configuration, sequences, graphs in (
            ("autoregressive", 600, "608"),
            ("block-drafter k2=8", 64, None),
            ("block-drafter k2=8", 100, "800"),
            ("block-drafter k2=8", 512, None),
            ("eagle k2=4", 512, None),
        )
    },
    **{
        f"block drafter {name} of {target}": (
            {"target": target, "gpus": 8, "block": block_of(target, name), **BLOCKS},
            {SPECULATIVE: {**config, "num_speculative_tokens": 7}},
            {f"{config['method']} needs vLLM {since} or later": True},
        )
        for target, name, since, config in (
            (QWEN, DFLASH_OF, "0.20", {"method": "dflash", "model": DFLASH_OF}),
            (QWEN, "", "0.25", {"method": "dspark", "model": DSPARK_OF, "draft_sample_method": "probabilistic"}),
            (V4, "", "0.25", {"method": "dspark", "draft_sample_method": "probabilistic"}),
        )
    },
    **{
        f"code of {target} in {engine}": (
            {"target": target, "head": head_of(target), "gpus": 16, "engine": engine_named(engine), **TWICE},
            {"--trust_remote_code" if engine == "trtllm" else "--trust-remote-code": "" if needs else None},
            {f"code from the repository of {target}": needs},
        )
        for engine in ("vllm", "sglang", "trtllm")
        for target, needs in (("moonshotai/Kimi-K2-Instruct", True), ("Qwen/Qwen3-235B-A22B", False))
    },
}


@pytest.mark.parametrize(("asked", "options", "notes"), FIRST.values(), ids=FIRST)
def test_the_first_server_has_the_options(
    asked: dict[str, Any], options: dict[str, Any], notes: dict[str, bool]
) -> None:
    found = made(**asked)
    values = told(found.commands[0])
    assert {name: values.get(name) for name in options} == options
    assert {note: any(note in one for one in found.notes) for note in notes} == notes


IN_SGLANG: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "in the formats of the plan": (
        {"target": in_formats(QWEN, weights="fp8", cache="fp8"), "head": head_of(QWEN), "sequences": 64},
        {
            "--tp": "1",
            "--context-length": "300",
            "--max-running-requests": "64",
            "--quantization": "fp8",
            "--kv-cache-dtype": "fp8_e4m3",
            ALGORITHM: "EAGLE3",
        },
    ),
    "places over all copies of attention, not 48 as where nothing is told": (
        {**R1_COPIES, "engine": SGLANG, "sequences": 60},
        {"--max-running-requests": "64", "--dp": "8", "--enable-dp-attention": "", "--ep": "8", ALGORITHM: "EAGLE"},
    ),
    "whole experts": (
        {"target": MIXTURE, "head": head_of(MIXTURE), "gpus": 8, "where": WHOLE, "sequences": 64},
        {"--max-running-requests": "64", "--ep": "8", "--dp": None, ALGORITHM: "EAGLE3"},
    ),
    "own layers, where SGLang is planned for": (
        {"target": GLM, "head": own_layers(GLM), "gpus": 8, "engine": SGLANG, "where": WHOLE},
        {ALGORITHM: "EAGLE", DRAFT: None, "--speculative-adaptive-config": "adaptive.json"},
    ),
    "an assistant, where SGLang is planned for": (
        {**GEMMAS, "engine": SGLANG, "configuration": "eagle k2=3"},
        {
            ALGORITHM: "NEXTN",
            DRAFT: f"{GEMMA}-assistant",
            "--speculative-num-steps": "2",
            "--speculative-adaptive": None,
        },
    ),
    **{
        f"{algorithm} of {target}": (
            {"target": target, "gpus": 8, "block": block_of(target, name), **BLOCKS},
            {ALGORITHM: algorithm, DRAFT: path, **tokens, "--speculative-adaptive": None},
        )
        for target, name, algorithm, path, tokens in (
            (QWEN, DFLASH_OF, "DFLASH", DFLASH_OF, {"--speculative-num-draft-tokens": "8"}),
            (QWEN, "", "DSPARK", DSPARK_OF, {"--speculative-dspark-block-size": "7"}),
            (V4, "", "DSPARK", None, {"--speculative-dspark-block-size": "7"}),
        )
    },
}


@pytest.mark.parametrize(("asked", "options"), IN_SGLANG.values(), ids=IN_SGLANG)
def test_the_command_for_sglang_has_the_options(asked: dict[str, Any], options: dict[str, Any]) -> None:
    found = made(**{"configuration": "eagle k2=4", **asked})
    values = told(found.commands[-1])
    assert values["engine"] == "sglang"
    assert {name: values.get(name) for name in options} == options
    steps = {"1": [1, 3], "16": [1], "64": [0]}  # numbers by batch sizes as texts, as SGLang 0.5.23 wants them
    adaptive = {size: {"candidate_steps": some} for size, some in steps.items()}
    assert found.adaptive == (adaptive if options[ALGORITHM].startswith("EAGLE") else None), "of EAGLE heads only"


def test_copies_over_machines_have_a_command_on_each_and_a_port_of_their_own() -> None:
    wanted = {"target": R1, "gpus": 32, "head": own_layers(R1), "where": Arrangement(tp=8, pp=2, replicas=2)}
    found = made("eagle k2=4", **wanted)
    servers = list(map(told, found.commands))
    assert [(one["gpus"], one["--port"], one["--node-rank"]) for one in servers] == [
        (list(range(8)), port, rank) for port in ("8000", "8001") for rank in ("0", "1")
    ]
    config = {"method": "mtp", "num_speculative_tokens": 3}  # each batch in flight would look up its own size
    assert [one["--speculative-config"] for one in servers] == 4 * [config]
    assert any("each copy runs on 2 machines" in note for note in found.notes)
    assert any("vLLM 0.32 or later" in note for note in found.notes)
    old = made(**wanted, engine_version="0.11.1", engine_said=True)
    ray, _ = map(told, old.commands)
    assert ray["--distributed-executor-backend"] == "ray"
    assert "--nnodes" not in ray
    assert "one Ray cluster" in old.notes[0]


@pytest.mark.parametrize(("drafting", "own", "judged"), [("own", 1, False), ("own", 2, True), ("shared", 0, True)])
@pytest.mark.parametrize("replicas", [1, 2])
def test_servers_have_ports_of_their_own_and_no_gpu_is_promised_twice(
    drafting: Drafting, own: int, judged: bool, replicas: int
) -> None:
    where = Arrangement(tp=2, replicas=replicas, drafting=drafting, own_gpus=own)
    judge = "Qwen/Qwen3-1.7B" if judged else None
    found = made("lr-async k1=2", where, draft="Qwen/Qwen3-0.6B", judge=judge, gpus=8)
    servers = list(map(told, found.commands))
    assert len(servers) == replicas * (2 + judged)
    assert len({one["--port"] for one in servers}) == len(servers)
    taken: dict[int, float] = defaultdict(float)
    for one in servers:
        for gpu in one["gpus"]:
            taken[gpu] += float(one.get("--gpu-memory-utilization", 0.9))
        assert one.get("--tensor-parallel-size", "1") == str(len(one["gpus"]))
    assert set(taken) == set(range(where.gpus))
    assert max(taken.values()) <= 0.9 + 1e-9
    assert len({found.client[role] for role in ("target", "draft", "judge")}) == 2 + judged


def test_tokens_are_drafted_by_batch_size() -> None:
    wanted = {"draft": "Qwen/Qwen3-0.6B", "gpus": 2, "where": Arrangement(tp=1, replicas=2)}
    found = made("draft-model k2=3", **wanted, engine_version="0.24.0")
    drafted = {"method": "draft_model", "model": "Qwen/Qwen3-0.6B"}
    assert [told(command)["--speculative-config"] for command in found.commands] == 2 * [
        {**drafted, "num_speculative_tokens": SCHEDULE.most, **TABLE}
    ]
    assert any("2 copies" in note for note in found.notes)
    assert found.client is None
    assert json.loads(json.dumps(found.plain()))["commands"] == list(found.commands)
    old = made("draft-model k2=3", **wanted, engine_version="0.18.0")
    assert told(old.commands[0])["--speculative-config"] == {**drafted, "num_speculative_tokens": 2}
    assert any("from vLLM 0.24 on" in note and json.dumps(TABLE) in note for note in old.notes)


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
    drafters = {"head": head_of(QWEN), "block": block_of(QWEN, DFLASH_OF)}
    found = made(configuration, Arrangement(tp=1, replicas=2), **drafters, engine=TRTLLM, gpus=2)
    first, second = map(told, found.commands)
    assert (first["engine"], first["served"], first["gpus"]) == ("trtllm", QWEN, [0])
    assert (first["--extra_llm_api_options"], second["--port"]) == ("trtllm.json", "8001")
    assert found.trtllm == {"speculative_config": {**config, "max_concurrency": 63}}, "63: the schedule's last batch"
    assert found.adaptive is None


@pytest.mark.parametrize("configuration", ["eagle k2=4", "autoregressive"])
def test_a_plan_for_sglang_starts_a_server_of_sglang_for_each_copy(configuration: str) -> None:
    found = made(configuration, Arrangement(tp=2, replicas=2), head=head_of(QWEN), gpus=4, engine=SGLANG)
    servers = [(one["engine"], one["gpus"], one["--port"]) for one in map(told, found.commands)]
    assert servers == [("sglang", [0, 1], "8000"), ("sglang", [2, 3], "8001")]
    assert not any("vLLM" in note for note in found.notes)


@pytest.mark.parametrize(("gpu", "backend"), [("B300", "triton"), ("B200", None)])
def test_sglang_is_told_of_kernels_in_triton_where_it_would_take_ones_that_are_missing(
    gpu: str, backend: str | None
) -> None:
    found = made(target=GEMMA, gpu=gpu_named(gpu), engine=SGLANG)
    assert told(found.commands[0]).get("--attention-backend") == backend


def test_a_model_from_a_folder_is_served_from_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(known_config(QWEN)[1]), encoding="utf-8")
    (command,) = made(target=model(str(tmp_path))).commands
    assert told(command)["served"] == str(tmp_path)


def test_an_engine_without_a_kind_of_drafter_has_no_command_for_it() -> None:
    old = deployment(**GEMMAS, engine_version="0.19.0", engine_said=True)
    assert "vllm 0.21 or later: 0.19.0 has no gemma4_assistant" in considered(old, ["eagle"]).unknown["eagle"]
    copies = made("block-drafter k2=8", COPIES, target=V4, gpus=8, block=block_of(V4))
    assert {told(command)["engine"] for command in copies.commands} == {"vllm"}
    assert "SGLang has no DSpark with copies of attention" in copies.notes


def test_whole_blocks_are_drafted_at_every_batch_size() -> None:
    wanted = {"target": QWEN, "gpus": 8, "block": block_of(QWEN), "where": WHOLE}
    scheduled = made("block-drafter k2=8", **wanted)
    every = settings_of(
        deployment(target=QWEN, gpus=8, block=block_of(QWEN)), Configuration.parse("block-drafter k2=8"), WHOLE,
        sequences=16, schedule=None,
    )  # fmt: skip
    assert scheduled.commands[0] == every.commands[0]
    assert scheduled.schedule is None
