"""What of a model one GPU holds, when the model is spread over several.

Tensor parallelism splits heads, feed-forward columns and the vocabulary; what it cannot split is copied: heads of keys
and values beyond their number, the compressed parts of latent attention, routers. Whole experts are dealt out over the
expert-parallel GPUs. Norms and biases are left out, as in `Shape.parameters`.
"""

from __future__ import annotations

from theory.errors import ParameterError
from theory.hardware.formats import Precision
from theory.hardware.shapes import Attention, Experts, FeedForward, LatentAttention, Shape
from theory.hardware.work import Parallel

__all__ = ["attention_parameters_per_gpu", "cache_bytes_per_gpu", "check_split", "weight_bytes_per_gpu"]

_EMBEDDING_BYTES = 2.0  # embeddings, head and routers stay in bf16


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
        kv_heads = group.attention.kv_heads if isinstance(group.attention, Attention) else parallel.tp
        if kv_heads % parallel.tp and parallel.tp % kv_heads:
            raise ParameterError("tp", parallel.tp, f"must divide the {kv_heads} heads of keys and values, or reverse")
        forward = group.feed_forward
        if isinstance(forward, Experts) and forward.count % parallel.ep:
            raise ParameterError("ep", parallel.ep, f"must divide the {forward.count} experts of the model")


def attention_parameters_per_gpu(attention: Attention | LatentAttention, hidden: int, tp: int) -> float:
    """Return the attention weights of one layer that a GPU holds."""
    if isinstance(attention, Attention):
        kv_heads = max(attention.kv_heads / tp, 1.0)
        return hidden * attention.head_dim * (2.0 * attention.heads / tp + 2.0 * kv_heads)
    copied = hidden * (attention.cached + (attention.query_rank or 0))
    return copied + (attention.parameters(hidden) - copied) / tp


def weight_bytes_per_gpu(shape: Shape, precision: Precision, parallel: Parallel) -> float:
    """Return the bytes of weights that one GPU holds, B.

    >>> from theory.hardware.shapes import Dense, Layers
    >>> layer = Layers(count=36, attention=Attention(heads=32, kv_heads=8, head_dim=128),
    ...                feed_forward=Dense(intermediate=12288))
    >>> shape = Shape(hidden=4096, vocab=151936, layers=(layer,))
    >>> halves = weight_bytes_per_gpu(shape, Precision(), Parallel(tp=2))
    >>> halves * 2 == shape.weight_bytes(Precision())
    True
    """
    total = _EMBEDDING_BYTES * shape.embeddings / parallel.tp
    for group in shape.layers:
        attention = attention_parameters_per_gpu(group.attention, shape.hidden, parallel.tp)
        forward = _forward_bytes(group.feed_forward, shape.hidden, precision, parallel)
        total += group.count * (attention * precision.attention_format.bytes_per_number + forward)
    return total


def cache_bytes_per_gpu(shape: Shape, precision: Precision, parallel: Parallel, context: float) -> float:
    """Return the bytes that a sequence of ``context`` tokens takes on each GPU that serves it, B.

    Latent attention is one vector for all heads, which every tensor-parallel GPU keeps; of grouped-query attention each
    keeps at least one head. A window keeps no more than its tokens.
    """
    total = 0.0
    for group in shape.layers:
        attention = group.attention
        if isinstance(attention, Attention):
            numbers = 2.0 * attention.head_dim * max(attention.kv_heads / parallel.tp, 1.0)
        else:
            numbers = float(attention.cached)
        total += group.count * numbers * attention.kept(context)
    return total * precision.cache_bytes


def _forward_bytes(forward: FeedForward, hidden: int, precision: Precision, parallel: Parallel) -> float:
    if not isinstance(forward, Experts):
        return forward.parameters(hidden) / parallel.tp * precision.weight_format.bytes_per_number
    routed = forward.matrices * hidden * forward.count * forward.intermediate / parallel.gpus
    shared = forward.matrices * hidden * forward.shared / parallel.tp
    return (routed + shared) * precision.expert_format.bytes_per_number + hidden * forward.count * _EMBEDDING_BYTES
