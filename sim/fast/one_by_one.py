"""Methods that never have two requests at once, on any engine: plain decoding, SpecReason and RSD, without events.

The time of a request at concurrency 1 is computed directly: it is the same as on the virtual clock, on a batching
engine (`sim.engines.batching.BatchEngine`) that of batch 1. Answers may be drawn or replayed, decoded with token-level
speculation or without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sim.algorithms.autoregressive import autoregressive
from sim.algorithms.graded import graded_drafts
from sim.engines.batching import RESTED_S, BatchEngine
from sim.engines.fixed import FixedEngine
from sim.engines.protocol import Engine
from sim.operations import Commit, Generate, MakeAlgorithm, Operation, Score, Step
from sim.roles import DRAFT, SCORER, TARGET
from sim.serving.engine import ServingEngine
from sim.serving.limits import ENDLESS
from sim.timeline import Counts
from sim.virtual_clock import Answer, read_by, with_stand_ins

__all__ = ["runs_one_by_one"]


def runs_one_by_one(
    algorithm: MakeAlgorithm, answer: Callable[[int], Answer], engines: Mapping[str, Engine], indices: Sequence[int]
) -> tuple[NDArray[np.float64], tuple[Counts, ...]] | None:
    """Return the seconds and the counts of answers; None where the method may have concurrent requests."""
    if algorithm is autoregressive:
        requested = {TARGET}
    elif isinstance(algorithm, partial) and algorithm.func is graded_drafts and not algorithm.args:
        requested = {TARGET, DRAFT, algorithm.keywords.get("role", SCORER)}
    else:
        return None
    known = with_stand_ins(engines)
    for engine in map(known.get, requested):
        endless = type(engine) is ServingEngine and engine.limits is ENDLESS
        if not endless and type(engine) not in (FixedEngine, BatchEngine):
            return None
    runs = [_OneByOne(answer(index), known) for index in indices]
    for run in runs:
        run.drive(algorithm)
    return np.array([run.commit_times[-1] for run in runs]), tuple(Counts.of(run) for run in runs)


class _OneByOne:
    """One answer at concurrency 1: a `sim.timeline.Run`."""

    def __init__(self, answer: Answer, engines: Mapping[str, Engine]) -> None:
        self._answer = answer
        self._engines = engines
        self._resting_since: dict[int, float] = {}
        self._now = self.started = 0.0
        self.operations: list[Operation] = []
        self.committed: list[Step] = []
        self.commit_times: list[float] = []
        self.finished: float | None = None

    def drive(self, algorithm: MakeAlgorithm) -> None:
        """Simulate the answer: each request ends before the method goes on."""
        generator, done = algorithm(self._answer.root), None
        try:
            while True:
                action = generator.send(done)
                done = None
                if isinstance(action, Commit):
                    self.committed.append(action.step)
                    self.commit_times.append(self._now)
                elif isinstance(action, Generate):
                    action.pending = action.result = step = self._answer.generate(action)
                    prefix = action.prefix
                    new = 0 if prefix.role == action.role else prefix.n_tokens
                    self._pass(action, action.tokens_of(step), new, prefix.context_tokens)
                elif isinstance(action, Score):
                    action.result = self._answer.score(action)
                    self._pass(action, 1, *read_by(action, self._answer, self._engines))
                else:
                    done = self.operations[-1]
        except StopIteration:
            self.finished = self._now

    def _pass(self, operation: Operation, n_tokens: int, n_prompt: int, context: int) -> None:
        """Advance the time by that of a request."""
        operation.started = self._now
        engine = self._engines[operation.role]
        if isinstance(engine, FixedEngine):
            self._now += max(engine.seconds(n_tokens, n_prompt, context), 0.0)
        else:
            assert isinstance(engine, BatchEngine)
            self._now += engine.cost.request_s
            rested = self._now - self._resting_since.get(id(engine), -np.inf) >= RESTED_S
            self._now += engine.seconds_alone(n_tokens, n_prompt, context, operation.passes, rested=rested)
            self._resting_since[id(engine)] = self._now
        operation.finished = self._now
        self.operations.append(operation)
