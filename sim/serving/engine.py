"""A serving engine in virtual time: prompts are read in chunks beside decoding, and the cache is finite.

As vLLM's scheduler does it: sequences that decode come first in every iteration, what is left of its rows reads
prompts; requests are taken in first come, first served, while there is room for their prompts; when the cache is full,
the request that came last loses its place and is read again later. Iterations without prompts are counted in bulk, as
in `sim.engines.batching`, so that a long answer costs a few events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from simpy import Environment

from sim.engines.batching import BatchEngine, Device
from sim.engines.protocol import Done, Moment
from sim.operations import Generate, Operation
from sim.serving.cache import TokenCache
from sim.serving.limits import ServingCost, ServingLimits
from theory.errors import ParameterError

__all__ = ["ServingEngine"]

_TRAVELLING, _QUEUED, _READING, _DECODING, _LEAVING, _OVER = range(6)
_BOUNDARY: Final = 1e-6
"""Iterations; progress this near to a whole number is at the boundary."""


class _Request(Moment):
    """A request inside a `ServingEngine`, and the moment of its arrival there."""

    __slots__ = (
        "arrived", "context", "done", "finish", "left", "n_iterations", "number", "operation", "own", "passes",
        "per_iteration", "state", "text", "to_read",
    )  # fmt: skip

    def __init__(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        self.operation = operation
        self.done = done
        self.passes = operation.passes
        self.n_iterations = n_tokens - 1 if self.passes is None else len(self.passes)
        self.per_iteration = (n_tokens - 1) / self.n_iterations if self.n_iterations else 0.0
        # What a judge reads is its own; what a model goes on after is the answer's.
        is_text = operation.__class__ is Generate
        self.text = float(context) if is_text else 0.0
        self.own = 1.0 if is_text else n_prompt + 1.0
        self.context = context + n_tokens / 2  # its mean over the request's life
        self.to_read = float(n_prompt)
        self.left = self.n_iterations
        self.arrived = 0.0
        self.finish = 0
        self.number = 0
        self.state = _TRAVELLING

    def end(self) -> None:
        self.state = _OVER
        self.operation.job = None  # else the two would keep each other in memory

    def tokens_after(self, n_done: int) -> int:
        """Tokens that are there after so many iterations; the first one is the reading's."""
        return 1 + (n_done if self.passes is None else sum(self.passes[:n_done]))


