"""Draft heads: one layer on top of a target's states, which reads the target's embeddings.

Besides its layer an EAGLE head has matrices that join the target's states with the embedding of the last token. A
`Shape` has no room for them; they are counted as columns of the feed-forward layer, which takes as many bytes and
operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from specplan.worlds.configs.fields import ConfigFields
from theory.hardware.mixers.sparse import CompressedAttention
from theory.hardware.mixers.states import Recurrent
from theory.hardware.shapes import Attention, Dense, Experts, Layers, Mixer, Shape

__all__ = ["further_layers_of", "joined_assistant", "joined_head", "usual_head", "widened"]

_STATES: Final = 3
"""Hidden states of the target that an EAGLE-3 head joins (arXiv 2503.01840, 3.1)."""
_HEAD_VOCAB: Final = 32_000
"""Tokens that an EAGLE-3 head chooses among (published heads, SpecForge)."""
_INNER: Final = 4
"""Feed-forward size of a head over its hidden size: 2.6 to 6.4 in twelve published heads, 3.75 in the median."""


def joined_head(fields: ConfigFields, shape: Shape) -> Shape:
    """Return the shape of a published EAGLE-3 head, whose configuration gives ``shape`` by the rules of its type."""
    vocab = fields.draft_vocab_size or shape.vocab
    attention, forward = shape.layers[0].attention, shape.layers[0].feed_forward
    if shape.n_layers != 1 or not isinstance(attention, Attention) or not isinstance(forward, Dense):
        return Shape(hidden=shape.hidden, vocab=vocab, layers=shape.layers, tied=True)
    states = _STATES * (fields.target_hidden_size or shape.hidden)
    return _head(shape.hidden, vocab, attention, forward.intermediate + _columns(states, attention))


def joined_assistant(fields: ConfigFields, shape: Shape) -> Shape:
    """Return the shape of an assistant of Gemma-4, whose layers ``shape`` has.

    Three matrices of its size by the target's lead from the target's state and embedding, and back.
    """
    return replace(shape, layers=widened(shape.layers, (fields.target_hidden_size or 0) // shape.n_layers))


def widened(layers: Iterable[Layers], columns: int) -> tuple[Layers, ...]:
    """Return layers with so many more columns in their dense feed-forward parts, which are gated."""
    return tuple(
        replace(group, feed_forward=Dense(intermediate=group.feed_forward.intermediate + columns))
        if isinstance(group.feed_forward, Dense)
        else group
        for group in layers
    )


def usual_head(target: Shape, method: str) -> Shape:
    """Return the head of usual size for a target: ``eagle`` (one state, all tokens) or ``eagle3``."""
    attention = _last_attention(target)
    if isinstance(attention, Attention):
        full = Attention(heads=attention.heads, kv_heads=attention.kv_heads, head_dim=attention.head_dim)
    else:
        heads = max(1, target.hidden // 128)
        full = Attention(heads=heads, kv_heads=heads, head_dim=128)
    inner = _INNER * target.hidden
    if method == "eagle3":
        return _head(
            target.hidden, min(_HEAD_VOCAB, target.vocab), full, inner + _columns(_STATES * target.hidden, full)
        )
    return _head(target.hidden, target.vocab, full, inner + _columns(2 * target.hidden, None))


def further_layers_of(
    target: Shape, count: int, experts: tuple[int, int] | None = None, *, kind: str = "last"
) -> Shape:
    """Return so many layers with which a target predicts further tokens: its last attention and feed-forward part.

    ``experts`` : routed ones, and those of a token; None: as many as the target's. ``kind`` : as
    `specplan.worlds.configs.families.Family.further` tells it.

    Published ones attend also where layers of the target keep states (Qwen3-Next, Nemotron-3), and compress nothing
    (DeepSeek-V4: its last entry of ``compress_ratios`` is 0).
    """
    attention = _last_attention(target)
    if isinstance(attention, CompressedAttention):
        attention = replace(attention, ratio=0, selection=None, streams=None)
    *_, forward = (group.feed_forward for group in target.layers if group.feed_forward is not None)
    if experts is not None and isinstance(forward, Experts):
        forward = replace(forward, count=experts[0], per_token=experts[1])
    if kind != "last":
        windowed = kind == "windowed"
        attention = next(
            group.attention for group in target.layers if bool(getattr(group.attention, "window", None)) == windowed
        )
        forward = next(group.feed_forward for group in target.layers if isinstance(group.feed_forward, Dense))
    layer = Layers(count=count, attention=attention, feed_forward=forward)
    streams = {"streams": target.streams, "stream_rank": target.stream_rank}
    return Shape(hidden=target.hidden, vocab=target.vocab, layers=(layer,), tied=True, **streams)


def _last_attention(target: Shape) -> Mixer:
    """The attention of the last layers that attend; a state where none does."""
    attending: list[Mixer] = [group.attention for group in target.layers if not isinstance(group.attention, Recurrent)]
    return attending[-1] if attending else target.layers[-1].attention


def _head(hidden: int, vocab: int, attention: Attention, intermediate: int) -> Shape:
    layer = Layers(count=1, attention=attention, feed_forward=Dense(intermediate=intermediate))
    return Shape(hidden=hidden, vocab=vocab, layers=(layer,), tied=True)


def _columns(states: int, attention: Attention | None) -> int:
    """Columns of a gated layer with as many weights as the matrices that join ``states`` numbers with an embedding.

    An EAGLE-3 head has a matrix of states x hidden, and reads embedding and state side by side, so that its queries,
    keys and values come from twice the hidden size.
    """
    wider = 0 if attention is None else (attention.heads + 2 * attention.kv_heads) * attention.head_dim
    return round((states + wider) / 3)
