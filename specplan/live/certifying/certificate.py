r"""The certificate: bets on defects, and against them, over the tokens that a server draws.

**For a defect.** Money 1 is split over the forms of the defect and a grid of strengths s. At each token the part on
form r and strength s is multiplied by :math:`1 + s (r(x) / p(x) - 1)`, the likelihood ratio of a server that draws a
share s of its tokens from r and the rest from the target's law p. If the server is lossless the expected money never
grows, so it ever reaches 1 / a with probability at most a, whenever one looks (Ville 1939). Strength s is the constant
share of the money that is bet, so the mixture over s is Cover's universal portfolio of the bet and cash (Cover 1991,
"Universal Portfolios"), on a grid with equal weights; as a test it is Robbins' mixture (1970).

**Against a strength.** If the server draws a share s from r, the money :math:`\prod p(x) / ((1 - s) p(x) + s r(x))`
does not grow in expectation either; strengths against which it ever reached 1 / a are excluded, at any time, with
confidence 1 - a. The logarithm is convex in s and at most 0 at s = 0, so what is excluded is an interval [s, 1].

**Noise.** Two passes of the target do not give the same p. The null is every law within a relative error e of p, each
token for itself. For such a law the expectation of a factor exceeds 1 by at most :math:`e s \sum |r - p|`, by which it
is divided (a numeraire for a composite null: Grünwald, de Heide, Koolen 2024, "Safe Testing").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from specplan.live.certifying.laws import DEFECTS, Defect, Drawn, Place
from theory.checks import FloatArray

__all__ = [
    "Acceptance",
    "Certificate",
    "Examined",
    "Stakes",
    "certificate",
    "log_wealth",
    "stakes",
    "strength_limit",
]

_STRENGTHS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""Shares of tokens that a server is assumed to draw from a defect's law."""
_FLOOR: Final = 1e-5
"""Share of a uniform law that is mixed into all laws: probabilities that servers report are rounded, and a token to
which one gives 0 proves nothing. Every factor is multiplied by 1 - _FLOOR, which keeps its expectation at most 1."""
_HALVINGS: Final = 14

_NEAR: Final = 0.03
"""Share of drafts by which acceptance may differ from the draft's own: the lump of other tokens, other kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """What the forms of a defect say about each token."""

    ratio: FloatArray
    """r(x) / p(x) of the drawn token, (forms, n)."""
    spread: FloatArray
    """Sum of abs(r - p), twice the share of tokens that the form changes, (forms, n)."""


def stakes(drawn: Drawn, defect: Defect) -> Stakes | None:
    """Return the bets on a defect; None where the data cannot show it."""
    affected = np.isin(drawn.place, list(defect.at))
    if not affected.any() or (defect.needs_draft and drawn.draft is None):
        return None
    p, rows = _floored(drawn.target), np.arange(len(drawn.tokens))
    ratios, spreads = [], []
    for law in map(_floored, defect.laws(drawn)):
        ratios.append(np.where(affected, law[rows, drawn.tokens] / p[rows, drawn.tokens], 1.0))
        spreads.append(np.where(affected, np.abs(law - p).sum(-1), 0.0))
    return Stakes(ratio=np.stack(ratios), spread=np.stack(spreads))


def log_wealth(bets: Stakes, noise: float) -> FloatArray:
    """Return the logarithm of the money on a defect after each token, (n,).

    Parameters
    ----------
    noise : relative error within which p is known, >= 0.
    """
    money = np.cumsum(_log_factor(bets, np.reshape(_STRENGTHS, (-1, 1, 1)), noise), axis=-1)
    return _mean_money(money.reshape(-1, money.shape[-1]))


def _mean_money(log_money: FloatArray) -> FloatArray:
    """The logarithm of the mean money of several bets, (bets, n) to (n,)."""
    most = log_money.max(axis=0)
    return np.asarray(most + np.log(np.exp(log_money - most).mean(axis=0)))


def strength_limit(bets: Stakes, noise: float, false_alarm: float) -> FloatArray:
    """Return the least strength of each form from which on all are excluded, (forms,); 1 where none is.

    Parameters
    ----------
    noise : relative error within which p is known, >= 0.
    false_alarm : probability of excluding the true strength, in (0, 1).
    """
    low, high = np.zeros(len(bets.ratio)), np.ones(len(bets.ratio))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        ratio_money = np.cumsum(_log_factor(bets, middle[:, None], noise, against=True), axis=-1)
        excluded = ratio_money.max(-1) >= -np.log(false_alarm)
        high, low = np.where(excluded, middle, high), np.where(excluded, low, middle)
    return high


def _log_factor(bets: Stakes, strength: FloatArray, noise: float, *, against: bool = False) -> FloatArray:
    """Logarithm of the factor of a stake for a strength, or against it."""
    gain = np.log1p(strength * (bets.ratio - 1.0))
    cost = np.log1p(noise * strength * bets.spread) - np.log1p(-_FLOOR)
    return np.asarray((-gain if against else gain) - cost)


def _floored(law: FloatArray) -> FloatArray:
    return np.asarray((1.0 - _FLOOR) * law + _FLOOR / law.shape[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A defect, and what the tokens say about it."""

    defect: Defect
    log_evidence: float
    """Natural logarithm of the largest money of the bet on it after any token."""
    limit: float
    """Largest share of affected tokens that is not excluded, in (0, 1]; 1: all may be."""
    changed: float
    """Share of all tokens that come out otherwise at that limit: the mean total variation distance, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Accepted share of drafts, and the share that is expected of the draft; ranges, for other tokens are one cell."""

    seen: float
    n: int
    sampled: tuple[float, float]
    """Where drafts are drawn from q: the mean of sum(min(p, q))."""
    greedy: tuple[float, float]
    """Where drafts are the draft's likeliest tokens, judged by p: the mean of p(likeliest)."""

    @property
    def contradicts(self) -> bool:
        """Whether neither way of drafting from this draft gives the share: another draft, or other judgements."""
        margin = 4.0 * math.sqrt(0.25 / self.n) + _NEAR
        return not any(low - margin <= self.seen <= high + margin for low, high in (self.sampled, self.greedy))


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The result for a server."""

    examined: tuple[Examined, ...]
    n_tokens: int
    false_alarm: float
    """Probability of ever naming a defect of a lossless server; 1 - confidence of the limits."""
    noise: float
    """Relative error within which the target's probabilities are known."""
    log_evidence: float
    """Natural logarithm of the largest mean money of all bets after any token."""
    alarm_at: int | None
    """Token, from 1 on, at which the mean money reached 1 / false_alarm; None: never."""
    acceptance: Acceptance | None
    """None where passes or the draft are unknown."""

    @property
    def named(self) -> tuple[Defect, ...]:
        """The likeliest defect if the alarm was raised, and others with at least false_alarm times its evidence."""
        if self.alarm_at is None:
            return ()
        ranked = sorted(self.examined, key=lambda one: -one.log_evidence)
        least = ranked[0].log_evidence + math.log(self.false_alarm)
        return tuple(one.defect for one in ranked if one.log_evidence >= least)

    @property
    def changed(self) -> float:
        """Largest share of tokens that any defect of the catalogue may change, with confidence 1 - false_alarm."""
        return max(one.changed for one in self.examined)


