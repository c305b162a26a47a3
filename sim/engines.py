"""Engines in virtual time: how long a request takes on a model server, given what else runs there.

`FixedEngine` is the papers' assumption: a request's time does not depend on its neighbours. `BatchEngine` is continuous
batching: requests share iterations, an iteration's time depends on the batch and its context, a prefill stops decoding,
and arrivals are admitted between iterations. Only admissions and departures are events, not tokens: between them a
virtual clock counts iterations. `Device` lets several engines share one processor.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

import simpy

from sim.operations import Operation

__all__ = ["BatchEngine", "Cost", "Device", "Done", "Engine", "FixedEngine"]

Done = Callable[[Operation], None]


class Cost(Protocol):
    """What an engine needs to know of a model; see `sim.costs.LinearCost`."""

    request_s: float

    def iteration(self, batch: int, context: float) -> float:
        """Seconds of one decode iteration."""
        ...

    def prefill(self, n_tokens: int) -> float:
        """Seconds of a prefill."""
        ...


class Engine(Protocol):
    """A model server in virtual time."""

    def attach(self, env: simpy.Environment) -> None:
        """Forget the past and live in ``env`` from now on."""
        ...

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Start a request that generates ``n_tokens`` after ``n_prompt`` uncached ones; call ``done`` at its end."""
        ...

    def cancel(self, operation: Operation) -> None:
        """Stop working on a request; ``done`` will not be called for it."""
        ...


class FixedEngine:
    """A request takes the time that ``seconds(n_tokens, n_prompt, context)`` says, whatever else runs.

    ``seconds`` may also be a number: every request takes that long (the papers' constant step time).
    """

    def __init__(self, seconds: Callable[[int, int, int], float] | float) -> None:
        self._seconds = seconds if callable(seconds) else None
        self._constant = 0.0 if callable(seconds) else float(seconds)

    def attach(self, env: simpy.Environment) -> None:
        """Live in ``env`` from now on."""
        self._env = env

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Schedule the end of the request."""
        seconds = self._constant if self._seconds is None else self._seconds(n_tokens, n_prompt, context)
        if seconds <= 0.0:
            done(operation)
            return
        timeout = simpy.Timeout(self._env, seconds, operation)
        timeout.callbacks.append(lambda event: None if operation.cancelled else done(operation))

    def cancel(self, operation: Operation) -> None:
        """Nothing to do: a cancelled operation's timeout is ignored."""


class Device:
    """A processor that one or more engines share equally while they are busy."""

    def __init__(self) -> None:
        self._engines: list[BatchEngine] = []
        self.share = 1.0

    def add(self, engine: BatchEngine) -> None:
        """Let ``engine`` run here."""
        self._engines.append(engine)

    def rebalance(self) -> None:
        """Give each busy engine its equal share of the processor; called when an engine starts or stops working."""
        if len(self._engines) == 1:
            return
        share = 1.0 / max(sum(engine.busy for engine in self._engines), 1)
        if share != self.share:
            for engine in self._engines:
                engine.settle()
            self.share = share
            for engine in self._engines:
                engine.plan()


