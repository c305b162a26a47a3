"""Configurations of hybrids, sparse and compressed attention: their layers, and what contradicts itself."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from refusals import refused

from specplan.worlds.known_models import known_config
from specplan.worlds.model_files import draft_head, facts_of_config, shape_of
from theory.errors import SchemaError
from theory.hardware.formats import FORMATS, Precision
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import ITERATION, half_width
from theory.hardware.mixers.sparse import CompressedAttention
from theory.hardware.mixers.states import Recurrent
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Attention, Dense, Experts, LatentAttention
from theory.hardware.work import Work


def changed(name: str, **fields: Any) -> dict[str, Any]:
    """A configuration of the table with fields changed; None leaves one out."""
    config = {**known_config(name)[1], **fields}
    return {key: value for key, value in config.items() if value is not None}


def counts(name: str) -> dict[tuple[str, str], int]:
    """Layers by what mixes their tokens and by what follows."""
    found: dict[tuple[str, str], int] = {}
    for group in shape_of(name).shape.layers:
        mixer = group.attention
        named = mixer.kind if isinstance(mixer, Recurrent) else type(mixer).__name__
        key = named, type(group.feed_forward).__name__
        found[key] = found.get(key, 0) + group.count
    return found


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {("gated-delta", "Experts"): 36, ("Attention", "Experts"): 12}),
        ("Qwen/Qwen3.5-27B", {("gated-delta", "Dense"): 48, ("Attention", "Dense"): 16}),
        (
            "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
            {("mamba2", "Dense"): 21, ("mamba2", "NoneType"): 6, ("Attention", "Dense"): 4},
        ),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", {
            ("kda", "Dense"): 1, ("kda", "Experts"): 19, ("LatentAttention", "Experts"): 7}),
        ("deepseek-ai/DeepSeek-V3.2", {("LatentAttention", "Dense"): 3, ("LatentAttention", "Experts"): 58}),
        ("deepseek-ai/DeepSeek-V4-Flash", {("CompressedAttention", "Experts"): 43}),
        ("deepseek-ai/DeepSeek-V4.1-Flash", {("CompressedAttention", "Experts"): 40}),
        ("MiniMaxAI/MiniMax-M3", {("Attention", "Dense"): 3, ("Attention", "Experts"): 57}),
        ("Qwen/Qwen3.8-Flash-Next", {("gated-delta", "Experts"): 36, ("Attention", "Experts"): 12}),
        ("LiquidAI/LFM2-1.2B", {("convolution", "Dense"): 10, ("Attention", "Dense"): 6}),
        ("LiquidAI/LFM2-8B-A1B", {
            ("convolution", "Dense"): 2, ("convolution", "Experts"): 16, ("Attention", "Experts"): 6}),
        ("inclusionAI/Ling-3.0-flash", {
            ("kda", "Dense"): 2, ("kda", "Experts"): 33, ("LatentAttention", "Experts"): 7}),
        ("zai-org/GLM-5.3-Flash", {
            ("kda", "Dense"): 3, ("kda", "Experts"): 31, ("LatentAttention", "Experts"): 11}),
        ("MiniMaxAI/MiniMax-M1-80k", {("lightning", "Experts"): 70, ("Attention", "Experts"): 10}),
        ("google/gemma-4-E2B-it", {("Attention", "Dense"): 35}),
        ("meituan-longcat/LongCat-Flash-Chat", {("LatentAttention", "Dense"): 28, ("LatentAttention", "Experts"): 28}),
    ],
)  # fmt: skip
def test_layers_of_the_models_of_this_autumn(name: str, layers: dict[tuple[str, str], int]) -> None:
    assert counts(name) == layers


def test_active_parameters_are_those_of_the_names() -> None:
    for name, active in (
        ("Qwen/Qwen3.5-122B-A10B", 10e9), ("Qwen/Qwen3.5-397B-A17B", 17e9), ("XiaomiMiMo/MiMo-V2-Flash", 15e9),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 12e9), ("google/gemma-4-26B-A4B", 3.8e9),
        ("deepseek-ai/DeepSeek-V4.1-Flash", 16e9), ("inclusionAI/Ling-3.0-flash", 5.1e9),
        ("inclusionAI/Ling-3.0-tiny", 1.3e9), ("tencent/Hy4-preview", 49e9), ("LiquidAI/LFM2-8B-A1B", 1.5e9),
        ("meituan-longcat/LongCat-Flash-Chat", 27e9), ("google/gemma-4-E2B-it", 2.3e9),
        ("google/gemma-4-E4B-it", 4.5e9), ("zai-org/GLM-5.3-Flash", 18e9),
    ):  # fmt: skip
        assert shape_of(name).shape.active_parameters == pytest.approx(active, rel=0.07), name


def test_streams_that_products_mix_and_keys_of_several_tokens() -> None:
    """Qwen3.8-Flash-Next: 10,240 numbers in four streams to 320 and 4, and back, before both parts of 48 layers."""
    facts = shape_of("Qwen/Qwen3.8-Flash-Next")
    assert facts.shape.mixed == 2 * 48 * 10240 * (320 + 4 + 320)
    assert facts.shape.parameters == pytest.approx(125.7e9, rel=1e-3)
    (attention,) = {g.attention for g in facts.shape.layers if isinstance(g.attention, Attention)}
    assert (attention.selection.entries, attention.selection.key_bytes) == (2048, 2 * 128 / 4)
    assert (attention.gated, facts.next_token_layers, facts.shape.mixing) == (True, 1, "states")
    assert len(facts.notes) == 1, "n-grams are in the host's memory"
    one = PassModel(gpu=gpu_named("H100"), shape=facts.shape)
    alike = PassModel(gpu=gpu_named("H100"), shape=replace(facts.shape, stream_rank=0))
    work = Work(sequences=8.0, context=1000.0)
    product = partial(one.operators.product, work.rows, weights=FORMATS["bf16"])
    more = 2 * 48 * (product(outputs=324, inputs=10240) + product(outputs=10240, inputs=320))
    assert one.parts(work).streams - alike.parts(work).streams == pytest.approx(more)
    assert half_width(ITERATION, one) == max(half_width(ITERATION, alike), 0.5)


def test_windows_may_have_heads_of_their_own() -> None:
    found = {g.attention for g in shape_of("XiaomiMiMo/MiMo-V2-Flash").shape.layers}
    assert {(a.kv_heads, a.window, a.kv_heads * 2 * a.mean_dim) for a in found if isinstance(a, Attention)} == {
        (4, None, 4 * 320),
        (8, 128, 8 * 320),
    }
    found = {g.attention for g in shape_of("poolside/Laguna-XS.2").shape.layers}
    assert {(a.heads, a.window) for a in found if isinstance(a, Attention)} == {(48, None), (64, 512)}
    wrong = changed("poolside/Laguna-XS.2", num_attention_heads_per_layer=[48] * 39)
    with pytest.raises(SchemaError, match="num_attention_heads_per_layer: 39 entries"):
        facts_of_config(wrong, name="x", where="x")
    whole = [g.attention for g in shape_of("google/gemma-4-31B").shape.layers]
    assert {(a.kv_heads, a.head_dim, a.values_are_keys) for a in whole if isinstance(a, Attention)} == {
        (16, 256, False), (4, 512, True),
    }  # fmt: skip


def test_layers_read_keys_and_embeddings_of_their_own() -> None:
    """Gemma-4-E2B: 15 of 35 layers make keys, the others are twice as wide; rows of a table are added in all."""
    shape = shape_of("google/gemma-4-E2B-it").shape
    found = {
        (g.attention.shared, g.attention.window, g.feed_forward.intermediate): g.count
        for g in shape.layers
        if isinstance(g.attention, Attention) and isinstance(g.feed_forward, Dense)
    }
    assert found == {
        (False, 512, 6144 + 256): 12, (False, None, 6144 + 256): 3,
        (True, 512, 12288 + 256): 16, (True, None, 12288 + 256): 4,
    }  # fmt: skip
    assert shape.tables == 262144 * 35 * 256
    assert shape.active_parameters == shape.parameters - shape.tables
    grown = shape.cache_bytes(9000.0, Precision()) - shape.cache_bytes(8000.0, Precision())
    assert grown == 1000 * 3 * 2 * 512 * 2, "three layers keep what is older than the window"
    wrong = changed("google/gemma-4-E2B-it", num_kv_shared_layers=36)
    with pytest.raises(SchemaError, match="num_kv_shared_layers: 36 must be at most"):
        facts_of_config(wrong, name="x", where="x")


@pytest.mark.parametrize("name", ["google/gemma-4-E2B-it", "LiquidAI/LFM2-1.2B", "meituan-longcat/LongCat-Flash-Chat"])
def test_layers_that_nobody_measured_have_wide_intervals(name: str) -> None:
    model = PassModel(gpu=gpu_named("H100"), shape=shape_of(name).shape)
    assert half_width(ITERATION, model) == 0.5
    known = PassModel(gpu=gpu_named("H100"), shape=shape_of("google/gemma-4-12B-it").shape)
    assert half_width(ITERATION, known) < 0.1


def test_layers_without_attention_join_those_before() -> None:
    """Llama-3.3-Nemotron-Super: 49 of 80 layers attend; what the others feed forward counts all the same."""
    shape = shape_of("nvidia/Llama-3_3-Nemotron-Super-49B-v1").shape
    assert shape.n_layers == 49
    assert {g.attention.kv_heads for g in shape.layers if isinstance(g.attention, Attention)} == {8}
    assert shape.parameters == pytest.approx(49.87e9, rel=1e-3)


def test_states_of_convolutions_and_of_lightning_attention() -> None:
    """LFM2: two numbers of each channel; lightning attention: a state of 128 x 128 a head in float32."""
    held = {
        name: {g.attention.held(0.0) for g in shape_of(name).shape.layers if isinstance(g.attention, Recurrent)}
        for name in ("LiquidAI/LFM2-1.2B", "MiniMaxAI/MiniMax-M1-80k")
    }
    assert held == {"LiquidAI/LFM2-1.2B": {2 * 2048 * 2.0}, "MiniMaxAI/MiniMax-M1-80k": {64 * 128 * 128 * 4.0}}
    older = changed("inclusionAI/Ling-3.0-flash", short_conv_kernel_size=None)
    kinds = {g.attention.kind for g in facts_of_config(older, name="x", where="x").shape.layers[:2]}
    assert kinds == {"lightning"}, "Ling-2.5's files name no short convolution"


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("LiquidAI/LFM2-1.2B", {"full_attn_idxs": [2, 16]}, "full_attn_idxs: 16 must be below 16 layers"),
        ("LiquidAI/LFM2-1.2B", {"block_multiple_of": "256"}, "block_multiple_of"),
        ("LiquidAI/LFM2-1.2B", {"conv_L_cache": 0}, "conv_L_cache"),
        ("LiquidAI/LFM2-1.2B", {"conv_L_cache": 1}, "conv_L_cache"),
        ("inclusionAI/Ling-3.0-flash", {"layer_group_size": None}, "full_attention_interval: missing"),
        ("MiniMaxAI/MiniMax-M1-80k", {"full_attn_idxs": None, "attn_type_list": [0, 1]}, "attn_type_list: 2 entries"),
        ("google/gemma-4-E2B-it", {"layer_types": ["conv"] * 35}, "linear_attention is not known"),
        ("mistralai/Mistral-Large-4-1T-A52B", {"kv_source_layers": [0, 0]}, "kv_source_layers says that it shares"),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", {"num_hidden_layers": 79}, "block_configs: 80 entries"),
        (
            "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
            {"num_hidden_layers": 1, "block_configs": [{"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}}]},
            "must begin with a layer that attends",
        ),
        (
            "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
            {"num_hidden_layers": 1, "block_configs": [{"attention": {"n_heads_in_group": 7}, "ffn": {"no_op": True}}]},
            "n_heads_in_group=7 must divide",
        ),
        (
            "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
            {"num_hidden_layers": 1, "block_configs": [{"attention": {}, "ffn": {}}]},
            "ffn_mult: missing",
        ),
        (
            "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
            {"num_hidden_layers": 1, "block_configs": [{"attention": {}, "ffn": {"replace_with_linear": True}}]},
            "replace_with_linear is not modelled",
        ),
        ("meituan-longcat/LongCat-Flash-Chat", {"moe_topk": 600}, "num_experts_per_tok: 600 must be in"),
        ("Qwen/Qwen3-30B-A3B", {"zero_expert_num": 8}, "zero_expert_num says that it has experts that compute nothing"),
        ("IFM/K2-Horizon-7B", {"mova_num_experts": 64}, "mova_num_experts says that it makes values by experts"),
    ],
)
def test_new_kinds_of_layers_that_contradict_themselves(name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        facts_of_config(changed(name, **fields), name="x", where="x")
    assert "\n" not in str(caught.value)


def test_indexes_are_shared_where_the_file_says_it() -> None:
    own = [g for g in shape_of("zai-org/GLM-5.2").shape.layers if _index_heads(g.attention)]
    assert sum(group.count for group in own) == 21
    assert all(_index_heads(g.attention) == 32 for g in shape_of("zai-org/GLM-5").shape.layers)


def _index_heads(mixer: object) -> int:
    assert isinstance(mixer, LatentAttention)
    return mixer.selection.heads


def test_entries_and_choices_are_shared_where_the_file_says_it() -> None:
    """DeepSeek-V4.1-Flash: four layers make entries, four more choose among those of layer 20, all others read both."""
    found: dict[tuple[int, int | None, int], int] = {}
    per_token = 0.0
    for group in shape_of("deepseek-ai/DeepSeek-V4.1-Flash").shape.layers:
        mixer = group.attention
        assert isinstance(mixer, CompressedAttention)
        key = mixer.ratio, mixer.streams, 0 if mixer.selection is None else mixer.selection.heads
        found[key] = found.get(key, 0) + group.count
        per_token += group.count * (mixer.held(9000.0, cache_bytes=1.0) - mixer.held(8000.0, cache_bytes=1.0)) / 1000.0
    assert found == {(0, None, 0): 2, (2, 2, 32): 3, (2, 0, 0): 15, (1, 1, 32): 1, (1, 0, 32): 4, (1, 0, 0): 15}
    assert per_token == pytest.approx((3 / 2 + 1) * (512 + 132)), "entries and keys of their index"
    facts = shape_of("deepseek-ai/DeepSeek-V4.1-Flash")
    assert facts.precision == Precision(weights="fp8-block", experts="mxfp4", cache="fp8")
    assert facts.shape.streams == 4
    assert "Engram" in " ".join(facts.notes)


def test_states_have_the_format_that_the_file_says() -> None:
    states = [
        group.attention.state_bytes
        for name in ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3.5-27B")
        for group in shape_of(name).shape.layers
        if isinstance(group.attention, Recurrent)
    ]
    assert states == [2.0, 4.0]


def test_a_layer_for_further_tokens_attends_and_compresses_nothing() -> None:
    hybrid = draft_head(shape_of("Qwen/Qwen3.5-35B-A3B"), "mtp").shape.layers[0]
    assert isinstance(hybrid.attention, Attention)
    assert isinstance(hybrid.feed_forward, Experts)
    light = draft_head(shape_of("XiaomiMiMo/MiMo-V2-Flash"), "mtp").shape
    assert light.parameters - light.embeddings == pytest.approx(0.33e9, rel=0.12)  # model card, the joining left out
    assert isinstance(attention := light.layers[0].attention, Attention)
    assert attention.window == 128
    compressed = draft_head(shape_of("deepseek-ai/DeepSeek-V4-Flash"), "mtp").shape.layers[0].attention
    assert isinstance(compressed, CompressedAttention)
    assert (compressed.ratio, compressed.selection) == (0, None)


def test_formats_that_differ_by_module() -> None:
    names = {
        "model.layers.0.mlp.experts": {"quant_algo": "W4A16_NVFP4"},
        "model.layers.0.linear_attn.out_proj": {"quant_algo": "FP8"},
        "lm_head": {"quant_algo": "NVFP4"},
    }
    quantised = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": names},
    }
    config = changed("Qwen/Qwen3.5-35B-A3B", quantization_config=quantised)
    assert facts_of_config(config, name="x", where="x").precision == Precision(
        weights="bf16", attention="fp8", experts="int4-group32", cache="fp8"
    )
    v4 = shape_of("deepseek-ai/DeepSeek-V4-Flash").precision
    assert v4 == Precision(weights="fp8-block", experts="mxfp4", cache="fp8")


test_contradictions_are_one_line = refused(
    lambda name, fields: facts_of_config(changed(name, **fields), name="x", where="x"),
    ("Qwen/Qwen3.5-27B", {"linear_num_key_heads": 7}, "linear_num_key_heads: 7 must divide the 48 heads"),
    ("Qwen/Qwen3.5-27B", {"linear_key_head_dim": None}, "linear_key_head_dim: missing"),
    ("Qwen/Qwen3.5-27B", {"layer_types": ["linear_attention"] * 3}, "3 entries must be num_hidden_layers=64"),
    ("Qwen/Qwen3.5-27B", {"layer_types": ["wavelet"] * 64}, "'wavelet', a kind of layer .* nearest"),
    ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", {"hybrid_override_pattern": "M-X" + "M" * 53}, "has 'X', a kind"),
    ("moonshotai/Kimi-Linear-48B-A3B-Instruct", {"num_hidden_layers": 28}, "must name each of 1 to 28 once"),
    ("deepseek-ai/DeepSeek-V4-Flash", {"o_groups": 7}, "o_groups: 7 must divide the 64 heads"),
    ("deepseek-ai/DeepSeek-V4-Flash", {"compress_ratios": [4] * 40}, "compress_ratios: 40 entries must be"),
    ("deepseek-ai/DeepSeek-V4-Flash", {"compress_ratios": [5] * 43}, "compress_ratios"),
    ("deepseek-ai/DeepSeek-V4-Flash", {"compress_ratios": [2] * 43}, "2. without kv_source_layer_ids"),
    ("deepseek-ai/DeepSeek-V4.1-Flash", {"kv_source_layer_ids": [2, 8]}, "no layer up to 20 makes the entries"),
    ("deepseek-ai/DeepSeek-V3.2", {"index_topk": None}, "index_topk: missing"),
    ("zai-org/GLM-5.2", {"indexer_types": ["full"]}, "indexer_types: 1 entries must be num_hidden_layers=78"),
    ("XiaomiMiMo/MiMo-V2-Flash", {"hybrid_layer_pattern": [1, 0]}, "hybrid_layer_pattern: 2 entries"),
    ("MiniMaxAI/MiniMax-M3", {"num_hidden_layers": 61}, "sparse_attention_freq: 60 entries must be"),
    ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", {"hybrid_override_pattern": "-" * 56}, "must begin with a layer"),
    ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", {"hybrid_override_pattern": "M--" + "M" * 53}, "mlp before mlp"),
    ("Qwen/Qwen3-8B", {"layer_types": ["linear_attention"] * 36}, "not known for this model_type"),
    error=SchemaError,
)  # fmt: skip


def test_granite_hybrids_are_read_with_and_without_experts() -> None:
    config = {
        "model_type": "granitemoehybrid", "hidden_size": 1536, "num_hidden_layers": 4, "num_attention_heads": 12,
        "num_key_value_heads": 4, "vocab_size": 100352, "layer_types": ["mamba", "mamba", "attention", "mamba"],
        "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_d_conv": 4,
        "shared_intermediate_size": 1024,
        "num_local_experts": 0, "num_experts_per_tok": 0, "intermediate_size": 512,
    }  # fmt: skip
    dense = facts_of_config(config, name="x", where="x").shape.layers
    assert [(g.count, type(g.attention), g.feed_forward) for g in dense] == [
        (3, Recurrent, Dense(intermediate=1024)), (1, Attention, Dense(intermediate=1024)),
    ]  # fmt: skip
    mixed = {**config, "num_local_experts": 62, "num_experts_per_tok": 6}
    forward = facts_of_config(mixed, name="x", where="x").shape.layers[0].feed_forward
    assert forward == Experts(count=62, per_token=6, intermediate=512, shared=1024)
