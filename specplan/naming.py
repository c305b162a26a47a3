"""Names that a person types: checked, with a suggestion where one is near."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeVar

from theory.errors import ParameterError

__all__ = ["choice"]

T = TypeVar("T", bound=str)


def choice(name: str, value: str, allowed: Sequence[T]) -> T:
    """The element of ``allowed`` that ``value`` names.

    Raises
    ------
    ParameterError : there is none; the message suggests the nearest.

    >>> choice("method", "lr-async", ("lr-sync", "lr-async"))
    'lr-async'
    """
    for item in allowed:
        if value == item:
            return item
    near = get_close_matches(value, allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ParameterError(name, value, f"must be one of {', '.join(allowed)}{hint}")
