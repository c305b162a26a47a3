"""The fields of a ``config.json`` that shapes are made of, under one name each.

Publishers name the same size differently (``num_experts``, ``num_local_experts``, ``n_routed_experts``). Fields that
say nothing about sizes are not read; those that hint at what is not modelled are the business of `unmodelled`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["ConfigFields", "Size"]

_MOST = 10_000_000  # of one size: beyond any model, and small enough for products of three to stay exact
_MOST_LAYERS = 2000
_MOST_TOKENS = 1_000_000_000  # of context


def _alike(value: Any) -> Any:
    """Return the number of a list that repeats one number: Hunyuan tells sizes layer by layer."""
    if isinstance(value, list) and value and all(type(item) is int and item == value[0] for item in value):
        return value[0]
    return value


def _named(*names: str) -> Any:
    return Field(default=None, validation_alias=AliasChoices(*names))


Size = Annotated[int, Field(ge=1, le=_MOST, strict=True)]
_Count = Annotated[int, Field(ge=0, le=_MOST, strict=True)]
_AlikeSize = Annotated[Size, BeforeValidator(_alike)]
_AlikeCount = Annotated[_Count, BeforeValidator(_alike)]
_Flag = Annotated[bool, Field(strict=True)]
_Layer = Annotated[int, Field(ge=0, le=_MOST_LAYERS, strict=True)]
_Layers = Annotated[list[_Layer], Field(max_length=_MOST_LAYERS)]
_Kinds = Annotated[
    list[Literal["full_attention", "sliding_attention", "chunked_attention"]], Field(max_length=_MOST_LAYERS)
]


class ConfigFields(BaseModel):
    """What is read of a ``config.json``; sizes are counts of numbers, None is what the file does not say."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    hidden_size: Annotated[Size, Field(validation_alias=AliasChoices("hidden_size", "n_embd", "d_model"))]
    vocab_size: Size
    num_hidden_layers: Annotated[
        int,
        Field(ge=1, le=_MOST_LAYERS, strict=True, validation_alias=AliasChoices("num_hidden_layers", "num_layers")),
    ]
    num_attention_heads: Size
    num_key_value_heads: Size | None = _named("num_key_value_heads", "multi_query_group_num")
    head_dim: Size | None = _named("head_dim", "attention_head_dim")
    intermediate_size: _AlikeSize | None = None
    tie_word_embeddings: _Flag | None = None

    max_position_embeddings: Annotated[int, Field(ge=1, le=_MOST_TOKENS, strict=True)] | None = _named(
        "max_position_embeddings", "max_sequence_length", "model_max_length", "seq_length"
    )
    rope_scaling: dict[str, Any] | None = _named("rope_scaling", "rope_parameters")

    sliding_window: Size | None = None
    use_sliding_window: _Flag | None = None
    max_window_layers: _Count | None = None
    sliding_window_pattern: Size | str | None = _named("sliding_window_pattern", "_sliding_window_pattern")
    layer_types: _Kinds | None = None
    attention_chunk_size: Size | None = None
    no_rope_layers: _Layers | None = None

    kv_lora_rank: Size | None = None
    q_lora_rank: Size | None = None
    qk_nope_head_dim: Size | None = None
    qk_rope_head_dim: Size | None = None
    v_head_dim: Size | None = None

    experts: _AlikeCount | None = _named("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    experts_per_token: _AlikeCount | None = _named("num_experts_per_tok", "experts_per_token", "moe_topk", "moe_k")
    moe_intermediate_size: _AlikeSize | None = None
    shared_experts: _AlikeCount | None = _named(
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"
    )
    shared_size: _Count | None = _named(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"
    )
    intermediate_size_mlp: Size | None = None
    first_k_dense_replace: _Count | None = None
    moe_layer_freq: Size | list[Literal[0, 1]] | None = None
    decoder_sparse_step: Size | None = None
    interleave_moe_layer_step: _Count | None = None
    mlp_only_layers: _Layers | None = None
    moe_layers: _Layers | None = None
    mlp_layer_types: Annotated[list[Literal["dense", "sparse"]], Field(max_length=_MOST_LAYERS)] | None = None
    moe_layer_start_index: _AlikeCount | None = None
    moe_layer_end_index: Annotated[int, BeforeValidator(_alike)] | None = None
    moe_layer_interval: Size | None = None

    draft_vocab_size: Size | None = None
    target_hidden_size: Size | None = None
    num_nextn_predict_layers: _Count | None = None
