"""Weights of the wide models, part by part, so that no more than a part is in memory.

What leaves a layer is zero outside of the small model's dimensions, so the residual stream holds the small model's
numbers and zeros, and all else may be random: matrices cost what they cost in a trained model of that shape. A norm
divides by the mean over all dimensions; with d of D in use, its weight is multiplied by sqrt(d / D) and its epsilon by
d / D. Of queries and keys, both normalised over n of N dimensions of a head, only keys are multiplied by sqrt(n / N):
the scale of the attention, 1 / sqrt(N), stands for the other factor.

The ids that pad the vocabulary must never be drawn, and Qwen3 has no bias on its logits. One dimension beyond the small
model's is therefore constant in the residual stream, and the rows of the padded ids are negative there and zero where
the small model's numbers are. The square of the constant takes the place of a share of the norms' epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from calibrate.pair.widening.sizes import Placement

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Part", "Weights", "head_weights", "model_parts", "wide_config"]

Part = tuple[str, Callable[[], "dict[str, Tensor]"]]
"""Name of a file, and the function that makes its tensors."""

_SPREAD: Final = 0.02
"""Standard deviation of random weights, that of an untrained Qwen3."""
_TILE: Final = 1 << 22
_PADDED: Final = -32768.0
"""Weight of a padded id on the constant dimension."""
_SHARE: Final = 1 / 128
"""Share of epsilon that the constant takes: where the embedding is the output matrix, all logits grow by less than
1e-4, by the square of the constant over the residual stream's root mean square."""
_GAIN: Final = 128.0
"""Final norm's weight of the constant dimension, at which padded ids have logits from -3000 to -150: the residual
streams of the bundled models have root mean squares from 1.4 to 25, and their logits exceed -30."""
_HEAD_GAIN: Final = 8.0
"""By what an EAGLE head multiplies the constant, since no norm follows: it takes half of epsilon."""


