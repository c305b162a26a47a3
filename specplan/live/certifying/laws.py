r"""Defects of speculative sampling, and the law of a token that each of them gives.

A token x drafted from q is accepted with probability a(x); after a rejection a token is drawn from a residual law r.
The emitted token then has the law

.. math:: q'(x) a(x) + (1 - \sum_y q'(y) a(y)) r(x),

which is the target's law p for q' = q, a = min(1, p / q) and r = max(p - q, 0), normalised (Leviathan, Kalman, Matias
2023, arXiv:2211.17192, Algorithm 1 and Appendix A.1). A defect changes one of the three. Laws are over *cells*: tokens
of which the target's probability is known, and as the last cell all other tokens together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from theory.checks import FloatArray
from theory.errors import ParameterError

__all__ = ["DEFECTS", "Defect", "Drawn", "IntArray", "Place", "speculative"]

IntArray = NDArray[np.int64]


class Place(IntEnum):
    """The place of a token in the pass that emitted it."""

    PLAIN = 0
    """Drawn by the target without a draft: the first token of an answer."""
    DRAFTED = 1
    """A draft was judged here."""
    BONUS = 2
    """After a draft that was accepted to its end."""
    UNKNOWN = 3
    """The server does not show its passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Tokens that a server drew, and the laws of the models at their positions.

    Raises
    ------
    ParameterError : arrays of different lengths, or rows that are no laws.
    """

    tokens: IntArray
    """Cell of each token, (n,)."""

    place: IntArray
    """`Place` of each token, (n,). It may depend on earlier tokens, never on the token itself."""

    target: FloatArray
    """The target's probabilities p at each position, (n, cells)."""

    draft: FloatArray | None = None
    """The draft's probabilities q on the same cells, (n, cells); None: unknown."""

    likeliest: IntArray | None = None
    """Cell of the draft's likeliest token, (n,); given with ``draft``."""

    wrong: FloatArray
    """The target's probabilities after wrong prefixes, (prefixes, n, cells)."""

    accepted: FloatArray
    """1 where a draft was accepted, 0 where it was rejected, NaN where neither is known, (n,)."""

    def __post_init__(self) -> None:
        n = len(self.tokens)
        given = {"target": self.target, "wrong": self.wrong}
        if self.draft is not None:
            given["draft"] = self.draft
        for name, laws in given.items():
            if laws.shape[-2:] != self.target.shape or not np.all(laws >= 0.0):
                raise ParameterError(name, laws.shape, f"must be probabilities of the shape {self.target.shape}")
            if laws.size and np.abs(laws.sum(-1) - 1.0).max() > 1e-6:
                raise ParameterError(name, float(laws.sum(-1).max()), "must have rows that sum to 1")
        if not len(self.target) == len(self.place) == len(self.accepted) == n:
            raise ParameterError("tokens", n, f"must be as many as laws, {len(self.target)}")

    @property
    def shows_passes(self) -> bool:
        """Whether the places of tokens in their passes are known."""
        return not np.any(self.place == Place.UNKNOWN)

    def drafts(self) -> Iterator[FloatArray]:
        """Yield the laws that drafts may be drawn from: q, and a point mass at its likeliest token."""
        assert self.draft is not None
        yield self.draft
        yield self.greedy

    @property
    def greedy(self) -> FloatArray:
        """A point mass at the draft's likeliest token, (n, cells)."""
        assert self.likeliest is not None
        return np.eye(self.target.shape[1])[self.likeliest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A way in which a speculating server may miss the target's law."""

    name: str
    says: str
    """What the server does, as a sentence."""

    laws: Callable[[Drawn], Iterator[FloatArray]]
    """The laws of a token of an affected server, each (n, cells): one for each form of the defect."""

    at: frozenset[Place] = frozenset({Place.DRAFTED, Place.UNKNOWN})
    """Places at which tokens have these laws; elsewhere they have the target's."""

    needs_draft: bool = True

    def applies(self, drawn: Drawn) -> bool:
        """Whether the data can show this defect."""
        return bool(np.isin(drawn.place, list(self.at)).any()) and (drawn.draft is not None or not self.needs_draft)


def speculative(p: FloatArray, drafted: FloatArray, accepts: FloatArray, residual: FloatArray) -> FloatArray:
    """Return the law of a token that is drafted, judged, and drawn again after a rejection.

    Parameters
    ----------
    p : the target's law, (n, cells); the rest of a residual without mass.
    drafted : law that the draft is drawn from, (n, cells).
    accepts : probability of accepting each token, [0, 1], (n, cells).
    residual : weights of the token after a rejection, >= 0, (n, cells); need not sum to 1.

    >>> p, q = np.array([[0.5, 0.5, 0.0]]), np.array([[0.9, 0.0, 0.1]])
    >>> speculative(p, q, _acceptance(p, q), _beyond(p, q)).tolist()
    [[0.5, 0.5, 0.0]]
    """
    taken = drafted * accepts
    total = residual.sum(-1, keepdims=True)
    law = np.where(total > 0.0, residual / np.where(total > 0.0, total, 1.0), p)
    return np.asarray(taken + np.maximum(1.0 - taken.sum(-1, keepdims=True), 0.0) * law)


def _acceptance(p: FloatArray, q: FloatArray) -> FloatArray:
    """min(1, p / q)."""
    return np.minimum(np.divide(p, q, out=np.ones_like(p), where=q > 0.0), 1.0)


def _beyond(p: FloatArray, q: FloatArray) -> FloatArray:
    """max(p - q, 0), without the mass that rounding leaves where p = q."""
    beyond = np.maximum(p - q, 0.0)
    return np.where(beyond.sum(-1, keepdims=True) > 1e-12, beyond, 0.0)


def _heated(p: FloatArray, temperature: float) -> FloatArray:
    """A law at another temperature; approximate where the last cell holds several tokens."""
    weights = (p / p.max(-1, keepdims=True)) ** (1.0 / temperature)
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def _nucleus(p: FloatArray, top_p: float) -> FloatArray:
    """The likeliest tokens that sum to at least ``top_p``; the last cell is kept where the others sum to less."""
    order = np.argsort(-p[:, :-1], axis=-1, kind="stable")
    order = np.concatenate([order, np.full((len(p), 1), p.shape[1] - 1)], axis=1)
    ordered = np.take_along_axis(p, order, -1)
    ordered[ordered.cumsum(-1) - ordered >= top_p] = 0.0
    kept = np.zeros_like(p)
    np.put_along_axis(kept, order, ordered, -1)
    return np.asarray(kept / kept.sum(-1, keepdims=True))


def _residual_from_target(drawn: Drawn) -> Iterator[FloatArray]:
    p = drawn.target
    for q in drawn.drafts():
        yield speculative(p, q, _acceptance(p, q), p)


def _relaxed(drawn: Drawn) -> Iterator[FloatArray]:
    p = drawn.target
    for q in drawn.drafts():
        for factor in (1.3, 2.0, 4.0):
            yield speculative(p, q, _acceptance(factor * p, q), _beyond(p, q))


def _tempered_draft(drawn: Drawn) -> Iterator[FloatArray]:
    p, q = drawn.target, drawn.draft
    assert q is not None
    for temperature in (0.5, 0.75, 1.4, 2.0):
        yield speculative(p, _heated(q, temperature), _acceptance(p, q), _beyond(p, q))


def _greedy_draft(drawn: Drawn) -> Iterator[FloatArray]:
    p, q = drawn.target, drawn.draft
    assert q is not None
    yield speculative(p, drawn.greedy, _acceptance(p, q), _beyond(p, q))


_ALL: Final = frozenset(Place)

DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        name="residual from p",
        says="after a rejection it draws from p instead of max(p - q, 0)",
        laws=_residual_from_target,
    ),
    Defect(
        name="relaxed acceptance",
        says="it accepts drafts with more than min(1, p / q)",
        laws=_relaxed,
    ),
    Defect(
        name="bonus from draft",
        says="after a draft that is accepted to its end it takes the draft's token instead of the target's",
        laws=Drawn.drafts,
        at=frozenset({Place.BONUS}),
    ),
    Defect(
        name="draft's temperature",
        says="it draws drafts at another temperature than that of the q by which it judges them",
        laws=_tempered_draft,
    ),
    Defect(
        name="greedy draft",
        says="it drafts the likeliest token and judges it by p / q, as if it were drawn from q",
        laws=_greedy_draft,
    ),
    Defect(
        name="draft's tokens",
        says="it emits tokens of the draft without judging them",
        laws=Drawn.drafts,
    ),
    Defect(
        name="stale cache",
        says="it draws from the target's law after a wrong prefix",
        laws=lambda drawn: iter(drawn.wrong),
        at=_ALL,
        needs_draft=False,
    ),
    Defect(
        name="truncated top-p",
        says="it draws from the likeliest tokens only",
        laws=lambda drawn: (_nucleus(drawn.target, top_p) for top_p in (0.8, 0.9, 0.95, 0.98)),
        at=_ALL,
        needs_draft=False,
    ),
    Defect(
        name="target's temperature",
        says="it draws from the target at another temperature than requested",
        laws=lambda drawn: (_heated(drawn.target, temperature) for temperature in (0.6, 0.8, 1.25, 1.6)),
        at=_ALL,
        needs_draft=False,
    ),
)
"""The catalogue."""