class _Job:
    """A request inside a `BatchEngine`."""

    __slots__ = ("context", "done", "finish", "n_prompt", "n_tokens", "operation", "state")

    def __init__(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        self.operation = operation
        self.n_tokens = n_tokens
        self.n_prompt = n_prompt
        self.context = context + n_tokens / 2  # its mean over the request's life
        self.done = done
        self.finish = 0
        self.state = _TRAVELLING


_TRAVELLING, _QUEUED, _PREFILLING, _DECODING, _OVER = range(5)


class BatchEngine:
    """A continuous-batching model server.

    Parameters
    ----------
    cost : seconds per iteration, prefill and request.
    device : the processor it shares with others; its own if None.
    """

    def __init__(self, cost: Cost, device: Device | None = None) -> None:
        self.cost = cost
        self.device = device if device is not None else Device()
        self.device.add(self)

    def attach(self, env: simpy.Environment) -> None:
        """Forget the past and live in ``env`` from now on."""
        self._env = env
        self._epoch = 0  # a scheduled event of an older epoch is void
        self._settled = env.now  # progress is accounted for up to here
        self._progress = 0.0  # decode iterations done; whole numbers are iteration boundaries
        self._tau = math.inf  # seconds of the running iteration at full share
        self._order = 0
        self._active: list[tuple[int, int, _Job]] = []  # heap by finish; cancelled ones stay until popped
        self._batch = 0
        self._context = 0.0
        self._queue: deque[_Job] = deque()
        self._prefill: _Job | None = None
        self._prefill_left = 0.0
        self._was_busy = False
        self.busy_s = 0.0

    @property
    def busy(self) -> bool:
        """Whether it has work on the processor now."""
        return self._prefill is not None or self._batch > 0 or bool(self._queue)

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Start a request."""
        job = operation.job = _Job(operation, n_tokens, n_prompt, context, done)
        if self.cost.request_s > 0.0:
            timeout = simpy.Timeout(self._env, self.cost.request_s)
            timeout.callbacks.append(lambda event: self._arrive(job))
        else:
            self._arrive(job)

    def cancel(self, operation: Operation) -> None:
        """Stop working on a request; one whose prefill runs is dropped when the prefill ends."""
        job: _Job = operation.job
        self.settle()
        if job.state == _DECODING:
            self._leave(job)
        elif job.state == _QUEUED:
            self._queue.remove(job)
        if job.state != _PREFILLING:
            job.state = _OVER
        self._changed()

    def settle(self) -> None:
        """Account for the progress made since the last change."""
        elapsed = self._env.now - self._settled
        self._settled = self._env.now
        if elapsed <= 0.0 or not self.busy:
            return
        self.busy_s += elapsed
        work = elapsed * self.device.share
        if self._prefill is not None:
            self._prefill_left -= work
        elif self._batch:
            self._progress += work / self._tau

    def plan(self) -> None:
        """Schedule the next event: the end of a prefill, an iteration boundary that somebody waits for, a departure."""
        self._epoch += 1
        if self._prefill is not None:
            work = self._prefill_left
        elif self._batch == 0:
            return
        else:
            boundary = self._boundary() if self._queue else self._top().finish
            work = (boundary - self._progress) * self._tau
        timeout = simpy.Timeout(self._env, max(work, 0.0) / self.device.share, self._epoch)
        timeout.callbacks.append(self._on_event)

    def _boundary(self) -> int:
        return math.ceil(self._progress - 1e-6)

    def _top(self) -> _Job:
        while self._active[0][2].state == _OVER:
            heappop(self._active)
        return self._active[0][2]

    def _arrive(self, job: _Job) -> None:
        if job.operation.cancelled:
            return
        self.settle()
        job.state = _QUEUED
        self._queue.append(job)
        self._changed()

    def _changed(self) -> None:
        if self._prefill is None and self._queue and self._batch == 0:
            self._progress = float(self._boundary())
            self._start_prefill()
        self._refresh()

    def _refresh(self) -> None:
        if self._batch:
            self._tau = self.cost.iteration(self._batch, self._context)
        if self.busy != self._was_busy:
            self._was_busy = self.busy
            self.device.rebalance()
        self.plan()

    def _start_prefill(self) -> None:
        job = self._prefill = self._queue.popleft()
        job.state = _PREFILLING
        self._prefill_left = self.cost.prefill(job.n_prompt)

    def _on_event(self, event: simpy.Event) -> None:
        if event.value != self._epoch:
            return
        self.settle()
        finished: list[_Job] = []
        if self._prefill is not None:
            self._end_prefill(finished)
        else:
            self._progress = float(round(self._progress))
            self._end_iteration(finished)
        if self._queue and self._prefill is None:
            self._start_prefill()
        self._refresh()
        for job in finished:
            if not job.operation.cancelled:
                job.done(job.operation)

    def _end_prefill(self, finished: list[_Job]) -> None:
        job = self._prefill
        assert job is not None
        self._prefill = None
        if job.operation.cancelled:
            job.state = _OVER
        elif job.n_tokens <= 1:
            job.state = _OVER
            finished.append(job)
        else:
            job.state = _DECODING
            job.finish = round(self._progress) + job.n_tokens - 1
            self._order += 1
            heappush(self._active, (job.finish, self._order, job))
            self._batch += 1
            self._context += job.context

    def _end_iteration(self, finished: list[_Job]) -> None:
        while self._batch and self._top().finish <= self._progress:
            job = heappop(self._active)[2]
            self._leave(job)
            finished.append(job)

    def _leave(self, job: _Job) -> None:
        job.state = _OVER
        self._batch -= 1
        self._context -= job.context
        if self._batch == 0:
            self._active.clear()
            self._context = 0.0
