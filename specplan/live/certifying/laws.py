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
    """Tokens that a server drew, and the laws of the models at their positions."""

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


@dataclass(frozen=True, slots=True)
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


def speculative(
    p: FloatArray,
    q: FloatArray,
    *,
    drafted: FloatArray | None = None,
    factor: float = 1.0,
    residual: FloatArray | None = None,
) -> FloatArray:
    """Return the law of a token that is drafted, judged, and drawn again after a rejection.

    Parameters
    ----------
    p, q : the target's law, and the draft's law by which drafts are judged, (n, cells).
    drafted : law that the draft is drawn from, (n, cells); None: q.
    factor : drafts are accepted with min(1, factor * p / q).
    residual : weights of the token after a rejection, (n, cells); None: max(p - q, 0).

    >>> speculative(np.array([[0.5, 0.5, 0.0]]), np.array([[0.9, 0.0, 0.1]])).tolist()
    [[0.5, 0.5, 0.0]]
    """
    if residual is None:
        residual = np.maximum(p - q, 0.0)
        residual = np.where(residual.sum(-1, keepdims=True) > 1e-12, residual, 0.0)  # not what rounding leaves
    accepts = np.minimum(np.divide(factor * p, q, out=np.ones_like(p), where=q > 0.0), 1.0)
    taken = (q if drafted is None else drafted) * accepts
    total = residual.sum(-1, keepdims=True)
    law = np.where(total > 0.0, residual / np.where(total > 0.0, total, 1.0), p)
    return np.asarray(taken + np.maximum(1.0 - taken.sum(-1, keepdims=True), 0.0) * law)


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


def _tempered_draft(drawn: Drawn) -> Iterator[FloatArray]:
    q = drawn.draft
    assert q is not None
    for temperature in (0.5, 0.75, 1.4, 2.0):
        yield speculative(drawn.target, q, drafted=_heated(q, temperature))


def _greedy_draft(drawn: Drawn) -> Iterator[FloatArray]:
    assert drawn.draft is not None
    yield speculative(drawn.target, drawn.draft, drafted=drawn.greedy)


_ALL: Final = frozenset(Place)

DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        "residual from p",
        "after a rejection it draws from p instead of max(p - q, 0)",
        lambda drawn: (speculative(drawn.target, q, residual=drawn.target) for q in drawn.drafts()),
    ),
    Defect(
        "relaxed acceptance",
        "it accepts drafts with more than min(1, p / q)",
        lambda drawn: (
            speculative(drawn.target, q, factor=factor) for q in drawn.drafts() for factor in (1.3, 2.0, 4.0)
        ),
    ),
    Defect(
        "bonus from draft",
        "after a draft that is accepted to its end it takes the draft's token instead of the target's",
        Drawn.drafts,
        at=frozenset({Place.BONUS}),
    ),
    Defect(
        "draft's temperature",
        "it draws drafts at another temperature than that of the q by which it judges them",
        _tempered_draft,
    ),
    Defect(
        "greedy draft",
        "it drafts the likeliest token and judges it by p / q, as if it were drawn from q",
        _greedy_draft,
    ),
    Defect("draft's tokens", "it emits tokens of the draft without judging them", Drawn.drafts),
    Defect(
        "stale cache",
        "it draws from the target's law after a wrong prefix",
        lambda drawn: iter(drawn.wrong),
        at=_ALL,
        needs_draft=False,
    ),
    Defect(
        "truncated top-p",
        "it draws from the likeliest tokens only",
        lambda drawn: (_nucleus(drawn.target, top_p) for top_p in (0.8, 0.9, 0.95, 0.98)),
        at=_ALL,
        needs_draft=False,
    ),
    Defect(
        "target's temperature",
        "it draws from the target at another temperature than requested",
        lambda drawn: (_heated(drawn.target, temperature) for temperature in (0.6, 0.8, 1.25, 1.6)),
        at=_ALL,
        needs_draft=False,
    ),
)
"""The catalogue."""
