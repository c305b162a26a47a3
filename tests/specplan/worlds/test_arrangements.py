"""Arrangements: they use the GPUs that are there, split only what divides, and say what they are."""

import re
from dataclasses import replace

import pytest
from deployments import block_of, deployment, model, own_layers
from hypothesis import given
from hypothesis import strategies as st

from sim.configuration import PLAIN
from specplan.planning.loads.options import considered, room_of
from specplan.worlds.arrangements import Arrangement, Drafting, arrangements, parallel_of, splits
from specplan.worlds.memory import STAGES
from specplan.worlds.request import Deployment
from theory.errors import ParameterError
from theory.hardware.engines import engine_named
from theory.hardware.gpus import gpu_named

R1 = "deepseek-ai/DeepSeek-R1"
TARGETS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-R1")
EVERY = ["4 x DP 2 EP 2", "2 x DP 4 EP 4", "DP 8 EP 8"]
DRAFTINGS: tuple[Drafting, ...] = ("none", "shared", "own")


@pytest.mark.parametrize("target", TARGETS)
@given(gpus=st.integers(1, 64), drafting=st.sampled_from(DRAFTINGS), judged=st.booleans())
def test_no_arrangement_uses_more_gpus_than_there_are_nor_leaves_room_for_a_copy(
    target: str, gpus: int, drafting: Drafting, judged: bool
) -> None:
    wanted = deployment(target=target, gpus=gpus, draft="Qwen/Qwen3-0.6B", judge="Qwen/Qwen3-0.6B" if judged else None)
    found = list(arrangements(wanted, drafting))
    for one in found:
        assert one.gpus <= gpus < one.gpus + one.tp + one.own_gpus
        assert one.dp > 1 or one.tp in splits(wanted.target, gpus)
        assert one.drafting == drafting
        assert parallel_of(wanted.target, one.split).gpus == one.tp
    assert len(set(found)) == len(found)
    own = {one.own_gpus for one in found}
    assert own <= ({0} if drafting != "own" else {2} if judged else {1})


@pytest.mark.parametrize(
    ("name", "whole", "parts"),
    [
        ("Qwen/Qwen3-235B-A22B-FP8", [8], [1, 2, 4]),  # 1536 columns of an expert: 192 on each of 8 GPUs
        ("Qwen/Qwen3-30B-A3B-FP8", [4, 8], [1, 2]),  # 768: 192 on each of 4
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", [8], [1, 2, 4]),  # 2560: 320 on each of 8
        ("deepseek-ai/DeepSeek-R1", [], [1, 2, 4, 8]),  # 2048: 256 on each of 8
        ("Qwen/Qwen3.8-Flash-Next-FP8", [2, 4, 8], [1]),  # 640, and as many of shared ones, which vLLM copies
        ("Qwen/Qwen3-235B-A22B", [], [1, 2, 4, 8]),  # in bf16 there are no blocks
        ("Qwen/Qwen3-4B-FP8", [], [1, 2, 4]),  # dense: 9728 columns are 76 blocks
        ("Qwen/Qwen2.5-Coder-0.5B", [], [1, 2]),  # 14 heads, 2 of keys and values
    ],
)
def test_experts_in_blocks_of_128_are_dealt_out_whole_where_parts_would_break_blocks(
    name: str, whole: list[int], parts: list[int]
) -> None:
    """vllm-project/vllm#17569: "not divisible by weight quantization block_n = 128"."""
    one = model(name)
    assert splits(one, 8) == sorted(whole + parts)
    assert [tp for tp in splits(one, 8) if parallel_of(one, tp).ep > 1] == whole
    assert all(parallel_of(one, tp).ep == tp for tp in whole)
    for gpus in range(1, 8):
        assert splits(one, gpus) == [tp for tp in splits(one, 8) if tp <= gpus]


@pytest.mark.parametrize(
    ("name", "copies"),
    [
        ("deepseek-ai/DeepSeek-R1", EVERY),  # latent attention: each GPU of a split keeps all that is cached
        ("openai/gpt-oss-120b", EVERY),  # as TensorRT-LLM's performance overview runs it, though heads split
        ("mistralai/Mixtral-8x7B-v0.1", EVERY),
        ("Qwen/Qwen1.5-MoE-A2.7B", ["4 x DP 2 EP 2", "2 x DP 4 EP 4"]),  # 60 experts do not divide by 8
        ("Qwen/Qwen3-32B", []),  # no experts
    ],
)
def test_mixtures_may_have_copies_of_their_attention(name: str, copies: list[str]) -> None:
    wanted = deployment(target=name, gpus=8)
    assert [one.text for one in arrangements(wanted, "none") if one.dp > 1] == copies
    assert not any(one.dp > 1 for one in arrangements(wanted, "none", tp=8)), "a given --tp is tensor parallelism"


