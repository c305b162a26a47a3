"""Common parts of test-time scaling methods: candidate steps after one or several prefixes, rewards, random choices.

All candidates of a position are generated concurrently, then all are scored concurrently: the step's time is that of
the longest candidate and of the scoring. Likelihoods, where needed, are requested first: if the reward model shares the
target's engine, the text is then in its cache.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Final

from sim.operations import WAIT, Action, Commit, Generate, Operation, Outcome, Score, Step, steps_after
from sim.roles import DRAFT, DRAFT_LIKELIHOOD, LIKELIHOOD, RANDOM, REWARD, TARGET

__all__ = [
    "SELECTION",
    "SWITCHING",
    "Candidate",
    "Candidates",
    "best",
    "drawn_lot",
    "soft_choice",
    "together",
    "written_by_target",
]

SELECTION: Final = -1
"""Branch of the lot that selects a candidate; those of the candidates themselves are for their rewards' noise."""

SWITCHING: Final = -2
"""Branch of the lot that chooses the next generator."""

_SMALLEST: Final = 2.0**-53


class Candidate:
    """A candidate step with its scores.

    Attributes
    ----------
    generate : the operation that wrote it.
    step : the step.
    scores : the operations that scored it; the first one is the reward model's.
    reward : in [0, 1]; noise, if there is any, included.
    log_ratio : log of its probability under the target over that under the draft, nats; 0 if not requested.
    """

    __slots__ = ("generate", "log_ratio", "reward", "scores", "step")

    def __init__(self, generate: Generate) -> None:
        self.generate = generate
        self.step: Step = generate.result
        self.scores: list[Score] = []
        self.reward = math.nan
        self.log_ratio = 0.0

    def become(self, outcome: Outcome) -> None:
        """Set the outcome of the candidate's operations; ``COMMITTED`` for a committed step of either model."""
        stands = outcome is Outcome.COMMITTED
        accepted = Outcome.ACCEPTED if stands else outcome
        self.generate.outcome = accepted if not stands or self.generate.role == DRAFT else Outcome.COMMITTED
        for score in self.scores:
            score.outcome = accepted if score.role == REWARD else Outcome.DISCARDED


class Candidates:
    """The candidates of one answer, and its committed steps; rewards have Gaussian ``noise`` (SPECS, appendix D.6)."""

    def __init__(self, root: Step, noise: float = 0.0) -> None:
        self._settled = root
        self._noise = noise
        self._by_step: dict[int, Candidate] = {}

    def grow(
        self, prefixes: Sequence[Step], role: str, width: int, *, likelihood: bool = False
    ) -> Generator[Action, Any, list[Candidate]]:
        """Generate ``width`` candidates of a role after each prefix, and request their rewards (and log ratios)."""
        places = [(prefix, i) for prefix in prefixes for i in range(width)]
        tried = [Generate(role, prefix, branch) for branch, (prefix, _) in enumerate(places)]
        yield from together(tried)
        candidates = [Candidate(generate) for generate in tried]
        self._by_step.update((id(candidate.step), candidate) for candidate in candidates)
        yield from self._rate(candidates, likelihood)
        for candidate in candidates:
            candidate.become(Outcome.DISCARDED)  # until `become` is called again
        return candidates

    def settle(self, beams: Sequence[Step]) -> Generator[Action, Any, None]:
        """Commit the steps that all beams have in common, oldest first."""
        paths = [steps_after(self._settled, beam) for beam in beams]
        for steps in zip(*paths, strict=False):
            if any(a is not b for a, b in pairwise(steps)):
                return
            self._settled = steps[0]
            self._by_step[id(steps[0])].become(Outcome.COMMITTED)
            yield Commit(steps[0])

    def _rate(self, candidates: Sequence[Candidate], likelihood: bool) -> Generator[Action, Any, None]:
        roles = (LIKELIHOOD, DRAFT_LIKELIHOOD) if likelihood else ()
        requests = {
            role: [Score(candidate.step, candidate.generate.branch, role) for candidate in candidates]
            for role in (*roles, REWARD, *((RANDOM,) if self._noise > 0.0 else ()))
        }
        yield from together([score for scores in requests.values() for score in scores])
        for i, candidate in enumerate(candidates):
            reward = requests[REWARD][i]
            candidate.scores = [reward, *(scores[i] for role, scores in requests.items() if role != REWARD)]
            candidate.reward = reward.result
            if likelihood:
                candidate.log_ratio = requests[LIKELIHOOD][i].result - requests[DRAFT_LIKELIHOOD][i].result
            if self._noise > 0.0:
                candidate.reward += self._noise * NormalDist().inv_cdf(max(requests[RANDOM][i].result, _SMALLEST))


def best(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with the greatest reward, the first on a tie."""
    return max(candidates, key=lambda candidate: candidate.reward)


def soft_choice(scores: Sequence[float], lot: float) -> int:
    """Index drawn with probability proportional to its score's exponential, by a uniform lot (SPECS, Algorithm 2).

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
    return max(range(len(weights)), key=weights.__getitem__)  # no index because of rounding: the largest weight


def drawn_lot(candidates: Sequence[Candidate], branch: int) -> Generator[Action, Any, float]:
    """Draw a lot, uniform in [0, 1), for the position of these candidates: `SELECTION` or `SWITCHING`."""
    draw = Score(candidates[0].step, branch, RANDOM)
    yield from together([draw])
    draw.outcome = Outcome.DISCARDED
    lot: float = draw.result
    return lot


def written_by_target(prefix: Step, branch: int = 0) -> Generator[Action, Any, Step]:
    """Have the target write the step after ``prefix`` that is committed."""
    target = Generate(TARGET, prefix, branch)
    yield from together([target])
    target.outcome = Outcome.COMMITTED
    step: Step = target.result
    return step


def together(operations: Sequence[Operation]) -> Generator[Action, Any, None]:
    """Start operations at once, and wait for all of them."""
    yield from operations
    for _ in operations:
        yield WAIT
