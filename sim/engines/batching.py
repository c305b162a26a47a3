"""Continuous batching in virtual time: how long a request takes on a model server, given what else runs there.

Requests share iterations, an iteration's time depends on the batch and its context, a prefill stops decoding, and the
batch changes between iterations only (`sim.serving.engine` reads prompts in the passes of others). Admissions and
departures are events, tokens are not: between them each engine counts iterations on a clock of its own.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from simpy import Environment
from simpy.events import NORMAL

from sim.engines.device import Device
from sim.engines.protocol import Cost, Done, Moment
from sim.operations import Generate, Operation
from sim.passes import Passes
from theory.errors import ParameterError

__all__ = ["BOUNDARY", "RESTED_S", "BatchEngine", "Job"]

RESTED_S = 0.004
"""Idle time after which an engine's caches hold other data, s: the next prompt then takes ``waking_s`` longer."""


BOUNDARY = 1e-6
"""Iterations; progress this near to a whole number is at the boundary (rounding is below 1e-9)."""

TRAVELLING, QUEUED, READING, DECODING, LEAVING, OVER = range(6)


class Job(Moment):
    """A request inside a `BatchEngine`, and the moment of its arrival there."""

    __slots__ = ("context", "done", "finish", "n_iterations", "n_prompt", "operation", "passes", "state")

    finish: int

    def __init__(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        self.operation = operation
        self.n_prompt = n_prompt
        self.context: float = context + n_tokens / 2  # its mean over the request's life
        self.done = done
        # With token-level speculation: the passes of the step (`sim.answers.token_passes`).
        self.passes = operation.passes
        self.n_iterations = n_tokens - 1 if self.passes is None else len(self.passes)
        self.state = TRAVELLING

    def end(self) -> None:
        """Be over."""
        self.state = OVER
        self.operation.job = None  # breaks the reference cycle between job and operation

    def generated(self, n_left: int) -> int:
        """Return the tokens generated when ``n_left`` iterations are left; the prefill gives the first."""
        n_done = self.n_iterations - n_left
        return 1 + (n_done if self.passes is None else self.passes.committed(n_done))


class BatchEngine:
    """A continuous-batching model server.

    An iteration that has begun runs to its end with the batch it began with: arrivals wait for the boundary, and so
    does the departure of a cancelled request. Prefills run one at a time, before the next iteration, oldest first. A
    sequence counts with its mean context over its life, which makes its total time exact for costs linear in context.
    An iteration commits one token per sequence, or with token-level speculation as many as the passes of its step list.

    Parameters
    ----------
    cost : seconds per iteration, prefill and request.
    device : the processor that the engine shares with other engines; its own if None.
    beside : time of its work while a neighbour of the device works / while none does, finite and > 0, [-].
    waking_s : additional time of the first prefill after `RESTED_S` without work, s.
    max_batch : sequences that it decodes at once, >= 1; more requests wait, first come, first served. May be infinite.

    Attributes
    ----------
    speed : speed / speed while no other engine works on its device or a neighbour, > 0, [-].
    busy_s : seconds in which it has used its processor since it was attached.
    first_token_s : when the first token of an answer was there, by whom its requests report to.
    """

    _KEPT: tuple[str, ...] = ("cost", "device", "beside", "waking_s", "max_batch")
    """Parameters, which a pickled engine keeps."""

    def __init__(
        self,
        cost: Cost,
        device: Device | None = None,
        *,
        beside: float = 1.0,
        waking_s: float = 0.0,
        max_batch: float = math.inf,
    ) -> None:
        if not 0.0 < beside < math.inf:
            raise ParameterError("beside", beside, "must be finite and > 0")
        if not 0.0 <= waking_s < math.inf:
            raise ParameterError("waking_s", waking_s, "must be finite and >= 0")
        if not max_batch >= 1:
            raise ParameterError("max_batch", max_batch, "must be >= 1")
        self.cost = cost
        self.beside = beside
        self.waking_s = waking_s
        self.max_batch = max_batch
        self.device = device if device is not None else Device()
        self.device.add(self)
        self._reset()

    def _reset(self) -> None:
        self._next = Moment(())  # when something happens here; the moment of an older plan is void
        self._spare: Moment | None = None  # has been there, and can be used again
        self._settled = 0.0  # progress is accounted for up to here
        self._progress = 0.0  # decode iterations done; whole numbers are iteration boundaries
        self._boundary = 0  # the next one at which something changes
        self._tau = math.inf  # seconds of the running iteration at full share
        self._order = 0
        self._active: list[tuple[int, int, Job]] = []  # heap by finish; those that are over stay until popped
        self._batch = 0
        self._context = 0.0
        self._queue: deque[Job] = deque()
        self._leaving: list[Job] = []
        self._prefill: Job | None = None
        self._is_reading = False  # whether the running iteration, or prefill, reads prompts
        self._prefill_left = 0.0
        self._was_busy = False
        self._resting_since = -math.inf
        self.speed = 1.0
        self.busy_s = 0.0
        self.first_token_s: dict[Any, float] = {}

    def __getstate__(self) -> dict[str, object]:
        """Pickle the parameters, without the requests in flight."""
        return {name: getattr(self, name) for name in self._KEPT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the parameters; the engine is idle."""
        for name, value in state.items():
            setattr(self, name, value)
        self._reset()

    def attach(self, env: Environment) -> None:
        """Drop all requests and run in the environment ``env`` from now on."""
        self._env = env
        self._reset()
        self._settled = env.now
        self.device.n_busy = 0
        self._request_s, self._seconds = self.cost.request_s, self.cost.iteration
        self._is_watched = bool(self.device.concerned)
        self._arriving, self._changing = [self._on_arrival], [self._on_moment]  # bound once

    @property
    def busy(self) -> bool:
        """Whether it uses its processor now."""
        return self._is_reading or self._batch > 0

    def seconds_alone(
        self, n_tokens: int, n_prompt: int, context: int, passes: Passes | None, *, rested: bool
    ) -> float:
        """Return the seconds from arrival to end of a request if nothing else runs; ``rested``: after `RESTED_S`."""
        n_iterations = n_tokens - 1 if passes is None else len(passes)
        seconds = self.cost.prefill(n_prompt) + (self.waking_s if rested else 0.0)
        if n_iterations <= 0:
            return seconds
        iteration = self.cost.iteration(1, context + n_tokens / 2)
        if not iteration > 0.0:
            raise ParameterError("iteration", iteration, "must take more than 0 s (batch 1): check the cost model")
        return seconds + n_iterations * iteration

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Start a request."""
        job = operation.job = Job(operation, n_tokens, n_prompt, context, done)
        if self._request_s > 0.0:
            self._travel(job)
        else:
            self._arrive(job)

    def _travel(self, job: Job) -> None:
        """Let a request arrive after its latency."""
        job.callbacks, env = self._arriving, self._env
        # `env.schedule` is inlined, here and below: simulations call it millions of times.
        heappush(env._queue, (env._now + self._request_s, NORMAL, next(env._eid), job))  # type: ignore[misc]

    def cancel(self, operation: Operation) -> None:
        """Stop working on a request: at once if it is queued, else when the running iteration or prefill ends."""
        job: Job | None = operation.job
        if job is None:
            return
        if job.state == DECODING:
            self.settle()
            operation.n_generated = job.generated(job.finish - math.floor(self._progress + BOUNDARY))
            if self._prefill is not None:  # decoding stands at a boundary
                self._leave(job)
            else:
                job.state = LEAVING
                self._leaving.append(job)
                self.plan()
        elif job.state == QUEUED:
            self._queue.remove(job)
            job.end()
        elif job.state == TRAVELLING:
            job.end()

    def written(self) -> int:
        """Return the tokens that the requests in flight have generated so far, by whole iterations."""
        self.settle()
        now = math.floor(self._progress + BOUNDARY)
        return sum(job.generated(finish - now) for finish, _, job in self._active if job.state == DECODING)

    def settle(self) -> None:
        """Account for the progress made since the last change."""
        now = self._env._now  # the property behind it costs a call
        elapsed = now - self._settled
        self._settled = now
        if elapsed <= 0.0:
            return
        if self._is_reading:
            self.busy_s += elapsed
            self._prefill_left -= elapsed * self.speed
        elif self._batch:
            self.busy_s += elapsed
            self._progress += elapsed * self.speed / self._tau

    def plan(self) -> None:
        """Schedule what comes next: the end of what reads prompts, or the next boundary at which the batch changes."""
        self._next.callbacks = ()
        if self._is_reading:
            work = self._prefill_left
        elif self._batch == 0:
            return
        else:
            changes = self._changes()
            self._boundary = math.ceil(self._progress - BOUNDARY) if changes else self._next_change()
            work = (self._boundary - self._progress) * self._tau
        env, moment = self._env, self._spare or Moment(())
        self._spare, self._next, moment.callbacks = None, moment, self._changing
        delay = work / self.speed if work > 0.0 else 0.0
        heappush(env._queue, (env._now + delay, NORMAL, next(env._eid), moment))  # type: ignore[misc]

    def _changes(self) -> bool:
        """Whether the batch changes at the next boundary, whatever ends there."""
        return bool(self._leaving or (self._queue and self._batch < self.max_batch))

    def _next_change(self) -> int:
        """The boundary at which a request ends."""
        active = self._active
        while active[0][2].state == OVER:
            heappop(active)
        return active[0][0]

    def _on_arrival(self, job: Job) -> None:
        if self._admits(job):
            if self._is_due():
                self._go_on()
            else:
                self.plan()

    def _arrive(self, job: Job) -> None:
        if self._admits(job):
            self.plan()

    def _admits(self, job: Job) -> bool:
        """Queue a request or start its prefill; return whether the next event of the engine has changed."""
        if job.operation.cancelled:
            return False
        job.state = QUEUED
        self._queue.append(job)
        if self._prefill is not None or len(self._queue) > 1:
            return False  # the event that is already scheduled reads the queue
        self.settle()
        if self._batch == 0:
            self._start_prefill()
            if self._settled - self._resting_since >= RESTED_S:
                self._prefill_left += self.waking_s
            if self._is_watched:
                self._tell_the_device()
        return True

    def _tell_the_device(self) -> None:
        busy = self.busy
        if busy != self._was_busy:
            self._was_busy = busy
            self.device.rebalance(self)

    def _start_prefill(self) -> None:
        job = self._prefill = self._queue.popleft()
        self._is_reading = True
        job.state = READING
        self._prefill_left = self.cost.prefill(job.n_prompt)

    def _on_moment(self, moment: Moment) -> None:
        self._spare = moment
        self.settle()
        self._go_on()

    def _go_on(self) -> None:
        """Process this event, and each next one that the environment would send here at the same time."""
        finished = self._change()
        while not finished and self._is_due():
            finished = self._change()
        self.plan()
        for job in finished:
            if not job.operation.cancelled:
                job.done(job.operation)

    def _is_due(self) -> bool:
        """Whether a prefill that takes no time is the only event left at the current time."""
        if self._prefill is None or self._prefill_left > 0.0:
            return False
        queue = self._env._queue
        return not queue or queue[0][0] > self._settled  # settled just now

    def _change(self) -> Sequence[Job]:
        """End the current prefill or iteration, start the next, and return the requests that ended."""
        job, self._prefill, self._is_reading = self._prefill, None, False
        finished = self._end_iteration() if job is None else self._end_prefill(job)
        if self._queue and self._batch < self.max_batch:
            self._start_prefill()
        else:
            self._go_on_decoding()
        if self._is_watched:
            self._tell_the_device()
        return finished

    def _go_on_decoding(self) -> None:
        """Begin an iteration that reads no prompts; without a batch the engine rests."""
        if not self._batch:
            self._resting_since = self._settled
            return
        self._tau = self._seconds(self._batch, self._context)
        if not self._tau > 0.0:  # time would stand still while tokens pass
            rule = f"must take more than 0 s (batch {self._batch}): check the cost model"
            raise ParameterError("iteration", self._tau, rule)

    def forget(self, owner: Done) -> None:
        """Let go of what was noted of an answer that is over."""
        self.first_token_s.pop(owner, None)

    def _note_first_token(self, operation: Operation, owner: Done) -> None:
        if operation.__class__ is Generate and operation.prefix.depth < 0:
            self.first_token_s.setdefault(owner, self._env._now)

    def _end_prefill(self, job: Job) -> Sequence[Job]:
        self._note_first_token(job.operation, job.done)
        if job.n_iterations <= 0 or job.operation.cancelled:
            job.end()
            return (job,)
        job.state = DECODING
        job.finish = round(self._progress) + job.n_iterations
        self._order += 1
        heappush(self._active, (job.finish, self._order, job))
        self._batch += 1
        self._context += job.context
        return ()

    def _end_iteration(self) -> Sequence[Job]:
        self._progress = float(self._boundary)
        for job in self._leaving:
            self._leave(job)
        self._leaving.clear()
        finished = []
        active = self._active
        while active and active[0][0] <= self._boundary:
            job = heappop(active)[2]
            if job.state != OVER:
                self._leave(job)
                finished.append(job)
        return finished

    def _leave(self, job: Job) -> None:
        job.end()
        self._batch -= 1
        self._context -= job.context
        if self._batch == 0:
            self._active.clear()
            self._context = 0.0  # forget what rounding has left
