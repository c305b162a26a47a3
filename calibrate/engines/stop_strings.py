"""Stop strings in the text of a growing list of tokens, at the cost of one table lookup per token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["StopFinder", "first_stop"]


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Index of the end of the first stop string in a text."""
    return min((text.index(stop) + len(stop) for stop in stops if stop in text), default=None)


class StopFinder:
    """Detects stop strings; the whole text is decoded only after a token that could complete one.

    A stop string is complete with the token that contains its last character, so the text is decoded after such tokens
    only. A last character outside ASCII may be spread over several byte-level tokens; then it is decoded after each.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        @cache
        def suspect(stop: str, token: int) -> bool:
            return not stop[-1].isascii() or stop[-1] in tokenizer.decode([token])

        self._tokenizer = tokenizer
        self._suspect = suspect

    def ends(self, tokens: Sequence[int], stops: Sequence[str]) -> bool:
        """Whether the text of ``tokens`` contains a stop string, given that it had none before the last token."""
        last = tokens[-1]
        if not any(self._suspect(stop, last) for stop in stops):
            return False
        return first_stop(self._tokenizer.decode(list(tokens)), stops) is not None

    def settle(self, tokens: list[int], stops: Sequence[str]) -> tuple[str, list[int]]:
        """The text of ``tokens`` up to the end of the first stop string, and the token ids of exactly that text.

        If the last token contains text beyond the stop string, the text is tokenized again.
        """
        text = self._tokenizer.decode(tokens)
        end = first_stop(text, stops)
        if end is None or end == len(text):
            return text, tokens
        text = text[:end]
        return text, self._tokenizer.encode(text, add_special_tokens=False).ids
