"""The certificate: evidence for each defect, the largest strength that is left, and what is said of the server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from specplan.live.certifying.bets import Stakes, log_wealth, mean_money, stakes, strength_limit
from specplan.live.certifying.laws import DEFECTS, Defect, Drawn, Place
from theory.checks import FloatArray
from theory.errors import ParameterError

__all__ = ["Acceptance", "Certificate", "Examined", "certificate"]

_NEAR: Final = 0.03
"""Share of drafts by which acceptance may differ from the draft's own: the lump of other tokens, other kernels."""


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
    law at most is the server's, so that the limits of all defects hold together with the confidence of one.

    Parameters
    ----------
    drawn : tokens and laws; at least one token.
    noise : relative error within which the target's probabilities are known, >= 0.
    false_alarm : probability of ever naming a defect of a lossless server, in (0, 1).

    Raises
    ------
    ParameterError : a value outside its range, or no tokens.
    """
    if not 0.0 < false_alarm < 1.0:
        raise ParameterError("false_alarm", false_alarm, "must be in (0, 1)")
    if not (math.isfinite(noise) and noise >= 0.0):
        raise ParameterError("noise", noise, "must be a finite number >= 0")
    if not len(drawn.tokens):
        raise ParameterError("tokens", 0, "must be at least one")
    money, examined = [], []
    for defect in DEFECTS:
        if (bets := stakes(drawn, defect)) is not None:
            money.append(log_wealth(bets, noise))
            examined.append(_examined(defect, bets, money[-1], noise, false_alarm))
    mean = mean_money(np.stack(money))
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


def _examined(defect: Defect, bets: Stakes, money: FloatArray, noise: float, false_alarm: float) -> Examined:
    limits = strength_limit(bets, noise, false_alarm)
    changed = limits * bets.spread.mean(-1) / 2.0
    return Examined(
        defect=defect,
        log_evidence=float(money.max()),
        limit=float(limits.max()),
        changed=float(changed.max()),
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
