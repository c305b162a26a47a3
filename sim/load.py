"""Many answers at once on shared engines: a closed loop of constant concurrency, or Poisson arrivals.

Answers that share engines are not independent, so the unit of the statistics is the replication: a fresh clock, other
answers, and a warm-up that is thrown away. Replication r of two methods meets the same questions at the same moments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from simpy import Timeout

from sim.engines.batching import BatchEngine
from sim.estimate import Estimate, mean, ratio_of_totals
from sim.random_streams import stream
from sim.trial import Trial
from sim.virtual_clock import Session, VirtualClock
from theory.errors import ParameterError, SpecplanError

__all__ = ["LoadResult", "OverloadError", "closed_loop", "load_speedup", "poisson"]

_PERCENTILES = (50, 90, 99)


class OverloadError(SpecplanError):
    """Answers arrive faster than the engines finish them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What a method delivers under load; the sample size of the estimates is the number of replications."""

    answers_per_s: Estimate
    """Completed answers per second."""

    tokens_per_s: Estimate
    """Tokens of completed answers per second."""

    latency_s: Estimate
    """Seconds from the question to the last token, mean over answers."""

    percentiles_s: tuple[tuple[int, Estimate], ...]
    """(percentile of the latency, its mean over replications)."""

    busy: tuple[tuple[str, Estimate], ...]
    """(role, share of the time in which its batch engine worked, in [0, 1]), warm-up included."""

    replications: int
    """Replications."""

    answers: int
    """Completed answers per replication, after the warm-up."""

    latency_means_s: tuple[float, ...] = field(repr=False)
    """Mean latency of each replication, for paired comparisons."""

    seed: int | None = None
    """Seed of the behaviour."""


def closed_loop(
    trial: Trial,
    *,
    concurrency: int,
    answers: int = 100,
    warmup: int | None = None,
    replications: int = 10,
    confidence: float = 0.95,
) -> LoadResult:
    """Keep ``concurrency`` answers in flight: each that ends is replaced at once.

    Parameters
    ----------
    trial : the algorithm, its answers and the engines that they share.
    concurrency : answers in flight, >= 1.
    answers : completed answers that count in each replication, >= 1.
    warmup : completed answers that do not count, before; default ``2 * concurrency``.
    replications : independent repetitions, >= 2.

    Raises
    ------
    ParameterError : a count outside its domain.
    """
    warmup = 2 * concurrency if warmup is None else warmup
    _check(concurrency=concurrency, answers=answers, replications=replications - 1)
    runs = []
    for r in range(replications):
        run = _Replication(trial, r, warmup + answers)
        for _ in range(concurrency):
            run.start(replace=True)
        runs.append(run.finish(warmup))
    return _result(runs, answers, confidence, trial.seed)


def poisson(
    trial: Trial,
    *,
    rate: float,
    answers: int = 100,
    warmup: int = 20,
    replications: int = 10,
    max_in_flight: int = 10_000,
    confidence: float = 0.95,
) -> LoadResult:
    """Let questions arrive at random, ``rate`` per second, whatever is still in flight.

    Parameters
    ----------
    rate : arrivals per second, > 0.
    max_in_flight : give up when so many answers are in flight at once.
    trial, answers, warmup, replications : as in `closed_loop`, in order of completion.

    Raises
    ------
    ParameterError : a count or rate outside its domain.
    OverloadError : more than ``max_in_flight`` answers in flight.
    """
    if not (math.isfinite(rate) and rate > 0.0):
        raise ParameterError("rate", rate, "must be finite and > 0")
    _check(answers=answers, replications=replications - 1)
    runs = []
    for r in range(replications):
        run = _Replication(trial, r, warmup + answers)
        run.arrive(rate, trial.seed or 0, max_in_flight)
        runs.append(run.finish(warmup))
    return _result(runs, answers, confidence, trial.seed)


def load_speedup(method: LoadResult, baseline: LoadResult) -> Estimate:
    """Mean latency of the baseline over that of the method, paired by replication (ratio of totals)."""
    return ratio_of_totals(
        baseline.latency_means_s, method.latency_means_s, estimator="ratio of mean latencies", seed=method.seed
    )


class _Replication:
    """One clock with answers coming and going until enough have ended."""

    def __init__(self, trial: Trial, number: int, wanted: int) -> None:
        self.trial = trial
        self.clock = VirtualClock(trial.engines, record=False)
        self.number = number
        self.wanted = wanted
        # No two replications share a question; of recorded ones, each goes on where the last has stopped.
        self.indices = count(number * (1_000_000 if trial.n_answers is None else wanted))
        self.in_flight = 0
        self.done: list[Session] = []

    def start(self, *, replace: bool) -> None:
        answer = self.trial.answer(next(self.indices))
        self.in_flight += 1
        session = self.clock.launch(self.trial.algorithm(answer.root), answer)
        if session.finished is not None:
            self._on_finish(session, replace)
        else:
            session.on_finish = lambda ended: self._on_finish(ended, replace)

    def _on_finish(self, session: Session, replace: bool) -> None:
        self.in_flight -= 1
        self.done.append(session)
        if replace and len(self.done) < self.wanted:
            self.start(replace=True)

    def arrive(self, rate: float, seed: int, max_in_flight: int) -> None:
        """Start an answer, and see to the next arrival."""
        gaps = stream(seed, "arrivals", self.number)

        def next_arrival(event: object) -> None:
            if self.in_flight >= max_in_flight:
                raise OverloadError(f"{max_in_flight} answers in flight at {rate} arrivals per second: overload")
            self.start(replace=False)
            Timeout(self.clock.env, gaps.exponential(1.0 / rate)).callbacks.append(next_arrival)

        Timeout(self.clock.env, gaps.exponential(1.0 / rate)).callbacks.append(next_arrival)

    def finish(self, warmup: int) -> _Measured:
        """Let time pass until enough answers have ended; measure those after the warm-up."""
        step = self.clock.env.step
        while len(self.done) < self.wanted:
            step()
        ends = [session.finished for session in self.done]
        began = ends[warmup - 1] if warmup else 0.0
        counted = self.done[warmup:]
        now = self.clock.env.now
        busy = {}
        for role, engine in self.clock.engines.items():
            if isinstance(engine, BatchEngine):
                engine.settle()
                busy[role] = engine.busy_s / now if now > 0.0 else 0.0
        assert began is not None
        return _Measured(
            seconds=now - began,
            latencies=[s.finished - s.started for s in counted if s.finished is not None],
            tokens=sum(step.n_tokens for session in counted for step in session.committed),
            busy=busy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    seconds: float
    latencies: list[float]
    tokens: int
    busy: dict[str, float]


def _result(runs: list[_Measured], answers: int, confidence: float, seed: int | None) -> LoadResult:
    def over(samples: list[float], unit: str) -> Estimate:
        return mean(samples, confidence=confidence, unit=unit, estimator="mean over replications", seed=seed)

    means = [float(np.mean(run.latencies)) for run in runs]
    return LoadResult(
        answers_per_s=over([answers / run.seconds for run in runs], "1/s"),
        tokens_per_s=over([run.tokens / run.seconds for run in runs], "tokens/s"),
        latency_s=over(means, "s"),
        percentiles_s=tuple(
            (p, over([float(np.percentile(run.latencies, p)) for run in runs], "s")) for p in _PERCENTILES
        ),
        busy=tuple((role, over([run.busy[role] for run in runs], "")) for role in runs[0].busy),
        replications=len(runs),
        answers=answers,
        latency_means_s=tuple(means),
        seed=seed,
    )


def _check(**counts: int) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            least = 2 if name == "replications" else 1
            raise ParameterError(name, value + least - 1, f"must be an integer >= {least}")
