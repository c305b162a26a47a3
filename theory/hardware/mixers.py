"""Layers that mix tokens otherwise than by attention to all cached keys and values.

`Recurrent` layers keep a state of fixed size for each sequence; a `Selection` is the index by which sparse attention
chooses the cached entries that a new token reads; `CompressedAttention` caches an entry for several tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, get_args

from theory.errors import ParameterError

__all__ = ["CompressedAttention", "Recurrence", "Recurrent", "Selection", "check_counts"]

Recurrence: TypeAlias = Literal["gated-delta", "kda", "mamba2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The index of sparse attention: small keys of all entries are scored, and the best entries are read."""

    heads: int
    """Heads of the index on every GPU; 0: the layer takes the choice of an earlier layer."""
    dim: int
    """Numbers of an index key."""
    entries: int
    """Cached entries that a new token reads, at most."""
    key_bytes: float
    """Bytes of the index key of an entry, B, > 0."""
    query_rank: int | None = None
    """Numbers that the index's queries are made of; None: the hidden state."""
    kind: Literal["tokens", "blocks", "compressed"] = "tokens"
    """What it chooses: single tokens (DeepSeek-V3.2), blocks of tokens (MiniMax-M3), compressed entries."""

    def __post_init__(self) -> None:
        check_counts(self, optional=("heads", "query_rank"), skipped=("key_bytes", "kind"))
        if not self.key_bytes > 0.0:
            raise ParameterError("key_bytes", self.key_bytes, "must be > 0")

    def parameters(self, hidden: int) -> int:
        """Weights of one layer's index, which every GPU holds."""
        if self.heads == 0:
            return 0
        return (self.query_rank or hidden) * self.heads * self.dim + hidden * (self.dim + self.heads)

    def held(self, entries: float) -> float:
        """Bytes of the index keys of so many entries, B."""
        return self.key_bytes * entries if self.heads else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """A layer with a state for each sequence.

    Gated delta nets (arXiv 2412.06464), Kimi's delta attention (arXiv 2510.26692), Mamba-2 (arXiv 2405.21060).

    >>> layer = Recurrent(kind="gated-delta", heads=32, key_heads=16, key_dim=128, value_dim=128, state_bytes=4.0)
    >>> layer.state, layer.held(0.0)  # Qwen3.5-35B-A3B: 2 MiB for each sequence and layer, and 48 KiB of convolution
    (524288, 2146304.0)
    """

    kind: Recurrence
    heads: int
    """Heads of values, each with a state."""
    key_heads: int
    """Heads of keys and queries (``n_groups`` of Mamba-2)."""
    key_dim: int
    """Numbers of a key (``ssm_state_size``)."""
    value_dim: int
    """Numbers of a head's value (``mamba_head_dim``)."""
    kernel: int = 4
    """Tokens that the convolution sees."""
    state_bytes: float = 2.0
    """Bytes of a number of the state, B: 2 or 4."""
    full_gate: bool = False
    """Of ``kda``: whether the gate of outputs is a full matrix instead of one of low rank."""

    def __post_init__(self) -> None:
        check_counts(self, skipped=("kind", "state_bytes", "full_gate"))
        if self.kind not in get_args(Recurrence):
            raise ParameterError("kind", self.kind, f"must be one of {', '.join(get_args(Recurrence))}")
        if self.state_bytes not in (2.0, 4.0):
            raise ParameterError("state_bytes", self.state_bytes, "must be 2 or 4")
        if self.heads % self.key_heads:
            raise ParameterError("heads", self.heads, f"must be a multiple of key_heads={self.key_heads}")

    @property
    def state(self) -> int:
        """Numbers of the state of a sequence."""
        return self.heads * self.key_dim * self.value_dim

    @property
    def channels(self) -> int:
        """Numbers per token that the convolution passes: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.heads * self.value_dim

    def columns(self, tp: int) -> tuple[float, float]:
        """Columns of the input's products on one of ``tp`` GPUs, and rows of the output's."""
        values = self.heads * self.value_dim / tp
        inputs = 2.0 * max(self.key_heads / tp, 1.0) * self.key_dim + values + self.heads / tp  # and one scalar a head
        if self.kind == "kda":  # the decay, and the gate where it has low rank, are two products with `key_dim` between
            return inputs + self.key_dim + (values if self.full_gate else self.value_dim), values
        return inputs + values + (self.heads / tp if self.kind == "gated-delta" else 0.0), values

    def inner(self, tp: int) -> float:
        """Weights of the second products of decay and gate on one of ``tp`` GPUs."""
        if self.kind != "kda":
            return 0.0
        decay = self.key_dim * self.heads * self.key_dim / tp
        return decay if self.full_gate else decay + self.value_dim * self.heads * self.value_dim / tp

    def parameters_on(self, hidden: int, tp: int) -> float:
        """Weights of one layer on one of ``tp`` GPUs."""
        inputs, outputs = self.columns(tp)
        return hidden * (inputs + outputs) + self.inner(tp)

    def held(self, context: float, tp: int = 1, cache_bytes: float = 2.0, copies: float = 1.0) -> float:
        """Bytes that a sequence takes on one of ``tp`` GPUs whatever its context, B.

        ``copies`` of the state are kept where tokens may be rejected: one after each token of a round.
        """
        convolved = 2.0 * (self.kernel - 1 + copies - 1.0) * self.channels
        return (copies * self.state_bytes * self.state + convolved) / tp


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention:
    """DeepSeek-V4's attention to a window and to entries that each stand for ``ratio`` tokens, keys being values."""

    heads: int
    head_dim: int
    query_rank: int
    output_groups: int
    output_rank: int
    """Numbers of each group of heads between the two products of the output."""
    window: int
    ratio: int = 0
    """Tokens of an entry; 0: the window is all."""
    selection: Selection | None = None
    """Which entries are read; None: all."""

    def __post_init__(self) -> None:
        check_counts(self, optional=("ratio",), skipped=("selection",))
        if self.heads % self.output_groups:
            raise ParameterError("heads", self.heads, f"must be a multiple of output_groups={self.output_groups}")

    @property
    def _compressor(self) -> int:
        """Columns of keys and of the compression, which every GPU holds."""
        streams = 0 if self.ratio == 0 else 2 if self.selection is None else 4  # entries with an index overlap
        index = 0 if self.selection is None else 4 * self.selection.dim
        return self.head_dim * (1 + streams) + index

    def parameters_on(self, hidden: int, tp: int) -> float:
        """Weights of one layer on one of ``tp`` GPUs."""
        index = 0 if self.selection is None else self.selection.parameters(hidden)
        copied = hidden * (self.query_rank + self._compressor) + index
        split = self.query_rank * self.heads * self.head_dim + self.heads * self.head_dim * self.output_rank
        return copied + (split + self.output_groups * self.output_rank * hidden) / tp

    def entries(self, context: float) -> float:
        """Cached entries of a context, those of the window included."""
        return min(context, float(self.window)) + (context / self.ratio if self.ratio else 0.0)

    def read(self, context: float) -> float:
        """Cached entries that a new token reads."""
        compressed = context / self.ratio if self.ratio else 0.0
        if self.selection is not None:
            compressed = min(compressed, float(self.selection.entries))
        return min(context, float(self.window)) + compressed

    def held(self, context: float, tp: int = 1, cache_bytes: float = 2.0, copies: float = 1.0) -> float:
        """Bytes that a sequence of ``context`` tokens takes on every GPU, B."""
        index = 0.0 if self.selection is None else self.selection.held(context / max(self.ratio, 1))
        return self.entries(context) * self.head_dim * cache_bytes + index


def check_counts(record: object, optional: tuple[str, ...] = (), skipped: tuple[str, ...] = ()) -> None:
    """Refuse a record with a field that is no integer >= 1; ``optional`` ones may be None or 0.

    Raises
    ------
    ParameterError : names the field.
    """
    for field in fields(record):  # type: ignore[arg-type]  # a dataclass
        value = getattr(record, field.name)
        if field.name in skipped or (field.name in optional and value in (None, 0)):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(field.name, value, "must be an integer >= 1")
