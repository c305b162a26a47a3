"""The closed form as a control variate.

Under the papers' assumptions (fixed step times, free verification, one draft per position, independent acceptance) the
time of an answer is a function of its verdicts alone, and its mean is known exactly. A simulation without these
assumptions, on the same verdicts, is correlated with it: subtracting the part that the known mean explains leaves less
noise and the same mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

from sim.algorithms.rules import check_counts
from sim.virtual_clock import Answer
from theory.errors import ParameterError

__all__ = ["Control", "ideal_async", "ideal_sync", "stage_table"]


@runtime_checkable
class _Verdicts(Protocol):
    def accepted(self, branch: int = 0) -> list[bool]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Time of an answer under the closed form's assumptions, minus its exact mean, in target steps."""

    method: Literal["async", "sync"]
    """Which schedule."""

    alpha: float
    """Acceptance probability that the behaviour draws with, independent along the answer, in [0, 1]."""

    c1: float
    """Draft step time over target step time, >= 0; near the simulated one for a good control."""

    k1: int
    """Target steps in flight, >= 1."""

    def __post_init__(self) -> None:
        check_counts(self.k1, 1)
        if self.method not in ("async", "sync"):
            raise ParameterError("method", self.method, "must be 'async' or 'sync'")
        if not 0.0 <= self.alpha <= 1.0:
            raise ParameterError("alpha", self.alpha, "must be in [0, 1]")
        if not 0.0 <= self.c1 < float("inf"):
            raise ParameterError("c1", self.c1, "must be finite and >= 0")

    def deviation(self, answer: Answer) -> float:
        """Return the ideal time of ``answer`` minus its expectation over verdicts; mean zero.

        Raises
        ------
        ParameterError : an answer whose verdicts are not drawn (a replay).
        """
        if not isinstance(answer, _Verdicts):
            raise ParameterError("control", type(answer).__name__, "must be used with drawn answers only")
        verdicts = answer.accepted()
        ideal = ideal_async if self.method == "async" else ideal_sync
        return ideal(verdicts, self.c1, self.k1) - _mean(self.method, self.alpha, self.c1, self.k1, len(verdicts))


def ideal_async(verdicts: list[bool], c1: float, k1: int) -> float:
    """Time of an answer by asynchronous lookahead, in target steps: a sum over stages, each up to a rejection."""
    total, run, last = 0.0, 0, len(verdicts) - 1
    stage = stage_table(c1, k1, len(verdicts))
    for depth, accepted in enumerate(verdicts):
        if accepted and depth < last:
            run += 1
        else:
            total += stage[run]
            run = 0
    return total


def ideal_sync(verdicts: list[bool], c1: float, k1: int) -> float:
    """Time of an answer by synchronous lookahead, in target steps: a sum over cycles."""
    total, start, n = 0.0, 0, len(verdicts)
    while start < n:
        n_drafts = min(k1 - 1, n - start)
        run = 0
        while run < n_drafts and verdicts[start + run]:
            run += 1
        total += n_drafts * c1 + 1.0
        start += run + 1
    return total


@lru_cache(maxsize=256)
def stage_table(c1: float, k1: int, n: int) -> tuple[float, ...]:
    """When step 0, 1, ..., n - 1 of an asynchronous stage is committed, if all drafts before it are accepted.

    In target steps, for fixed step times and free verification; entry x is how long a stage takes whose first x drafts
    are accepted and the next is rejected. A position starts when its prefix is drafted and the window admits it, and is
    decided when both its texts exist.
    """
    started: list[float] = []
    decided: list[float] = []
    for j in range(n):
        drafted = started[-1] + c1 if j else 0.0
        started.append(max(drafted, decided[j - k1]) if j >= k1 else drafted)
        decided.append(max(started[j] + max(1.0, c1), decided[-1] if j else 0.0))
    return tuple(decided)


@lru_cache(maxsize=1024)
def _mean(method: str, alpha: float, c1: float, k1: int, n: int) -> float:
    """Return the exact expectation of the ideal time of ``n`` steps, by the renewal recursion."""
    means = [0.0]
    stage = stage_table(c1, k1, n)
    for left in range(1, n + 1):
        reach = left if method == "async" else min(k1, left)  # steps that one stage or cycle can commit
        n_drafts = min(k1 - 1, left)
        total, p = 0.0, 1.0
        for x in range(reach):
            # x accepted, then a rejection; or the last step that the stage can reach, whatever its verdict
            stop = p if x == reach - 1 else p * (1.0 - alpha)
            seconds = stage[x] if method == "async" else n_drafts * c1 + 1.0
            total += stop * (seconds + means[left - 1 - x])
            p *= alpha
        means.append(total)
    return means[n]
