"""What engines of a model in a folder have alike: the folder, limits, and a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from calibrate.engines.protocol import Prompt
from calibrate.engines.torch.model import load_tokenizer, tokenizer_fingerprint
from theory.errors import ParameterError, check_integers

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["LocalConfig", "LocalEngine", "version_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalConfig:
    """Configuration of an engine: model, device and limits."""

    name: str
    """Short name for messages, e.g. ``"target"``."""
    model: Path
    """Local folder with ``config.json``, safetensors weights and ``tokenizer.json``; nothing is ever downloaded."""
    device: str = "cpu"
    """``"cpu"`` or ``"cuda"``; on torch also ``"cuda:N"``."""
    dtype: str = "float32"
    cores: tuple[int, ...] | None = None
    """CPU cores that the engine is bound to, a thread each; None: the system's or the engine's choice."""
    max_batch: int = 16
    """Most sequences decoded at once; more requests wait."""
    max_context: int | None = None
    """Most tokens of a sequence; None: the model's limit, up to 4096."""

    def __post_init__(self) -> None:
        allowed = os.sched_getaffinity(0)
        if self.cores is not None and not (self.cores and allowed.issuperset(self.cores)):
            raise ParameterError("cores", self.cores, f"must be some of this process's cores {sorted(allowed)}")
        check_integers(self, max_batch=1, max_context=2)


def version_of(package: str) -> str:
    """Return the version of an installed package; empty: it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


class LocalEngine:
    """An engine of a model in a folder: the parts of a `Backend` that need only its tokenizer."""

    config: LocalConfig

    @property
    def name(self) -> str:
        """The configured name."""
        return self.config.name

    @cached_property
    def tokenizer_id(self) -> str | None:
        """Hash of ``tokenizer.json``."""
        return tokenizer_fingerprint(self.config.model)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.config.model)

    def encode(self, text: str) -> tuple[int, ...] | None:
        """Token ids of a text as the beginning of a prompt."""
        return tuple(self._tokenizer.encode(text).ids)

    async def count_tokens(self, text: str) -> int:
        """Tokens of a text as a prompt."""
        return len(self._tokenizer.encode(text).ids)

    def _ids(self, prompt: Prompt) -> Sequence[int]:
        return self._tokenizer.encode(prompt).ids if isinstance(prompt, str) else prompt

    def _choice_ids(self, choices: Sequence[str]) -> tuple[int, ...]:
        """Token ids of replies; a ParameterError if there are none or equal ones, or one is not exactly one token."""
        tokens = []
        for choice in choices:
            ids = self._tokenizer.encode(choice, add_special_tokens=False).ids
            if len(ids) != 1 or self._tokenizer.decode(ids) != choice:
                raise ParameterError("choices", choice, f"must each be one token of {self.name!r}, this is {len(ids)}")
            tokens.append(ids[0])
        if len(set(tokens)) < max(len(tokens), 1):
            raise ParameterError("choices", tuple(choices), "must be one or more different tokens")
        return tuple(tokens)
