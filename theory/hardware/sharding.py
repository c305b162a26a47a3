"""What of a model one GPU holds, when the model is spread over several.

Tensor parallelism splits heads, feed-forward columns and the vocabulary; what it cannot split is copied: heads of keys
and values beyond their number, the compressed parts of latent attention, routers. Whole experts are dealt out over the
expert-parallel GPUs. Norms and biases are left out, as in `Shape.parameters`. Of pipeline stages the fullest is meant:
layers are dealt out evenly, as vLLM does, whatever their kind; the first stage has the embeddings, the last the head.
"""

from __future__ import annotations

import math
from dataclasses import replace

from theory.errors import ParameterError
from theory.hardware.formats import Precision
from theory.hardware.mixers.states import Recurrent
from theory.hardware.shapes import Attention, Experts, FeedForward, Shape
from theory.hardware.work import Parallel

__all__ = ["cache_bytes_per_gpu", "check_split", "weight_bytes_per_gpu"]

_EMBEDDING_BYTES = 2.0  # embeddings, head, routers and what mixes streams stay in bf16


def check_split(shape: Shape, parallel: Parallel) -> None:
    """Refuse a split that engines refuse.

    Raises
    ------
    ParameterError : ``tp`` does not divide the heads, or neither divides nor is a multiple of the heads of keys and
        values; ``ep`` does not divide the experts.
    """
    for group in shape.layers:
        heads = group.attention.heads
        if heads % parallel.tp:
            raise ParameterError("tp", parallel.tp, f"must divide the {heads} heads of the model")
        mixer = group.attention
        kv_heads = mixer.key_heads if isinstance(mixer, Recurrent) else getattr(mixer, "kv_heads", parallel.tp)
        if kv_heads % parallel.tp and parallel.tp % kv_heads:
            raise ParameterError("tp", parallel.tp, f"must divide the {kv_heads} heads of keys and values, or reverse")
        forward = group.feed_forward
        if isinstance(forward, Experts) and forward.count % parallel.ep:
            raise ParameterError("ep", parallel.ep, f"must divide the {forward.count} experts of the model")


def weight_bytes_per_gpu(shape: Shape, precision: Precision, parallel: Parallel) -> float:
    """Return the bytes of weights that one GPU holds, B.

    >>> from theory.hardware.shapes import Attention, Dense, Layers
    >>> layer = Layers(count=36, attention=Attention(heads=32, kv_heads=8, head_dim=128),
    ...                feed_forward=Dense(intermediate=12288))
    >>> shape = Shape(hidden=4096, vocab=151936, layers=(layer,))
    >>> halves = weight_bytes_per_gpu(shape, Precision(), Parallel(tp=2))
    >>> halves * 2 == shape.weight_bytes(Precision())
    True
    """
    ends = shape.tables + (shape.embeddings if parallel.pp == 1 else shape.hidden * shape.vocab)
    layers = _EMBEDDING_BYTES * shape.mixed  # on every GPU
    for group in shape.layers:
        attention = group.attention.parameters_on(shape.hidden, parallel.tp)
        forward = _forward_bytes(group.feed_forward, shape.hidden, precision, parallel)
        layers += group.count * (attention * precision.attention_format.bytes_per_number + forward)
    return _EMBEDDING_BYTES * ends / parallel.tp + _fullest(shape, parallel) * layers


def _fullest(shape: Shape, parallel: Parallel) -> float:
    """Share of the layers that the fullest stage has."""
    return math.ceil(shape.n_layers / parallel.pp) / shape.n_layers


def cache_bytes_per_gpu(
    shape: Shape,
    precision: Precision,
    parallel: Parallel,
    context: float,
    copies: float = 1.0,
    *,
    whole_windows: bool = False,
) -> float:
    """Return the bytes that a sequence of ``context`` tokens takes on each GPU that serves it, B.

    Latent attention is one vector for all heads, which every tensor-parallel GPU keeps; of grouped-query attention each
    keeps at least one head. A window keeps no more than its tokens, or with ``whole_windows`` all. A layer with a state
    keeps ``copies`` of it: one after each token of a round of speculation, so that rejected tokens can be taken back.
    """
    size, tp = precision.cache_bytes, parallel.tp
    mixers = [(group.count, group.attention) for group in shape.layers]
    if whole_windows:
        mixers = [(n, replace(one, window=None) if isinstance(one, Attention) else one) for n, one in mixers]
    return _fullest(shape, parallel) * sum(n * one.held(context, tp, size, copies) for n, one in mixers)


def _forward_bytes(forward: FeedForward | None, hidden: int, precision: Precision, parallel: Parallel) -> float:
    if forward is None:
        return 0.0
    if not isinstance(forward, Experts):
        return forward.parameters(hidden) / parallel.tp * precision.weight_format.bytes_per_number
    reduced = 2.0 * hidden * (forward.latent or 0)  # on every GPU
    routed = forward.routed(hidden, forward.count) / parallel.stage + reduced
    shared = forward.matrices * hidden * forward.shared / parallel.tp
    return (routed + shared) * precision.expert_format.bytes_per_number + hidden * forward.count * _EMBEDDING_BYTES
