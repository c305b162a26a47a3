"""Drafters of blocks (DFlash, DSpark): which configurations are of one, what they draft, and their usual size.

A drafter of blocks is a few layers as wide as the target that attend to the target's hidden states, joined by one
matrix, and to the positions of the block. DFlash puts the last token before the masked positions, so that a block of 16
drafts 15 tokens; DSpark's first position drafts already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from specplan.worlds.configs.heads import further_layers_of, widened
from theory.errors import ParameterError, SchemaError
from theory.hardware.shapes import Attention, Dense, Layers, Shape

__all__ = ["CHAINED_RANK", "BlockMethod", "BlockSizes", "block_config", "joined_block", "usual_block", "usual_sizes"]

BlockMethod: TypeAlias = Literal["dflash", "dspark"]
CHAINED_RANK: Final = {"dspark": 256}
"""``markov_rank`` of published heads: DSpark's choose a token by its scores and what the one before it adds to them, by
two matrices of this rank over the vocabulary (deepseek-ai/DeepSpec, DeepSeek-V4)."""
_LAYERS: Final = 5
"""Of a usual one: those of DeepSpec, SpecForge and z-lab; published ones have 3 to 8."""
_STATES: Final = 5
_INNER: Final = 3
"""Feed-forward size over hidden size where the target's is unknown: Qwen3-8B's."""
_MOST: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSizes:
    """How many tokens a drafter of blocks drafts.

    Raises
    ------
    ParameterError : not 1 <= least <= trained <= most.
    """

    least: int
    trained: int
    most: int

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.trained <= self.most <= _MOST:
            sizes = (self.least, self.trained, self.most)
            raise ParameterError("sizes of blocks", sizes, f"must rise from 1 to at most {_MOST}")

    @property
    def text(self) -> str:
        """The sizes in words."""
        return f"{self.least} to {self.most}" if self.least < self.most else str(self.most)


def block_config(config: Mapping[str, Any], where: str) -> tuple[BlockMethod, BlockSizes] | None:
    """Return the method and the sizes of a drafter's ``config.json``; None of another model's.

    Raises
    ------
    SchemaError : a drafter of blocks whose configuration does not say their size, or an impossible one.
    """
    named = [*(config.get("architectures") or ()), config.get("speculators_model_type") or ""]
    words = " ".join(name for name in named if isinstance(name, str)).lower()
    if "dflash" not in words and "dspark" not in words:
        return None
    inner = config.get("dflash_config")
    told = config.get("block_size", inner.get("block_size") if isinstance(inner, Mapping) else None)
    said = config.get("sample_from_anchor")
    anchor_drafts = said if isinstance(said, bool) else "dspark" in words
    size = told if isinstance(told, int) and not isinstance(told, bool) else 0
    most = size if anchor_drafts else size - 1
    if not 1 <= most <= _MOST:
        rule = f"must be an integer in [{1 if anchor_drafts else 2}, {_MOST}] in the configuration of a block drafter"
        raise SchemaError(f"{where}: block_size: {rule}, got {told!r}")
    # DeepSpec publishes DFlash drafters as DSpark ones without the head that knows the token before
    method: BlockMethod = "dflash" if "dflash" in words or config.get("markov_rank") == 0 else "dspark"
    return method, BlockSizes(least=1, trained=most, most=most)


def usual_sizes(method: BlockMethod) -> BlockSizes:
    """Return what published drafters of a method draft: z-lab's blocks of 16, and DeepSpec's of 7."""
    most = 15 if method == "dflash" else 7
    return BlockSizes(least=1, trained=most, most=most)


def usual_block(target: Shape, *, further_layers: int = 0, experts: tuple[int, int] | None = None) -> Shape:
    """Return the drafter of usual size for a target.

    Parameters
    ----------
    further_layers : if not 0, so many layers of the target's own checkpoint, as DeepSeek-V4 has them, are the drafter.
    experts : of these layers, routed ones and those of a token; None: as many as the target's.
    """
    if further_layers:
        return further_layers_of(target, further_layers, experts)
    mixers = [group.attention for group in target.layers if isinstance(group.attention, Attention)]
    heads = max(1, target.hidden // 128)
    attention = mixers[-1] if mixers else Attention(heads=heads, kv_heads=min(8, heads), head_dim=128)
    full = Attention(heads=attention.heads, kv_heads=attention.kv_heads, head_dim=attention.head_dim)
    dense = [group.feed_forward.intermediate for group in target.layers if isinstance(group.feed_forward, Dense)]
    inner = dense[-1] if dense else _INNER * target.hidden
    layers = Layers(count=_LAYERS, attention=full, feed_forward=Dense(intermediate=inner))
    return joined_block(Shape(hidden=target.hidden, vocab=target.vocab, layers=(layers,), tied=True), _STATES)


def joined_block(shape: Shape, states: int, vocab: int | None = None) -> Shape:
    """Return layers with the matrix that joins ``states`` hidden states, as columns of their feed-forward parts.

    Embeddings are the target's. The matrix reads committed tokens only, but is counted for the block's positions too.
    """
    layers = widened(shape.layers, round(states * shape.hidden / (3 * shape.n_layers)))
    return Shape(hidden=shape.hidden, vocab=vocab or shape.vocab, layers=layers, tied=True)
