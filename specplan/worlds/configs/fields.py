"""The fields of a ``config.json`` that shapes are made of, under one name each.

Publishers name the same size differently (``num_experts``, ``num_local_experts``, ``n_routed_experts``). Fields that
say nothing about sizes are not read; those that hint at what is not modelled are the business of `unmodelled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from theory.errors import SchemaError

__all__ = ["KIND_NAMES", "ConfigFields", "LayerKind", "Size", "T", "checked_length", "needed"]

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
KIND_NAMES: Final = {
    "attention": "full_attention",
    "indexed_attention": "full_attention",
    "deepseek_sparse_attention": "full_attention",
    "minimax_m3_sparse": "sparse_attention",
    "mamba": "linear_attention",
    "mamba2": "linear_attention",
    "kda": "linear_attention",
    "conv": "linear_attention",
    "short_conv": "linear_attention",
    "hybrid": "full_attention",
    "hybrid_sliding": "sliding_attention",
    "-": "mlp",
    "E": "moe",
    "M": "linear_attention",
    "*": "full_attention",
}
"""Names of kinds of layers by which publishers say the same; one letter each in the patterns of Nemotron-H."""


def _kinds(value: Any) -> Any:
    """Return the kinds of layers under one name each."""
    if not isinstance(value, str | list) or not value:
        return value
    return [KIND_NAMES.get(kind, kind) if isinstance(kind, str) else kind for kind in value]


LayerKind = Literal[
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "linear_attention",
    "sparse_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
    "mlp",
    "moe",
]
_Kinds = Annotated[list[LayerKind], Field(max_length=_MOST_LAYERS), BeforeValidator(_kinds)]


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class LinearFields(_Read):
    """What ``linear_attn_config`` says of Kimi's delta attention; layers, where no other field tells them, from 1."""

    kda_layers: _Layers = []
    full_attn_layers: _Layers = []
    head_dim: Size
    num_heads: Size
    short_conv_kernel_size: Size
    use_full_rank_gate: _Flag = False


class SparseFields(_Read):
    """What ``sparse_attention_config`` says of MiniMax's sparse attention."""

    sparse_attention_freq: Annotated[list[Literal[0, 1]], Field(max_length=_MOST_LAYERS)]
    sparse_block_size: Size
    sparse_index_dim: Size
    sparse_num_index_heads: Size
    sparse_topk_blocks: Size
    sparse_local_block: _Count = 0
    sparse_init_block: _Count = 0


class OtherHeads(_Read):
    """Heads of windowed layers, where ``attention_other_setting`` says that they differ."""

    num_attention_heads: Size
    num_attention_groups: Size
    head_dim: Size


class PartFields(_Read):
    """A part of a layer of which ``block_configs`` tells: attention or feed-forward."""

    no_op: _Flag = False
    replace_with_linear: _Flag = False
    n_heads_in_group: Size | None = None
    window_length: Size | None = None
    ffn_mult: Annotated[float, Field(gt=0.0, le=100.0)] | None = None


class BlockFields(_Read):
    """A layer of which ``block_configs`` tells (Nemotron's models found by a search)."""

    attention: PartFields
    ffn: PartFields


