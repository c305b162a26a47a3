"""From the fields of a configuration to what mixes the tokens of each layer: attention of all kinds, or a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from specplan.worlds.configs.families import Family
from specplan.worlds.configs.fields import ConfigFields, LayerKind, SparseFields, checked_length, needed
from theory.errors import SchemaError
from theory.hardware.mixers.sparse import CompressedAttention, Selection
from theory.hardware.mixers.states import Recurrent
from theory.hardware.shapes import Attention, LatentAttention, Mixer

__all__ = ["first_reading_layer", "layer_kinds", "mixers", "recurrent", "windows"]

_SCALED_KEY: Final = 4.0
"""Bytes of the scale of an index key in fp8, B (vLLM, ``deepseek_v32`` indexer)."""
_BF16: Final = 2.0
_OWN_LATENT: Final = (
    "num_attention_heads", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
)  # fmt: skip
"""Sizes of latent attention that ``swa_...`` tells for layers with a window (dots3-note)."""


def mixers(fields: ConfigFields, family: Family) -> list[Mixer]:
    """Return what mixes the tokens in every layer."""
    if family.mixing == "compressed":
        return _compressed(fields)
    kinds, n = layer_kinds(fields, family), fields.num_hidden_layers
    own = fields.num_attention_heads_per_layer or [fields.num_attention_heads] * n
    heads = checked_length(own, n, "num_attention_heads_per_layer")
    said = ["full"] * n if fields.indexer_types is None else fields.indexer_types
    indexers = checked_length(said, n, "indexer_types")
    known: dict[tuple[LayerKind, int | None, bool, int, bool], Mixer] = {}
    found = []
    for i, (kind, window) in enumerate(zip(kinds, windows(fields, family, kinds), strict=True)):
        shares, reads = indexers[i] == "shared", i >= first_reading_layer(fields)
        key = kind, window, shares, heads[i], reads
        if key not in known:
            told = fields.model_copy(update={"num_attention_heads": heads[i], "num_kv_shared_layers": int(reads)})
            known[key] = (
                recurrent(told, family)
                if kind == "linear_attention"
                else _attention(told, family, kind, window, shares)
            )
        found.append(known[key])
    return found


def first_reading_layer(fields: ConfigFields) -> int:
    """Return the first layer from which all read keys and values of earlier layers; the number of layers if none."""
    shared = fields.num_kv_shared_layers or 0
    if shared > fields.num_hidden_layers:
        raise SchemaError(
            f"num_kv_shared_layers: {shared} must be at most num_hidden_layers={fields.num_hidden_layers}"
        )
    return fields.num_hidden_layers - shared


def layer_kinds(fields: ConfigFields, family: Family) -> list[LayerKind]:
    """Return the kind of every layer, as the file or the family tells it."""
    n, sparse = fields.num_hidden_layers, fields.sparse_attention_config
    if fields.layer_types is not None:
        return list(checked_length(fields.layer_types, n, "layer_types"))
    if (attending := _attending(fields, family)) is not None:
        return ["full_attention" if i in attending else "linear_attention" for i in range(n)]
    if fields.local_layer_ids is not None:
        local = set(_below(fields.local_layer_ids, n, "local_layer_ids"))
        return ["sliding_attention" if i in local else "full_attention" for i in range(n)]
    if sparse is not None:
        freq = checked_length(sparse.sparse_attention_freq, n, "sparse_attention_freq")
        return ["sparse_attention" if chosen else "full_attention" for chosen in freq]
    if fields.hybrid_layer_pattern is not None:
        pattern = checked_length(fields.hybrid_layer_pattern, n, "hybrid_layer_pattern")
        return ["sliding_attention" if windowed else "full_attention" for windowed in pattern]
    return ["full_attention"] * n


def _attending(fields: ConfigFields, family: Family) -> set[int] | None:
    """Which layers attend where all others keep states; None: no field tells it."""
    n, linear, whole = fields.num_hidden_layers, fields.linear_attn_config, fields.full_attention_layers
    if whole is not None:
        return set(_below(whole, n, "full_attention_layers or full_attn_idxs"))
    if fields.attn_layer_period is not None:
        offset, period = fields.attn_layer_offset or 0, fields.attn_layer_period
        return {i for i in range(n) if i % period == offset % period}
    if fields.attn_type_list is not None:
        return {i for i, kind in enumerate(checked_length(fields.attn_type_list, n, "attn_type_list")) if kind}
    if linear is not None:
        if sorted([*linear.kda_layers, *linear.full_attn_layers]) != list(range(1, n + 1)):
            raise SchemaError(f"linear_attn_config: kda_layers and full_attn_layers must name each of 1 to {n} once")
        return {i - 1 for i in linear.full_attn_layers}
    if family.mixing in ("gated-delta", "bailing"):
        every = needed(fields, "full_attention_interval")
        return {i for i in range(n) if (i + 1) % every == 0}
    return None


def _below(layers: Sequence[int], n: int, name: str) -> Sequence[int]:
    if unknown := [i for i in layers if i >= n]:
        raise SchemaError(f"{name}: {unknown[0]} must be below {n} layers")
    return layers


def windows(fields: ConfigFields, family: Family, kinds: Sequence[str]) -> list[int | None]:
    """Return the window of every layer, tokens; None: it attends to everything, or has a state.

    Parameters
    ----------
    kinds : of each layer, which decide where the file tells them.
    """
    n = fields.num_hidden_layers
    chunk = fields.attention_chunk_size
    window = None if fields.use_sliding_window is False else fields.sliding_window
    if fields.layer_types is not None or len(set(kinds)) > 1:
        sizes = {"sliding_attention": window, "chunked_attention": chunk}
        for kind in dict.fromkeys(kinds):
            if kind in sizes and sizes[kind] is None:
                raise SchemaError(f"layer_types: {kind} needs a size (sliding_window or attention_chunk_size)")
        return [sizes.get(kind) for kind in kinds]
    if chunk is not None:  # layers with positions look back within their chunk: at most a chunk of tokens
        period = family.period or n + 1
        with_positions = fields.no_rope_layers or [int((i + 1) % period != 0) for i in range(n)]
        return [chunk if positions else None for positions in checked_length(with_positions, n, "no_rope_layers")]
    if window is None or (family.windows == "switch" and not fields.use_sliding_window):
        return [None] * n
    if family.windows == "none":
        raise SchemaError("sliding_window: windows are not known for this model_type; must be null")
    if family.windows == "pattern":
        told = fields.sliding_window_pattern
        if isinstance(told, str) and not (told and set(told[:-1]) <= {"L"} and told[-1] == "G"):
            raise SchemaError(f"sliding_window_pattern: {told[:40]!r} must be a number or like 'LLLG'")
        period = family.period if told is None else len(told) if isinstance(told, str) else told
        return [window if (i + 1) % period else None for i in range(n)]
    first = fields.max_window_layers or 0 if family.windows == "switch" else 0
    return [window if i >= first else None for i in range(n)]


def recurrent(fields: ConfigFields, family: Family) -> Recurrent:
    """Return what keeps a state in the layers that do, or (Falcon-H1) beside attention in all."""
    state_bytes = 4.0 if fields.state_dtype == "float32" else 2.0
    linear = fields.linear_attn_config
    if family.mixing == "kda":
        if linear is None:
            raise SchemaError("linear_attn_config: missing, this model_type has delta attention")
        size = linear.head_dim
        return Recurrent(
            kind="kda", heads=linear.num_heads, key_heads=linear.num_heads, key_dim=size, value_dim=size,
            kernel=linear.short_conv_kernel_size, state_bytes=4.0, full_gate=linear.use_full_rank_gate,
        )  # fmt: skip
    if family.mixing in ("bailing", "lightning"):  # Ling-3.0 has delta attention, known by its short convolution
        n, size = fields.num_attention_heads, needed(fields, "head_dim")
        delta = family.mixing == "bailing" and fields.kernel is not None
        return Recurrent(
            kind="kda" if delta else "lightning", heads=n, key_heads=n, key_dim=size, value_dim=size,
            kernel=fields.kernel or 1, state_bytes=4.0, full_gate=delta,
        )  # fmt: skip
    if family.mixing == "convolution":
        n, kernel = fields.hidden_size, fields.kernel or 0
        if kernel < 2:
            raise SchemaError(f"conv_L_cache: {kernel} must be at least 2, or nothing is kept")
        return Recurrent(kind="convolution", heads=n, key_heads=n, key_dim=kernel - 1, value_dim=1, kernel=kernel)
    kernel = fields.kernel or 4
    if family.mixing == "mamba1":
        told = fields.mamba_dt_rank
        return Recurrent(
            kind="mamba1", heads=needed(fields, "mamba_expand") * fields.hidden_size, key_heads=1, value_dim=1,
            key_dim=needed(fields, "mamba_state"), kernel=kernel, state_bytes=state_bytes,
            step_rank=told if isinstance(told, int) else -(-fields.hidden_size // 16),
        )  # fmt: skip
    if family.mixing == "mamba2":
        heads, groups = needed(fields, "mamba_heads"), needed(fields, "mamba_groups")
        names, key_dim, value_dim = "n_groups", needed(fields, "mamba_state"), needed(fields, "mamba_head_dim")
    elif family.mixing == "gated-delta":
        heads, groups = needed(fields, "linear_num_value_heads"), needed(fields, "linear_num_key_heads")
        names, key_dim = "linear_num_key_heads", needed(fields, "linear_key_head_dim")
        value_dim = needed(fields, "linear_value_head_dim")
    else:
        raise SchemaError("layer_types: linear_attention is not known for this model_type")
    if heads % groups:
        raise SchemaError(f"{names}: {groups} must divide the {heads} heads that keep states")
    return Recurrent(
        kind=family.mixing, heads=heads, key_heads=groups, key_dim=key_dim, value_dim=value_dim, kernel=kernel,
        state_bytes=state_bytes,
    )  # fmt: skip


def _attention(fields: ConfigFields, family: Family, kind: LayerKind, window: int | None, shares: bool) -> Mixer:
    if kind == "sparse_attention":
        if fields.sparse_attention_config is None:
            raise SchemaError("layer_types: sparse_attention needs a sparse_attention_config")
        return _grouped(fields, family, None, _blocks(fields.sparse_attention_config))
    if fields.kv_lora_rank is None:
        if family.latent:
            raise SchemaError("kv_lora_rank: missing, this model_type has latent attention")
        selection = None
        if fields.indexer_budget:  # of Qwen3.8's sparse attention: keys in bf16, each the mean of a few tokens'
            dim = needed(fields, "indexer_head_dim")
            selection = Selection(
                heads=needed(fields, "indexer_n_heads"), dim=dim, entries=fields.indexer_budget,
                key_bytes=_BF16 * dim / needed(fields, "indexer_compress_ratio"), kind="blocks",
            )  # fmt: skip
        return _grouped(fields, family, window, selection)
    if not family.latent:
        raise SchemaError("kv_lora_rank: latent attention is not known for this model_type")
    own = _OWN_LATENT if window is not None else ()  # layers with a window may have sizes of their own
    fields = fields.model_copy(update={name: getattr(fields, f"swa_{name}") or getattr(fields, name) for name in own})
    return LatentAttention(
        heads=fields.num_attention_heads,
        cache_rank=needed(fields, "kv_lora_rank"),
        rope_dim=needed(fields, "qk_rope_head_dim") if fields.qk_rope_head_dim != 0 else 0,
        nope_dim=needed(fields, "qk_nope_head_dim"),
        value_dim=needed(fields, "v_head_dim"),
        query_rank=fields.q_lora_rank,
        gated=bool(fields.mla_use_output_gate),
        selection=_tokens(fields, shares=shares) if family.index and window is None else None,
        window=window,
    )


def _grouped(fields: ConfigFields, family: Family, window: int | None, selection: Selection | None) -> Attention:
    heads, kv_heads, head_dim, value_dim = _heads(fields, windowed=window is not None)
    if heads % kv_heads:
        raise SchemaError(f"num_attention_heads: {heads} must be a multiple of num_key_value_heads={kv_heads}")
    if value_dim not in (None, head_dim) and not family.unequal:
        raise SchemaError(
            f"v_head_dim: {value_dim} beside head_dim={head_dim}: "
            "unequal keys and values are not modelled for this model_type"
        )
    gated = family.gated_attention if fields.attn_output_gate is None else fields.attn_output_gate
    kept = (fields.sconv_kernel_size or 1) - 1  # of keys, values, and what both parts of the layer give
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=None if value_dim == head_dim else value_dim,
        window=window,
        gated=gated,
        values_are_keys=bool(fields.attention_k_eq_v) and window is None,
        shared=bool(fields.num_kv_shared_layers),
        selection=selection,
        relative=fields.d_rel or 0,
        convolved=2 * kept * (kv_heads * head_dim + fields.hidden_size),
    )


def _heads(fields: ConfigFields, *, windowed: bool) -> tuple[int, int, int, int | None]:
    """Heads, heads of keys, numbers of a key and of a value: layers with a window may have their own."""
    heads, kv_heads, head_dim = fields.num_attention_heads, fields.num_key_value_heads, fields.head_dim or None
    value_dim = fields.v_head_dim
    if windowed:
        heads, kv_heads = fields.swa_num_attention_heads or heads, fields.swa_num_key_value_heads or kv_heads
        head_dim, value_dim = fields.swa_head_dim or head_dim, fields.swa_v_head_dim or value_dim
        if fields.attention_other_setting is not None:
            other = fields.attention_other_setting
            heads, kv_heads, head_dim = other.num_attention_heads, other.num_attention_groups, other.head_dim
    else:
        kv_heads, head_dim = fields.num_global_key_value_heads or kv_heads, fields.global_head_dim or head_dim
    if head_dim is None:
        if fields.hidden_size % heads:
            size = fields.hidden_size
            raise SchemaError(f"head_dim: missing, and hidden_size={size} is no multiple of {heads} heads")
        head_dim = fields.hidden_size // heads
    return heads, kv_heads or heads, head_dim, value_dim


def _tokens(fields: ConfigFields, *, shares: bool) -> Selection:
    """The index of DeepSeek's sparse attention, its keys in fp8 with a scale; GLM-5.3-Flash has one of a few tokens."""
    dim = needed(fields, "index_head_dim")
    return Selection(
        heads=0 if shares else needed(fields, "index_n_heads"),
        dim=dim,
        entries=needed(fields, "index_topk"),
        key_bytes=(dim + _SCALED_KEY) / (fields.index_kpool or 1),
        query_rank=fields.q_lora_rank,
    )


