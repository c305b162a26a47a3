"""A load, simulated until its estimates have the standard error that is wanted.

A closed loop is run in *replications*: short runs on other answers, each of which meets its first answers under way
(or begins them all at once).
They are independent, so that the spread between them gives the standard error of their mean, however correlated what
happens within one is. Two loops are compared by replications of the same numbers, which meet the same answers. What has
been chosen for being fastest is run again, in replications that had no part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sim.estimate import Estimate, on_logarithm, ratio_of_totals
from sim.serving.answers import ServedLoad
from sim.serving.run import arriving, closed_loop
from sim.trial import Trial
from theory.errors import SpecplanError

__all__ = [
    "CHOICE",
    "REPORT",
    "ArrivalRun",
    "Known",
    "LittleError",
    "LoadRun",
    "Throughputs",
    "Window",
    "check_little",
    "gain",
    "quotient",
    "sooner",
    "throughput",
    "until_known",
]

CHOICE: Final = 0
"""First replication of those by which is chosen, of those that draw a curve, and of those that are reported."""
CURVE: Final = 1 << 15
REPORT: Final = 1 << 16

_APART: Final = 1 << 24
"""Answers between the beginnings of two replications: more than any of them meets."""
_LEAST: Final = 4
"""Replications from which a standard error is estimated, and how many are run at most."""
_MOST: Final = 64
_STEPS_EACH: Final = 200
"""Tokens per answer in flight that are about 5 steps, those that get all answers going, and tokens at least."""
_STEPS_WARMUP: Final = 100
_LEAST_STEPS: Final = 4_000
_LIVES_WARMUP: Final = 0.25
"""Lives after which nothing is left of a beginning in the middle of lives (below 0.3 %)."""
_PARTS: Final = 8
"""Parts of arrivals, whose spread gives the standard error of their mean."""
_LITTLE: Final = 0.03
"""Share by which a load may break Little's law beyond what chance makes of it, [-]."""
_Z: Final = 1.96
_SURE: Final = 4.0
"""Standard errors that chance makes, once in 16,000."""

Throughputs = Callable[[int], NDArray[np.float64]]
"""Takes n; returns tokens per second of the first n replications, shape (n,)."""

Known = Callable[[int], Estimate]
"""Takes n; returns what the first n replications say."""


class LittleError(SpecplanError):
    """A simulation breaks Little's law: an error of specplan's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What a replication counts."""

    tokens: int
    """Tokens that are written in it, >= 1."""
    warmup: int
    """Tokens before it, >= 0."""
    in_step: bool = False
    """Whether all answers begin at once, as those of a benchmark do, instead of being met in the middle of their lives:
    what is of one length ends at once, too, and its prompts wait for each other for ever."""

    @classmethod
    def of_steps(cls, concurrency: int) -> Self:
        """Return a window for answers of many steps: a few of each answer in flight, after all have got going."""
        return cls(tokens=max(_STEPS_EACH * concurrency, _LEAST_STEPS), warmup=_STEPS_WARMUP * concurrency)

    @classmethod
    def of_lives(
        cls, concurrency: int, answer_tokens: float, *, lives: float, answers: int, in_step: bool = False
    ) -> Self:
        """Return a window in which all places end so many answers on average, and so many end in all, at least."""
        life, lives = answer_tokens * concurrency, max(lives, answers / concurrency)
        lives = math.ceil(lives) if in_step else lives  # a life has its prompts at its beginning
        return cls(tokens=round(life * lives), warmup=round(life * _LIVES_WARMUP), in_step=in_step)


@dataclass(slots=True)
class LoadRun:
    """A closed loop, one replication after the other.

    Parameters
    ----------
    trial : the algorithm, its answers and the engines that they share.
    concurrency : answers in flight, >= 1.
    window : of a replication.
    first : number of the first replication: `CHOICE`, `CURVE` or `REPORT`.
    counts : whether to count tokens in vain.
    """

    trial: Trial
    concurrency: int
    window: Window
    first: int = CHOICE
    counts: bool = False
    loads: list[ServedLoad] = field(init=False, default_factory=list)
    """Loads of the replications that have been run."""

    def run(self, n: int) -> list[ServedLoad]:
        """Return the loads of the first ``n`` replications."""
        while len(self.loads) < n:
            load = closed_loop(
                self.trial,
                concurrency=self.concurrency,
                tokens=self.window.warmup + self.window.tokens,
                warmup_tokens=self.window.warmup,
                met_under_way=not self.window.in_step,
                whole_rounds=True,
                first=(self.first + len(self.loads)) * _APART,
                counts=self.counts,
            )
            self.loads.append(load)
        return self.loads[:n]

    def throughputs(self, n: int) -> NDArray[np.float64]:
        """Return the tokens per second of the first ``n`` replications."""
        return np.array([load.tokens_per_s for load in self.run(n)])


