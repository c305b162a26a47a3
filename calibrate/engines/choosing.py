"""Choice among single-token replies, for engines with a tokenizer of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from theory.errors import ParameterError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["choice_ids", "shares"]


def choice_ids(tokenizer: Tokenizer, choices: Sequence[str], engine: str) -> tuple[int, ...]:
    """Token ids of replies, in their order; ``engine`` names the engine in errors.

    Raises
    ------
    ParameterError : no choices, equal ones, or one that is not exactly one token.
    """
    tokens = []
    for choice in choices:
        ids = tokenizer.encode(choice, add_special_tokens=False).ids
        if len(ids) != 1 or tokenizer.decode(ids) != choice:
            raise ParameterError("choices", choice, f"must each be one token of {engine!r}, this is {len(ids)}")
        tokens.append(ids[0])
    if len(set(tokens)) < max(len(tokens), 1):
        raise ParameterError("choices", tuple(choices), "must be one or more different tokens")
    return tuple(tokens)


def shares(logs: Sequence[float]) -> tuple[tuple[float, ...], float]:
    """Probabilities of replies, given that the reply is one of them, and their sum, from log probabilities in nats.

    >>> shares([-1e4, -1e4])
    ((0.5, 0.5), 0.0)
    """
    weights = [math.exp(x - max(logs)) for x in logs]
    return tuple(w / sum(weights) for w in weights), min(1.0, sum(map(math.exp, logs)))
