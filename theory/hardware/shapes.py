"""Shapes of decoder-only transformers: what decides how many bytes a pass reads and how much it computes.

A shape is a list of groups of alike layers, so that mixtures of experts behind dense layers and sliding windows between
full attention are told as they are. Sizes are counts of numbers; `theory.hardware.formats` says what a number takes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias

from theory.errors import ParameterError
from theory.hardware.formats import Precision

__all__ = ["Attention", "Dense", "Experts", "FeedForward", "LatentAttention", "Layers", "Shape"]

_EMBEDDING_BYTES = 2.0  # embeddings and the head stay in bf16


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Grouped-query attention, over all cached tokens or the last ``window`` of them."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    """Cached tokens that a new one looks back at, at most; None: all."""

    def __post_init__(self) -> None:
        _check_counts(self, optional=("window",))
        if self.heads % self.kv_heads:
            raise ParameterError("heads", self.heads, f"must be a multiple of kv_heads={self.kv_heads}")

    @property
    def cached(self) -> int:
        """Numbers cached per token and layer."""
        return 2 * self.kv_heads * self.head_dim

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        return hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)

    def kept(self, context: float) -> float:
        """Tokens of a context that stay in the cache."""
        return context if self.window is None else min(context, float(self.window))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """DeepSeek's latent attention: one compressed vector per token is cached for all heads (arXiv 2405.04434, 2.1)."""

    heads: int
    cache_rank: int
    """Numbers of the compressed keys and values (``kv_lora_rank``)."""
    rope_dim: int
    """Numbers of the key that carries the position, shared by all heads."""
    nope_dim: int
    """Numbers of a head's key without position."""
    value_dim: int
    query_rank: int | None = None
    """Numbers of the compressed query (``q_lora_rank``); None: not compressed."""

    def __post_init__(self) -> None:
        _check_counts(self, optional=("query_rank",))

    @property
    def cached(self) -> int:
        """Numbers cached per token and layer."""
        return self.cache_rank + self.rope_dim

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        key_dim = self.nope_dim + self.rope_dim
        if self.query_rank is None:
            query = hidden * self.heads * key_dim
        else:
            query = self.query_rank * (hidden + self.heads * key_dim)
        cache = hidden * self.cached + self.cache_rank * self.heads * (self.nope_dim + self.value_dim)
        return query + cache + self.heads * self.value_dim * hidden

    def kept(self, context: float) -> float:
        """Tokens of a context that stay in the cache."""
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A feed-forward layer that all tokens pass."""

    intermediate: int
    gated: bool = True
    """Whether it has three matrices (SwiGLU and the like) or two."""

    def __post_init__(self) -> None:
        _check_counts(self)

    @property
    def matrices(self) -> int:
        """Matrices of hidden x intermediate."""
        return 3 if self.gated else 2

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        return self.matrices * hidden * self.intermediate

    def active(self, hidden: int) -> int:
        """Weights that one token passes."""
        return self.parameters(hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts: each token passes ``per_token`` of ``count`` routed ones, and the shared ones."""

    count: int
    per_token: int
    intermediate: int
    """Inner width of one routed expert."""
    shared: int = 0
    """Intermediate size of all shared experts together; 0: none."""
    gated: bool = True

    def __post_init__(self) -> None:
        _check_counts(self, optional=("shared",))
        if self.per_token > self.count:
            raise ParameterError("per_token", self.per_token, f"must be at most the {self.count} experts")

    @property
    def matrices(self) -> int:
        """Matrices of hidden x intermediate."""
        return 3 if self.gated else 2

    def parameters(self, hidden: int) -> int:
        """Weights of one layer, the router included."""
        return self.matrices * hidden * (self.count * self.intermediate + self.shared) + hidden * self.count

    def active(self, hidden: int) -> int:
        """Weights that one token passes."""
        return self.matrices * hidden * (self.per_token * self.intermediate + self.shared) + hidden * self.count


FeedForward: TypeAlias = Dense | Experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Alike layers, wherever they stand."""

    count: int
    attention: Attention | LatentAttention
    feed_forward: FeedForward

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ParameterError("count", self.count, "must be an integer >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A decoder-only transformer.

    >>> layer = Layers(count=36, attention=Attention(heads=32, kv_heads=8, head_dim=128),
    ...                feed_forward=Dense(intermediate=12288))
    >>> shape = Shape(hidden=4096, vocab=151936, layers=(layer,))  # Qwen3-8B: 8.19 billion, norms included
    >>> round(shape.parameters / 1e9, 2)
    8.19
    """

    hidden: int
    vocab: int
    layers: tuple[Layers, ...]
    tied: bool = False
    """Whether the head reuses the embeddings."""
    norms: int = 2
    """Normalisations of a layer over all its numbers: one before attention and one before the feed-forward part; more
    where outputs, or queries and keys over all heads, have their own. Those of single heads are not counted: engines
    fuse them with the rotation by positions."""

    def __post_init__(self) -> None:
        for name in ("hidden", "vocab", "norms"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParameterError(name, value, "must be an integer >= 1")
        if not self.layers:
            raise ParameterError("layers", self.layers, "must hold at least one group of layers")

    @property
    def n_layers(self) -> int:
        """Layers in all."""
        return sum(group.count for group in self.layers)

    @property
    def embeddings(self) -> int:
        """Numbers of embeddings and head."""
        return self.hidden * self.vocab * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """Weights, norms and biases left out."""
        return self.embeddings + sum(self._per_layer(group, active=False) * group.count for group in self.layers)

    @property
    def active_parameters(self) -> int:
        """Weights that one token passes."""
        return self.embeddings + sum(self._per_layer(group, active=True) * group.count for group in self.layers)

    @property
    def has_experts(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(isinstance(group.feed_forward, Experts) for group in self.layers)

    def weight_bytes(self, precision: Precision) -> float:
        """Return the bytes of all weights, B."""
        total = _EMBEDDING_BYTES * self.embeddings
        for group in self.layers:
            attention = group.attention.parameters(self.hidden) * precision.attention_format.bytes_per_number
            forward = group.feed_forward
            of = precision.expert_format if isinstance(forward, Experts) else precision.weight_format
            total += group.count * (attention + forward.parameters(self.hidden) * of.bytes_per_number)
        return total

    def cache_bytes(self, context: float, precision: Precision) -> float:
        """Return the bytes that the keys and values of a sequence of ``context`` tokens take, B."""
        numbers = sum(group.count * group.attention.cached * group.attention.kept(context) for group in self.layers)
        return numbers * precision.cache_bytes

    def _per_layer(self, group: Layers, *, active: bool) -> int:
        forward = group.feed_forward
        return group.attention.parameters(self.hidden) + (
            forward.active(self.hidden) if active else forward.parameters(self.hidden)
        )


def _check_counts(record: object, optional: tuple[str, ...] = ()) -> None:
    for field in fields(record):  # type: ignore[arg-type]  # the records above
        value = getattr(record, field.name)
        if isinstance(value, bool) and field.name == "gated":
            continue
        if field.name in optional and value in (None, 0):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(field.name, value, "must be an integer >= 1")