def test_only_what_no_machine_holds_is_dealt_out_to_stages() -> None:
    plain = {
        (gpu, gpus): [one.text for one in considered(deployment(target=R1, gpu=gpu_named(gpu), gpus=gpus), ()).plain]
        for gpu, gpus in (("H100", 16), ("H100", 24), ("H100", 64), ("H200", 16), ("L40S", 32))
    }
    assert plain == {
        ("H100", 16): ["TP 8 PP 2"],
        ("H100", 24): ["TP 8 PP 2"],
        ("H100", 64): ["4 x TP 8 PP 2"],
        ("H200", 16): ["2 x TP 8", "2 x DP 8 EP 8"],
        ("L40S", 32): ["TP 8 PP 4"],
    }


@pytest.mark.parametrize(
    ("gpu", "gpus", "needs"),
    [
        ("H100", 8, "gpus=8 of 86 GB .* needs 88.6 GB .*; 16 GPUs would do or int4 weights would do"),
        ("L4", 1, "gpus=1 of 24 GB .*; 64 GPUs would do, where plans go up to 32"),
        ("L4", 32, "gpus=32 of 24 GB .* needs 25.5 GB .*; 64 GPUs would do, where plans go up to 32"),
    ],
)
def test_a_refusal_tells_of_the_arrangement_that_needs_least(gpu: str, gpus: int, needs: str) -> None:
    """Not of copies of the attention, which are tried last and need 16 GB more of each H100."""
    wanted = deployment(target=R1, gpu=gpu_named(gpu), gpus=gpus, context=8192)
    with pytest.raises(ParameterError, match=needs) as caught:
        considered(wanted, ())
    others = [str(_refusal(wanted, place)) for n in STAGES for place in arrangements(wanted, "none", stages=n)]
    told, *more = (float(re.findall(r"each needs ([\d.]+) GB", text)[0]) for text in [str(caught.value), *others])
    assert told == min(more)


def _refusal(wanted: Deployment, place: Arrangement) -> ParameterError:
    with pytest.raises(ParameterError) as caught:
        room_of(wanted, PLAIN, place)
    return caught.value


def test_over_stages_methods_are_those_that_the_engine_starts_there() -> None:
    methods = ("prompt-lookup", "eagle", "block-drafter", "lr-async")
    wanted = deployment(
        target=R1, gpus=16, head=own_layers(R1), block=block_of("Qwen/Qwen3-8B"), draft="Qwen/Qwen3-0.6B"
    )
    found = considered(wanted, methods)
    assert {name: [one.text for one in places] for name, places in found.tokens.items()} == {
        "prompt-lookup": ["TP 8 PP 2"],
        "eagle": ["TP 8 PP 2"],
    }
    assert all(str(reason[0]).startswith("a target on one machine: ") for reason in found.unknown.values())
    assert found.unknown.keys() == {"block-drafter", "lr-async"}
    for changed in (
        {"engine": engine_named("sglang")},
        {"engine": engine_named("trtllm")},
        {"engine_version": "0.28.0"},
    ):
        assert not considered(replace(wanted, engine_said=None, **changed), methods).tokens
    kimi = deployment(target="moonshotai/Kimi-K3", gpus=32, block=block_of("moonshotai/Kimi-K3"))
    found = considered(kimi, methods)
    assert [one.text for one in found.tokens["block-drafter"]] == ["TP 8 PP 4"]
    assert not found.adaptive, "vLLM verifies adaptively on one stage only"


def test_draft_and_judge_have_a_gpu_each_where_they_have_their_own() -> None:
    wanted = deployment(gpus=8, draft="Qwen/Qwen3-0.6B", judge="Qwen/Qwen3-0.6B")
    assert [one.text for one in arrangements(wanted, "own", tp=2)] == ["2 x (TP 2 + 2)"]
    assert [one.text for one in arrangements(wanted, "shared", tp=4)] == ["2 x TP 4"]
    assert list(arrangements(deployment(gpus=1, draft="Qwen/Qwen3-0.6B"), "own")) == []
