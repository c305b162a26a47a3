"""From the fields of a configuration to groups of alike layers."""

from __future__ import annotations

from specplan.worlds.configs.families import Family
from specplan.worlds.configs.fields import ConfigFields
from theory.errors import SchemaError
from theory.hardware.shapes import Attention, Dense, Experts, FeedForward, LatentAttention, Layers

__all__ = ["layer_groups"]


def layer_groups(fields: ConfigFields, family: Family) -> tuple[Layers, ...]:
    """Return the layers of a model, alike ones together, in the order in which their kind first occurs.

    Raises
    ------
    SchemaError : a field that the layers need is missing, or two contradict each other; the text names it.
    """
    windows = _windows(fields, family)
    forwards = _feed_forwards(fields, family)
    counts: dict[tuple[Attention | LatentAttention, FeedForward], int] = {}
    attentions = {window: _attention(fields, family, window) for window in dict.fromkeys(windows)}
    for window, forward in zip(windows, forwards, strict=True):
        kind = (attentions[window], forward)
        counts[kind] = counts.get(kind, 0) + 1
    return tuple(
        Layers(count=count, attention=attention, feed_forward=forward) for (attention, forward), count in counts.items()
    )


def _attention(fields: ConfigFields, family: Family, window: int | None) -> Attention | LatentAttention:
    if fields.kv_lora_rank is not None:
        if not family.latent:
            raise SchemaError("kv_lora_rank: latent attention is not known for this model_type")
        if window is not None:
            raise SchemaError("sliding_window: windows on latent attention are not modelled")
        return LatentAttention(
            heads=fields.num_attention_heads,
            cache_rank=fields.kv_lora_rank,
            rope_dim=_needed(fields, "qk_rope_head_dim"),
            nope_dim=_needed(fields, "qk_nope_head_dim"),
            value_dim=_needed(fields, "v_head_dim"),
            query_rank=fields.q_lora_rank,
        )
    if family.latent:
        raise SchemaError("kv_lora_rank: missing, this model_type has latent attention")
    heads = fields.num_attention_heads
    kv_heads = fields.num_key_value_heads or heads
    if heads % kv_heads:
        raise SchemaError(f"num_attention_heads: {heads} must be a multiple of num_key_value_heads={kv_heads}")
    head_dim = fields.head_dim
    if head_dim is None:
        if fields.hidden_size % heads:
            raise SchemaError(
                f"head_dim: missing, and hidden_size={fields.hidden_size} is no multiple of {heads} heads"
            )
        head_dim = fields.hidden_size // heads
    if fields.v_head_dim not in (None, head_dim):
        raise SchemaError(
            f"v_head_dim: {fields.v_head_dim} beside head_dim={head_dim}: unequal keys and values are not modelled"
        )
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, window=window)


def _windows(fields: ConfigFields, family: Family) -> list[int | None]:
    """Return the window of every layer, tokens; None: it attends to everything."""
    n = fields.num_hidden_layers
    chunk = fields.attention_chunk_size
    window = None if fields.use_sliding_window is False else fields.sliding_window
    if fields.layer_types is not None:
        return _told_windows(fields, [*fields.layer_types], window)
    if chunk is not None:  # layers with positions look back within their chunk: at most a chunk of tokens
        period = family.period or n + 1
        with_positions = fields.no_rope_layers or [int((i + 1) % period != 0) for i in range(n)]
        if len(with_positions) != n:
            raise SchemaError(f"no_rope_layers: {len(with_positions)} entries must be num_hidden_layers={n}")
        return [chunk if positions else None for positions in with_positions]
    if window is None or (family.windows == "switch" and not fields.use_sliding_window):
        return [None] * n
    if family.windows == "none":
        raise SchemaError("sliding_window: windows are not known for this model_type; must be null")
    if family.windows == "pattern":
        period = _period(fields, family)
        return [window if (i + 1) % period else None for i in range(n)]
    first = fields.max_window_layers or 0 if family.windows == "switch" else 0
    return [window if i >= first else None for i in range(n)]


