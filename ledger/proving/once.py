"""Build a statement once, so that a verifier and the record of its claim hold the same object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["once"]

P = ParamSpec("P")
T = TypeVar("T")


def once(build: Callable[P, T]) -> Callable[P, T]:
    """The same object for the same arguments, whether a default is left out or written.

    >>> build = once(lambda width=4: [width])
    >>> build() is build(4), build() is build(width=4), build(5)
    (True, True, [5])
    """
    signature = inspect.signature(build)
    built: dict[tuple[object, ...], T] = {}

    @functools.wraps(build)
    def found(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        key = tuple(bound.arguments.values())
        if key not in built:
            built[key] = build(*args, **kwargs)
        return built[key]

    return found
