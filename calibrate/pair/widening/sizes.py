"""Sizes of the small and the wide model, and where the numbers of the small one are placed in the wide one.

The numbers of the small model fill the first rows and columns of each matrix. Its pairs of rotated dimensions are
spread over a wide head, so that each keeps its frequency, and its key-value heads are repeated where a wide one serves
fewer query heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from theory.errors import ParameterError
from theory.hardware.shapes import Attention, Dense, Shape

__all__ = ["Placement", "Sizes", "sizes_of_config", "sizes_of_shape"]

_SIZES: Final = {
    "hidden": "hidden dimensions",
    "intermediate": "intermediate dimensions",
    "layers": "layers",
    "heads": "query heads",
    "head_dim": "dimensions of a head",
    "vocab": "tokens in the vocabulary",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of a dense decoder with grouped-query attention, as in ``config.json``; all are counts of numbers."""

    name: str
    """Name of the model or the shape, for messages."""
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    """Whether the output matrix is the embedding."""

    @property
    def group(self) -> int:
        """Query heads that share a key-value head."""
        return self.heads // self.kv_heads

    @property
    def parameters(self) -> int:
        """Weights, without norms."""
        layer = self.hidden * (3 * self.intermediate + 2 * self.head_dim * (self.heads + self.kv_heads))
        return self.layers * layer + self.hidden * self.vocab * (1 if self.tied else 2)


def sizes_of_config(name: str, config: Mapping[str, Any]) -> Sizes:
    """Return the sizes in the ``config.json`` of a bundled model."""
    return Sizes(
        name=name,
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        vocab=config["vocab_size"],
        tied=config["tie_word_embeddings"],
    )


def sizes_of_shape(option: str, name: str, shape: Shape, layers: int | None = None) -> Sizes:
    """Return the sizes of a shape, with another number of layers if ``layers`` is given.

    Parameters
    ----------
    option, name : the option that chose the shape, and its value, for messages.

    Raises
    ------
    ParameterError : its layers are not all alike, dense and with full attention.
    """
    group = shape.layers[0]
    attention, forward = group.attention, group.feed_forward
    dense = isinstance(forward, Dense) and forward.gated
    if len(shape.layers) > 1 or not dense or not isinstance(attention, Attention) or attention.window is not None:
        rule = "must be a dense model with full attention in all layers, such as qwen3-8b: experts, latent attention"
        raise ParameterError(option, name, f"{rule} and windows cannot be filled with a bundled model")
    assert isinstance(forward, Dense)
    return Sizes(
        name=name,
        hidden=shape.hidden,
        intermediate=forward.intermediate,
        layers=layers or group.count,
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        vocab=shape.vocab,
        tied=shape.tied,
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a small model's numbers are in a wide one.

    Raises
    ------
    ParameterError : the wide model is too small in one of its sizes; the message has the least one.
    """

    small: Sizes
    wide: Sizes
    role: str
    """The small model's role, for messages."""

    def __post_init__(self) -> None:
        for name, meaning in _SIZES.items():
            least = getattr(self.small, name) + (name == "hidden")  # a dimension more: `constant`
            self._check(getattr(self.wide, name), least, meaning)
        self._check(self.wide.kv_heads, self.small.kv_heads * self.kv_copies, "key-value heads")
        if self.wide.head_dim % 2:
            self._refuse(f"{self.wide.head_dim} dimensions of a head, which are not even, but rotated in pairs")
        if self.role == "eagle" and self.wide.hidden % self.wide.heads:  # a Llama configuration must be so
            self._refuse(f"{self.wide.hidden} hidden dimensions, not a multiple of its {self.wide.heads} query heads")

    def _check(self, value: int, least: int, meaning: str) -> None:
        if value < least:
            self._refuse(f"{value} {meaning}, and the bundled {self.role} needs {least} or more")

    def _refuse(self, what: str) -> None:
        role = "" if self.role in ("target", "eagle") else f"{self.role}-"
        remedy = f", or --{role}layers {self.small.layers}" if what.split()[1] == "layers," else ""
        raise ParameterError(f"{role}shape", self.wide.name, f"has {what}: choose a larger shape{remedy}")

    @property
    def constant(self) -> int:
        """Index of the hidden dimension that is constant in the residual stream; see `models`."""
        return self.small.hidden

    @property
    def kv_copies(self) -> int:
        """Wide key-value heads that hold the same small one: as many as its query heads need."""
        return -(-self.small.group // self.wide.group)

    @property
    def query_heads(self) -> list[tuple[int, int]]:
        """Pairs (small head, wide head)."""
        return [(head, self._wide_head(head)) for head in range(self.small.heads)]

    @property
    def kv_heads(self) -> list[tuple[int, int]]:
        """Pairs (small key-value head, wide key-value head); each small one occurs `kv_copies` times."""
        copies = self.kv_copies
        return [(head, head * copies + copy) for head in range(self.small.kv_heads) for copy in range(copies)]

    @property
    def rotated(self) -> list[int]:
        """Dimension of a wide head for each dimension of a small one, where queries and keys are rotated.

        Dimension j < n / 2 of a head of n is rotated together with j + n / 2.
        """
        step, half = self.wide.head_dim // self.small.head_dim, self.wide.head_dim // 2
        first = [step * pair for pair in range(self.small.head_dim // 2)]
        return [*first, *(half + dimension for dimension in first)]

    def rotary_base(self, base: float) -> float:
        """Base of the wide model's rotary frequencies, at which each small pair keeps its frequency.

        Pair j of n dimensions turns by base ** (-2 j / n) per position; it becomes pair ``step * j`` of N.
        """
        step = self.wide.head_dim // self.small.head_dim
        return float(base ** (self.wide.head_dim / (self.small.head_dim * step)))

    def _wide_head(self, head: int) -> int:
        kv_head, member = divmod(head, self.small.group)
        copy, place = divmod(member, self.wide.group)
        return (kv_head * self.kv_copies + copy) * self.wide.group + place
