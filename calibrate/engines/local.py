"""What engines of a model in a folder have alike: a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from calibrate.engines.protocol import Prompt
from calibrate.engines.torch.model import load_tokenizer, tokenizer_fingerprint
from theory.errors import ParameterError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from calibrate.engines.torch.config import TorchConfig
    from calibrate.engines.vllm.config import VllmConfig

__all__ = ["LocalEngine"]


class LocalEngine:
    """An engine of a model in a folder: the parts of a `Backend` that need only its tokenizer.

    Attributes
    ----------
    config : its configuration.
    """

    config: TorchConfig | VllmConfig

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
        """Token ids of replies, in their order.

        Raises
        ------
        ParameterError : no choices, equal ones, or one that is not exactly one token.
        """
        tokens = []
        for choice in choices:
            ids = self._tokenizer.encode(choice, add_special_tokens=False).ids
            if len(ids) != 1 or self._tokenizer.decode(ids) != choice:
                rule = f"must each be one token of {self.name!r}, this is {len(ids)}"
                raise ParameterError("choices", choice, rule)
            tokens.append(ids[0])
        if len(set(tokens)) < max(len(tokens), 1):
            raise ParameterError("choices", tuple(choices), "must be one or more different tokens")
        return tuple(tokens)