def certificate(drawn: Drawn, *, noise: float = 0.0, false_alarm: float = 0.05) -> Certificate:
    """Examine the tokens of a server for all defects.

    The money is split evenly over the defects, and the alarm is raised when their mean reaches 1 / ``false_alarm``. One
    law at most is the server's, so the limits of all defects hold together with the confidence of one.

    Parameters
    ----------
    drawn : tokens and laws; at least one token.
    noise : relative error within which the target's probabilities are known, >= 0.
    false_alarm : probability of ever naming a defect of a lossless server, in (0, 1).
    """
    money, examined = [], []
    for defect in DEFECTS:
        if (bets := stakes(drawn, defect)) is None:
            continue
        money.append(log_wealth(bets, noise))
        limits = strength_limit(bets, noise, false_alarm)
        examined.append(
            Examined(
                defect=defect,
                log_evidence=float(money[-1].max()),
                limit=float(limits.max()),
                changed=float((limits * bets.spread.mean(-1) / 2.0).max()),
            )
        )
    mean = _mean_money(np.stack(money))
    reached = np.flatnonzero(mean >= -math.log(false_alarm))
    return Certificate(
        examined=tuple(examined),
        n_tokens=len(drawn.tokens),
        false_alarm=false_alarm,
        noise=noise,
        log_evidence=float(mean.max()),
        alarm_at=int(reached[0]) + 1 if len(reached) else None,
        acceptance=_acceptance(drawn),
    )


def _acceptance(drawn: Drawn) -> Acceptance | None:
    judged = (drawn.place == Place.DRAFTED) & np.isfinite(drawn.accepted)
    if drawn.draft is None or drawn.likeliest is None or not judged.any():
        return None
    p, q, likeliest = drawn.target[judged], drawn.draft[judged], drawn.likeliest[judged]
    least = np.minimum(p, q)
    drafted = p[np.arange(len(p)), likeliest]
    listed = likeliest < p.shape[1] - 1
    return Acceptance(
        seen=float(drawn.accepted[judged].mean()),
        n=int(judged.sum()),
        sampled=(float(least[:, :-1].sum(-1).mean()), float(least.sum(-1).mean())),
        greedy=(float(np.where(listed, drafted, 0.0).mean()), float(drafted.mean())),
    )