@dataclass(slots=True)
class ArrivalRun:
    """Arrivals, one replication after the other: each of other answers, at other moments.

    Parameters
    ----------
    trial : the algorithm, its answers and the engines that they share.
    moments_s : takes the number of a replication; returns when its answers arrive, s, in order.
    warmup : arrivals of a replication that do not count, the first ones.
    most : replications at most; 1: a trace, which is finite and met once.
    """

    trial: Trial
    moments_s: Callable[[int], Sequence[float]]
    warmup: int
    most: int = 12
    loads: list[ServedLoad] = field(init=False, default_factory=list)
    """Loads of the replications that have been run."""

    def run(self, n: int) -> list[ServedLoad]:
        """Return the loads of the first ``n`` replications."""
        for number in range(len(self.loads), n):
            moments, first = self.moments_s(number), (REPORT + number) * _APART if number else 0
            self.loads.append(arriving(self.trial, moments, warmup=self.warmup, first=first, counts=True))
        return self.loads[:n]


def throughput(throughputs: Throughputs) -> Known:
    """Return tokens per second of a number of replications, which count as many tokens each."""
    return lambda n: ratio_of_totals(
        np.ones(n), 1.0 / throughputs(n), unit="tokens/s", estimator="ratio of totals over replications"
    )


def gain(own: Throughputs, plain: Throughputs) -> Known:
    """Return tokens per second / those of plain decoding, by the same replications."""
    return lambda n: ratio_of_totals(1.0 / plain(n), 1.0 / own(n), estimator="ratio of totals over replications")


def quotient(own: Estimate, plain: Estimate) -> Estimate:
    """Return the ratio of two independent estimates, its interval even on the logarithm."""
    half = math.hypot(own.relative_half_width, plain.relative_half_width)
    value, n = own.value / plain.value, min(own.n, plain.n)
    return on_logarithm(value, half, n, estimator="ratio of means over replications", seed=own.seed)


def sooner(own: ArrivalRun, plain: ArrivalRun, *, precision: float) -> Estimate:
    """Return the mean seconds of an answer by plain decoding / those of the same arrivals.

    Parameters
    ----------
    own, plain : of the same arrivals.
    precision : standard error / value that is wanted, > 0. Replications go on until it is reached, or the most are run:
        what a queue near its capacity leaves open stays in the interval. For a trace it comes from parts of its
        arrivals.
    """
    if own.most > 1:

        def known(n: int) -> Estimate:
            seconds = ([load.mean("seconds") for load in run.run(n)] for run in (plain, own))
            return ratio_of_totals(*seconds, estimator="ratio of totals over replications")

        return until_known(known, precision=precision, most=own.most)[0]
    totals = []
    for run in (plain, own):
        order = sorted(run.run(1)[0].answers, key=lambda answer: answer.arrived_s)
        parts = np.array_split([answer.seconds for answer in order], min(_PARTS, len(order)))
        totals.append([float(part.sum()) for part in parts])
    return ratio_of_totals(*totals, estimator="ratio of totals over parts of the arrivals")


def until_known(*wanted: Known, precision: float, least: int = _LEAST, most: int = _MOST) -> list[Estimate]:
    """Return estimates from as many replications as all of them need.

    Parameters
    ----------
    wanted : each of a number of replications.
    precision : standard error / value that is wanted, > 0; that of few replications counts for more (Student).
    least, most : replications from which it is estimated, >= 2, and after which it ends anyway.
    """
    n = least
    while True:
        result = [estimate(n) for estimate in wanted]
        missed = max(one.relative_half_width for one in result) / (_Z * precision)
        if missed <= 1.0 or n >= most:
            return result
        n = min(math.ceil(n * min(missed * missed, 2.0)), most)


def check_little(what: str, concurrency: float, throughput: Estimate, load: ServedLoad) -> None:
    """Hold a load to Little's law: answers in flight = tokens per second x seconds of an answer / its tokens.

    Parameters
    ----------
    what : the setting, for the error.
    concurrency : answers in flight.
    throughput : tokens per second.
    load : what users see.

    Raises
    ------
    LittleError : they differ by more than 3 % beyond what chance makes of it.
    """
    each = load.seconds_per_token()
    result = throughput.value * each.value / concurrency
    chance = _SURE * math.hypot(throughput.stderr / throughput.value, each.stderr / each.value)
    if abs(result - 1.0) > _LITTLE + chance:
        raise LittleError(
            f"{what}: {throughput.value:.6g} tokens/s x {each.value:.4g} s per token of an answer = "
            f"{result * concurrency:.4g} answers in flight, not {concurrency:g} (Little's law); this is an error of "
            "specplan: please report the command"
        )
