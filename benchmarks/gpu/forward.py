"""The forward pass that is measured: new tokens of a batch after a cached prefix, with every buffer in its place.

Written for capture in a CUDA graph: no shape, address or branch depends on data. The architecture is that of
transformers' Qwen2 and Qwen3 (a test compares the logits); the weights are random numbers made on the device, because
time does not depend on them (bf16 numbers of the usual spread, not zeros: power and clocks do depend on that).
Query, key and value are one product and gate and up another, as serving engines have it; what lies between the
products is compiled to one kernel each where torch can do so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.attention import Attention, joined

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from benchmarks.gpu.shapes import ModelShape

__all__ = ["Fusion", "Model", "Pass", "Storage", "plain_fusion", "random_model"]


@dataclass(frozen=True, slots=True)
class _Layer:
    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    head_gain: Tensor | None
    """Norm weights of the query heads, then of the key heads, (heads + kv heads, dim)."""
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Model:
    """Weights on a device."""

    shape: ModelShape
    embedding: Tensor
    layers: tuple[_Layer, ...]
    norm: Tensor
    head: Tensor

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.device


def random_model(shape: ModelShape, device: str, dtype: torch.dtype, seed: int = 0) -> Model:
    """A model of that shape with random weights, made on the device in its own format: nothing else is allocated."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        weight = torch.empty(rows, columns, dtype=dtype, device=device)
        return weight.normal_(0.0, columns**-0.5, generator=generator)

    def ones(*sizes: int) -> Tensor:
        return torch.ones(*sizes, dtype=dtype, device=device)

    def layer() -> _Layer:
        return _Layer(
            norm=ones(shape.hidden),
            qkv=matrix(shape.qkv_rows, shape.hidden),
            qkv_bias=matrix(1, shape.qkv_rows)[0] if shape.qkv_bias else None,
            head_gain=ones(shape.heads + shape.kv_heads, shape.head_dim) if shape.qk_norm else None,
            out=matrix(shape.hidden, shape.heads * shape.head_dim),
            mlp_norm=ones(shape.hidden),
            gate_up=matrix(2 * shape.intermediate, shape.hidden),
            down=matrix(shape.hidden, shape.intermediate),
        )

    embedding = matrix(shape.vocab, shape.hidden)
    head = embedding if shape.tied else matrix(shape.vocab, shape.hidden)
    return Model(shape, embedding, tuple(layer() for _ in range(shape.layers)), ones(shape.hidden), head)


@dataclass(frozen=True, slots=True)
class Fusion:
    """What lies between the matrix products, as functions of rows of tokens; compiled or not."""

    norm: Callable[..., Any]
    add_norm: Callable[..., Any]
    rotate: Callable[..., Any]
    swiglu: Callable[..., Any]
    join: Callable[..., Any]
    name: str

    def compiled(self) -> Fusion:
        """The same functions, each compiled to a kernel of its own when it is first called."""
        import torch
        from torch._dynamo import config

        # One variant per model, row count of one or more, and split: more than the default allows, and beyond that
        # torch would silently go back to uncompiled code in the middle of a measurement.
        config.recompile_limit = max(config.recompile_limit, 256)
        names = ("norm", "add_norm", "rotate", "swiglu", "join")
        return replace(self, **{n: torch.compile(getattr(self, n)) for n in names}, name="inductor")


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return weight * (wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt()).to(x.dtype)


