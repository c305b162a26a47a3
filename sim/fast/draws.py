"""Many drawn answers at once, as arrays: number for number what `sim.answers.drawn.DrawnAnswer` draws one by one.

What is drawn depends on the seed, the source and the answer only, never on the parameters. So the raw numbers are kept
for as long as answers of the same seed are asked for, and lengths for as long as their distribution is the same: the
points of a sweep meet the same ones (common random numbers) and pay for them once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Marginal, ar1_by_position, block_of_scores
from sim.engines.fixed import PerToken
from sim.random_streams import block_of_bits, streams

__all__ = ["Answers", "blocks_of", "shared_by", "step_seconds"]

Array: TypeAlias = NDArray[Any]
Flags = NDArray[np.bool_]

_BLOCK = 1 << 16
"""Numbers of one source in a block of answers, 0.5 MB; memory does not grow with the number of answers."""

_KEPT = 64
"""Blocks of numbers of each kind that are kept, some 100 MB in all at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers of a behaviour; arrays have the shape (answers, steps), steps being those of the longest.

    They are to be read only. Lengths that are all the same stand in memory once (`numpy.broadcast_to`).
    """

    behaviour: SyntheticBehaviour
    indices: tuple[int, ...]
    n_steps: NDArray[np.int64]
    """Steps of each answer, shape (answers,); what stands beyond them in the arrays has no meaning."""
    target: Array
    """Tokens of target steps, as they are cut; whole numbers, in single precision where answers share streams."""
    draft: Array
    """Tokens of drafts, as they are cut."""
    target_cut: Flags
    """Which target steps were cut."""
    draft_cut: Flags
    """Which drafts were cut."""
    accepted: Flags
    """Which drafts the verifier accepts."""

    def below(self, name: str, share: float) -> Flags:
        """Whether what a `sim.answers.drawn.QualityAnswer` draws under a name lies below a share."""
        if share <= 0.0:
            return np.zeros(self.accepted.shape, dtype=np.bool_)
        one = self.behaviour
        return _below(_uniforms(one.seed, f"quality/{name}", self.indices, self.accepted.shape[1], one.block), share)


def blocks_of(behaviour: SyntheticBehaviour, indices: Sequence[int]) -> Iterator[Answers]:
    """Draw answers, in blocks whose size does not depend on how many there are."""
    typical = max(int(behaviour.steps.mean), 1)
    size = max(_BLOCK // typical // behaviour.block, 1) * behaviour.block
    for first in range(0, len(indices), size):
        yield _drawn(behaviour, tuple(indices[first : first + size]))


def shared_by(n_steps: int) -> int:
    """Return how many answers of so many steps should share a stream: a power of two, as many as a block holds.

    >>> shared_by(100), shared_by(500), shared_by(10**6)
    (512, 128, 1)
    """
    return 1 << max(min(_BLOCK // max(n_steps, 1), 512).bit_length() - 1, 0)


def step_seconds(engine: PerToken, tokens: Array) -> Array:
    """Return the seconds of steps of an engine, shape of ``tokens``; in memory once where all are the same."""
    if not any(tokens.strides):
        return np.broadcast_to(engine.request_s + engine.token_s * tokens[:1, :1], tokens.shape)
    seconds = np.multiply(tokens, engine.token_s, dtype=np.float64)
    if engine.request_s:
        seconds += engine.request_s
    return seconds


def _drawn(behaviour: SyntheticBehaviour, indices: tuple[int, ...]) -> Answers:
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


@lru_cache(maxsize=_KEPT // 2)
def _lengths(
    lengths: Lengths, seed: int, indices: tuple[int, ...], n: int, block: int
) -> tuple[Array, Array, Flags, Flags]:
    """Tokens of the target's steps and of drafts, and which of them were cut, each a row for each answer; kept."""
    scores, own = _unless_fixed(lengths, seed, indices, n, block)
    limit = math.inf if lengths.limit is None else lengths.limit
    target, target_cut = _tokens(lengths.target, scores, limit)
    likely = None if scores is None else lengths.correlation * scores
    if likely is not None and own is not None:
        likely += math.sqrt(1.0 - lengths.correlation**2) * own
    draft, draft_cut = _tokens(lengths.draft, likely, limit)
    shape = len(indices), n
    return (
        np.broadcast_to(target, shape),
        np.broadcast_to(draft, shape),
        np.broadcast_to(target_cut, shape),
        np.broadcast_to(draft_cut, shape),
    )