def _told_windows(fields: ConfigFields, kinds: list[str], window: int | None) -> list[int | None]:
    n = fields.num_hidden_layers
    if len(kinds) != n:
        raise SchemaError(f"layer_types: {len(kinds)} entries must be num_hidden_layers={n}")
    sizes = {"full_attention": None, "sliding_attention": window, "chunked_attention": fields.attention_chunk_size}
    for kind in dict.fromkeys(kinds):
        if kind != "full_attention" and sizes[kind] is None:
            raise SchemaError(f"layer_types: {kind} needs a size (sliding_window or attention_chunk_size)")
    return [sizes[kind] for kind in kinds]


def _period(fields: ConfigFields, family: Family) -> int:
    pattern = fields.sliding_window_pattern
    if pattern is None:
        return family.period
    if isinstance(pattern, int):
        return pattern
    if pattern and set(pattern[:-1]) <= {"L"} and pattern[-1] == "G":  # such as LLLG
        return len(pattern)
    raise SchemaError(f"sliding_window_pattern: {pattern[:40]!r} must be a number or like 'LLLG'")


def _feed_forwards(fields: ConfigFields, family: Family) -> list[FeedForward]:
    n = fields.num_hidden_layers
    if not fields.experts or not family.mixture:
        if fields.experts and fields.experts > 1:
            raise SchemaError("num_experts: experts are not known for this model_type")
        if family.mixture:
            raise SchemaError("num_experts: missing (or num_local_experts, n_routed_experts, moe_num_experts)")
        return [Dense(intermediate=_needed(fields, "intermediate_size"), gated=family.gated)] * n
    experts = _experts(fields, family)
    mixed = _mixture_layers(fields)
    if len(mixed) == n:
        return [experts] * n
    size = fields.intermediate_size_mlp or _needed(fields, "intermediate_size")
    dense = Dense(intermediate=size, gated=family.gated)
    return [experts if i in mixed else dense for i in range(n)]


def _experts(fields: ConfigFields, family: Family) -> Experts:
    size = _needed(fields, family.expert_size)
    shared = fields.shared_size
    if shared is None or (shared == 0 and fields.shared_experts):
        shared = (fields.shared_experts or 0) * size
    elif fields.shared_experts:  # Bailing tells the size of one and how many
        shared *= fields.shared_experts
    count, per_token = fields.experts or 0, fields.experts_per_token
    if per_token is None:
        raise SchemaError("num_experts_per_tok: missing (or experts_per_token, moe_topk, moe_k)")
    if not 1 <= per_token <= count:
        raise SchemaError(f"num_experts_per_tok: {per_token} must be in [1, {count}], the number of experts")
    return Experts(count=count, per_token=per_token, intermediate=size, shared=shared)


def _mixture_layers(fields: ConfigFields) -> set[int]:
    """Return which layers are mixtures of experts."""
    n = fields.num_hidden_layers
    if fields.moe_layers:
        return {i for i in fields.moe_layers if i < n}
    freq, kinds = fields.moe_layer_freq, fields.mlp_layer_types
    told = freq if isinstance(freq, list) else None if kinds is None else [int(kind == "sparse") for kind in kinds]
    if told is not None:
        if len(told) != n:
            raise SchemaError(f"mlp_layer_types or moe_layer_freq: {len(told)} entries must be num_hidden_layers={n}")
        return {i for i, mixed in enumerate(told) if mixed}
    first, last, step, offset = fields.first_k_dense_replace or 0, n - 1, freq if isinstance(freq, int) else 1, 0
    if fields.moe_layer_interval is not None:
        first, step = fields.moe_layer_start_index or 0, fields.moe_layer_interval
        end = fields.moe_layer_end_index
        last, offset = (n - 1 if end is None or end < 0 else end), 1  # layers i with (i + 1) % interval == 0
    elif fields.interleave_moe_layer_step is not None or fields.decoder_sparse_step is not None:
        step, offset = fields.interleave_moe_layer_step or fields.decoder_sparse_step or n + 1, 1
    dense = set(fields.mlp_only_layers or ())
    return {i for i in range(first, min(last, n - 1) + 1) if (i + offset) % step == 0 and i not in dense}


def _needed(fields: ConfigFields, name: str) -> int:
    value = getattr(fields, name)
    if value is None:
        raise SchemaError(f"{name}: missing")
    return int(value)
