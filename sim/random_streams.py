"""One random stream per named source and index.

A stream's key derives from the seed and the *name* of what is drawn, so a new source does not shift the others, and
its counter from the index of the answer, so answers can be drawn in any order, in any process. Philox is a
counter-based generator: streams with different keys or counters never meet, and making one costs microseconds.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

from theory.errors import ParameterError

__all__ = ["stream"]


def stream(seed: int, name: str, index: int) -> np.random.Generator:
    """Return the generator of source ``name`` for the ``index``-th answer under ``seed``.

    Parameters
    ----------
    seed : any integer >= 0.
    name : what is drawn, e.g. ``"lengths/target"``.
    index : which answer, 0 <= index < 2**64.

    Raises
    ------
    ParameterError : ``seed`` or ``index`` is negative or no integer.
    """
    if not isinstance(index, int) or index < 0:
        raise ParameterError("index", index, "must be an integer >= 0")
    # Philox counts up in the lowest word: the answer's number in the third leaves 2**128 draws between answers.
    key: Any = _key(seed, name)  # numpy's stubs forget that a seed may be any `ISeedSequence`
    return np.random.Generator(np.random.Philox(key, counter=[0, 0, index, 0]))


class _Key(ISeedSequence):
    """A key as a seed that is ready for use: given a bare key, Philox would first ask the system for a random seed."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint64) -> NDArray[np.uint64]:
        """Return the key, two words of 64 bits."""
        return self._words


@lru_cache(maxsize=1024)
def _key(seed: int, name: str) -> _Key:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ParameterError("seed", seed, "must be an integer >= 0")
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return _Key(np.frombuffer(digest, dtype="<u8").astype(np.uint64))