def _unless_fixed(
    lengths: Lengths, seed: int, indices: tuple[int, ...], n: int, block: int
) -> tuple[Array | None, Array | None]:
    """Latent scores of the target's steps, and the drafts' own part; None where no length depends on them."""
    if isinstance(lengths.target, Fixed) and isinstance(lengths.draft, Fixed):
        return None, None
    scores = _scores(seed, "lengths/target", indices, n, block, lengths.lag1)
    if isinstance(lengths.draft, Fixed) or lengths.correlation in (-1.0, 1.0):
        return scores, None
    return scores, _scores(seed, "lengths/draft/0", indices, n, block, lengths.lag1)


def _tokens(marginal: Marginal, scores: Array | None, limit: float) -> tuple[Array, Flags]:
    """Lengths at the scores, as they are cut, and which were cut; single ones where all are the same."""
    same = scores is None or isinstance(marginal, Fixed)
    tokens: Array = np.array(float(marginal.mean)) if same else marginal.whole(np.asarray(scores))
    cut = np.asarray(tokens > limit)
    return np.minimum(tokens, limit, out=tokens), cut


def _accepted(behaviour: SyntheticBehaviour, indices: tuple[int, ...], n: int) -> Flags:
    """`sim.answers.acceptance.Acceptance.first` of many answers."""
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
    """Which uniform numbers lie below a share; of 32 bits, by their whole numbers."""
    return np.asarray(drawn < (share if drawn.dtype == np.float64 else math.ceil(share * 2.0**32)))


@lru_cache(maxsize=_KEPT)
def _uniforms(seed: int, name: str, indices: tuple[int, ...], n: int, block: int) -> Array:
    """Uniform numbers of one source, a row for each answer; kept. Of answers in blocks, 32 bits instead."""
    if block > 1:
        return _frozen(_by_blocks(lambda number: block_of_bits(seed, name, number, n, block), indices, block).T)
    found = np.empty((len(indices), n))
    for row, source in zip(found, streams(seed, name, indices), strict=True):
        source.random(out=row)
    return _frozen(found)


def _normals(seed: int, name: str, indices: tuple[int, ...], n: int) -> Array:
    """Standard normal numbers of one source, a row for each answer."""
    found = np.empty((len(indices), n))
    for row, source in zip(found, streams(seed, name, indices), strict=True):
        source.standard_normal(out=row)
    return found


@lru_cache(maxsize=_KEPT)
def _scores(seed: int, name: str, indices: tuple[int, ...], n: int, block: int, lag1: float) -> Array:
    """Latent scores of lengths, a row for each answer; kept.

    A position of all answers lies together in memory, here and in what is made of it.
    """
    if block > 1:
        drawn = _by_blocks(lambda number: block_of_scores(seed, name, number, n, block, lag1), indices, block)
    else:
        drawn = ar1_by_position(np.ascontiguousarray(_normals(seed, name, indices, n).T), lag1)
    return _frozen(drawn.T)


def _by_blocks(drawn: Callable[[int], Array], indices: tuple[int, ...], block: int) -> Array:
    """What is drawn for the blocks of answers, shape (n, answers)."""
    first, n = indices[0], len(indices)
    if first % block == 0 and n % block == 0 and indices == tuple(range(first, first + n)):
        whole = [drawn(number) for number in range(first // block, (first + n) // block)]
        return np.concatenate(whole, axis=1) if len(whole) > 1 else whole[0]
    numbers = [index // block for index in indices]
    found = {number: drawn(number) for number in dict.fromkeys(numbers)}
    start = {number: i * block for i, number in enumerate(found)}
    columns = [start[number] + index % block for number, index in zip(numbers, indices, strict=True)]
    return np.concatenate(list(found.values()), axis=1)[:, columns]


def _frozen(found: Array) -> Array:
    found.setflags(write=False)
    return found
