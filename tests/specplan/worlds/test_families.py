"""Families whose layers have states beside attention, windows on latent attention, or sizes of their own."""

from typing import Any

import pytest
from refusals import refused

from specplan.worlds.known_models import known_config
from specplan.worlds.model_files import draft_head, facts_of_config, shape_of
from theory.errors import SchemaError
from theory.hardware.gpus import gpu_named
from theory.hardware.half_widths import ITERATION, half_width
from theory.hardware.mixers.states import Recurrent
from theory.hardware.passes import PassModel
from theory.hardware.shapes import Attention, Dense, Experts, LatentAttention

FALCON, JAMBA = "tiiuae/Falcon-H1-7B-Instruct", "ai21labs/AI21-Jamba-1.5-Mini"
INKLING, DOTS = "thinkingmachines/Inkling", "dots-studio/dots3-note-prev"


def changed(name: str, **fields: Any) -> dict[str, Any]:
    """A configuration of the table with fields changed; None leaves one out."""
    config = {**known_config(name)[1], **fields}
    return {key: value for key, value in config.items() if value is not None}


def kinds(name: str) -> dict[tuple[str, str, int | None], int]:
    """Layers by what mixes their tokens, what follows, and the window."""
    found: dict[tuple[str, str, int | None], int] = {}
    for group in shape_of(name).shape.layers:
        mixer, forward = group.attention, group.feed_forward
        named = mixer.kind if isinstance(mixer, Recurrent) else type(mixer).__name__
        key = named, "" if forward is None else type(forward).__name__, getattr(mixer, "window", None)
        found[key] = found.get(key, 0) + group.count
    return found


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        (FALCON, {("mamba2", "", None): 44, ("Attention", "Dense", None): 44}),
        (JAMBA, {
            ("mamba1", "Dense", None): 12, ("mamba1", "Experts", None): 16, ("Attention", "Dense", None): 4}),
        ("ibm-granite/granite-4.0-h-small", {("mamba2", "Experts", None): 36, ("Attention", "Experts", None): 4}),
        (INKLING, {
            ("Attention", "Dense", 512): 2, ("Attention", "Experts", 512): 53, ("Attention", "Experts", None): 11}),
        (DOTS, {
            ("LatentAttention", "Dense", None): 1, ("LatentAttention", "Experts", None): 12,
            ("LatentAttention", "Experts", 512): 33}),
        ("ai-sage/GigaChat3.5-432B-A28B", {
            ("gated-delta", "Dense", None): 3, ("gated-delta", "Experts", None): 27,
            ("LatentAttention", "Experts", None): 10}),
    ],
)  # fmt: skip
def test_layers_of_families(name: str, layers: dict[tuple[str, str, int | None], int]) -> None:
    assert kinds(name) == layers


@pytest.mark.parametrize(
    ("name", "active"),
    [
        (INKLING, 41e9), ("thinkingmachines/Inkling-Small", 12e9), ("ai-sage/GigaChat3.5-432B-A28B", 28e9),
        ("ai-sage/GigaChat3-10B-A1.8B", 1.8e9), (JAMBA, 12e9), ("CohereLabs/command-a-plus-05-2026-bf16", 25e9),
        ("Qwen/Qwen3.8-2.4T-A95B", 95e9), ("poolside/Laguna-M.1", 23e9), (DOTS, 17e9),
        ("ibm-granite/granite-4.0-h-small", 9e9), ("XiaomiMiMo/MiMo-V2.5-Pro", 42e9),
        ("JetBrains/Mellum2-12B-A2.5B-Base", 2.5e9),
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
    ],
)
def test_what_nobody_measured_has_wide_intervals(name: str, what: str) -> None:
    shape = shape_of(name).shape
    assert shape.unmeasured == (what,)
    assert half_width(ITERATION, PassModel(gpu=gpu_named("H100"), shape=shape)) == 0.5


def test_layers_with_a_window_keep_latents_of_their_own_size() -> None:
    """dots3-note: 33 of 46 layers look back 512 tokens, with latents twice as wide and no index."""
    found = {g.attention for g in shape_of(DOTS).shape.layers if isinstance(g.attention, LatentAttention)}
    assert {(a.window, a.cache_rank, a.selection is None) for a in found} == {(None, 512, False), (512, 1024, True)}
    same = changed(DOTS, swa_kv_lora_rank=512)
    (windowed,) = {
        g.attention.cache_rank
        for g in facts_of_config(same, name="x", where="x").shape.layers
        if isinstance(g.attention, LatentAttention) and g.attention.window
    }
    assert windowed == 512


def test_layers_for_further_tokens_of_inkling_are_dense_and_see_everything() -> None:
    (layer,) = draft_head(shape_of(INKLING), "mtp").shape.layers
    assert isinstance(layer.attention, Attention)
    assert isinstance(layer.feed_forward, Dense)
    assert (layer.attention.window, layer.feed_forward.intermediate) == (None, 24576)


def test_states_beside_attention_are_of_the_same_layer() -> None:
    """Falcon-H1: what attends and what keeps a state are two halves of each of 44 layers, with one feed-forward."""
    shape = shape_of(FALCON).shape
    assert [(g.count, g.feed_forward is None) for g in shape.layers] == [(44, True), (44, False)]
    assert shape.parameters == pytest.approx(7.585e9, rel=0.01)


def test_one_expert_is_a_dense_layer() -> None:
    facts = facts_of_config(changed(JAMBA, num_experts=1, num_experts_per_tok=1), name="x", where="x")
    assert {type(g.feed_forward) for g in facts.shape.layers} == {Dense}
    assert Experts in {type(g.feed_forward) for g in shape_of(JAMBA).shape.layers}


test_contradictions_are_one_line = refused(
    lambda name, fields: facts_of_config(changed(name, **fields), name="x", where="x"),
    (FALCON, {"mamba_n_heads": None}, "mamba_heads: missing"),
    (FALCON, {"mamba_n_groups": 5}, "5 must divide the 24 heads"),
    (FALCON, {"num_key_value_heads": 5}, "must be a multiple of num_key_value_heads=5"),
    (JAMBA, {"attn_layer_period": 0}, "attn_layer_period"),
    (JAMBA, {"mamba_expand": "wide"}, "mamba_expand"),
    (JAMBA, {"mamba_dt_rank": "most"}, "mamba_dt_rank"),
    (INKLING, {"d_rel": -1}, "d_rel"),
    (INKLING, {"local_layer_ids": [-1]}, "local_layer_ids"),
    (INKLING, {"local_layer_ids": [66]}, "local_layer_ids: 66 must be below 66 layers"),
    (DOTS, {"swa_kv_lora_rank": 0}, "swa_kv_lora_rank"),
    ("Qwen/Qwen3-8B", {"swa_head_dim": 64}, "swa_head_dim"),
    ("deepseek-ai/DeepSeek-R1", {"sliding_window": 512}, "windows are not known"),
    error=SchemaError,
)  # fmt: skip
