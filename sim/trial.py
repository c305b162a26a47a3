"""Trials and the loop that simulates them.

A `Trial` is an algorithm with its answers and the engines that do its work. Each answer is simulated from its first
token to its last commit; a cut at a fixed time or number of steps would favour the method that has just finished a
step. Answers are indexed, so that compared trials run on the same answers (common random numbers), and the speedup is
the ratio of the totals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sim.algorithms.autoregressive import autoregressive
from sim.answers.drawn import Behaviour
from sim.answers.token_passes import PassSource, SpeculatedAnswer
from sim.catalogue import Meets
from sim.engines.protocol import Engine
from sim.estimate import Estimate, mean, ratio_of_totals
from sim.fast.choosing import fast_seconds
from sim.fast.draws import Sizes, sizes_of
from sim.fast.one_by_one import runs_one_by_one
from sim.operations import MakeAlgorithm
from sim.timeline import Counts, acceptance
from sim.virtual_clock import Answer, Session, VirtualClock
from theory.errors import ParameterError

__all__ = [
    "Runs",
    "Simulation",
    "Trial",
    "false_accepts",
    "run_answer",
    "run_trial",
    "session_of",
    "simulate",
    "trial_seconds",
    "with_plain",
]

_PILOT = 100  # answers before the first check of the precision: fewer make sequential stopping optimistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An algorithm, its answers, and the engines that do its work."""

    algorithm: MakeAlgorithm
    """Builds the generator of a prompt."""

    answer: Callable[[int], Answer]
    """Returns the answer of an index."""

    engines: Mapping[str, Engine]
    """The engine of each role; every run resets them."""

    n_answers: int | None = None
    """Number of recorded answers; later indices repeat them. None where answers are drawn without limit."""

    seed: int | None = None
    """Seed of drawn answers."""

    behaviour: Behaviour | None = None
    """Behaviour that returns exactly these answers; None where they are modified."""

    sizes: Sizes | None = None
    """Tells the sizes of many answers at once, where each is a single request of plain decoding; None: ask each."""

    passes: Mapping[str, PassSource] = field(default_factory=dict)
    """Passes of the roles that decode with token-level speculation."""

    @classmethod
    def of(
        cls,
        algorithm: MakeAlgorithm,
        behaviour: Behaviour,
        engines: Mapping[str, Engine],
        *,
        meets: Meets = "speculation",
    ) -> Self:
        """Return the trial of an algorithm on the answers of a behaviour."""
        answers = {
            "plain": behaviour.baseline_answer,
            "speculation": behaviour.answer,
            "candidates": behaviour.beam_answer,
        }
        return cls(
            algorithm=algorithm,
            answer=answers[meets],
            engines=engines,
            n_answers=behaviour.n_answers,
            seed=behaviour.seed,
            behaviour=behaviour,
            sizes=sizes_of(behaviour),
        )

    def speculating(self, passes: Mapping[str, PassSource]) -> Trial:
        """Return the trial of the same answers, in which some roles decode with token-level speculation."""
        if not passes:
            return self
        answer = self.answer
        return replace(
            self, answer=lambda index: SpeculatedAnswer(answer(index), passes, index), behaviour=None, passes=passes
        )


def with_plain(
    algorithm: MakeAlgorithm,
    behaviour: Behaviour,
    engines: Mapping[str, Engine],
    *,
    meets: Meets = "speculation",
) -> tuple[Trial, Trial]:
    """Return the trial of an algorithm, and that of plain decoding of the same answers.

    Parameters
    ----------
    algorithm, behaviour, engines, meets : of the trial.
    """
    plain = Trial.of(autoregressive, behaviour, engines, meets="plain")
    return Trial.of(algorithm, behaviour, engines, meets=meets), plain


def run_answer(algorithm: MakeAlgorithm, answer: Answer, engines: Mapping[str, Engine]) -> Session:
    """Run an algorithm on one answer at concurrency 1, and return the finished session."""
    clock = VirtualClock(engines)
    session = clock.launch(algorithm(answer.root), answer)
    clock.run(session)
    return session


def session_of(trial: Trial, index: int) -> Session:
    """Run one answer of a trial."""
    return run_answer(trial.algorithm, trial.answer(index), trial.engines)


@dataclass(frozen=True, slots=True)
class Runs:
    """Simulated answers of one trial."""

    seconds: NDArray[np.float64]
    """Seconds of each answer, shape (answers,)."""

    counts: tuple[Counts, ...]
    """Counts of operations and tokens of each answer."""

    @property
    def accepted(self) -> float:
        """Share of the committed steps that the draft wrote, in [0, 1]."""
        return self._total("accepted") / max(self._total("steps"), 1)

    @property
    def acceptance(self) -> float:
        """Share of judged drafts that were accepted, in [0, 1]; NaN if none was judged."""
        return acceptance(self.counts)

    @property
    def wasted_draft(self) -> float:
        """Draft tokens that were not committed per committed token, [-]."""
        return self._total("wasted_draft_tokens") / max(self._total("committed_tokens"), 1)

    @property
    def wasted_target(self) -> float:
        """Target tokens that were not committed per committed token, [-]."""
        return self._total("wasted_target_tokens") / max(self._total("committed_tokens"), 1)

    @property
    def peak_targets(self) -> int:
        """Most target sequences in flight at one time, over all answers."""
        return max(counts.peak_targets for counts in self.counts)

    def __getitem__(self, part: slice) -> Runs:
        """Return the runs of some of the answers."""
        return Runs(self.seconds[part], self.counts[part])

    def __add__(self, more: Runs) -> Runs:
        """Return the runs of these answers and those of ``more``."""
        return Runs(np.concatenate([self.seconds, more.seconds]), self.counts + more.counts)

    def _total(self, name: str) -> int:
        return sum(getattr(counts, name) for counts in self.counts)


