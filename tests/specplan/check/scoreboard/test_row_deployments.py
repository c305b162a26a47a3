"""From the words of a row to what was deployed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from public_tables import LOADED, SERVED

from specplan.check.scoreboard.deployments import loaded_parallel, precision_of, served_parallel, with_engines_cache
from specplan.check.scoreboard.rows import Loaded, Served
from specplan.worlds.model_files import shape_of
from theory.errors import ParameterError
from theory.hardware.gpus import gpu_named
from theory.hardware.work import Parallel

VLLM, TRTLLM, SGLANG = (f"{engine} on H200" for engine in ("vllm", "trtllm", "sglang"))


@pytest.mark.parametrize(
    ("name", "words", "weights", "experts", "caches"),
    [
        ("Qwen/Qwen3-8B", ("bfloat16",), "bf16", None, {}),
        ("Qwen/Qwen3-8B", ("fp8", "fp8"), "fp8", None, {}),
        ("Qwen/Qwen3-32B", ("bf16",), "bf16", None, {TRTLLM: "bf16"}),
        ("Qwen/Qwen3-32B", ("fp8_static", ""), "fp8", None, {VLLM: "fp8", SGLANG: "bf16"}),  # NVIDIA's, whose cache is
        ("nvidia/Qwen3-32B-FP8", ("fp8",), "fp8", None, {VLLM: "fp8"}),
        ("MiniMaxAI/MiniMax-M2.5", ("fp8", "fp8"), "fp8-block", None, {VLLM: "bf16"}),  # as published
        ("MiniMaxAI/MiniMax-M2.5", ("nvfp4", "nvfp4"), "nvfp4", None, {VLLM: "fp8"}),
        # as published: the table's word for 4 bits
        ("openai/gpt-oss-120b", ("nvfp4", "nvfp4"), "bf16", "mxfp4", {VLLM: "bf16"}),
        ("openai/gpt-oss-120b", ("bfloat16", "w4a8_mxfp4_mxfp8"), "bf16", "mxfp4", {}),
        ("deepseek-ai/DeepSeek-R1", ("fp8_block", "w4afp8"), "fp8-block", "int4", {}),
        (
            *("deepseek-ai/DeepSeek-R1", ("fp8", "fp8"), "fp8-block", None),
            {TRTLLM: "fp8", SGLANG: "bf16", "sglang on B200": "fp8"},
        ),
        # NVFP4 is not the published int4, and spares what that spares
        ("moonshotai/Kimi-K2.5", ("nvfp4", "nvfp4"), "bf16", "nvfp4", {}),
        ("moonshotai/Kimi-K2.5", ("int4", "int4"), "bf16", "int4-group32", {}),
    ],
)
def test_the_formats_of_a_row_and_of_the_cache_that_its_checkpoint_implies(
    name: str, words: tuple[str, ...], weights: str, experts: str | None, caches: dict[str, str]
) -> None:
    facts = shape_of(name)
    found = precision_of(facts, *words)
    assert (found.weights, found.experts) == (weights, experts)
    for where, cache in caches.items():
        engine, _, gpu = where.partition(" on ")
        assert with_engines_cache(found, facts, engine, gpu_named(gpu).name).cache == cache, where


def test_formats_that_are_refused() -> None:
    with pytest.raises(ParameterError, match="published in mxfp4: which weights ran is not said"):
        precision_of(shape_of("openai/gpt-oss-120b"), "fp8", "fp8")
    with pytest.raises(ParameterError, match="precision='e8m0' must say one of mxfp4, "):
        precision_of(shape_of("Qwen/Qwen3-8B"), "e8m0")


@pytest.mark.parametrize(
    ("columns", "parallel"),
    [
        ({}, Parallel()),
        ({"num_gpus": 2, "tp": 2}, Parallel(tp=2)),
        ({"num_gpus": 8, "ep": 8}, Parallel(tp=8, ep=8)),
        ({"num_gpus": 4, "dp": 4, "ep": 4}, Parallel(dp=4, ep=4)),
        ({"num_gpus": 8, "tp": 8, "dp": 8, "ep": 8}, Parallel(dp=8, ep=8)),
    ],
)
def test_gpus_of_served_rows(columns: dict[str, int], parallel: Parallel) -> None:
    assert served_parallel(Served.model_validate({**SERVED, "where": "s:1", **columns})) == parallel


def loaded(*split: int) -> Loaded:
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    return Loaded.model_validate({**LOADED, **dict(zip(names, split, strict=True)), "where": "l:1"})


@pytest.mark.parametrize(
    ("split", "parallel"),
    [
        ((1, 1, 1, 1), Parallel()),
        ((4, 1, 4, 1), Parallel(tp=4)),
        ((8, 1, 1, 8), Parallel(tp=8, ep=8)),
        ((1, 8, 1, 8), Parallel(dp=8, ep=8)),
        ((1, 4, 4, 1), Parallel(dp=4)),
        # the same eight, four and two GPUs counted twice
        ((64, 1, 8, 8), Parallel(tp=8, ep=8)),
        ((1, 64, 8, 8), Parallel(dp=8, ep=8)),
        ((1, 16, 4, 4), Parallel(dp=4, ep=4)),
        ((4, 1, 2, 2), Parallel(tp=2, ep=2)),
        ((4, 4, 1, 16), Parallel(dp=4, ep=4)),
    ],
)
def test_gpus_of_rows_under_load(split: tuple[int, int, int, int], parallel: Parallel) -> None:
    assert loaded_parallel(loaded(*split)) == parallel


@given(st.tuples(*[st.sampled_from([1, 2, 3, 4, 8, 16, 64])] * 4))
def test_any_split_is_of_a_node_or_refused(split: tuple[int, int, int, int]) -> None:
    try:
        gpus = loaded_parallel(loaded(*split)).gpus
    except ParameterError as error:
        gpus = 8 if "more than the 8 of a node" in str(error) else 0
    assert 1 <= gpus <= 8
