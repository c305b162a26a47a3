"""Streams of tokens by speculative sampling from planted laws, with planted defects."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specplan.live.certifying.laws import Drawn, Place

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Laws at each position of a text, whatever the text: (n, cells)."""

    target: Floats
    draft: Floats
    wrong: Floats
    """After another prefix."""


def laws(n: int, rng: np.random.Generator, cells: int = 12) -> Laws:
    """Laws of an entropy of about 1.4 nats, of which the draft's tokens are accepted with about 0.7."""
    logits = 2.0 * rng.normal(size=(n, cells))
    return Laws(
        target=softmax(logits),
        draft=softmax(logits + 0.9 * rng.normal(size=(n, cells))),
        wrong=softmax(1.5 * rng.normal(size=(n, cells)) + logits / 2.0),
    )


def softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class Speculating:
    """A server, lossless by default."""

    k: int = 4
    from_p: bool = False
    """Draw from p after a rejection."""
    relaxed: float = 1.0
    """Accept with min(1, this * p / q)."""
    draft_bonus: bool = False
    temperature: float = 1.0
    """The draft's; 0: greedy. Judged by q at temperature 1."""
    one_hot: bool = False
    """Greedy drafts, judged as such: lossless."""
    unjudged: float = 0.0
    """Share of drafts that are taken without judgement."""
    stale: float = 0.0
    """Share of positions at which the target's law is that after another prefix."""
    top_p: float = 1.0
    hot: float = 1.0
    """The target's temperature."""


PLANTED = {
    "residual from p": Speculating(from_p=True),
    "relaxed acceptance": Speculating(relaxed=1.5),
    "bonus from draft": Speculating(draft_bonus=True),
    "draft's temperature": Speculating(temperature=0.6),
    "greedy draft": Speculating(temperature=0.0),
    "draft's tokens": Speculating(unjudged=0.3),
    "stale cache": Speculating(stale=0.1),
    "truncated top-p": Speculating(top_p=0.95),
    "target's temperature": Speculating(hot=1.2),
}
"""By the name of the defect."""


def stream(server: Speculating, seed: int, n: int = 2000) -> Drawn:
    """Draw a stream.

    What a position would give in each place of a pass is drawn first; which place it has follows from those before it.
    """
    rng = np.random.default_rng(seed)
    law = laws(n, rng)
    p = served(server, law, rng)
    taken, judged = judge(server, p, law.draft, rng)
    bonus = draw(law.draft if server.draft_bonus else p, rng)
    plain = draw(p, rng)
    place = np.zeros(n, np.int64)
    offset = -1  # tokens of the pass so far; -1: the prompt's pass
    for i in range(n):
        place[i] = Place.PLAIN if offset < 0 else Place.DRAFTED if offset < server.k else Place.BONUS
        offset = offset + 1 if place[i] == Place.DRAFTED and taken[i] else 0
    return Drawn(
        tokens=np.select([place == Place.DRAFTED, place == Place.BONUS], [judged, bonus], plain),
        place=place,
        target=listed(law.target),
        draft=listed(law.draft),
        likeliest=law.draft.argmax(-1),
        wrong=listed(law.wrong)[None],
        accepted=np.where(place == Place.DRAFTED, taken, np.nan),
    )


def listed(law: Floats) -> Floats:
    """The law at each position; there are no tokens but those that are listed."""
    return np.pad(law, ((0, 0), (0, 1)))


def served(server: Speculating, laws: Laws, rng: np.random.Generator) -> Floats:
    """The laws that the server takes for the target's, (n, cells)."""
    p = laws.target
    stale = rng.random((len(p), 1)) < server.stale
    p = softmax(np.log(np.where(stale, laws.wrong, p)) / server.hot)
    order = np.argsort(-p, axis=-1)
    ordered = np.take_along_axis(p, order, -1)
    ordered[ordered.cumsum(-1) - ordered >= server.top_p] = 0.0
    np.put_along_axis(p, order, ordered / ordered.sum(-1, keepdims=True), -1)
    return p


def judge(
    server: Speculating, p: Floats, q: Floats, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Draft a token for each position and judge it; whether it was taken, and the token that is emitted."""
    greedy = np.eye(p.shape[-1])[q.argmax(-1)]
    believed = greedy if server.one_hot else q
    heated = softmax(np.log(q) / server.temperature) if server.temperature else greedy
    drafted = draw(greedy if server.one_hot else heated, rng)
    at = drafted[..., None]
    chance = server.relaxed * np.take_along_axis(p, at, -1) / np.take_along_axis(believed, at, -1)
    taken = (rng.random(drafted.shape) < chance[..., 0]) | (rng.random(drafted.shape) < server.unjudged)
    beyond = np.maximum(p - believed, 0.0)
    rest = p if server.from_p else np.where(beyond.sum(-1, keepdims=True) > 1e-12, beyond, p)
    return taken, np.where(taken, drafted, draw(rest, rng))


def draw(weights: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """A token of each row by its weights."""
    cumulative = weights.cumsum(-1)
    return np.asarray((cumulative <= rng.random((*weights.shape[:-1], 1)) * cumulative[..., -1:]).sum(-1))