class ConfigFields(_Read):
    """What is read of a ``config.json``; sizes are counts of numbers, None is what the file does not say."""

    hidden_size: Annotated[Size, Field(validation_alias=AliasChoices("hidden_size", "n_embd", "d_model"))]
    vocab_size: Size
    num_hidden_layers: Annotated[
        int, Field(ge=1, le=_MOST_LAYERS, strict=True, validation_alias=AliasChoices("num_hidden_layers", "num_layers"))
    ]
    num_attention_heads: Size
    num_attention_heads_per_layer: Annotated[list[Size], Field(max_length=_MOST_LAYERS)] | None = None
    num_key_value_heads: Size | None = _named("num_key_value_heads", "multi_query_group_num", "num_attention_groups")
    head_dim: _Count | None = _named("head_dim", "attention_head_dim")
    intermediate_size: _AlikeSize | None = _named("block_ff_dim", "intermediate_size", "ffn_hidden_size")
    block_auto_adjust_ff_dim: _Flag | None = None
    block_ffn_dim_multiplier: Annotated[float, Field(gt=0.0, le=100.0)] | None = None
    block_multiple_of: Size | None = None
    tie_word_embeddings: _Flag | None = None

    max_position_embeddings: Annotated[int, Field(ge=1, le=_MOST_TOKENS, strict=True)] | None = _named(
        "max_position_embeddings", "max_sequence_length", "model_max_length", "seq_length"
    )
    rope_scaling: dict[str, Any] | None = _named("rope_scaling", "rope_parameters")

    sliding_window: Size | None = _named("sliding_window", "sliding_window_size")
    local_layer_ids: _Layers | None = None
    use_sliding_window: _Flag | None = None
    max_window_layers: _Count | None = None
    sliding_window_pattern: Size | str | None = _named("sliding_window_pattern", "_sliding_window_pattern")
    layer_types: _Kinds | None = _named("layer_types", "layers_block_type", "hybrid_override_pattern")
    hybrid_layer_pattern: Annotated[list[Literal[0, 1]], Field(max_length=_MOST_LAYERS)] | None = None
    attention_chunk_size: Size | None = None
    no_rope_layers: _Layers | None = None

    kv_lora_rank: Size | None = None
    q_lora_rank: Size | None = None
    qk_nope_head_dim: Size | None = None
    qk_rope_head_dim: _Count | None = None
    v_head_dim: Size | None = None
    mla_use_output_gate: _Flag | None = _named("mla_use_output_gate", "gated_attention")

    attn_output_gate: _Flag | None = None
    d_rel: Size | None = None
    sconv_kernel_size: Size | None = _named("sconv_kernel_size", "conv_kernel_size")
    attention_k_eq_v: _Flag | None = None
    num_kv_shared_layers: _Count | None = None
    use_double_wide_mlp: _Flag | None = None
    hidden_size_per_layer_input: _Count | None = None
    vocab_size_per_layer_input: _Count | None = None
    global_head_dim: Size | None = None
    num_global_key_value_heads: Size | None = None
    swa_num_attention_heads: Size | None = None
    swa_num_key_value_heads: Size | None = None
    swa_head_dim: Size | None = None
    swa_v_head_dim: Size | None = None
    swa_q_lora_rank: Size | None = None
    swa_kv_lora_rank: Size | None = None
    swa_qk_nope_head_dim: Size | None = None
    swa_qk_rope_head_dim: Size | None = None
    attention_other_setting: OtherHeads | None = None
    block_configs: Annotated[list[BlockFields], Field(max_length=_MOST_LAYERS)] | None = None

    index_n_heads: Size | None = None
    index_head_dim: Size | None = None
    index_topk: Size | None = None
    index_kpool: Size | None = None
    indexer_types: Annotated[list[Literal["full", "shared"]], Field(max_length=_MOST_LAYERS)] | None = None
    sparse_attention_config: SparseFields | None = None
    compress_ratios: Annotated[list[Literal[0, 1, 2, 4, 128]], Field(max_length=_MOST_LAYERS)] | None = None
    kv_source_layer_ids: _Layers | None = None
    index_source_layer_ids: _Layers | None = None
    indexer_n_heads: Size | None = None
    indexer_head_dim: Size | None = None
    indexer_budget: Size | None = None
    indexer_compress_ratio: Size | None = None
    engram_layer_ids: _Layers | None = _named("engram_layer_ids", "ple_layer_ids")
    o_groups: Size | None = None
    o_lora_rank: Size | None = None
    hc_mult: Size | None = _named("hc_mult", "hc_count")
    hc_lowrank: Size | None = None

    full_attention_interval: Size | None = _named("full_attention_interval", "layer_group_size")
    full_attention_layers: _Layers | None = _named("full_attn_idxs", "full_attention_layers", "attn_layer_indices")
    attn_layer_period: Size | None = None
    attn_layer_offset: _Count | None = None
    attn_type_list: Annotated[list[Literal[0, 1]], Field(max_length=_MOST_LAYERS)] | None = None
    linear_num_key_heads: Size | None = None
    linear_num_value_heads: Size | None = None
    linear_key_head_dim: Size | None = None
    linear_value_head_dim: Size | None = None
    linear_attn_config: LinearFields | None = None
    mamba_heads: Size | None = _named("mamba_num_heads", "mamba_n_heads")
    mamba_head_dim: Size | None = _named("mamba_head_dim", "mamba_d_head")
    mamba_groups: Size | None = _named("n_groups", "mamba_n_groups")
    mamba_state: Size | None = _named("ssm_state_size", "mamba_d_state")
    mamba_expand: Size | None = None
    mamba_dt_rank: Size | Literal["auto"] | None = None
    kernel: Size | None = _named(
        "linear_conv_kernel_dim", "conv_kernel", "mamba_d_conv", "conv_L_cache", "short_conv_kernel_size"
    )
    state_dtype: str | None = _named("mamba_ssm_cache_dtype", "mamba_ssm_dtype")

    experts: _AlikeCount | None = _named("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    experts_per_token: _AlikeCount | None = _named(
        "num_experts_per_tok",
        "experts_per_token",
        "moe_topk",
        "moe_k",
        "num_experts_per_token",
        "top_k_experts",
        "moe_top_k",
    )
    moe_intermediate_size: _AlikeSize | None = _named(
        "moe_intermediate_size", "expert_hidden_dim", "expert_ffn_hidden_size"
    )
    idle_experts: _Count | None = _named("zero_expert_num")
    shared_experts: _AlikeCount | None = _named(
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"
    )
    shared_size: _Count | None = _named(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
    )
    intermediate_size_mlp: Size | None = _named(
        "intermediate_size_mlp", "dense_intermediate_size", "prefix_dense_intermediate_size"
    )
    moe_latent_size: Size | None = _named("moe_latent_size", "routed_expert_hidden_size", "moe_hidden_size")
    first_k_dense_replace: _Count | None = _named("first_k_dense_replace", "num_dense_layers", "dense_mlp_idx")
    expert_layer_period: Size | None = None
    expert_layer_offset: _Count | None = None
    moe_layer_freq: Size | list[Literal[0, 1]] | None = None
    decoder_sparse_step: Size | None = None
    interleave_moe_layer_step: _Count | None = None
    mlp_only_layers: _Layers | None = None
    moe_layers: _Layers | None = None
    mlp_layer_types: Annotated[list[Literal["dense", "sparse"]], Field(max_length=_MOST_LAYERS)] | None = None
    moe_layer_start_index: _AlikeCount | None = None
    moe_layer_end_index: Annotated[int, BeforeValidator(_alike)] | None = None
    moe_layer_interval: Size | None = None

    mtp_kinds: _Kinds | None = _named("mtp_layers_block_type", "mtp_hybrid_override_pattern")
    draft_vocab_size: Size | None = None
    target_hidden_size: Size | None = _named("target_hidden_size", "backbone_hidden_size")
    num_nextn_predict_layers: _Count | None = _named(
        "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers"
    )
    dspark_block_size: Size | None = None
    dspark_n_routed_experts: Size | None = None
    dspark_num_experts_per_tok: Size | None = None

    @property
    def drafting_experts(self) -> tuple[int, int] | None:
        """Routed experts of a block drafter's layers, and those of a token; None: as in the other layers."""
        count, per_token = self.dspark_n_routed_experts, self.dspark_num_experts_per_tok
        return None if count is None or per_token is None else (count, per_token)

    @property
    def further_layers(self) -> int:
        """Layers published for predicting further tokens one by one; those of a block drafter are none."""
        told = 0 if self.dspark_block_size else self.num_nextn_predict_layers
        return told if told is not None else int(self.mtp_kinds is not None)


T = TypeVar("T")


def needed(fields: ConfigFields, name: str) -> int:
    """Return a size; raise `SchemaError` where the file does not say it."""
    value = getattr(fields, name)
    if not value:
        raise SchemaError(f"{name}: missing")
    return int(value)


def checked_length(values: Sequence[T], n: int, name: str) -> Sequence[T]:
    """Return a list with an entry for each of ``n`` layers; raise `SchemaError` if it has another length."""
    if len(values) != n:
        raise SchemaError(f"{name}: {len(values)} entries must be num_hidden_layers={n}")
    return values