def run_trial(trial: Trial, indices: Sequence[int], *, jobs: int = 1) -> Runs:
    """Simulate answers of a trial, each at concurrency 1.

    Parameters
    ----------
    trial : algorithm, answers and engines.
    indices : indices of the answers.
    jobs : processes, through ``joblib.Parallel``.
    """
    if jobs == 1 or len(indices) < 2:
        one_by_one = runs_one_by_one(trial.algorithm, trial.answer, trial.engines, indices)
        if one_by_one is not None:
            return Runs(*one_by_one)
        sessions = [session_of(trial, index) for index in indices]
        seconds = [float(session.finished or 0.0) - session.started for session in sessions]
        return Runs(np.array(seconds), tuple(Counts.of(session) for session in sessions))
    from joblib import Parallel, delayed

    size = -(-len(indices) // min(4 * abs(jobs), len(indices)))
    parts = [list(indices[i : i + size]) for i in range(0, len(indices), size)]
    runs: list[Runs] = Parallel(n_jobs=jobs)(delayed(run_trial)(trial, part) for part in parts)
    return sum(runs[1:], start=runs[0])


def trial_seconds(trial: Trial, indices: Sequence[int]) -> NDArray[np.float64]:
    """Return the seconds of each answer of a trial, shape (answers,), without counts of operations.

    By the fast engine (`sim.fast`) where it supports the trial, else by `run_trial`: the times are the same.
    """
    known = fast_seconds(trial.algorithm, trial.behaviour, trial.engines, indices)
    return run_trial(trial, indices).seconds if known is None else known


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Speedup and counts of a configuration on a workload, one answer at a time."""

    speedup: Estimate
    """Seconds of the baseline over seconds of the method, ratio of totals."""

    method: Runs
    baseline: Runs

    seed: int | None
    """Seed of the answers."""

    @property
    def n(self) -> int:
        """Answers simulated."""
        return len(self.method.counts)


def simulate(
    trial: Trial,
    baseline: Trial,
    *,
    n: int | None = None,
    precision: float | None = None,
    max_answers: int = 20_000,
    confidence: float = 0.95,
    jobs: int = 1,
) -> Simulation:
    """Simulate answers one by one under a method and under its baseline.

    Parameters
    ----------
    trial, baseline : trials on the same answers; see `with_plain`.
    n : answers to simulate, >= 1. Default: all recorded answers of a replay, 200 drawn ones.
    precision : instead of ``n``, simulate until half the speedup's confidence interval, relative to its value, is at
        most this, in (0, 1).
    max_answers : upper limit of the number of answers.
    confidence : coverage of the intervals, in (0, 1).
    jobs : processes, through ``joblib.Parallel``.

    Raises
    ------
    ParameterError : a count or precision outside its domain, or both ``n`` and ``precision``.
    """
    _check(n, precision, max_answers)
    limit = min(max_answers, trial.n_answers or max_answers) if precision is not None else n or trial.n_answers or 200
    first = min(limit, _PILOT) if precision is not None else limit
    simulation = _compared(trial, baseline, range(first), confidence, jobs)
    while precision is not None and simulation.n < limit:
        width = simulation.speedup.relative_half_width
        if width <= precision:
            break
        needed = math.ceil(simulation.n * 1.1 * (width / precision) ** 2) if math.isfinite(width) else limit
        more = min(max(needed, simulation.n + _PILOT), 4 * simulation.n, limit)
        simulation = _compared(trial, baseline, range(simulation.n, more), confidence, jobs, simulation)
    return simulation


def _compared(
    trial: Trial, baseline: Trial, indices: range, confidence: float, jobs: int, before: Simulation | None = None
) -> Simulation:
    """Simulate more answers, and estimate the speedup of all."""
    method, plain = (run_trial(one, indices, jobs=jobs) for one in (trial, baseline))
    if before is not None:
        method, plain = before.method + method, before.baseline + plain
    speedup = ratio_of_totals(plain.seconds, method.seconds, confidence=confidence, seed=trial.seed)
    return Simulation(speedup=speedup, method=method, baseline=plain, seed=trial.seed)


def false_accepts(counts: Sequence[Counts], *, confidence: float = 0.95, seed: int | None = None) -> Estimate | None:
    """Wrong draft steps accepted per answer; ``None`` unless all committed steps are known to be right or wrong."""
    if not all(c.graded_steps == c.steps > 0 for c in counts):
        return None
    return mean([c.false_accepts for c in counts], confidence=confidence, seed=seed)


def _check(n: int | None, precision: float | None, max_answers: int) -> None:
    if n is not None and precision is not None:
        raise ParameterError("precision", precision, "must not be given together with n")
    for name, value in (("n", n), ("max_answers", max_answers)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ParameterError(name, value, "must be an integer >= 1")
    if precision is not None and not 0.0 < precision < 1.0:
        raise ParameterError("precision", precision, "must be in (0, 1)")
