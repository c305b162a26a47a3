"""Configurations of all families: their layers, what these keep and weigh, and what contradicts itself."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError
from refusals import refused

from specplan.worlds.configs.fields import ConfigFields
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

FALCON, JAMBA = "tiiuae/Falcon-H1-7B-Instruct", "ai21labs/AI21-Jamba-1.5-Mini"
INKLING, DOTS = "thinkingmachines/Inkling", "dots-studio/dots3-note-prev"
QWEN, NEXT, FLASH = "Qwen/Qwen3.5-27B", "Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3.8-Flash-Next"
V4, V41, R1 = "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4.1-Flash", "deepseek-ai/DeepSeek-R1"
KIMI, MIMO, LING = "moonshotai/Kimi-Linear-48B-A3B-Instruct", "XiaomiMiMo/MiMo-V2-Flash", "inclusionAI/Ling-3.0-flash"
LFM, LAGUNA, LONGCAT = "LiquidAI/LFM2-1.2B", "poolside/Laguna-XS.2", "meituan-longcat/LongCat-Flash-Chat"
MINIMAX, GEMMA = "MiniMaxAI/MiniMax-M1-80k", "google/gemma-4-E2B-it"
NANO, SUPER = "nvidia/NVIDIA-Nemotron-Nano-9B-v2", "nvidia/Llama-3_3-Nemotron-Super-49B-v1"


def changed(name: str, **fields: Any) -> dict[str, Any]:
    """A configuration of the table with fields changed; None leaves one out."""
    config = {**known_config(name)[1], **fields}
    return {key: value for key, value in config.items() if value is not None}


def read(name: str, **fields: Any) -> Any:
    """What such a configuration tells."""
    return facts_of_config(changed(name, **fields), name="x", where="x")


def mixers(name: str, kind: type = Attention) -> set[Any]:
    """What of a kind mixes tokens in the layers of a model."""
    return {group.attention for group in shape_of(name).shape.layers if isinstance(group.attention, kind)}


def described(name: str) -> set[str]:
    """Layers by what mixes their tokens, its window, and what follows."""
    found: dict[str, int] = {}
    for group in shape_of(name).shape.layers:
        mixer, forward = group.attention, group.feed_forward
        text = mixer.kind if isinstance(mixer, Recurrent) else type(mixer).__name__
        text += f"@{window}" if (window := getattr(mixer, "window", None)) else ""
        text += "" if forward is None else f"+{type(forward).__name__}"
        found[text] = found.get(text, 0) + group.count
    return {f"{count} {text}" for text, count in found.items()}


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        (FALCON, "44 mamba2, 44 Attention+Dense"),
        (JAMBA, "12 mamba1+Dense, 16 mamba1+Experts, 4 Attention+Dense"),
        ("ibm-granite/granite-4.0-h-small", "36 mamba2+Experts, 4 Attention+Experts"),
        ("ibm-granite/granite-4.0-h-1b", "36 mamba2+Dense, 4 Attention+Dense"),
        (INKLING, "2 Attention@512+Dense, 53 Attention@512+Experts, 11 Attention+Experts"),
        (DOTS, "1 LatentAttention+Dense, 12 LatentAttention+Experts, 33 LatentAttention@512+Experts"),
        ("ai-sage/GigaChat3.5-432B-A28B", "3 gated-delta+Dense, 27 gated-delta+Experts, 10 LatentAttention+Experts"),
        (NEXT, "36 gated-delta+Experts, 12 Attention+Experts"),
        (QWEN, "48 gated-delta+Dense, 16 Attention+Dense"),
        (NANO, "21 mamba2+Dense, 6 mamba2, 4 Attention+Dense"),
        (KIMI, "1 kda+Dense, 19 kda+Experts, 7 LatentAttention+Experts"),
        ("deepseek-ai/DeepSeek-V3.2", "3 LatentAttention+Dense, 58 LatentAttention+Experts"),
        (V4, "43 CompressedAttention@128+Experts"),
        (V41, "40 CompressedAttention@128+Experts"),
        ("MiniMaxAI/MiniMax-M3", "3 Attention+Dense, 57 Attention+Experts"),
        (FLASH, "36 gated-delta+Experts, 12 Attention+Experts"),
        (LFM, "10 convolution+Dense, 6 Attention+Dense"),
        ("LiquidAI/LFM2-8B-A1B", "2 convolution+Dense, 16 convolution+Experts, 6 Attention+Experts"),
        (LING, "2 kda+Dense, 33 kda+Experts, 7 LatentAttention+Experts"),
        ("zai-org/GLM-5.3-Flash", "3 kda+Dense, 31 kda+Experts, 11 LatentAttention+Experts"),
        (MINIMAX, "70 lightning+Experts, 10 Attention+Experts"),
        (GEMMA, "28 Attention@512+Dense, 7 Attention+Dense"),
        (LONGCAT, "28 LatentAttention+Dense, 28 LatentAttention+Experts"),
    ],
)
def test_layers_of_families(name: str, layers: str) -> None:
    assert described(name) == set(layers.split(", "))


@pytest.mark.parametrize(
    ("name", "active"),
    [
        (INKLING, 41e9), ("thinkingmachines/Inkling-Small", 12e9), ("ai-sage/GigaChat3.5-432B-A28B", 28e9),
        ("ai-sage/GigaChat3-10B-A1.8B", 1.8e9), (JAMBA, 12e9), ("CohereLabs/command-a-plus-05-2026-bf16", 25e9),
        ("Qwen/Qwen3.8-2.4T-A95B", 95e9), ("poolside/Laguna-M.1", 23e9), (DOTS, 17e9),
        ("ibm-granite/granite-4.0-h-small", 9e9), ("XiaomiMiMo/MiMo-V2.5-Pro", 42e9),
        ("JetBrains/Mellum2-12B-A2.5B-Base", 2.5e9), ("Qwen/Qwen3.5-122B-A10B", 10e9),
        ("Qwen/Qwen3.5-397B-A17B", 17e9), (MIMO, 15e9), ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 12e9),
        ("google/gemma-4-26B-A4B", 3.8e9), (V41, 16e9), (LING, 5.1e9), ("inclusionAI/Ling-3.0-tiny", 1.3e9),
        ("tencent/Hy4-preview", 49e9), ("LiquidAI/LFM2-8B-A1B", 1.5e9), (LONGCAT, 27e9), (GEMMA, 2.3e9),
        ("google/gemma-4-E4B-it", 4.5e9), ("zai-org/GLM-5.3-Flash", 18e9),
    ],
)  # fmt: skip
def test_active_parameters_are_those_of_the_names_and_cards(name: str, active: float) -> None:
    assert shape_of(name).shape.active_parameters == pytest.approx(active, rel=0.07)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (INKLING, "short convolutions beside attention"),
        (DOTS, "windows on latent attention"),
        (JAMBA, "layers of mamba1"),
        (GEMMA, ""),
        (LFM, ""),
        (LONGCAT, ""),
    ],
)
def test_what_nobody_measured_has_wide_intervals(name: str, what: str) -> None:
    shape, gpu = shape_of(name).shape, gpu_named("H100")
    assert not what or shape.unmeasured == (what,)
    assert half_width(ITERATION, PassModel(gpu=gpu, shape=shape)) == 0.5
    assert half_width(ITERATION, PassModel(gpu=gpu, shape=shape_of("google/gemma-4-12B-it").shape)) < 0.1


def test_layers_with_a_window_keep_latents_of_their_own_size() -> None:
    """dots3-note: 33 of 46 layers look back 512 tokens, with latents twice as wide and no index."""
    latent = mixers(DOTS, LatentAttention)
    assert {(a.window, a.cache_rank, a.selection is None) for a in latent} == {(None, 512, False), (512, 1024, True)}
    layers = read(DOTS, swa_kv_lora_rank=512).shape.layers
    assert {group.attention.cache_rank for group in layers if group.attention.window} == {512}


def test_states_beside_attention_are_of_the_same_layer() -> None:
    """Falcon-H1: what attends and what keeps a state are two halves of each of 44 layers, with one feed-forward."""
    shape = shape_of(FALCON).shape
    assert [(g.count, g.feed_forward is None) for g in shape.layers] == [(44, True), (44, False)]
    assert shape.parameters == pytest.approx(7.585e9, rel=0.01)


def test_streams_that_products_mix_and_keys_of_several_tokens() -> None:
    """Qwen3.8-Flash-Next: 10,240 numbers in four streams to 320 and 4, and back, before both parts of 48 layers."""
    facts = shape_of(FLASH)
    assert facts.shape.mixed == 2 * 48 * 10240 * (320 + 4 + 320)
    assert facts.shape.parameters == pytest.approx(125.7e9, rel=1e-3)
    (attention,) = mixers(FLASH)
    assert (attention.selection.entries, attention.selection.key_bytes) == (2048, 2 * 128 / 4)
    assert (attention.gated, facts.next_token_layers, facts.shape.mixing) == (True, 1, "states")
    assert len(facts.notes) == 1, "n-grams are in the host's memory"
    one, alike = (
        PassModel(gpu=gpu_named("H100"), shape=shape) for shape in (facts.shape, replace(facts.shape, stream_rank=0))
    )
    work = Work(sequences=8.0, context=1000.0)
    product = partial(one.operators.product, work.rows, weights=FORMATS["bf16"])
    more = 2 * 48 * (product(outputs=324, inputs=10240) + product(outputs=10240, inputs=320))
    assert one.parts(work).streams - alike.parts(work).streams == pytest.approx(more)
    assert half_width(ITERATION, one) == max(half_width(ITERATION, alike), 0.5)


def test_windows_may_have_heads_of_their_own() -> None:
    assert {(a.kv_heads, a.window, a.mean_dim) for a in mixers(MIMO)} == {(4, None, 160), (8, 128, 160)}
    assert {(a.heads, a.window) for a in mixers(LAGUNA)} == {(48, None), (64, 512)}
    whole = mixers("google/gemma-4-31B")
    assert {(a.kv_heads, a.head_dim, a.values_are_keys) for a in whole} == {(16, 256, False), (4, 512, True)}


def test_layers_read_keys_and_embeddings_of_their_own() -> None:
    """Gemma-4-E2B: 15 of 35 layers make keys, the others are twice as wide; rows of a table are added in all."""
    shape = shape_of(GEMMA).shape
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


def test_layers_without_attention_join_those_before() -> None:
    """Llama-3.3-Nemotron-Super: 49 of 80 layers attend; what the others feed forward counts all the same."""
    shape = shape_of(SUPER).shape
    assert shape.n_layers == 49
    assert {a.kv_heads for a in mixers(SUPER)} == {8}
    assert shape.parameters == pytest.approx(49.87e9, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "held"),
    [(LFM, 2 * 2048 * 2.0), (MINIMAX, 64 * 128 * 128 * 4.0)],
    ids=["two numbers of each channel", "a state of 128 x 128 a head in float32"],
)
def test_states_of_convolutions_and_of_lightning_attention(name: str, held: float) -> None:
    assert {state.held(0.0) for state in mixers(name, Recurrent)} == {held}


def test_states_have_the_kind_and_the_format_that_the_file_says() -> None:
    assert {state.state_bytes for state in mixers(NEXT, Recurrent)} == {2.0}
    assert {state.state_bytes for state in mixers(QWEN, Recurrent)} == {4.0}
    older = read(LING, short_conv_kernel_size=None).shape.layers[:2]
    assert {group.attention.kind for group in older} == {"lightning"}, "Ling-2.5's files name no short convolution"


def test_indexes_are_shared_where_the_file_says_it() -> None:
    layers = shape_of("zai-org/GLM-5.2").shape.layers
    assert sum(group.count for group in layers if group.attention.selection.heads) == 21
    assert {latent.selection.heads for latent in mixers("zai-org/GLM-5", LatentAttention)} == {32}


def test_entries_and_choices_are_shared_where_the_file_says_it() -> None:
    """DeepSeek-V4.1-Flash: four layers make entries, four more choose among those of layer 20, all others read both."""
    found: dict[tuple[int, int | None, int], int] = {}
    per_token, facts = 0.0, shape_of(V41)
    for group in facts.shape.layers:
        mixer = group.attention
        assert isinstance(mixer, CompressedAttention)
        key = mixer.ratio, mixer.streams, 0 if mixer.selection is None else mixer.selection.heads
        found[key] = found.get(key, 0) + group.count
        per_token += group.count * (mixer.held(9000.0, cache_bytes=1.0) - mixer.held(8000.0, cache_bytes=1.0)) / 1000.0
    assert found == {(0, None, 0): 2, (2, 2, 32): 3, (2, 0, 0): 15, (1, 1, 32): 1, (1, 0, 32): 4, (1, 0, 0): 15}
    assert per_token == pytest.approx((3 / 2 + 1) * (512 + 132)), "entries and keys of their index"
    assert facts.precision == Precision(weights="fp8-block", experts="mxfp4", cache="fp8")
    assert facts.shape.streams == 4
    assert "Engram" in " ".join(facts.notes)


@pytest.mark.parametrize(
    ("name", "mixer", "forward", "window"),
    [
        ("Qwen/Qwen3.5-35B-A3B", Attention, Experts, None),
        (MIMO, Attention, Dense, 128),
        (INKLING, Attention, Dense, None),
        (V4, CompressedAttention, Experts, 128),
    ],
)
def test_layers_for_further_tokens_attend_and_compress_nothing(
    name: str, mixer: type, forward: type, window: int | None
) -> None:
    shape = draft_head(shape_of(name), "mtp").shape
    (layer,) = shape.layers
    assert (type(layer.attention), type(layer.feed_forward)) == (mixer, forward)
    assert layer.attention.window == window
    if isinstance(layer.attention, CompressedAttention):
        assert (layer.attention.ratio, layer.attention.selection) == (0, None)
    if name == MIMO:
        assert shape.parameters - shape.embeddings == pytest.approx(0.33e9, rel=0.12)  # model card, without the joining
    if name == INKLING:
        assert layer.feed_forward == Dense(intermediate=24576)


def test_one_expert_is_a_dense_layer() -> None:
    layers = read(JAMBA, num_experts=1, num_experts_per_tok=1).shape.layers
    assert {type(group.feed_forward) for group in layers} == {Dense}


def one_layer(attention: dict[str, Any], ffn: dict[str, Any]) -> dict[str, Any]:
    """Fields of a model whose single layer a search found."""
    return {"num_hidden_layers": 1, "block_configs": [{"attention": attention, "ffn": ffn}]}


test_contradictions_are_one_line = refused(
    lambda name, fields: read(name, **fields),
    (FALCON, {"mamba_n_heads": None}, "mamba_heads: missing"),
    (FALCON, {"mamba_n_groups": 5}, "5 must divide the 24 heads"),
    (FALCON, {"num_key_value_heads": 5}, "must be a multiple of num_key_value_heads=5"),
    (INKLING, {"local_layer_ids": [66]}, "local_layer_ids: 66 must be below 66 layers"),
    ("Qwen/Qwen3-8B", {"swa_head_dim": 64}, "swa_head_dim"),
    ("Qwen/Qwen3-8B", {"layer_types": ["linear_attention"] * 36}, "not known for this model_type"),
    (R1, {"sliding_window": 512}, "windows are not known"),
    (LAGUNA, {"num_attention_heads_per_layer": [48] * 39}, "num_attention_heads_per_layer: 39 entries"),
    (GEMMA, {"num_kv_shared_layers": 36}, "num_kv_shared_layers: 36 must be at most"),
    (GEMMA, {"layer_types": ["conv"] * 35}, "linear_attention is not known"),
    (LFM, {"full_attn_idxs": [2, 16]}, "full_attn_idxs: 16 must be below 16 layers"),
    (LFM, {"conv_L_cache": 1}, "conv_L_cache"),
    (LFM, {"block_multiple_of": "256"}, "block_multiple_of"),
    (LING, {"layer_group_size": None}, "full_attention_interval: missing"),
    (MINIMAX, {"full_attn_idxs": None, "attn_type_list": [0, 1]}, "attn_type_list: 2 entries"),
    ("mistralai/Mistral-Large-4-1T-A52B", {"kv_source_layers": [0, 0]}, "kv_source_layers says that it shares"),
    (SUPER, {"num_hidden_layers": 79}, "block_configs: 80 entries"),
    (SUPER, one_layer({"no_op": True}, {"ffn_mult": 1.0}), "must begin with a layer that attends"),
    (SUPER, one_layer({"n_heads_in_group": 7}, {"no_op": True}), "n_heads_in_group=7 must divide"),
    (SUPER, one_layer({}, {}), "ffn_mult: missing"),
    (SUPER, one_layer({}, {"replace_with_linear": True}), "replace_with_linear is not modelled"),
    (LONGCAT, {"moe_topk": 600}, "num_experts_per_tok: 600 must be in"),
    ("Qwen/Qwen3-30B-A3B", {"zero_expert_num": 8}, "zero_expert_num says that it has experts that compute nothing"),
    ("IFM/K2-Horizon-7B", {"mova_num_experts": 64}, "mova_num_experts says that it makes values by experts"),
    (QWEN, {"linear_num_key_heads": 7}, "linear_num_key_heads: 7 must divide the 48 heads"),
    (QWEN, {"linear_key_head_dim": None}, "linear_key_head_dim: missing"),
    (QWEN, {"layer_types": ["linear_attention"] * 3}, "3 entries must be num_hidden_layers=64"),
    (QWEN, {"layer_types": ["wavelet"] * 64}, "'wavelet', a kind of layer .* nearest"),
    (NANO, {"hybrid_override_pattern": "M-X" + "M" * 53}, "has 'X', a kind"),
    (NANO, {"hybrid_override_pattern": "-" * 56}, "must begin with a layer"),
    (NANO, {"hybrid_override_pattern": "M--" + "M" * 53}, "mlp before mlp"),
    (KIMI, {"num_hidden_layers": 28}, "must name each of 1 to 28 once"),
    (V4, {"o_groups": 7}, "o_groups: 7 must divide the 64 heads"),
    (V4, {"compress_ratios": [4] * 40}, "compress_ratios: 40 entries must be"),
    (V4, {"compress_ratios": [5] * 43}, "compress_ratios"),
    (V4, {"compress_ratios": [2] * 43}, "2. without kv_source_layer_ids"),
    (V41, {"kv_source_layer_ids": [2, 8]}, "no layer up to 20 makes the entries"),
    ("deepseek-ai/DeepSeek-V3.2", {"index_topk": None}, "index_topk: missing"),
    ("zai-org/GLM-5.2", {"indexer_types": ["full"]}, "indexer_types: 1 entries must be num_hidden_layers=78"),
    (MIMO, {"hybrid_layer_pattern": [1, 0]}, "hybrid_layer_pattern: 2 entries"),
    ("MiniMaxAI/MiniMax-M3", {"num_hidden_layers": 61}, "sparse_attention_freq: 60 entries must be"),
    error=SchemaError,
)


@pytest.mark.parametrize("name", sorted(ConfigFields.model_fields.keys() - {"moe_layer_end_index"}))
def test_no_field_takes_a_negative_number(name: str) -> None:
    """But the end of a range of layers, which counts from behind."""
    alias: Any = ConfigFields.model_fields[name].validation_alias
    key = name if alias is None else alias.choices[0]
    least = {"hidden_size": 8, "vocab_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    for value in (-1, [-1]):
        with pytest.raises(ValidationError, match=key):
            ConfigFields(**{**least, key: value})
