"""Many drawn answers at once, as arrays: the same numbers that `sim.answers.drawn.DrawnAnswer` draws one by one.

Random numbers depend on the seed, the source and the answer only, never on the parameters. So they are cached by seed,
and lengths by their distribution too: the points of a sweep use the same numbers (common random numbers), which are
drawn once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.answers.drawn import Behaviour, SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Marginal, ar1_by_position, block_of_scores
from sim.engines.fixed import PerToken
from sim.random_streams import block_of_bits, streams

__all__ = ["Answers", "Sizes", "blocks_of", "shared_by", "sizes_of", "step_seconds"]

Array: TypeAlias = NDArray[Any]
Flags = NDArray[np.bool_]

Indices: TypeAlias = tuple[int, ...] | range
"""Indices of answers as part of a cache's key: a range is given by its ends."""

Sizes: TypeAlias = Callable[[Sequence[int]], NDArray[np.int64]]
"""Takes indices of answers; returns the tokens of their prompts and of what is written, shape (2, indices)."""

_BLOCK = 1 << 16
"""Numbers of one source in a block of answers, 0.5 MB; memory use does not grow with the number of answers."""

_KEPT = 64
"""Blocks of numbers of each kind that are cached, at most about 100 MB in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers of a behaviour; arrays have the shape (answers, steps), with the steps of the longest answer.

    Arrays are read-only. Lengths that are all the same are stored once (`numpy.broadcast_to`).
    """

    behaviour: SyntheticBehaviour
    indices: Indices
    n_steps: NDArray[np.int64]
    """Steps of each answer, shape (answers,); values after them in the arrays have no meaning."""
    target: Array
    """Tokens of target steps after the cut; whole numbers, in single precision where answers share streams."""
    draft: Array
    """Tokens of drafts after the cut."""
    target_cut: Flags
    """Which target steps were cut."""
    draft_cut: Flags
    """Which drafts were cut."""
    accepted: Flags
    """Which drafts the verifier accepts."""

    def below(self, name: str, share: float) -> Flags:
        """Whether the numbers that a `sim.answers.drawn.QualityAnswer` draws under ``name`` are below a share."""
        if share <= 0.0:
            return np.zeros(self.accepted.shape, dtype=np.bool_)
        one = self.behaviour
        return _below(_uniforms(one.seed, f"quality/{name}", self.indices, self.accepted.shape[1], one.block), share)