class Weights:
    """Makes the matrices of a wide model: random, or zero, with the small model's numbers in their place.

    Random matrices repeat a tile of 4 million numbers. ``epsilon`` is that of the small model's norms.
    """

    def __init__(self, placement: Placement, epsilon: float, dtype: torch.dtype, seed: int) -> None:
        import torch

        self.placement, self.epsilon, self.dtype = placement, epsilon, dtype
        random = torch.Generator().manual_seed(seed)
        self.tile: Tensor = torch.empty(_TILE).normal_(0.0, _SPREAD, generator=random).to(dtype)

    @property
    def constant(self) -> float:
        """Value of the constant dimension of the residual stream: its square is a share of d * epsilon."""
        return sqrt(self.placement.small.hidden * self.epsilon * _SHARE)

    def noise(self, rows: int, columns: int) -> Tensor:
        """Return a random matrix."""
        n = rows * columns
        return self.tile[:n].repeat(-(-n // len(self.tile)))[:n].view(rows, columns)

    def zeros(self, rows: int, columns: int) -> Tensor:
        """Return a matrix of zeros."""
        import torch

        return torch.zeros(rows, columns, dtype=self.dtype)

    def norm(self, small: Tensor | None) -> Tensor:
        """Return the weight of a norm over the hidden dimensions."""
        import torch

        wide = torch.ones(self.placement.wide.hidden, dtype=self.dtype)
        if small is not None:
            n = small.shape[0]
            wide[:n] = small * sqrt(n / len(wide))
        return wide

    def head_norm(self, small: Tensor | None, factor: float) -> Tensor:
        """Return the weight of a norm over a head's dimensions, times ``factor``."""
        import torch

        wide = torch.ones(self.placement.wide.head_dim, dtype=self.dtype)
        if small is not None:
            wide[self.placement.rotated] = (small * factor).to(self.dtype)
        return wide

    def entering(self, rows: int, small: Tensor | None) -> Tensor:
        """Return a matrix that reads the residual stream, but for the constant, the small model's in its first rows."""
        wide = self.noise(rows, self.placement.wide.hidden)
        if small is not None:
            n, hidden = small.shape
            wide[:n, : self.placement.constant + 1] = 0.0
            wide[:n, :hidden] = small
        return wide

    def heads(self, n: int, small: Tensor | None, pairs: Iterable[tuple[int, int]], dimensions: list[int]) -> Tensor:
        """Return a projection to ``n`` heads; ``dimensions`` are those of a wide head that hold a small one's."""
        size, dim = self.placement.small.head_dim, self.placement.wide.head_dim
        wide = self.noise(n * dim, self.placement.wide.hidden)
        for one, other in pairs if small is not None else ():
            assert small is not None
            head = wide[other * dim : (other + 1) * dim]
            head[:, : self.placement.constant + 1] = 0.0
            head[dimensions, : small.shape[1]] = small[one * size : (one + 1) * size].to(self.dtype)
        return wide


def wide_config(small: Mapping[str, Any], weights: Weights, *, of_head: bool) -> dict[str, Any]:
    """Return the ``config.json`` of a wide Qwen3 model, or of a wide EAGLE head."""
    wide, rope = weights.placement.wide, small["rope_parameters"]
    gain = _HEAD_GAIN if of_head else 1.0
    return {
        **small,
        "hidden_size": wide.hidden,
        "intermediate_size": wide.intermediate,
        "num_hidden_layers": wide.layers,
        "num_attention_heads": wide.heads,
        "num_key_value_heads": wide.kv_heads,
        "head_dim": wide.head_dim,
        "vocab_size": wide.vocab,
        "tie_word_embeddings": wide.tied,
        # d / D of what a constant that is multiplied by the gain leaves of it
        "rms_norm_eps": weights.epsilon * (1.0 - _SHARE * gain * gain) * weights.placement.small.hidden / wide.hidden,
        "rope_parameters": {**rope, "rope_theta": weights.placement.rotary_base(rope["rope_theta"])},
        "dtype": str(weights.dtype).removeprefix("torch."),
        **({} if of_head else {"layer_types": ["full_attention"] * wide.layers}),
    }


def model_parts(small: Mapping[str, Tensor], weights: Weights) -> Iterator[Part]:
    """Yield the parts of a wide Qwen3 model: embedding, layers, output."""
    wide = weights.placement.wide
    yield "embedding", lambda: {"model.embed_tokens.weight": _embedding(small, weights)}
    for n in range(wide.layers):
        yield f"layer-{n:03d}", partial(_layer, f"model.layers.{n}.", small, weights)
    yield "output", lambda: _output(small, weights)


def _embedding(small: Mapping[str, Tensor], weights: Weights) -> Tensor:
    """The embedding, (vocabulary, hidden): the constant in one dimension; if tied, also the output matrix."""
    live = small["model.embed_tokens.weight"]
    vocab, hidden = live.shape
    wide = weights.placement.wide
    embedding = weights.zeros(wide.vocab, wide.hidden)
    embedding[:vocab, :hidden] = live
    embedding[:, hidden] = weights.constant
    if wide.tied:
        embedding[vocab:, hidden] = _PADDED
    return embedding


def _output(small: Mapping[str, Tensor], weights: Weights) -> dict[str, Tensor]:
    """The final norm, and the output matrix unless it is the embedding."""
    wide, constant = weights.placement.wide, weights.placement.constant
    norm = weights.norm(small["model.norm.weight"])
    norm[constant] = _GAIN * sqrt(constant / wide.hidden)
    if wide.tied:
        return {"model.norm.weight": norm}
    live = small["model.embed_tokens.weight"]
    head = weights.entering(wide.vocab, live)
    head[len(live) :, :constant] = 0.0
    head[len(live) :, constant] = _PADDED
    return {"model.norm.weight": norm, "lm_head.weight": head}


def _layer(prefix: str, small: Mapping[str, Tensor], weights: Weights) -> dict[str, Tensor]:
    """A layer of a wide Qwen3 model; beyond the small model's layers one that adds nothing."""
    own = small if f"{prefix}mlp.up_proj.weight" in small else {}
    place = weights.placement
    scale = sqrt(place.small.head_dim / place.wide.head_dim)
    parts = {
        **_projections(own, prefix, weights, 1.0),
        "input_layernorm.weight": weights.norm(own.get(f"{prefix}input_layernorm.weight")),
        "post_attention_layernorm.weight": weights.norm(own.get(f"{prefix}post_attention_layernorm.weight")),
        "self_attn.q_norm.weight": weights.head_norm(own.get(f"{prefix}self_attn.q_norm.weight"), 1.0),
        "self_attn.k_norm.weight": weights.head_norm(own.get(f"{prefix}self_attn.k_norm.weight"), scale),
    }
    return {prefix + name: tensor for name, tensor in parts.items()}


def _projections(own: Mapping[str, Tensor], prefix: str, weights: Weights, key_factor: float) -> dict[str, Tensor]:
    """The seven matrices of a layer, keys times ``key_factor``."""
    place, wide = weights.placement, weights.placement.wide
    find = {name.removeprefix(prefix).removesuffix("_proj.weight"): tensor for name, tensor in own.items()}.get
    key, out, down = find("self_attn.k"), find("self_attn.o"), find("mlp.down")
    straight = list(range(place.small.head_dim))
    projections = {
        "self_attn.q_proj": weights.heads(wide.heads, find("self_attn.q"), place.query_heads, place.rotated),
        "self_attn.k_proj": weights.heads(
            wide.kv_heads, None if key is None else key * key_factor, place.kv_heads, place.rotated
        ),
        "self_attn.v_proj": weights.heads(wide.kv_heads, find("self_attn.v"), place.kv_heads, straight),
        "self_attn.o_proj": weights.zeros(wide.hidden, wide.heads * wide.head_dim),
        "mlp.gate_proj": weights.entering(wide.intermediate, find("mlp.gate")),
        "mlp.up_proj": weights.entering(wide.intermediate, find("mlp.up")),
        "mlp.down_proj": weights.zeros(wide.hidden, wide.intermediate),
    }
    if out is not None and down is not None:
        size, dim = place.small.head_dim, wide.head_dim
        for one, other in place.query_heads:
            columns = slice(other * dim, other * dim + size)
            projections["self_attn.o_proj"][: out.shape[0], columns] = out[:, one * size : (one + 1) * size]
        projections["mlp.down_proj"][: down.shape[0], : down.shape[1]] = down
    return {f"{name}.weight": tensor for name, tensor in projections.items()}


def head_weights(small: Mapping[str, Tensor], weights: Weights) -> dict[str, Tensor]:
    """Return the tensors of a wide EAGLE head.

    A head has no norms of queries and keys: its keys carry the scale of the attention. Its states have the constant
    dimension too, from the embedding, and no norm at their end.
    """
    place, prefix = weights.placement, "layers.0."
    hidden, wide = place.small.hidden, place.wide.hidden
    joined = weights.zeros(wide, 2 * wide)
    joined[:hidden, :hidden] = small["fc.weight"][:, :hidden]
    joined[:hidden, wide : wide + hidden] = small["fc.weight"][:, hidden:]
    joined[place.constant, place.constant] = _HEAD_GAIN
    norm = f"{prefix}post_attention_layernorm.weight"
    scale = sqrt(place.wide.head_dim / place.small.head_dim)
    projections = _projections(small, prefix, weights, scale)
    return {
        "fc.weight": joined,
        norm: weights.norm(small[norm]),
        **{prefix + name: tensor for name, tensor in projections.items()},
    }
