"""Many drawn answers at once, as arrays: number for number what `sim.answers.drawn.DrawnAnswer` draws one by one.

What is drawn depends on the seed, the source and the answer only, never on the parameters. So the raw numbers are kept
for as long as answers of the same seed are asked for: the points of a sweep meet the same ones (common random numbers)
and pay for them once; of autocorrelated ones only the result is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed, Marginal
from sim.engines.fixed import PerToken
from sim.random_streams import streams

__all__ = ["Answers", "blocks_of", "step_seconds"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Kind: TypeAlias = Literal["normal", "uniform"]

_BLOCK = 1 << 16
"""Numbers of one source in a block of answers, 0.5 MB; memory does not grow with the number of answers."""

_KEPT = 96
"""Blocks of raw numbers that are kept: 50 MB at most."""


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
    """Tokens of target steps, as they are cut."""
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
        return _numbers("uniform", self.behaviour.seed, f"quality/{name}", self.indices, self.accepted.shape[1]) < share


def blocks_of(behaviour: SyntheticBehaviour, indices: Sequence[int]) -> Iterator[Answers]:
    """Draw answers, in blocks whose size does not depend on how many there are."""
    typical = max(int(behaviour.steps.mean), 1)
    size = max(_BLOCK // typical, 1)
    for first in range(0, len(indices), size):
        yield _drawn(behaviour, tuple(indices[first : first + size]))


def step_seconds(engine: PerToken, tokens: Array) -> Array:
    """Return the seconds of steps of an engine, shape of ``tokens``; in memory once where all are the same."""
    if not any(tokens.strides):
        return np.broadcast_to(engine.request_s + engine.token_s * tokens[:1, :1], tokens.shape)
    seconds = engine.token_s * tokens
    seconds += engine.request_s
    return seconds


def _drawn(behaviour: SyntheticBehaviour, indices: tuple[int, ...]) -> Answers:
    seed, lengths = behaviour.seed, behaviour.lengths
    if isinstance(behaviour.steps, Fixed):
        n_steps = np.full(len(indices), behaviour.steps.n)
    else:
        n_steps = behaviour.steps.at(_numbers("normal", seed, "steps", indices, 1)[:, 0])
    n, limit = int(n_steps.max()), math.inf if lengths.limit is None else lengths.limit
    scores, own = _unless_fixed(lengths.target, lengths.draft, behaviour, indices, n)
    target, target_cut = _tokens(lengths.target, scores, limit)
    likely = None if scores is None else lengths.correlation * scores
    if likely is not None and own is not None:
        likely += math.sqrt(1.0 - lengths.correlation**2) * own
    draft, draft_cut = _tokens(lengths.draft, likely, limit)
    shape = len(indices), n
    return Answers(
        behaviour=behaviour,
        indices=indices,
        n_steps=n_steps,
        target=np.broadcast_to(target, shape),
        draft=np.broadcast_to(draft, shape),
        target_cut=np.broadcast_to(target_cut, shape),
        draft_cut=np.broadcast_to(draft_cut, shape),
        accepted=_accepted(behaviour.acceptance, seed, indices, n),
    )


def _unless_fixed(
    target: Marginal, draft: Marginal, behaviour: SyntheticBehaviour, indices: tuple[int, ...], n: int
) -> tuple[Array | None, Array | None]:
    """Latent scores of the target's steps, and the drafts' own part; None where no length depends on them."""
    if isinstance(target, Fixed) and isinstance(draft, Fixed):
        return None, None
    lengths = behaviour.lengths
    scores = _ar1("lengths/target", behaviour.seed, indices, n, lengths.lag1)
    if isinstance(draft, Fixed) or lengths.correlation in (-1.0, 1.0):
        return scores, None
    return scores, _ar1("lengths/draft/0", behaviour.seed, indices, n, lengths.lag1)


def _tokens(marginal: Marginal, scores: Array | None, limit: float) -> tuple[Array, Flags]:
    """Lengths at the scores, as they are cut, and which were cut; single ones where all are the same."""
    if isinstance(marginal, Fixed) or scores is None:
        tokens = np.array(float(marginal.mean))
    else:
        tokens = marginal.at(scores).astype(np.float64)
    cut = np.asarray(tokens > limit)
    return np.minimum(tokens, limit, out=tokens), cut


def _accepted(acceptance: Acceptance, seed: int, indices: tuple[int, ...], n: int) -> Flags:
    """`sim.answers.acceptance.Acceptance.first` of many answers."""
    u = _numbers("uniform", seed, "acceptance/branch/0", indices, n)
    alpha = np.array([acceptance.problem_alpha(seed, index) for index in indices] if acceptance.spread else 1)
    alpha = alpha if acceptance.spread else np.full(len(indices), acceptance.alpha)
    if acceptance.persistence == 0.0:
        return np.asarray(u < alpha[:, None])
    low = alpha * (1.0 - acceptance.persistence)
    high = low + acceptance.persistence
    accepted, p = np.empty(u.shape, dtype=np.bool_), alpha
    for d in range(n):
        accepted[:, d] = yes = u[:, d] < p
        p = np.where(yes, high, low)
    return accepted


@lru_cache(maxsize=_KEPT)
def _numbers(kind: Kind, seed: int, name: str, indices: tuple[int, ...], n: int) -> Array:
    """Numbers of one source, a row for each answer; kept."""
    found = _drawn_numbers(kind, seed, name, indices, n)
    found.setflags(write=False)
    return found


def _drawn_numbers(kind: Kind, seed: int, name: str, indices: tuple[int, ...], n: int) -> Array:
    found = np.empty((len(indices), n))
    for row, source in zip(found, streams(seed, name, indices), strict=True):
        if kind == "normal":
            source.standard_normal(out=row)
        else:
            source.random(out=row)
    return found


@lru_cache(maxsize=_KEPT)
def _ar1(name: str, seed: int, indices: tuple[int, ...], n: int, lag1: float) -> Array:
    """`sim.answers.lengths.ar1` of many answers, by the same operations in the same order."""
    if lag1 == 0.0:
        return _numbers("normal", seed, name, indices, n)
    noise = _drawn_numbers("normal", seed, name, indices, n)  # not kept: the scores are
    scores = np.array(noise.T, order="C")  # a position of all answers lies together, here and in what is made of it
    scores[1:] *= math.sqrt(1.0 - lag1 * lag1)
    for d in range(1, n):
        scores[d] += lag1 * scores[d - 1]
    scores.setflags(write=False)
    return scores.T
