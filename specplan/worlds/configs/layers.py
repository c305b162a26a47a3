"""From the fields of a configuration to groups of alike layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from specplan.worlds.configs.families import Family
from specplan.worlds.configs.fields import ConfigFields, checked_length, needed
from specplan.worlds.configs.mixers import first_reading_layer, layer_kinds, mixers, recurrent
from theory.errors import SchemaError
from theory.hardware.shapes import Attention, Dense, Experts, FeedForward, Layers, Mixer

__all__ = ["layer_groups"]

_ROUNDED: Final = 256
"""Columns of which feed-forward layers of ``block_configs`` have a multiple (``DeciLMConfig``)."""


def layer_groups(fields: ConfigFields, family: Family) -> tuple[Layers, ...]:
    """Return the layers of a model, alike ones together, in the order in which their kind first occurs.

    Raises
    ------
    SchemaError : a field that the layers need is missing, or two contradict each other; the text names it.
    """
    pairs: Sequence[tuple[Mixer, FeedForward | None]]
    if fields.block_configs is not None:
        pairs = list(_searched(fields))
    elif family.doubled:
        pairs = [pair for mixer in mixers(fields, family) for pair in _doubled(fields, family, mixer)]
    elif family.beside:
        states, attending = recurrent(fields, family), mixers(fields, family)
        halves = zip(attending, _feed_forwards(fields, family), strict=True)
        pairs = [half for pair in halves for half in ((states, None), pair)]
    elif family.paired:
        pairs = list(zip(mixers(fields, family), _feed_forwards(fields, family), strict=True))
    else:
        pairs = list(_joined(fields, family))
    return tuple(
        Layers(count=count, attention=mixer, feed_forward=forward) for (mixer, forward), count in Counter(pairs).items()
    )


def _doubled(fields: ConfigFields, family: Family, mixer: Mixer) -> list[tuple[Mixer, FeedForward | None]]:
    """The halves of a layer: of the experts that a token asks, a share of theirs among all computes."""
    experts, size, idle = _experts(fields, family), _dense_size(fields), fields.idle_experts or 0
    computing = max(1, round(experts.per_token * experts.count / (experts.count + idle)))
    beside = replace(experts, per_token=computing, shared=size, idle=idle)
    return [(mixer, Dense(intermediate=size, gated=family.gated)), (mixer, beside)]


def _searched(fields: ConfigFields) -> Iterator[tuple[Mixer, FeedForward | None]]:
    """Layers that a search made unequal; what feeds forward without attention joins the layer before it."""
    blocks = checked_length(fields.block_configs or (), fields.num_hidden_layers, "block_configs")
    if blocks[0].attention.no_op:
        raise SchemaError("block_configs: must begin with a layer that attends")
    heads, mixer, size = fields.num_attention_heads, None, 0
    for block in blocks:
        attention, ffn = block.attention, block.ffn
        if attention.replace_with_linear or ffn.replace_with_linear:
            raise SchemaError("block_configs: replace_with_linear is not modelled")
        if not attention.no_op:
            if mixer is not None:
                yield mixer, Dense(intermediate=size) if size else None
            group = attention.n_heads_in_group or 1
            if heads % group or fields.hidden_size % heads:
                raise SchemaError(
                    f"block_configs: n_heads_in_group={group} must divide the {heads} heads, and they the hidden size"
                )
            dim = fields.head_dim or fields.hidden_size // heads
            mixer = Attention(heads=heads, kv_heads=heads // group, head_dim=dim, window=attention.window_length)
            size = 0
        if not ffn.no_op:
            if ffn.ffn_mult is None:
                raise SchemaError("block_configs: ffn_mult: missing")
            size += -(-int(2 * ffn.ffn_mult * fields.hidden_size / 3) // _ROUNDED) * _ROUNDED
    assert mixer is not None
    yield mixer, Dense(intermediate=size) if size else None


def _joined(fields: ConfigFields, family: Family) -> Iterator[tuple[Mixer, FeedForward | None]]:
    """Layers that mix tokens, each with the feed-forward layer that follows it, if one does."""
    kinds, mixing = layer_kinds(fields, family), mixers(fields, family)
    if kinds[0] in ("mlp", "moe"):
        raise SchemaError("layers_block_type: must begin with a layer that mixes tokens")
    for i, (kind, mixer) in enumerate(zip(kinds, mixing, strict=True)):
        following = kinds[i + 1] if i + 1 < len(kinds) else None
        if kind not in ("mlp", "moe"):
            forward: FeedForward | None = None
            if following == "moe":
                forward = _experts(fields, family)
            elif following == "mlp":
                forward = Dense(intermediate=needed(fields, "intermediate_size"), gated=family.gated)
            yield mixer, forward
        elif following in ("mlp", "moe"):
            raise SchemaError(
                f"layers_block_type: {kind} before {following}: a layer that mixes tokens must stand between"
            )


def _feed_forwards(fields: ConfigFields, family: Family) -> list[FeedForward]:
    """What follows the mixing in every layer.

    The products by which a layer takes in its own embedding (Gemma-4: from the hidden state and the first embedding to
    ``hidden_size_per_layer_input`` numbers, and back) have as many weights as that many columns of a gated layer.
    """
    n = fields.num_hidden_layers
    if not fields.experts or family.mixture is False or (family.mixture is None and fields.experts == 1):
        if fields.experts and fields.experts > 1:
            raise SchemaError("num_experts: experts are not known for this model_type")
        if family.mixture:
            raise SchemaError("num_experts: missing (or num_local_experts, n_routed_experts, moe_num_experts)")
        only_shared = (
            family.mixture is None and fields.shared_size and not family.dense_beside
        )  # Granite 4 without experts
        size = fields.shared_size or 0 if only_shared else _dense_size(fields)
        wide, embedded = 2 if fields.use_double_wide_mlp else 1, fields.hidden_size_per_layer_input or 0
        reading = first_reading_layer(fields)
        return [
            Dense(intermediate=(wide if i >= reading else 1) * size + embedded, gated=family.gated) for i in range(n)
        ]
    experts = _experts(fields, family)
    mixed = _mixture_layers(fields)
    if len(mixed) == n:
        return [experts] * n
    size = fields.intermediate_size_mlp or _dense_size(fields)
    dense = Dense(intermediate=size, gated=family.gated)
    return [experts if i in mixed else dense for i in range(n)]


def _dense_size(fields: ConfigFields) -> int:
    """Columns of a dense feed-forward layer; LFM2's files tell 3/2 of them, to be rounded up to whole blocks."""
    size = needed(fields, "intermediate_size")
    if not fields.block_auto_adjust_ff_dim:
        return size
    block = needed(fields, "block_multiple_of")
    adjusted = int((fields.block_ffn_dim_multiplier or 1.0) * int(2 * size / 3))
    if adjusted < 1:
        raise SchemaError(f"block_ff_dim or intermediate_size: {size} leaves no columns")
    return -(-adjusted // block) * block


def _experts(fields: ConfigFields, family: Family) -> Experts:
    size = needed(fields, family.expert_size)
    shared = fields.shared_size
    if shared is None or (shared == 0 and fields.shared_experts):
        shared = (fields.shared_experts or 0) * size
    elif fields.shared_experts:  # Bailing tells the size of one and how many
        shared *= fields.shared_experts
    if family.dense_beside:
        shared += needed(fields, "intermediate_size")
    count, per_token = fields.experts or 0, fields.experts_per_token
    if per_token is None:
        raise SchemaError("num_experts_per_tok: missing (or experts_per_token, moe_topk, moe_k)")
    if not 1 <= per_token <= count:
        raise SchemaError(f"num_experts_per_tok: {per_token} must be in [1, {count}], the number of experts")
    return Experts(
        count=count, per_token=per_token, intermediate=size, shared=shared, gated=family.gated,
        latent=fields.moe_latent_size,
    )  # fmt: skip


def _mixture_layers(fields: ConfigFields) -> set[int]:
    """Return which layers are mixtures of experts."""
    n = fields.num_hidden_layers
    if fields.moe_layers:
        return {i for i in fields.moe_layers if i < n}
    freq, kinds = fields.moe_layer_freq, fields.mlp_layer_types
    told = freq if isinstance(freq, list) else None if kinds is None else [int(kind == "sparse") for kind in kinds]
    if told is not None:
        named = "mlp_layer_types or moe_layer_freq"
        return {i for i, mixed in enumerate(checked_length(told, n, named)) if mixed}
    if fields.expert_layer_period is not None:
        place = (fields.expert_layer_offset or 0) % fields.expert_layer_period
        return {i for i in range(n) if i % fields.expert_layer_period == place}
    first, last, step, offset = fields.first_k_dense_replace or 0, n - 1, freq if isinstance(freq, int) else 1, 0
    if fields.moe_layer_interval is not None:
        first, step = fields.moe_layer_start_index or 0, fields.moe_layer_interval
        end = fields.moe_layer_end_index
        last, offset = (n - 1 if end is None or end < 0 else end), 1  # layers i with (i + 1) % interval == 0
    elif fields.interleave_moe_layer_step is not None or fields.decoder_sparse_step is not None:
        step, offset = fields.interleave_moe_layer_step or fields.decoder_sparse_step or n + 1, 1
    dense = set(fields.mlp_only_layers or ())
    return {i for i in range(first, min(last, n - 1) + 1) if (i + offset) % step == 0 and i not in dense}