class ServingEngine(BatchEngine):
    """A model server with chunked prefills and a finite cache.

    Parameters
    ----------
    cost : seconds per iteration.
    device : the processor that it shares with others; its own if None.
    limits : rows, sequences and tokens that it holds.

    Attributes
    ----------
    cache : what it keeps.
    preempted : requests that have lost their place.
    waited_s : seconds that requests have waited for a place, all together.
    first_token_s : owner of an answer to the moment of its first token.
    """

    cost: ServingCost

    def __init__(self, cost: ServingCost, device: Device | None = None, *, limits: ServingLimits | None = None) -> None:
        self.limits = limits or ServingLimits()
        super().__init__(cost, device)

    def _reset(self) -> None:
        super()._reset()
        self._requests: list[tuple[int, int, _Request]] = []  # heap by finish; those that are over stay until popped
        self._waiting: list[_Request] = []
        self._reading: list[_Request] = []
        self._chunks: list[tuple[_Request, float]] = []
        self._going: list[_Request] = []
        self._mixed = False
        self._growth = 0.0  # tokens that an iteration adds to the cache
        self._grown_at = 0.0
        self._numbers = 0
        self.cache = TokenCache(self.limits.cache_tokens)
        self.preempted = 0
        self.waited_s = 0.0
        self.first_token_s: dict[Any, float] = {}

    def __getstate__(self) -> dict[str, object]:
        """Pickle what the engine is, not what it is doing."""
        return {**super().__getstate__(), "limits": self.limits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what the engine is, idle."""
        self.limits = state["limits"]
        super().__setstate__(state)

    def attach(self, env: Environment) -> None:
        """Forget the past and live in ``env`` from now on."""
        super().attach(env)
        self._arriving = [self._on_request]  # type: ignore[list-item]  # requests of its own kind

    @property
    def busy(self) -> bool:
        """Whether it uses its processor now."""
        return self._mixed or self._batch > 0

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Start a request."""
        request = operation.job = _Request(operation, n_tokens, n_prompt, context, done)
        if self._request_s > 0.0:
            request.callbacks, env = self._arriving, self._env
            heappush(env._queue, (env._now + self._request_s, 1, next(env._eid), request))  # type: ignore[misc]
        else:
            self._on_request(request)

    def cancel(self, operation: Operation) -> None:
        """Stop working on a request: at once if it waits, else when the running iteration ends."""
        request: _Request | None = operation.job
        if request is None:
            return
        if request.state == _QUEUED:
            self._waiting.remove(request)
            request.end()
        elif request.state == _TRAVELLING:
            request.end()
        elif request.state in (_READING, _DECODING):
            self.settle()
            if request.state == _DECODING:
                done = request.n_iterations - (request.finish - math.floor(self._progress + _BOUNDARY))
                operation.n_generated = request.tokens_after(done)
            else:
                self._reading.remove(request)
            request.state = _LEAVING
            self._going.append(request)
            self.plan()

    def settle(self) -> None:
        """Account for the progress made since the last change."""
        now = self._env._now
        elapsed = now - self._settled
        self._settled = now
        if elapsed <= 0.0:
            return
        if self._mixed:
            self.busy_s += elapsed
            self._prefill_left -= elapsed * self.speed
        elif self._batch:
            self.busy_s += elapsed
            self._progress += elapsed * self.speed / self._tau

    def plan(self) -> None:
        """Schedule what comes next: the end of an iteration with prompts, or the next boundary with a change."""
        self._next.callbacks = ()
        if self._mixed:
            work = self._prefill_left
        elif self._batch == 0:
            return
        else:
            changes = self._going or (self._waiting and self._takes(self._waiting[0]))
            self._boundary = math.ceil(self._progress - _BOUNDARY) if changes else self._next_change()
            work = (self._boundary - self._progress) * self._tau
        env, moment = self._env, self._spare or Moment(())
        self._spare, self._next, moment.callbacks = None, moment, self._changing
        delay = work / self.speed if work > 0.0 else 0.0
        heappush(env._queue, (env._now + delay, 1, next(env._eid), moment))  # type: ignore[misc]

    def _next_change(self) -> int:
        """The boundary at which a request ends, or the cache is full."""
        requests = self._requests
        while requests[0][2].state != _DECODING:
            heappop(requests)
        first = requests[0][0]
        if math.isinf(self.cache.capacity) or self._batch < 2 or self._growth <= 0.0:
            return first
        now = round(self._progress)
        grown = self.cache.used + self._growth * (now - self._grown_at)
        fit = (self.cache.capacity - grown + self.cache.idle) / self._growth
        return min(first, now + max(math.floor(fit), 0) + 1)

    def _on_request(self, request: _Request) -> None:
        if request.operation.cancelled:
            return
        request.state = _QUEUED
        request.arrived = self._env._now
        self._waiting.append(request)
        if self._mixed or len(self._waiting) > 1:
            return  # whoever comes next looks at the queue
        self.settle()
        if self._batch == 0:
            self._take_in()
            self._start_iteration()
            if self._is_watched:
                self._tell_the_device()
        self.plan()

    def _go_on(self) -> None:
        finished = self._change()
        self.plan()
        for request in finished:
            if not request.operation.cancelled:
                request.done(request.operation)

    def _change(self) -> Sequence[_Request]:  # type: ignore[override]  # requests of its own kind
        """End the iteration that is over, start the next, and return the requests that ended."""
        finished = self._end_chunks() if self._mixed else []
        if not self._mixed:
            self._progress = float(self._boundary)
        self._mixed = False
        self._count_growth()
        for request in self._going:
            self._remove(request)
        self._going.clear()
        requests, now = self._requests, round(self._progress)
        while requests and requests[0][0] <= now:
            request = heappop(requests)[2]
            if request.state == _DECODING:
                self._remove(request)
                finished.append(request)
        self._fit()
        self._take_in()
        self._start_iteration()
        if self._is_watched:
            self._tell_the_device()
        return finished

    def _end_chunks(self) -> list[_Request]:
        """Count what was read; requests that are read to their end have their first token, and decode."""
        self._progress = float(round(self._progress) + 1)
        finished = []
        for request, tokens in self._chunks:
            request.to_read -= tokens
            if request.state != _READING or request.to_read > 0.0:
                continue
            self._reading.remove(request)
            if request.text:
                self.first_token_s.setdefault(request.done, self._env._now)
            if request.left <= 0:
                self._forget(request)
                request.end()
                finished.append(request)
            else:
                self._join(request)
        self._chunks = []
        return finished

    def _join(self, request: _Request) -> None:
        """Let a request decode from the next iteration on."""
        request.state = _DECODING
        request.finish = round(self._progress) + request.left
        heappush(self._requests, (request.finish, request.number, request))
        self._count_growth()
        self._batch += 1
        self._context += request.context
        self._growth += request.per_iteration

    def _remove(self, request: _Request) -> None:
        """Take a request out that ends here, by itself or cancelled."""
        if request.finish:  # it has decoded
            self._stop(request)
        self._forget(request)
        request.end()

    def _stop(self, request: _Request) -> None:
        """Take a request out of the batch."""
        self._batch -= 1
        self._context -= request.context
        self._growth -= request.per_iteration
        if self._batch == 0:
            self._requests.clear()
            self._context = self._growth = 0.0  # forget what rounding has left

    def _forget(self, request: _Request) -> None:
        """Give back what a request held in the cache."""
        done = request.n_iterations - request.left
        if request.finish:
            done = request.n_iterations - max(request.finish - round(self._progress), 0)
        self.cache.release(request.done, request.own + done * request.per_iteration)

    def _count_growth(self) -> None:
        grown = self._growth * (self._progress - self._grown_at)
        if grown > 0.0:
            self.cache.grow(grown)
        self._grown_at = self._progress

    def _fit(self) -> None:
        """Make room for the next iteration: evict texts that nobody uses, then take back who came last."""
        while self._batch > 1 and not self.cache.make_room(self._growth):
            last = max((r for _, _, r in self._requests if r.state == _DECODING), key=lambda r: r.number)
            self._preempt(last)

    def _preempt(self, request: _Request) -> None:
        """Take a request's place and let it wait at the front; what it had is read again."""
        self.preempted += 1
        request.left = request.finish - round(self._progress)
        done = request.n_iterations - request.left
        held = request.own + done * request.per_iteration
        self._stop(request)
        self._requests = [entry for entry in self._requests if entry[2] is not request]
        heapify(self._requests)
        self.cache.release(request.done, held, forget=True)
        request.own, request.finish = held, 0
        request.to_read = request.text + held
        request.n_iterations = request.left  # of its second life
        request.passes = None if request.passes is None else request.passes[done:]
        request.state = _QUEUED
        request.arrived = self._env._now
        self._waiting.insert(0, request)

    def _takes(self, request: _Request) -> bool:
        """Whether there is room for a request."""
        if self._batch + len(self._reading) >= self.limits.max_sequences:
            return False
        missing = self.cache.missing(request.done, request.text, 0.0)
        return self.cache.room() >= missing + request.own or not (self._batch or self._reading)

    def _take_in(self) -> None:
        """Give places to those who wait, in the order of their arrival, while there is room."""
        while self._waiting and self._takes(self._waiting[0]):
            request = self._waiting.pop(0)
            self.waited_s += self._env._now - request.arrived
            missing = self.cache.missing(request.done, request.text, request.to_read)
            self.cache.admit(request.done, request.text, request.own, force=True)
            request.to_read = max(missing, 1.0)
            self._numbers += 1
            request.number = request.number or self._numbers
            request.state = _READING
            self._reading.append(request)

    def _start_iteration(self) -> None:
        """Begin the next iteration, with prompts if there are any to read."""
        if self._reading:
            left = max(self.limits.max_batched_tokens - self._batch, 1)
            read = depth = 0.0
            for request in self._reading:
                tokens = min(request.to_read, left - read)
                if tokens <= 0.0:
                    break
                self._chunks.append((request, tokens))
                read += tokens
                depth += tokens * max(request.text - request.to_read, 0.0)
            self._mixed = True
            self._prefill_left = self.cost.mixed(self._batch, self._context, read, depth / read)
        elif self._batch:
            self._tau = self._seconds(self._batch, self._context)
            if not self._tau > 0.0:  # time would stand still while tokens pass
                rule = f"must take more than 0 s (batch {self._batch}): check the cost model"
                raise ParameterError("iteration", self._tau, rule)
