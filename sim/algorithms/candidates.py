"""What test-time scaling methods share: candidate steps after one prefix or several, their rewards, and drawing lots.

All candidates of a position are generated side by side, then all are scored side by side: the step's time is that of
the longest candidate and of the scoring. Where a likelihood is asked for, it comes first, so that the reward model, if
it shares the target's engine, finds the text cached.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Final, TypeAlias

from sim.operations import (
    DRAFT,
    DRAFT_LIKELIHOOD,
    LIKELIHOOD,
    RANDOM,
    REWARD,
    WAIT,
    Action,
    Commit,
    Generate,
    Operation,
    Outcome,
    Score,
    Step,
)

__all__ = ["Candidate", "Candidates", "best", "soft_choice"]

Asking: TypeAlias = Generator[Action, Any, Any]

_SELECTION: Final = -1
"""Branch of the lot that selects a candidate; those of the candidates themselves are for their rewards' noise."""

_SWITCHING: Final = -2
"""Branch of the lot that chooses the next generator."""

_SMALLEST: Final = 2.0**-53


class Candidate:
    """One step that was tried, with what was said about it.

    Attributes
    ----------
    generate : the operation that wrote it.
    step : the step.
    scores : the operations that scored it; the first one is the reward model's.
    reward : in [0, 1]; noise, if there is any, included.
    log_ratio : log of its probability under the target over that under the draft, nats; 0 if nobody asked.
    """

    __slots__ = ("generate", "log_ratio", "reward", "scores", "step")

    def __init__(self, generate: Generate) -> None:
        self.generate = generate
        self.step: Step = generate.result
        self.scores: list[Score] = []
        self.reward = math.nan
        self.log_ratio = 0.0

    def become(self, outcome: Outcome) -> None:
        """Say of its operations what became of it; ``COMMITTED`` for one that stands, whoever wrote it."""
        stands = outcome is Outcome.COMMITTED
        accepted = Outcome.ACCEPTED if stands else outcome
        self.generate.outcome = accepted if not stands or self.generate.role == DRAFT else Outcome.COMMITTED
        for score in self.scores:
            score.outcome = accepted if score.role == REWARD else Outcome.DISCARDED


class Candidates:
    """The candidates of one answer, and how far the answer is settled.

    Parameters
    ----------
    root : the prompt.
    noise : standard deviation of Gaussian noise on every reward, >= 0 (SPECS, appendix D.6).
    """

    def __init__(self, root: Step, noise: float = 0.0) -> None:
        self._settled = root
        self._noise = noise
        self._by_step: dict[int, Candidate] = {}

    def grow(
        self, prefixes: Sequence[Step], role: str, width: int, *, likelihood: bool = False
    ) -> Generator[Action, Any, list[Candidate]]:
        """Generate ``width`` candidates with the model ``role`` after each prefix, and have all of them rewarded.

        ``likelihood`` asks for the log ratio, too.
        """
        places = [(prefix, i) for prefix in prefixes for i in range(width)]
        tried = [Generate(role, prefix, branch) for branch, (prefix, _) in enumerate(places)]
        yield from _together(tried)
        found = [Candidate(generate) for generate in tried]
        self._by_step.update((id(one.step), one) for one in found)
        yield from self._rate(found, likelihood)
        for one in found:
            one.become(Outcome.DISCARDED)  # until it is known better
        return found

    def settle(self, beams: Sequence[Step]) -> Generator[Action, Any, None]:
        """Commit the steps that all beams have in common, oldest first."""
        paths = [_path(self._settled, beam) for beam in beams]
        for steps in zip(*paths, strict=False):
            if any(a is not b for a, b in pairwise(steps)):
                return
            self._settled = steps[0]
            self._by_step[id(steps[0])].become(Outcome.COMMITTED)
            yield Commit(steps[0])

    def _rate(self, found: Sequence[Candidate], likelihood: bool) -> Asking:
        roles = (LIKELIHOOD, DRAFT_LIKELIHOOD) if likelihood else ()
        asked = {
            role: [Score(one.step, one.generate.branch, role) for one in found]
            for role in (*roles, REWARD, *((RANDOM,) if self._noise > 0.0 else ()))
        }
        yield from _together([score for scores in asked.values() for score in scores])
        for i, one in enumerate(found):
            one.scores = [asked[REWARD][i], *(scores[i] for role, scores in asked.items() if role != REWARD)]
            one.reward = asked[REWARD][i].result
            if likelihood:
                one.log_ratio = asked[LIKELIHOOD][i].result - asked[DRAFT_LIKELIHOOD][i].result
            if self._noise > 0.0:
                one.reward += self._noise * NormalDist().inv_cdf(max(asked[RANDOM][i].result, _SMALLEST))


def best(found: Sequence[Candidate]) -> Candidate:
    """The candidate with the greatest reward, the first of equals."""
    return max(found, key=lambda one: one.reward)


def soft_choice(scores: Sequence[float], lot: float) -> int:
    """Index drawn with probability proportional to the exponential of its score (SPECS, Algorithm 2).

    Parameters
    ----------
    scores : finite, at least one.
    lot : uniform in [0, 1).

    >>> soft_choice([0.0, 0.0], 0.4), soft_choice([0.0, 0.0], 0.6), soft_choice([0.0, 1000.0], 0.0)
    (0, 1, 1)
    """
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    rest = lot * math.fsum(weights)
    for i, weight in enumerate(weights):
        rest -= weight
        if rest < 0.0:
            return i
    return max(range(len(weights)), key=weights.__getitem__)  # rounding left nothing: the surest one


def selection_lot(found: Sequence[Candidate]) -> Generator[Action, Any, float]:
    """Draw the lot, uniform in [0, 1), that selects among the candidates of a position."""
    return _lot(found[0].step, _SELECTION)


def switching_lot(found: Sequence[Candidate]) -> Generator[Action, Any, float]:
    """Draw the lot that chooses who generates the next position."""
    return _lot(found[0].step, _SWITCHING)


def _lot(at: Step, branch: int) -> Generator[Action, Any, float]:
    draw = Score(at, branch, RANDOM)
    yield from _together([draw])
    draw.outcome = Outcome.DISCARDED
    lot: float = draw.result
    return lot


def _path(first: Step, last: Step) -> list[Step]:
    """The steps after ``first`` up to ``last``, oldest first."""
    found = []
    step = last
    while step is not first:
        found.append(step)
        assert step.parent is not None
        step = step.parent
    return found[::-1]


def _together(operations: Sequence[Operation]) -> Generator[Action, Any, None]:
    yield from operations
    for _ in operations:
        yield WAIT
