"""Trials and the loop that simulates them.

A `Trial` is an algorithm with its answers and the engines that do its work. Each answer is simulated from its first
token to its last commit; a cut at a fixed time or number of steps would favour the method that has just finished a
step. Answers are indexed, so that compared trials run on the same answers (common random numbers), and the speedup is
the ratio of the totals.
"""

from __future__ import annotations

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
    algorithm: MakeAlgorithm, behaviour: Behaviour, engines: Mapping[str, Engine], *, meets: Meets = "speculation"
) -> tuple[Trial, Trial]:
    """Return the trial of an algorithm, and that of plain decoding of the same answers."""
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


def run_trial(trial: Trial, indices: Sequence[int]) -> Runs:
    """Simulate answers of a trial, each at concurrency 1."""
    one_by_one = runs_one_by_one(trial.algorithm, trial.answer, trial.engines, indices)
    if one_by_one is not None:
        return Runs(*one_by_one)
    sessions = [session_of(trial, index) for index in indices]
    seconds = [float(session.finished or 0.0) - session.started for session in sessions]
    return Runs(np.array(seconds), tuple(Counts.of(session) for session in sessions))


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


def simulate(trial: Trial, baseline: Trial, *, n: int) -> Simulation:
    """Simulate answers one by one under a method and under its baseline.

    Parameters
    ----------
    trial, baseline : trials on the same answers; see `with_plain`.
    n : answers to simulate, >= 1.

    Raises
    ------
    ParameterError : no answer.
    """
    method, plain = (run_trial(one, range(n)) for one in (trial, baseline))
    speedup = ratio_of_totals(plain.seconds, method.seconds, seed=trial.seed)
    return Simulation(speedup=speedup, method=method, baseline=plain)


def false_accepts(counts: Sequence[Counts]) -> Estimate | None:
    """Wrong draft steps accepted per answer; ``None`` unless all committed steps are known to be right or wrong."""
    if not all(c.graded_steps == c.steps > 0 for c in counts):
        return None
    return mean([c.false_accepts for c in counts])
