"""One random stream per named source and index.

A stream's key derives from the seed and the *name* of what is drawn, so a new source does not shift the others, and
its counter from the index of the answer, so answers can be drawn in any order, in any process. Philox is a
counter-based generator: streams with different keys or counters never meet, and making one costs microseconds.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

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
    return np.random.Generator(np.random.Philox(key=_key(seed, name), counter=[0, 0, index, 0]))


@lru_cache(maxsize=1024)
def _key(seed: int, name: str) -> NDArray[np.uint64]:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ParameterError("seed", seed, "must be an integer >= 0")
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64)
