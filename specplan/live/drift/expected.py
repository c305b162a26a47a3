"""A profile's predictions of single steps, each an interval for the mean of a quantity in [0, 1].

- Acceptance: whether a judged draft is accepted, by the verifier and threshold of the configuration.
- Lengths of steps: the rank of a step's length among the recorded ones (ties count half); 1/2 on average.
- Engine timings: whether a step takes longer (or less long) than predicted by more than a margin. At most half of the
  steps do unless the median moved, whatever the distribution.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median
from typing import Final, Self

import numpy as np

from calibrate.record.answer_records import StepRecord
from calibrate.record.profile import Profile
from sim.configuration import Configuration
from sim.estimate import Estimate, ratio_of_totals
from sim.roles import DRAFT, JUDGE, OWN_THRESHOLDS, TARGET
from specplan.live.drift.betting import Record

__all__ = ["TIME_MARGIN", "Band", "Kinds", "TokenTime", "acceptance", "lengths", "token_times"]

TIME_MARGIN: Final = 1.25
"""Factor between measured and predicted seconds per token above which a step counts as slower or faster, [-]."""
_LEAST: Final = 30
"""Least number of recorded steps from which a prediction is made."""
_MOST_KINDS: Final = 5
_LEAST_OF_KIND: Final = 40
"""Least number of recorded steps of a kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Acceptance rates of draft steps by their length."""

    ends: tuple[int, ...]
    """Tokens of the longest step of each kind but the last, ascending."""
    records: tuple[Record, ...]

    def of(self, tokens: int) -> int:
        """Return the kind of a step of ``tokens`` tokens."""
        return bisect_left(self.ends, tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A predicted mean."""

    value: float
    low: float
    high: float
    """Ends of the predicted interval, in [0, 1]."""
    n: float = math.inf
    """Number of observations behind a share; infinite: it is exact."""
    alike: float = 1.0
    """Variance of a recorded share / variance of independent observations, >= 1."""
    kinds: Kinds | None = None
    """A share for each kind of observation, where kinds are distinguished; ``alike`` then holds within kinds."""

    @property
    def records(self) -> tuple[Record, ...]:
        """Recorded shares, by kind."""
        return (Record(self.value, self.n),) if self.kinds is None else self.kinds.records

    @classmethod
    def of_share(cls, spread: Estimate, n: float) -> Self:
        """Return the band of a share of ``n`` recorded observations, with the spread between answers.

        The interval is that spread, but at least as wide as for independent observations.
        """
        p = spread.value
        independent = math.sqrt(p * (1.0 - p) / n)
        known = math.isfinite(spread.stderr) and math.isfinite(spread.high) and independent > 0.0
        half = max(1.96 * independent, spread.high - p if known else 0.0)
        alike = max((spread.stderr / independent) ** 2, 1.0) if known else 1.0
        return cls(value=p, low=max(p - half, 0.0), high=min(p + half, 1.0), n=n, alike=alike)

    @classmethod
    def of_half_width(cls, p: float, half: float) -> Self:
        """Return the band of a share with the half-width of its 95 % interval."""
        n = max(p * (1.0 - p), 0.01) * (1.96 / half) ** 2
        return cls(value=p, low=max(p - half, 0.0), high=min(p + half, 1.0), n=n)


def acceptance(profile: Profile, configuration: Configuration) -> Band | None:
    """Return the acceptance rate of judged drafts, by length; None where the profile has no such verdicts."""
    role, threshold = configuration.decider
    least = OWN_THRESHOLDS.get(role) if threshold is None else threshold
    answers = [
        [(step.draft.tokens, said) for step in answer.steps if (said := _accepts(step, role, least)) is not None]
        for answer in profile.all_answers
    ]
    judged = [float(len(answer)) for answer in answers]
    if sum(judged) < _LEAST:
        return None
    accepted = [float(sum(said for _, said in answer)) for answer in answers]
    return _by_length(Band.of_share(ratio_of_totals(accepted, judged), sum(judged)), answers)


