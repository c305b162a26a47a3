"""Tests that something is refused, made of a table: what is called, with what, and what the message says."""

from collections.abc import Callable
from typing import Any

import pytest

from theory.errors import ParameterError


def refused(
    call: Callable[..., object],
    *cases: tuple[Any, ...],
    error: type[Exception] | tuple[type[Exception], ...] = ParameterError,
) -> Callable[[tuple[Any, ...]], None]:
    """Return a test with a case for each row of arguments and, last, words: the call fails in a line that has them."""

    @pytest.mark.parametrize("case", cases)
    def test(case: tuple[Any, ...]) -> None:
        *arguments, words = case
        with pytest.raises(error, match=words) as caught:
            call(*arguments)
        assert "\n" not in str(caught.value)

    return test


def refuses(make: Callable[..., object], *cases: tuple[dict[str, Any], str]) -> Callable[[tuple[Any, ...]], None]:
    """Return such a test of a call whose arguments are options by name."""
    return refused(lambda options: make(**options), *cases)
