"""Passes of many requests, drawn one after the other where numba compiles it: those of `DrawnPasses`, to the last one.

Without numba `sim.answers.token_passes` draws them for many requests at once, more than are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np

from sim.random_streams import bits_at

Walk: TypeAlias = Callable[..., tuple[Any, Any]]


@lru_cache(maxsize=1)
def compiled_walk() -> Walk:
    """Return the loop below, compiled."""
    from numba import njit

    names = {**globals(), "bits_at": njit(nogil=True)(bits_at)}
    walk: Walk = njit(nogil=True)(FunctionType(_walk.__code__, names, "walk"))
    return walk


def _walk(places: Any, edges: Any, tokens: Any, passes: Any) -> tuple[Any, Any]:
    """Draw each request's passes until they commit its tokens, or there are so many; return their numbers and tokens.

    A pass commits more than i tokens where its bits are not below the i-th edge; the last one is cut.
    """
    drawn, committed = np.zeros_like(tokens), np.zeros_like(tokens)
    for i in range(len(tokens)):
        while committed[i] < tokens[i] and drawn[i] < passes[i]:
            count: Any = np.uint64(drawn[i])
            bits = bits_at(places[i], count)
            committed[i] += 1
            for edge in edges:
                committed[i] += bits >= edge
            drawn[i] += 1
        committed[i] = min(committed[i], tokens[i])
    return drawn, committed
