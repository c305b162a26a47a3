"""Shapes of the models that are measured, as their published configurations give them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

from theory.errors import ParameterError

__all__ = ["SHAPES", "ModelShape", "shape_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder of the Qwen family: RMSNorm, grouped-query attention with rotary positions, SwiGLU."""

    name: str
    """Name as its publisher writes it, without the organisation."""
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    """Whether the output head is the embedding."""
    qkv_bias: bool
    """Bias on the query, key and value projections (Qwen2)."""
    qk_norm: bool
    """RMSNorm of every query and key head (Qwen3)."""
    rope_theta: float = 1e6
    eps: float = 1e-6

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise ParameterError(field.name, value, "must be an integer >= 1")
        if self.heads % self.kv_heads:
            raise ParameterError("heads", self.heads, f"must be a multiple of kv_heads={self.kv_heads}")

    @property
    def qkv_rows(self) -> int:
        """Rows of the joined query, key and value projection."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def n_parameters(self) -> int:
        """Parameters in all, tied ones once."""
        attention = self.hidden * (self.qkv_rows + self.heads * self.head_dim)
        extras = self.qkv_rows * self.qkv_bias + 2 * self.head_dim * self.qk_norm
        layer = attention + extras + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + self.hidden + self.vocab * self.hidden * (1 if self.tied else 2)

    def kv_bytes(self, element_size: int = 2) -> int:
        """Bytes of the key-value cache per token of a sequence."""
        return 2 * self.layers * self.kv_heads * self.head_dim * element_size

    def shrunk(self, head_dim: int = 16) -> ModelShape:
        """A toy of the same architecture, for trying a measurement out."""
        sizes = {"layers": 2, "heads": 4, "kv_heads": 2, "head_dim": head_dim, "intermediate": 48, "vocab": 96}
        sizes["hidden"] = 32 if self.qk_norm else 4 * head_dim  # Qwen2 has no head size of its own
        return replace(self, name=f"{self.name} (toy)", **sizes)  # type: ignore[arg-type]

    def transformers_config(self) -> Any:
        """The same shape as a configuration of transformers; needs transformers."""
        from transformers import Qwen2Config, Qwen3Config

        kind = Qwen3Config if self.qk_norm else Qwen2Config
        own_head_dim = {"head_dim": self.head_dim} if self.qk_norm else {}
        return kind(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            intermediate_size=self.intermediate,
            vocab_size=self.vocab,
            tie_word_embeddings=self.tied,
            rms_norm_eps=self.eps,
            rope_parameters={"rope_type": "default", "rope_theta": self.rope_theta},
            max_position_embeddings=40960,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
            **own_head_dim,
        )


def _qwen3(name: str, **sizes: Any) -> ModelShape:
    return ModelShape(name=name, head_dim=128, kv_heads=8, vocab=151936, qkv_bias=False, qk_norm=True, **sizes)


def _qwen2(name: str, **sizes: Any) -> ModelShape:
    return ModelShape(name=name, head_dim=128, tied=False, qkv_bias=True, qk_norm=False, **sizes)


SHAPES: Final[dict[str, ModelShape]] = {
    "qwen3-32b": _qwen3("Qwen3-32B", hidden=5120, layers=64, heads=64, intermediate=25600, tied=False),
    "qwen3-8b": _qwen3("Qwen3-8B", hidden=4096, layers=36, heads=32, intermediate=12288, tied=False),
    "qwen3-1.7b": _qwen3("Qwen3-1.7B", hidden=2048, layers=28, heads=16, intermediate=6144, tied=True),
    "r1-distill-qwen-32b": _qwen2(
        "DeepSeek-R1-Distill-Qwen-32B",
        hidden=5120,
        layers=64,
        heads=40,
        kv_heads=8,
        intermediate=27648,
        vocab=152064,
        eps=1e-5,
    ),
    "r1-distill-qwen-1.5b": _qwen2(
        "DeepSeek-R1-Distill-Qwen-1.5B",
        hidden=1536,
        layers=28,
        heads=12,
        kv_heads=2,
        intermediate=8960,
        vocab=151936,
        rope_theta=1e4,
    ),
    "qwen2.5-7b": _qwen2(
        "Qwen2.5-7B-Instruct", hidden=3584, layers=28, heads=28, kv_heads=4, intermediate=18944, vocab=152064
    ),
}
"""By the name that the command line takes."""


def shape_of(name: str) -> ModelShape:
    """The shape called ``name``.

    Raises
    ------
    ParameterError : there is none.
    """
    if name not in SHAPES:
        raise ParameterError("model", name, f"must be one of {', '.join(SHAPES)}")
    return SHAPES[name]
