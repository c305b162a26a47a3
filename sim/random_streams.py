"""One random stream per named source and index.

A stream's key derives from the seed and the *name* of the source, so a new source does not shift the others, and its
counter from the index of the answer, so answers can be drawn in any order, in any process. Philox is a counter-based
generator: streams with different keys or counters never overlap, and creating a stream takes microseconds.

For thousands of short answers, creating streams takes most of the time. Then a *block* of answers may share a stream:
its numbers are ordered by position, so that those of an answer do not depend on how many are drawn, and they are single
precision or 32 bits. Blocks come from SFC64, which is twice as fast; the hash for its key includes the block's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

from theory.errors import ParameterError

__all__ = ["bits_at", "block_of_bits", "block_of_normals", "lot", "place_of", "stream", "streams", "uniforms"]

_WORD = (1 << 64) - 1
_STRIDE = 0x9E3779B97F4A7C15
_SCATTER = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""SplitMix64: what its state grows by, and the shifts and factors that scatter it."""
_ROWS = 64
"""Positions of a block are drawn in multiples of this number: answers of similar length share the cached numbers."""


def stream(seed: int, name: str, index: int) -> np.random.Generator:
    """Return the generator of source ``name`` for the ``index``-th answer under ``seed``.

    Parameters
    ----------
    seed : any integer >= 0.
    name : name of the source, e.g. ``"lengths/target"``.
    index : index of the answer, 0 <= index < 2**64.

    Raises
    ------
    ParameterError : ``seed`` or ``index`` is negative or no integer.
    """
    _check_index(index)
    # Philox counts up in the lowest word: the answer's number in the third leaves 2**128 draws between answers.
    key: Any = _key(seed, name)  # numpy's stubs do not allow any `ISeedSequence` as a seed
    return np.random.Generator(np.random.Philox(key, counter=np.array([0, 0, index, 0], dtype=np.uint64)))


def streams(seed: int, name: str, indices: Iterable[int]) -> Iterator[np.random.Generator]:
    """Yield the generators that `stream` makes for many answers, in a sixth of its time.

    All are the same object, set to the start of each answer in turn: draw from it before advancing the iterator.
    """
    source = stream(seed, name, 0)
    fresh: Any = source.bit_generator.state
    # As lists, which it reads in less than half the time of arrays.
    fresh["buffer"], fresh["state"]["key"] = fresh["buffer"].tolist(), fresh["state"]["key"].tolist()
    fresh["state"]["counter"] = counter = [0, 0, 0, 0]
    for index in indices:
        _check_index(index)
        counter[2] = index
        source.bit_generator.state = fresh
        yield source


def uniforms(seed: int, name: str, index: int, n: int, block: int = 1) -> NDArray[np.float64]:
    """Return ``n`` uniform numbers in [0, 1) of source ``name`` for the ``index``-th answer, shape (n,).

    Parameters
    ----------
    seed, name, index : as in `stream`.
    n : numbers to draw, >= 0.
    block : answers that share a stream, >= 1; if it is not 1, the numbers are multiples of 2**-32.
    """
    if block == 1:
        return stream(seed, name, index).random(n)
    _check_index(index)
    bits = _kept_bits(seed, name, index // block, rows(n), block)
    return np.multiply(bits[:n, index % block], 2.0**-32, dtype=np.float64)


def lot(seed: int, name: str, index: int, place: int) -> float:
    """Return the uniform number in [0, 1) of source ``name`` for a place >= 0 in the ``index``-th answer."""
    return float(stream(seed, name, index).random(place + 1)[place])


def rows(n: int) -> int:
    """Return how many positions of a block are drawn if a single answer needs ``n``: a multiple of `_ROWS`."""
    return -(-n // _ROWS) * _ROWS


def block_of_normals(seed: int, name: str, number: int, n: int, block: int) -> NDArray[np.float32]:
    """Return standard normal numbers for answers ``number * block`` to ``(number + 1) * block - 1``.

    Their shape is (n, block); the first positions do not depend on ``n``. Parameters are those of `uniforms`.
    """
    return _block_stream(seed, name, number, block).standard_normal((n, block), dtype=np.float32)


def block_of_bits(seed: int, name: str, number: int, n: int, block: int) -> NDArray[np.uint32]:
    """Return random whole numbers below 2**32 for the answers of a block, shape (n, block); see `block_of_normals`."""
    raw: Any = _block_stream(seed, name, number, block).bit_generator
    words = raw.random_raw(-(-n * block // 2)).astype("<u8", copy=False).view("<u4")
    bits: NDArray[np.uint32] = words[: n * block].reshape(n, block)
    return bits


@lru_cache(maxsize=8)
def _kept_bits(seed: int, name: str, number: int, n: int, block: int) -> NDArray[np.uint32]:
    return block_of_bits(seed, name, number, n, block)


def place_of(seed: int, name: str, *indices: int) -> int:
    """Return where the numbers of source ``name`` begin for an answer, a position in it, ...: a word for `bits_at`."""
    place = _first_word(seed, name)
    for index in indices:
        _check_index(index)
        place = _scattered(place + (index + 1) * _STRIDE & _WORD)
    return place


def bits_at(places: NDArray[np.uint64] | np.uint64, counts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the numbers of given counts after given places, 64 random bits each.

    They are SplitMix64's (Steele, Lea, Flood 2014, *Fast splittable pseudorandom number generators*): any of them is
    computed without those before it, so that nothing has to be kept that can be computed again.

    Parameters
    ----------
    places : of `place_of`, broadcast with ``counts``.
    counts : which numbers, from 0 on.
    """
    z: NDArray[np.uint64] = (counts + np.uint64(1)) * np.uint64(_STRIDE) + places
    for shift, factor in _SCATTER:
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z


def _scattered(z: int) -> int:
    """The same of one word."""
    for shift, factor in _SCATTER:
        z = (z ^ z >> shift) * factor & _WORD
    return z ^ z >> 31


@lru_cache(maxsize=1024)
def _first_word(seed: int, name: str) -> int:
    return int(_key(seed, name).generate_state(1)[0])


def _block_stream(seed: int, name: str, number: int, block: int) -> np.random.Generator:
    key: Any = _hashed(f"{_checked(seed)}/{name}/{number} of {block}", 3)
    return np.random.Generator(np.random.SFC64(key))


def _check_index(index: int) -> None:
    if not isinstance(index, int) or index < 0:
        raise ParameterError("index", index, "must be an integer >= 0")


class _Key(ISeedSequence):
    """A key in the form of a seed sequence: given only a key, Philox would first read a random seed from the system."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint64) -> NDArray[np.uint64]:
        """Return the key as ``n_words`` words of 64 bits."""
        return self._words


@lru_cache(maxsize=1024)
def _key(seed: int, name: str) -> _Key:
    return _hashed(f"{_checked(seed)}/{name}", 2)


def _checked(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ParameterError("seed", seed, "must be an integer >= 0")
    return seed


def _hashed(text: str, n_words: int) -> _Key:
    digest = blake2b(text.encode(), digest_size=8 * n_words).digest()
    return _Key(np.frombuffer(digest, dtype="<u8").astype(np.uint64))
