"""Layers that keep a state of fixed size for each sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from theory.errors import ParameterError
from theory.hardware.mixers.counts import check_counts

__all__ = ["Recurrence", "Recurrent"]

Recurrence: TypeAlias = Literal["gated-delta", "kda", "mamba2", "lightning", "convolution", "mamba1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """A layer with a state for each sequence.

    Gated delta nets (arXiv 2412.06464), Kimi's delta attention (arXiv 2510.26692), Mamba-2 (arXiv 2405.21060),
    lightning attention (arXiv 2501.08313), whose heads forget at fixed rates and have a gate, LFM2's short convolution
    (transformers, ``lfm2``): each channel is a head with one value, its state the last ``key_dim`` numbers; and Mamba
    (arXiv 2312.00752), of whose channels each is a head with one value too, and keys come from the channels.

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
    step_rank: int = 0
    """Of ``mamba1``: numbers between the two products that make the size of a channel's step."""

    def __post_init__(self) -> None:
        check_counts(self, optional=("step_rank",), skipped=("kind", "state_bytes", "full_gate"))
        if self.kind not in get_args(Recurrence):
            raise ParameterError("kind", self.kind, f"must be one of {', '.join(get_args(Recurrence))}")
        if self.state_bytes not in (2.0, 4.0):
            raise ParameterError("state_bytes", self.state_bytes, "must be 2 or 4")
        if self.heads % self.key_heads:
            raise ParameterError("heads", self.heads, f"must be a multiple of key_heads={self.key_heads}")

    @property
    def measured(self) -> bool:
        """Whether layers of this kind were measured, by themselves or served."""
        return self.kind in ("gated-delta", "kda", "mamba2")

    @property
    def state(self) -> int:
        """Numbers of the state of a sequence."""
        return self.heads * self.key_dim * self.value_dim

    def columns(self, tp: int) -> tuple[float, float]:
        """Columns of the input's products on one of ``tp`` GPUs, and rows of the output's."""
        values = self.heads * self.value_dim / tp
        if self.kind == "convolution":  # two gates, one before and one after it
            return 3.0 * values, values
        if self.kind == "mamba1":
            return 2.0 * values, values
        inputs = 2.0 * max(self.key_heads / tp, 1.0) * self.key_dim + values
        if self.kind == "lightning":
            return inputs + values, values
        inputs += self.heads / tp  # one scalar a head
        if self.kind == "kda":  # the decay, and the gate where it has low rank, are two products with `key_dim` between
            return inputs + self.key_dim + (values if self.full_gate else self.value_dim), values
        return inputs + values + (self.heads / tp if self.kind == "gated-delta" else 0.0), values

    def inner(self, tp: int) -> float:
        """Weights of the second products on one of ``tp`` GPUs: of decay and gate, of keys and steps."""
        if self.kind == "mamba1":
            return self.heads * 2.0 * (self.step_rank + self.key_dim) / tp
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
        if self.kind in ("lightning", "convolution"):  # nothing beside the state
            return copies * self.state_bytes * self.state / tp
        keys = 0 if self.kind == "mamba1" else self.key_heads * self.key_dim
        channels = 2 * keys + self.heads * self.value_dim  # queries, keys and values
        convolved = 2.0 * (self.kernel - 1 + copies - 1.0) * channels
        return (copies * self.state_bytes * self.state + convolved) / tp
