"""In which format the numbers of a model are stored, and in which they are multiplied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from theory.errors import ParameterError

__all__ = ["CACHE_FORMATS", "FORMATS", "Format", "Precision"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of weights or cached keys and values."""

    name: str
    bytes_per_number: float
    """Stored bytes per number, scales included, B."""
    arithmetic: str
    """Format in which a product with such weights is computed where the GPU can: ``bf16``, ``fp8`` or ``fp4``."""


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        one.name: one
        for one in (
            Format(name="bf16", bytes_per_number=2.0, arithmetic="bf16"),
            Format(name="fp8", bytes_per_number=1.0, arithmetic="fp8"),
            # one float32 scale per block of 128 x 128
            Format(name="fp8-block", bytes_per_number=1.0 + 4.0 / 128**2, arithmetic="fp8"),
            Format(name="int8", bytes_per_number=1.0, arithmetic="bf16"),
            # one bf16 scale per group of 128
            Format(name="int4", bytes_per_number=0.5 + 2.0 / 128, arithmetic="bf16"),
            # the same with groups of 32, as Kimi K2 publishes its experts
            Format(name="int4-group32", bytes_per_number=0.5 + 2.0 / 32, arithmetic="bf16"),
            # one byte of scale per group of 32
            Format(name="mxfp4", bytes_per_number=0.5 + 1.0 / 32, arithmetic="fp4"),
            # one byte of scale per group of 16
            Format(name="nvfp4", bytes_per_number=0.5 + 1.0 / 16, arithmetic="fp4"),
        )
    }
)

CACHE_FORMATS: Final = ("bf16", "fp8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Formats of a served model. Embeddings, the head and a router stay in bf16."""

    weights: str = "bf16"
    """Format of attention and dense feed-forward weights."""
    attention: str | None = None
    """Format of attention weights; None: that of ``weights``. Some publishers quantise the feed-forward layers only."""
    experts: str | None = None
    """Format of routed and shared experts; None: that of ``weights``."""
    cache: str = "bf16"

    def __post_init__(self) -> None:
        for name, value in (
            ("weights", self.weights),
            ("attention", self.attention or self.weights),
            ("experts", self.experts or self.weights),
        ):
            if value not in FORMATS:
                raise ParameterError(name, value, f"must be among {', '.join(FORMATS)}")
        if self.cache not in CACHE_FORMATS:
            raise ParameterError("cache", self.cache, f"must be among {', '.join(CACHE_FORMATS)}")

    @property
    def weight_format(self) -> Format:
        """Format of dense feed-forward weights."""
        return FORMATS[self.weights]

    @property
    def attention_format(self) -> Format:
        """Format of attention weights."""
        return FORMATS[self.attention or self.weights]

    @property
    def expert_format(self) -> Format:
        """Format of the experts' weights."""
        return FORMATS[self.experts or self.weights]

    @property
    def cache_bytes(self) -> float:
        """Bytes of a cached number, B."""
        return FORMATS[self.cache].bytes_per_number
