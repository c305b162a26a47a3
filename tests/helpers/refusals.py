"""Tests that a setting is refused, made of a table: what is called, with what, and what the message says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from theory.errors import ParameterError

__all__ = ["refuses"]


def refuses(make: Callable[..., object], *cases: tuple[dict[str, Any], str]) -> Callable[[dict[str, Any], str], None]:
    """Return a test with a case for each pair of options and words: the options are refused, and the words say why."""

    @pytest.mark.parametrize(("options", "words"), cases)
    def test(options: dict[str, Any], words: str) -> None:
        with pytest.raises(ParameterError, match=words):
            make(**options)

    return test