def _blocks(sparse: SparseFields) -> Selection:
    """The index of MiniMax's sparse attention, its keys in bf16."""
    blocks = sparse.sparse_topk_blocks + sparse.sparse_local_block + sparse.sparse_init_block
    return Selection(
        heads=sparse.sparse_num_index_heads,
        dim=sparse.sparse_index_dim,
        entries=blocks * sparse.sparse_block_size,
        key_bytes=_BF16 * sparse.sparse_index_dim,
        kind="blocks",
    )


def _compressed(fields: ConfigFields) -> list[Mixer]:
    """Layers of DeepSeek-V4: a window, and entries of 4 tokens with an index, or of 128 tokens without.

    V4.1 has entries of one or two tokens with an index; few layers make entries and keys, and few choose among them.
    """
    ratios = fields.compress_ratios
    if ratios is None:
        raise SchemaError("compress_ratios: missing, this model_type has compressed attention")
    n = fields.num_hidden_layers
    if len(ratios) not in (n, n + (fields.num_nextn_predict_layers or 0)):  # those of further tokens come last
        raise SchemaError(f"compress_ratios: {len(ratios)} entries must be num_hidden_layers={n}")
    index = needed(fields, "index_head_dim")
    chosen = Selection(
        heads=needed(fields, "index_n_heads"), dim=index, entries=needed(fields, "index_topk"),
        key_bytes=index + _SCALED_KEY, query_rank=needed(fields, "q_lora_rank"), kind="compressed",
    )  # fmt: skip
    groups = needed(fields, "o_groups")
    if fields.num_attention_heads % groups:
        raise SchemaError(f"o_groups: {groups} must divide the {fields.num_attention_heads} heads")
    plain = CompressedAttention(
        heads=fields.num_attention_heads, head_dim=needed(fields, "head_dim"),
        query_rank=needed(fields, "q_lora_rank"), output_groups=groups, output_rank=needed(fields, "o_lora_rank"),
        window=needed(fields, "sliding_window"),
    )  # fmt: skip
    if fields.kv_source_layer_ids is not None:
        return list(_sharing(fields, plain, chosen, ratios[:n]))
    if unknown := sorted(set(ratios) & {1, 2}):
        raise SchemaError(f"compress_ratios: {unknown} without kv_source_layer_ids, which name the layers with entries")
    return [replace(plain, ratio=ratio, selection=chosen if ratio == 4 else None) for ratio in ratios[:n]]


def _sharing(
    fields: ConfigFields, plain: CompressedAttention, chosen: Selection, ratios: Sequence[int]
) -> Iterator[CompressedAttention]:
    """Layers that read the entries of the last layer that makes some, and what the last layer that chooses chose."""
    made, choosing = set(fields.kv_source_layer_ids or ()), set(fields.index_source_layer_ids or ())
    source = 0
    for i, ratio in enumerate(ratios):
        source = ratio if i in made else source
        if ratio not in (0, source):
            raise SchemaError(f"kv_source_layer_ids: no layer up to {i} makes the entries of {ratio} that it reads")
        if ratio == 0:
            yield plain
        else:  # a gate pools several tokens
            streams = 0 if i not in made else 1 if ratio == 1 else 2
            index = chosen if i in choosing else replace(chosen, heads=0)
            yield replace(plain, ratio=ratio, selection=index, streams=streams)