def _by_length(band: Band, answers: Sequence[Sequence[tuple[int, bool]]]) -> Band:
    """The same share by kinds with equally many steps, where there are enough, and the variance ratio within kinds."""
    lengths = sorted(tokens for answer in answers for tokens, _ in answer)
    n = min(_MOST_KINDS, len(lengths) // _LEAST_OF_KIND)
    ends = sorted({lengths[len(lengths) * i // n - 1] for i in range(1, n)} - {lengths[-1]})
    if not ends:
        return band
    kinds = Kinds(ends=tuple(ends), records=())
    said: list[list[bool]] = [[] for _ in range(len(ends) + 1)]
    for tokens, accepted in chain.from_iterable(answers):
        said[kinds.of(tokens)].append(accepted)
    kinds = replace(kinds, records=tuple(Record(sum(one) / len(one), len(one)) for one in said))
    # Jeffreys' estimate, which is below 1 for a kind that was always accepted.
    shares = [(sum(one) + 0.5) / (len(one) + 1.0) for one in said]
    pairs = [[(float(accepted), shares[kinds.of(tokens)]) for tokens, accepted in answer] for answer in answers]
    spread = math.fsum(math.fsum(x - p for x, p in answer) ** 2 for answer in pairs)
    independent = math.fsum(p * (1.0 - p) for answer in pairs for _, p in answer)
    return replace(band, kinds=kinds, alike=max(spread / independent, 1.0))


def _accepts(step: StepRecord, role: str, least: float | None) -> bool | None:
    """Whether the verifier accepts a recorded draft; None where it gave no verdict."""
    verdict, scores = step.verdict, step.draft.scores
    score = verdict.score if role == JUDGE else scores.get(role)
    if score is not None and least is not None:
        return bool(score >= least)
    return bool(verdict.accepted) if role == JUDGE and least is None else None


def lengths(profile: Profile, role: str) -> tuple[Band, Callable[[int], float]] | None:
    """Return the band of the rank of a step's length among the recorded lengths, and the function from length to rank.

    Parameters
    ----------
    role : ``target`` or ``draft``.
    """
    recorded = sorted(getattr(step, role).tokens for answer in profile.all_answers for step in answer.steps)
    if len(recorded) < _LEAST:
        return None
    # Twice the standard error of a mean rank of correlated steps (a design effect of 2).
    half = 2.0 * math.sqrt(2.0 / (12.0 * len(recorded)))
    band = Band(value=0.5, low=0.5 - half, high=0.5 + half)

    def rank(tokens: int) -> float:
        return (bisect_left(recorded, tokens) + bisect_right(recorded, tokens)) / (2.0 * len(recorded))

    return band, rank


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTime:
    """Seconds per token of an engine, by the sequences in its batch."""

    by_batch: Mapping[int, float]
    """Median time of recorded iterations by sequences in the batch, s."""

    def at(self, batch: int) -> float | None:
        """Return the predicted seconds per token with ``batch`` sequences; None beyond the measured batches."""
        sizes = sorted(self.by_batch)
        if not sizes or batch > sizes[-1]:
            return None
        return float(np.interp(batch, sizes, [self.by_batch[size] for size in sizes]))


def token_times(profile: Profile) -> dict[str, TokenTime]:
    """Return the seconds per token of target and draft, where iterations were recorded."""
    times: dict[str, TokenTime] = {}
    for role in (TARGET, DRAFT):
        engine = profile.engines.get(profile.placement.get(role, ""))
        if engine is not None and engine.decode:
            by_batch: dict[int, list[float]] = {}
            for sample in engine.decode:
                if sample.tokens == 1:
                    by_batch.setdefault(sample.batch, []).append(sample.seconds)
            times[role] = TokenTime(by_batch={batch: median(seconds) for batch, seconds in by_batch.items()})
    return times