def _add_norm(x: Tensor, y: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    total = x + y
    return total, _norm(total, weight, eps)


def _rotate(heads: Tensor, gain: Tensor | None, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    """Per-head norm where the model has it, and rotary positions; heads (T, heads, dim), cos and sin (T, dim)."""
    import torch

    if gain is not None:
        heads = _norm(heads, gain, eps)
    first, second = heads.chunk(2, -1)
    return heads * cos[:, None] + torch.cat((-second, first), -1) * sin[:, None]


def _swiglu(gate_up: Tensor) -> Tensor:
    import torch

    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def plain_fusion() -> Fusion:
    """The uncompiled functions."""
    return Fusion(norm=_norm, add_norm=_add_norm, rotate=_rotate, swiglu=_swiglu, join=joined, name="none")


class Storage:
    """Memory for keys and values, filled once with random numbers and seen anew by every cell.

    Parameters
    ----------
    shape : of the model.
    n_tokens : tokens of all sequences together that it holds.
    """

    def __init__(self, shape: ModelShape, n_tokens: int, device: str, dtype: torch.dtype) -> None:
        import torch

        self.shape = shape
        self.n_tokens = n_tokens
        n = 2 * shape.layers * n_tokens * shape.kv_heads * shape.head_dim
        self._flat = torch.empty(n, dtype=dtype, device=device)
        for part in self._flat.split(1 << 28):  # one call over 10**10 elements is not what kernels are tested with
            part.normal_()

    def layers(self, batch: int, n: int) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of every layer, (B, kv heads, n, dim), tokens of a sequence apart by all its heads."""
        s = self.shape
        size = batch * n * s.kv_heads * s.head_dim
        views = [
            self._flat[i * size : (i + 1) * size].view(batch, n, s.kv_heads, s.head_dim).transpose(1, 2)
            for i in range(2 * s.layers)
        ]
        return list(zip(views[::2], views[1::2], strict=True))


class Pass:
    """A forward pass of ``n_new`` tokens for each of ``batch`` sequences after ``n_prefix`` cached ones.

    Parameters
    ----------
    model : the weights.
    layers : keys and values, of length ``n_prefix + n_new``; the last ``n_new`` are written by every call.
    ids : new tokens, (B, n_new).
    attend : attention kernel.
    fusion : what lies between the products.
    last_only : whether only the last token's scores are wanted (a prefill) or all (a verification).
    """

    def __init__(
        self,
        model: Model,
        layers: list[tuple[Tensor, Tensor]],
        ids: Tensor,
        attend: Attention,
        fusion: Fusion,
        *,
        last_only: bool,
    ) -> None:
        self.model = model
        self.layers = layers
        self.ids = ids
        self.attend = attend
        self.fusion = fusion
        self.last_only = last_only
        self._cos, self._sin = _rotary(model, layers[0][0].shape[2], *ids.shape)

    def __call__(self) -> Tensor:
        """The next token of each position, (B, n_new), or (B, 1) of the last."""
        return self.scores().argmax(-1)

    def scores(self) -> Tensor:
        """Scores of the next token, (B, n_new or 1, vocabulary)."""
        import torch

        linear = torch.nn.functional.linear
        fusion, eps = self.fusion, self.model.shape.eps
        batch, n_new = self.ids.shape
        hidden = torch.nn.functional.embedding(self.ids.flatten(), self.model.embedding)
        last = self.model.layers[-1]
        normed = fusion.norm(hidden, self.model.layers[0].norm, eps)
        for i, layer in enumerate(self.model.layers):
            mixed = self._attention(layer, normed, *self.layers[i])
            hidden, normed = fusion.add_norm(hidden, linear(mixed, layer.out), layer.mlp_norm, eps)
            gated = fusion.swiglu(linear(normed, layer.gate_up))
            following = self.model.norm if layer is last else self.model.layers[i + 1].norm
            hidden, normed = fusion.add_norm(hidden, linear(gated, layer.down), following, eps)
        normed = normed.unflatten(0, (batch, n_new))
        return linear(normed[:, -1:] if self.last_only else normed, self.model.head)

    def _attention(self, layer: _Layer, normed: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of all new tokens, (T, heads * dim)."""
        import torch

        s = self.model.shape
        batch, n_new = self.ids.shape
        qkv = torch.nn.functional.linear(normed, layer.qkv, layer.qkv_bias).unflatten(-1, (-1, s.head_dim))
        n_qk = s.heads + s.kv_heads
        qk = self.fusion.rotate(qkv[:, :n_qk], layer.head_gain, s.eps, self._cos, self._sin)
        qk = qk.unflatten(0, (batch, n_new)).transpose(1, 2)
        keys[:, :, -n_new:].copy_(qk[:, s.heads :])
        values[:, :, -n_new:].copy_(qkv[:, n_qk:].unflatten(0, (batch, n_new)).transpose(1, 2))
        return self.attend(qk[:, : s.heads], keys, values).transpose(1, 2).reshape(batch * n_new, -1)


def _rotary(model: Model, n: int, batch: int, n_new: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the new tokens' positions, (B * n_new, dim)."""
    import torch

    s = model.shape
    exponents = torch.arange(0, s.head_dim, 2, device=model.device, dtype=torch.float32) / s.head_dim
    positions = torch.arange(n - n_new, n, device=model.device, dtype=torch.float32)
    angles = (positions[:, None] * s.rope_theta**-exponents).repeat(batch, 2)
    return angles.cos().to(model.dtype), angles.sin().to(model.dtype)