def blocks_of(behaviour: SyntheticBehaviour, indices: Sequence[int]) -> Iterator[Answers]:
    """Draw answers, in blocks whose size does not depend on the number of answers."""
    typical = max(int(behaviour.steps.mean), 1)
    size = max(_BLOCK // typical // behaviour.block, 1) * behaviour.block
    for first in range(0, len(indices), size):
        yield _drawn(behaviour, _kept(indices[first : first + size]))


def shared_by(n_steps: int) -> int:
    """Return how many answers of ``n_steps`` steps should share a stream: a power of two, as many as a block holds.

    >>> shared_by(100), shared_by(500), shared_by(10**6)
    (512, 128, 1)
    """
    return 1 << max(min(_BLOCK // max(n_steps, 1), 512).bit_length() - 1, 0)


def sizes_of(behaviour: Behaviour) -> Sizes | None:
    """Return what tells the sizes of a behaviour's answers, many at once; None where they have more than one step."""
    if not isinstance(behaviour, SyntheticBehaviour) or behaviour.steps != Fixed(1):
        return None
    return partial(_sizes, behaviour)


def step_seconds(engine: PerToken, tokens: Array) -> Array:
    """Return the seconds of steps on an engine, shape of ``tokens``; stored once where all are the same."""
    if not any(tokens.strides):
        return np.broadcast_to(engine.request_s + engine.token_s * tokens[:1, :1], tokens.shape)
    seconds = np.multiply(tokens, engine.token_s, dtype=np.float64)
    if engine.request_s:
        seconds += engine.request_s
    return seconds


def _kept(indices: Sequence[int]) -> Indices:
    return indices if isinstance(indices, range) else tuple(indices)


def _drawn(behaviour: SyntheticBehaviour, indices: Indices) -> Answers:
    seed = behaviour.seed
    if isinstance(behaviour.steps, Fixed):
        n_steps = np.full(len(indices), behaviour.steps.n)
    else:
        n_steps = behaviour.steps.at(_normals(seed, "steps", indices, 1)[:, 0])
    n = int(n_steps.max())
    target, draft, target_cut, draft_cut = _lengths(behaviour.lengths, seed, indices, n, behaviour.block)
    return Answers(
        behaviour=behaviour,
        indices=indices,
        n_steps=n_steps,
        target=target,
        draft=draft,
        target_cut=target_cut,
        draft_cut=draft_cut,
        accepted=_accepted(behaviour, indices, n),
    )


def _sizes(behaviour: SyntheticBehaviour, indices: Sequence[int]) -> NDArray[np.int64]:
    lengths, scores = behaviour.lengths, None
    if not isinstance(lengths.target, Fixed):
        scores = _scores(behaviour.seed, "lengths/target", _kept(indices), 1, behaviour.block, lengths.lag1)
    tokens, _ = _tokens(lengths.target, scores, math.inf if lengths.limit is None else lengths.limit)
    sizes = np.full((2, len(indices)), behaviour.prompt_tokens, dtype=np.int64)
    sizes[1] = tokens.ravel()
    return sizes


@lru_cache(maxsize=_KEPT // 2)
def _lengths(lengths: Lengths, seed: int, indices: Indices, n: int, block: int) -> tuple[Array, Array, Flags, Flags]:
    """Tokens of the target's steps and of drafts, and which of them were cut, each with a row per answer; cached."""
    scores = likely = None
    if not (isinstance(lengths.target, Fixed) and isinstance(lengths.draft, Fixed)):
        scores = _scores(seed, "lengths/target", indices, n, block, lengths.lag1)
    if scores is not None and not isinstance(lengths.draft, Fixed):
        likely = lengths.correlation * scores
        if lengths.correlation not in (-1.0, 1.0):
            own = _scores(seed, "lengths/draft/0", indices, n, block, lengths.lag1)
            likely += math.sqrt(1.0 - lengths.correlation**2) * own
    limit = math.inf if lengths.limit is None else lengths.limit
    target, target_cut = _tokens(lengths.target, scores, limit)
    draft, draft_cut = _tokens(lengths.draft, likely, limit)
    target, draft, *cut = (np.broadcast_to(one, (len(indices), n)) for one in (target, draft, target_cut, draft_cut))
    return target, draft, cut[0], cut[1]


def _tokens(marginal: Marginal, scores: Array | None, limit: float) -> tuple[Array, Flags]:
    """Lengths at the scores after the cut, and which were cut; a single number where all are the same."""
    same = scores is None or isinstance(marginal, Fixed)
    tokens: Array = np.array(float(marginal.mean)) if same else marginal.whole(np.asarray(scores))
    cut = np.asarray(tokens > limit)
    return np.minimum(tokens, limit, out=tokens), cut


def _accepted(behaviour: SyntheticBehaviour, indices: Indices, n: int) -> Flags:
    """`sim.answers.acceptance.Acceptance.first` for many answers."""
    acceptance, seed = behaviour.acceptance, behaviour.seed
    drawn = _uniforms(seed, "acceptance/branch/0", indices, n, behaviour.block)
    if acceptance.spread == 0.0 and acceptance.persistence == 0.0:
        return _below(drawn, acceptance.alpha)
    u = drawn if drawn.dtype == np.float64 else drawn * 2.0**-32
    alpha = np.array([acceptance.problem_alpha(seed, index) for index in indices])
    if acceptance.persistence == 0.0:
        return np.asarray(u < alpha[:, None])
    low = alpha * (1.0 - acceptance.persistence)
    high = low + acceptance.persistence
    accepted, p = np.empty(u.shape, dtype=np.bool_), alpha
    for d in range(n):
        accepted[:, d] = yes = u[:, d] < p
        p = np.where(yes, high, low)
    return accepted


def _below(drawn: Array, share: float) -> Flags:
    """Which uniform numbers are below a share; numbers of 32 bits are compared as integers."""
    return np.asarray(drawn < (share if drawn.dtype == np.float64 else math.ceil(share * 2.0**32)))


@lru_cache(maxsize=_KEPT)
def _uniforms(seed: int, name: str, indices: Indices, n: int, block: int) -> Array:
    """Uniform numbers of one source, a row per answer; cached. For answers in blocks, integers of 32 bits."""
    if block > 1:
        return _frozen(_by_blocks(lambda number: block_of_bits(seed, name, number, n, block), indices, block).T)
    numbers = np.empty((len(indices), n))
    for row, source in zip(numbers, streams(seed, name, indices), strict=True):
        source.random(out=row)
    return _frozen(numbers)


def _normals(seed: int, name: str, indices: Indices, n: int) -> Array:
    """Standard normal numbers of one source, a row for each answer."""
    numbers = np.empty((len(indices), n))
    for row, source in zip(numbers, streams(seed, name, indices), strict=True):
        source.standard_normal(out=row)
    return numbers


@lru_cache(maxsize=_KEPT)
def _scores(seed: int, name: str, indices: Indices, n: int, block: int, lag1: float) -> Array:
    """Latent scores of lengths, a row per answer; cached.

    The values of a position of all answers are contiguous in memory, here and in arrays computed from it.
    """
    if block > 1:
        drawn = _by_blocks(lambda number: block_of_scores(seed, name, number, n, block, lag1), indices, block)
    else:
        drawn = ar1_by_position(np.ascontiguousarray(_normals(seed, name, indices, n).T), lag1)
    return _frozen(drawn.T)


def _by_blocks(drawn: Callable[[int], Array], indices: Indices, block: int) -> Array:
    """The numbers drawn for the blocks of answers, shape (n, answers)."""
    first, n = indices[0], len(indices)
    row = range(first, first + n)
    if first % block == 0 and n % block == 0 and (indices == row or indices == tuple(row)):
        whole = [drawn(number) for number in range(first // block, (first + n) // block)]
        return np.concatenate(whole, axis=1) if len(whole) > 1 else whole[0]
    numbers = [index // block for index in indices]
    blocks = {number: drawn(number) for number in dict.fromkeys(numbers)}
    start = {number: i * block for i, number in enumerate(blocks)}
    columns = [start[number] + index % block for number, index in zip(numbers, indices, strict=True)]
    return np.concatenate(list(blocks.values()), axis=1)[:, columns]


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array
