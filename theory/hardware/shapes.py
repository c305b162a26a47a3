"""Shapes of decoder-only models: what decides how many bytes a pass reads and how much it computes.

A shape is a list of groups of alike layers, so that mixtures of experts behind dense layers, and sliding windows or
layers with states between full attention, are told as they are. Sizes are counts of numbers; `theory.hardware.formats`
says what a number takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from theory.errors import ParameterError
from theory.hardware.formats import Precision
from theory.hardware.mixers.counts import check_counts
from theory.hardware.mixers.sparse import CompressedAttention, Selection
from theory.hardware.mixers.states import Recurrent

__all__ = ["Attention", "Dense", "Experts", "FeedForward", "LatentAttention", "Layers", "Mixer", "Shape"]

_EMBEDDING_BYTES = 2.0  # embeddings and the head stay in bf16
_CONVOLVED_BYTES = 2.0  # so do the tokens that short convolutions keep


def _latest(context: float, most: int | None) -> float:
    """Cached tokens that count of a context, at most so many; None: all."""
    return context if most is None else min(context, float(most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Grouped-query attention, over all cached tokens or the last ``window`` of them."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    """Cached tokens that a new one looks back at, at most; None: all."""

    value_dim: int | None = None
    """Numbers of a head's value; None: as many as of its key."""
    gated: bool = False
    """Whether outputs have a gate, which is a further product as large as that of the queries."""
    values_are_keys: bool = False
    """Whether values are made of the keys' product; both are cached."""
    shared: bool = False
    """Whether keys and values are another model's or an earlier layer's, so that none are made or kept."""
    selection: Selection | None = None
    """Which cached tokens are read; None: all, or the window."""
    relative: int = 0
    """Numbers of a head that a bias by distance is made of, a further product (Inkling); 0: positions turn the keys."""
    convolved: int = 0
    """Numbers that short convolutions beside it keep of a sequence, over all GPUs (Inkling); 0: there are none."""

    def __post_init__(self) -> None:
        flags = ("gated", "values_are_keys", "shared", "selection")
        check_counts(self, optional=("window", "value_dim", "relative", "convolved"), skipped=flags)
        if self.heads % self.kv_heads:
            raise ParameterError("heads", self.heads, f"must be a multiple of kv_heads={self.kv_heads}")

    @property
    def _values(self) -> int:
        return self.value_dim or self.head_dim

    @property
    def mean_dim(self) -> float:
        """Mean numbers of a head's key and value."""
        return (self.head_dim + self._values) / 2.0

    def columns(self, tp: int) -> tuple[float, float]:
        """Columns of the input's products on one of ``tp`` GPUs, and rows of the output's."""
        heads, kv_heads = self.heads / tp, 0.0 if self.shared else max(self.kv_heads / tp, 1.0)
        cached = kv_heads * (self.head_dim + (0 if self.values_are_keys else self._values))
        queries = self.head_dim + (self._values if self.gated else 0) + self.relative
        return heads * queries + cached, heads * self._values

    def parameters_on(self, hidden: int, tp: int) -> float:
        """Weights of one layer on one of ``tp`` GPUs."""
        index = 0 if self.selection is None else self.selection.parameters(hidden)
        return hidden * sum(self.columns(tp)) + index

    def held(self, context: float, tp: int = 1, cache_bytes: float = 2.0, copies: float = 1.0) -> float:
        """Bytes that a sequence of ``context`` tokens takes on one of ``tp`` GPUs, which keeps a head at least, B."""
        beside = _CONVOLVED_BYTES * self.convolved * copies / tp
        if self.selection is not None:
            beside += self.selection.held(context)
        share = 0.0 if self.shared else max(self.kv_heads / tp, 1.0) / self.kv_heads
        kept = _latest(context, self.window)
        return self.kv_heads * (self.head_dim + self._values) * share * kept * cache_bytes + beside


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """DeepSeek's latent attention: one compressed vector per token is cached for all heads (arXiv 2405.04434, 2.1)."""

    heads: int
    cache_rank: int
    """Numbers of the compressed keys and values (``kv_lora_rank``)."""
    rope_dim: int
    """Numbers of the key that carries the position, shared by all heads; 0: no key carries it."""
    nope_dim: int
    """Numbers of a head's key without position."""
    value_dim: int
    query_rank: int | None = None
    gated: bool = False
    """Whether outputs have a gate, which is a further product of the hidden state."""
    selection: Selection | None = None
    """Which cached tokens are read; None: all, or the window."""
    window: int | None = None
    """Cached tokens that a new one looks back at, at most; None: all."""

    def __post_init__(self) -> None:
        check_counts(self, optional=("query_rank", "rope_dim", "window"), skipped=("gated", "selection"))

    @property
    def cached(self) -> int:
        """Numbers cached per token and layer."""
        return self.cache_rank + self.rope_dim

    def parameters_on(self, hidden: int, tp: int) -> float:
        """Weights of one layer on one of ``tp`` GPUs; the compressed parts and the index are on all of them."""
        heads, key_dim = self.heads / tp, self.nope_dim + self.rope_dim
        rank = self.query_rank
        query = hidden * heads * key_dim if rank is None else rank * (hidden + heads * key_dim)
        cache = hidden * self.cached + self.cache_rank * heads * (self.nope_dim + self.value_dim)
        index = 0 if self.selection is None else self.selection.parameters(hidden)
        return query + cache + (2 if self.gated else 1) * heads * self.value_dim * hidden + index

    def read(self, context: float) -> float:
        """Cached tokens that a new token reads."""
        entries = self.window if self.selection is None else self.selection.entries
        return _latest(context, entries)

    def held(self, context: float, tp: int = 1, cache_bytes: float = 2.0, copies: float = 1.0) -> float:
        """Bytes that a sequence of ``context`` tokens takes on every GPU, B: one vector of a token is for all heads."""
        index = 0.0 if self.selection is None else self.selection.held(context)
        kept = _latest(context, self.window)
        return self.cached * kept * cache_bytes + index


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A feed-forward layer that all tokens pass."""

    intermediate: int
    gated: bool = True
    """Whether it has three matrices (SwiGLU and the like) or two."""

    def __post_init__(self) -> None:
        check_counts(self, skipped=("gated",))

    def parameters(self, hidden: int) -> int:
        """Weights of one layer."""
        return (3 if self.gated else 2) * hidden * self.intermediate

    active = parameters


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
    idle: int = 0
    """Further experts that compute nothing (LongCat-Flash); ``per_token`` is the mean of those that compute."""
    latent: int | None = None
    """Numbers that tokens are reduced to before routed experts, and widened from after them; None: not reduced."""

    def __post_init__(self) -> None:
        check_counts(self, optional=("shared", "idle", "latent"), skipped=("gated",))
        if self.per_token > self.count:
            raise ParameterError("per_token", self.per_token, f"must be at most the {self.count} experts")

    @property
    def matrices(self) -> int:
        """Matrices of hidden x intermediate."""
        return 3 if self.gated else 2

    def routed(self, hidden: int, experts: int) -> int:
        """Weights of so many routed experts."""
        return self.matrices * (self.latent or hidden) * experts * self.intermediate

    def common(self, hidden: int) -> int:
        """Weights that all tokens pass: shared experts and what reduces and widens, the router left out."""
        return self.matrices * hidden * self.shared + 2 * hidden * (self.latent or 0)

    def parameters(self, hidden: int) -> int:
        """Weights of one layer, the router included."""
        return self.routed(hidden, self.count) + self.common(hidden) + hidden * (self.count + self.idle)

    def active(self, hidden: int) -> int:
        """Weights that one token passes."""
        return self.routed(hidden, self.per_token) + self.common(hidden) + hidden * (self.count + self.idle)


FeedForward: TypeAlias = Dense | Experts
Mixer: TypeAlias = Attention | LatentAttention | CompressedAttention | Recurrent


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Alike layers, wherever they stand."""

    count: int
    attention: Mixer
    feed_forward: FeedForward | None
    """None: another mixing layer follows directly (hybrids)."""

    def __post_init__(self) -> None:
        check_counts(self, skipped=("attention", "feed_forward"))


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
    streams: int = 1
    """Residual streams that every layer mixes (hyper-connections, arXiv 2512.24880); 1: a residual as usual."""
    tables: int = 0
    """Numbers of further tables of which a token reads a row (Gemma-4's embeddings per layer): held, hardly read."""
    stream_rank: int = 0
    """Rank of the products that mix them before both parts of a layer, on every GPU (Qwen3.8-Flash-Next); 0: mixed
    number by number."""

    def __post_init__(self) -> None:
        check_counts(self, skipped=("layers", "tied", "tables", "stream_rank"))
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
    def mixed(self) -> int:
        """Weights of the products that mix the streams of all layers: to their rank and a number each, and back."""
        columns = 2 * self.stream_rank + self.streams if self.stream_rank else 0
        return 2 * self.n_layers * columns * self.streams * self.hidden

    @property
    def parameters(self) -> int:
        """Weights, norms and biases left out."""
        layers = sum(self._per_layer(group, active=False) * group.count for group in self.layers)
        return self.embeddings + self.tables + self.mixed + layers

    @property
    def active_parameters(self) -> int:
        """Weights that one token passes."""
        layers = sum(self._per_layer(group, active=True) * group.count for group in self.layers)
        return self.embeddings + self.mixed + layers

    @property
    def has_experts(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(isinstance(group.feed_forward, Experts) for group in self.layers)

    @property
    def has_states(self) -> bool:
        """Whether any layer keeps a state, of which rounds of speculation need copies."""
        return any(isinstance(group.attention, Recurrent) for group in self.layers)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """What no measured row has.

        Kinds of states, products that mix streams, embeddings per layer, experts that compute nothing, short
        convolutions beside attention, windows on latent attention.
        """
        kinds = [group.attention for group in self.layers]
        states = {one.kind: f"layers of {one.kind}" for one in kinds if isinstance(one, Recurrent) and not one.measured}
        streams = ("residual streams mixed by products",) if self.stream_rank else ()
        idle = any(isinstance(group.feed_forward, Experts) and group.feed_forward.idle for group in self.layers)
        told = {
            "embeddings per layer": self.tables > 0,
            "experts that compute nothing": idle,
            "short convolutions beside attention": any(getattr(one, "convolved", 0) for one in kinds),
            "windows on latent attention": any(isinstance(one, LatentAttention) and one.window for one in kinds),
        }
        return (*states.values(), *streams, *(what for what, has in told.items() if has))

    @property
    def mixing(self) -> str:
        """``states`` if any layer keeps one, else ``compressed`` or ``sparse`` attention, or ``attention`` to all."""
        if self.has_states:
            return "states"
        mixers = [group.attention for group in self.layers]
        if any(isinstance(one, CompressedAttention) for one in mixers):
            return "compressed"
        return "sparse" if any(getattr(one, "selection", None) for one in mixers) else "attention"

    def weight_bytes(self, precision: Precision) -> float:
        """Return the bytes of all weights, B."""
        total = _EMBEDDING_BYTES * (self.embeddings + self.tables + self.mixed)
        for group in self.layers:
            attention = group.attention.parameters_on(self.hidden, 1) * precision.attention_format.bytes_per_number
            total += group.count * attention
            forward = group.feed_forward
            if forward is not None:
                of = precision.expert_format if isinstance(forward, Experts) else precision.weight_format
                total += group.count * forward.parameters(self.hidden) * of.bytes_per_number
        return total

    def cache_bytes(self, context: float, precision: Precision) -> float:
        """Return the bytes that the keys, values and states of a sequence of ``context`` tokens take, B."""
        size = precision.cache_bytes
        return sum(group.count * group.attention.held(context, cache_bytes=size) for group in self.layers)

    def _per_layer(self, group: Layers, *, active: bool) -> int:
        forward, mixing = group.feed_forward, round(group.attention.parameters_on(self.hidden, 1))
        if forward is None:
            return mixing
        return mixing + (forward.active(self.hidden) if active else forward.parameters(self.hidden))
