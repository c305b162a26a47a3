"""Sparse attention: an index chooses the cached entries that a token reads, or an entry stands for several tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from theory.errors import ParameterError
from theory.hardware.mixers.counts import check_counts

__all__ = ["CompressedAttention", "Selection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The index of sparse attention: small keys of all entries are scored, and the best entries are read."""

    heads: int
    """Heads of the index on every GPU; 0: the layer takes the choice of an earlier layer."""
    dim: int
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
class CompressedAttention:
    """DeepSeek-V4's attention to a window and to entries that each stand for ``ratio`` tokens, keys being values.

    In DeepSeek-V4.1 layers share the entries, and the keys of their index, of an earlier layer.
    """

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
    streams: int | None = None
    """Products of the hidden state that an entry is made of; None: V4's 2, or 4 where entries overlap for an index;
    0: the entries, and the keys of the index, are those of an earlier layer."""

    def __post_init__(self) -> None:
        check_counts(self, optional=("ratio", "streams"), skipped=("selection",))
        if self.heads % self.output_groups:
            raise ParameterError("heads", self.heads, f"must be a multiple of output_groups={self.output_groups}")

    @property
    def _compressor(self) -> int:
        """Columns of keys and of the compression, which every GPU holds."""
        if self.streams is not None:
            return self.head_dim * (1 + self.streams)
        streams = 0 if self.ratio == 0 else 2 if self.selection is None else 4
        index = 0 if self.selection is None else 4 * self.selection.dim
        return self.head_dim * (1 + streams) + index

    def products(self, hidden: int, tp: int) -> tuple[tuple[float, float], ...]:
        """Outputs and inputs of one layer's products on one of ``tp`` GPUs.

        Of the output's first product each group of heads has inputs of its own.
        """
        columns, inputs = self.query_rank + self._compressor, self.heads * self.head_dim
        index = [] if self.selection is None else [(self.selection.parameters(hidden) / hidden, hidden)]
        return (
            (columns, hidden),
            (inputs / tp, self.query_rank),
            *index,
            (self.output_groups * self.output_rank / tp, inputs / self.output_groups),
            (hidden, self.output_groups * self.output_rank / tp),
        )

    def parameters_on(self, hidden: int, tp: int) -> float:
        """Weights of one layer on one of ``tp`` GPUs."""
        return sum(outputs * inputs for outputs, inputs in self.products(hidden, tp))

    def entries(self, context: float) -> float:
        """Entries of a context that the layer caches, those of the window included."""
        compressed = 0.0 if self.streams == 0 or not self.ratio else context / self.ratio
        return min(context, float(self.window)) + compressed

    def read(self, context: float) -> float:
        """Cached entries that a new token reads."""
        compressed = context / self.ratio if self.ratio else 0.0
        if self.selection is not None:
            compressed = min(compressed, float(self.selection.entries))
        return min(context, float(self.window)) + compressed

    def held(self, context: float, tp: int = 1, cache_bytes: float = 2.0, copies: float = 1.0) -> float:
        """Bytes that a sequence of ``context`` tokens takes on every GPU, B."""
        chosen = self.selection if self.streams != 0 else None
        index = 0.0 if chosen is None else chosen.held(context / max(self.ratio, 1))
        return self.entries(context) * self.head_dim * cache_bytes + index
