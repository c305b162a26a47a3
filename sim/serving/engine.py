"""A serving engine in virtual time: prompts are read in chunks while others decode, and the cache is finite.

As vLLM's scheduler does it: sequences that decode come first in every iteration, what is left of its rows reads
prompts; requests are taken in first come, first served, while there is room for their prompts; when the cache is full,
the request that came last loses its place and is read again later. Iterations without prompts are counted in bulk, as
in `sim.engines.batching`, so that a long answer costs a few events.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from sim.engines.batching import BOUNDARY, DECODING, LEAVING, QUEUED, READING, RESTED_S, TRAVELLING, BatchEngine, Job
from sim.engines.device import Device
from sim.engines.protocol import Done
from sim.operations import Generate, Operation
from sim.serving.cache import TokenCache
from sim.serving.limits import ServingCost, ServingLimits
from theory.errors import ParameterError

__all__ = ["Request", "ServingEngine"]


class Request(Job):
    """A request inside a `ServingEngine`, and what that knows of it."""

    __slots__ = (
        "arrived", "began", "depth", "has_begun", "left", "new", "number", "own", "per_iteration", "text", "to_read",
    )  # fmt: skip

    def __init__(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        super().__init__(operation, n_tokens, n_prompt, context, done)
        self.per_iteration = (n_tokens - 1) / self.n_iterations if self.n_iterations > 0 else 0.0
        # What a model goes on after becomes the answer's text; what a judge or a scorer reads stays its own.
        goes_on = operation.__class__ is Generate
        self.text = context if goes_on else max(context - n_prompt, 0)
        self.own = 1.0 + max(context, n_prompt) - self.text  # before it decodes
        self.depth: float = max(context, n_prompt)  # tokens before the first that it generates
        # Of an answer that was met under way (`sim.serving.under_way`), the same request has written the first tokens.
        lived = getattr(operation.prefix, "lived", 0) if goes_on else 0  # type: ignore[attr-defined]
        self.context = context + (n_tokens - lived) / 2
        self.new: float = n_prompt
        self.to_read = 0.0
        self.left = self.began = self.n_iterations  # iterations to go: now, and when it had its place
        self.arrived = 0.0
        self.finish = -1
        self.has_begun = False  # whether it has a token
        self.number = 0


class ServingEngine(BatchEngine):
    """A model server with chunked prefills and a finite cache.

    Parameters
    ----------
    cost : seconds per iteration.
    device : the processor that it shares with others; its own if None.
    limits : rows, sequences and tokens that it holds.
    beside : as in `BatchEngine`.
    waking_s : as in `BatchEngine`.

    Attributes
    ----------
    cache : what it keeps.
    preempted : how often requests have lost their place.
    waited_s : seconds that requests have waited for a place, all together.
    """

    cost: ServingCost
    _KEPT = (*BatchEngine._KEPT, "limits")

    def __init__(
        self,
        cost: ServingCost,
        device: Device | None = None,
        *,
        limits: ServingLimits | None = None,
        beside: float = 1.0,
        waking_s: float = 0.0,
    ) -> None:
        self.limits = limits or ServingLimits()
        super().__init__(cost, device, beside=beside, waking_s=waking_s)

    def _reset(self) -> None:
        super()._reset()
        self._requests: list[tuple[int, int, Request]] = []  # heap by finish; who left stays until popped
        self._waiting: deque[Request] = deque()
        self._reading: list[Request] = []
        self._chunks: list[tuple[Request, float]] = []
        self._going: list[Request] = []
        self._growth = 0.0  # tokens that an iteration adds to the cache
        self._grown_at = 0.0
        self._numbers = 0  # of requests taken in
        self._most = self.limits.most_sequences
        self.cache = TokenCache(self.limits.cache_tokens)
        self.preempted = 0
        self.waited_s = 0.0

    def submit(self, operation: Operation, n_tokens: int, n_prompt: int, context: int, done: Done) -> None:
        """Start a request.

        Raises
        ------
        ParameterError : it does not fit into the empty cache.
        """
        request = operation.job = Request(operation, n_tokens, n_prompt, context, done)
        if request.depth + n_tokens > self.cache.capacity:
            rule = f"must hold a request of {request.depth + n_tokens} tokens: give it more, or ask for less"
            raise ParameterError("cache_tokens", self.cache.capacity, rule)
        if self._request_s > 0.0:
            self._travel(request)
        else:
            self._on_arrival(request)

    def cancel(self, operation: Operation) -> None:
        """Stop working on a request: at once if it waits, else when the running iteration ends."""
        request: Request | None = operation.job
        if request is None or request.state == LEAVING:
            return
        self.settle()
        if request.has_begun:
            n_left = request.left if request.finish < 0 else request.finish - math.floor(self._progress + BOUNDARY)
            operation.n_generated = request.generated(n_left)
        if request.state == TRAVELLING:
            request.end()
        elif request.state == QUEUED:
            self._waiting.remove(request)
            request.end()
            if self._batch and not self._is_reading:  # whoever is first now may find room
                self.plan()
        else:
            if request.state == READING:
                self._reading.remove(request)
            request.state = LEAVING
            self._going.append(request)
            self.plan()

    def written(self) -> int:
        """Return the tokens that the requests in flight have generated so far, those included that lost their place."""
        self.settle()
        now = math.floor(self._progress + BOUNDARY)
        decoding = (entry[2] for entry in self._requests if entry[2].finish == entry[0])
        waiting = (request for request in (*self._reading, *self._waiting) if request.has_begun)
        return sum(one.generated(one.finish - now) for one in decoding) + sum(
            one.generated(one.left) for one in waiting
        )

    def _changes(self) -> bool:
        return bool(self._going or (self._waiting and self._takes(self._waiting[0])))

    def _next_change(self) -> int:
        """Return the boundary at which a request ends, or the cache is too full to go on."""
        requests = self._requests
        while requests[0][2].finish != requests[0][0]:  # it has lost its place, or left
            heappop(requests)
        first = requests[0][0]
        if math.isinf(self.cache.capacity) or self._batch < 2 or self._growth <= 0.0:
            return first
        fit = math.floor((self.cache.capacity - self.cache.held) / self._growth + BOUNDARY)
        full = round(self._grown_at) + max(fit, 1)
        return min(first, max(full, math.ceil(self._progress - BOUNDARY)))

    def _on_arrival(self, request: Request) -> None:  # type: ignore[override]  # requests of its own kind
        if request.operation.cancelled:
            return
        request.state = QUEUED
        request.arrived = self._env._now
        self._waiting.append(request)
        if self._is_reading or len(self._waiting) > 1:
            return  # whoever comes next looks at the queue
        self.settle()
        if self._batch == 0:
            self._take_in()
            self._start_iteration()
            if self._settled - self._resting_since >= RESTED_S:
                self._prefill_left += self.waking_s
            if self._is_watched:
                self._tell_the_device()
        self.plan()

    def _change(self) -> Sequence[Request]:
        """End the iteration that is over, start the next, and return the requests that ended."""
        if not self._is_reading:
            self._progress = float(self._boundary)
        elif not self.limits.apart:
            self._progress = round(self._progress) + 1.0
        self._is_reading = False
        self.cache.grow(self._growth * (self._progress - self._grown_at))
        self._grown_at = self._progress
        finished, requests, now = [], self._requests, round(self._progress)
        while requests and requests[0][0] <= now:
            finish, _, request = heappop(requests)
            if request.state == DECODING and request.finish == finish:
                self._remove(request, ended=True)
                finished.append(request)
        if self._chunks:
            self._end_chunks(finished)
        for request in self._going:
            self._remove(request)
        self._going.clear()
        if not self._makes_room():
            self._take_in()
        self._start_iteration()
        if self._is_watched:
            self._tell_the_device()
        return finished

    def _end_chunks(self, finished: list[Request]) -> None:
        """Count what was read; requests that are read to their end have their first token, and decode."""
        for request, tokens in self._chunks:
            request.to_read -= tokens
            if request.state != READING or request.to_read > 0.0:
                continue
            self._reading.remove(request)
            self._note_first_token(request.operation, request.done)
            if request.left <= 0:
                self._remove(request, ended=True)
                finished.append(request)
            else:
                self._join(request)
        self._chunks = []

    def _join(self, request: Request) -> None:
        """Let a request decode from the next iteration on."""
        request.state = DECODING
        request.has_begun = True
        request.finish = round(self._progress) + request.left
        heappush(self._requests, (request.finish, request.number, request))
        self._batch += 1
        self._context += request.context
        self._growth += request.per_iteration

    def _remove(self, request: Request, *, ended: bool = False) -> None:
        """Take a request out that ends here, by itself or cancelled, and give back what it held in the cache."""
        own = self._stop(request)
        if not ended and request.to_read > request.new:  # it was to read a lost text, and has not come to its end
            self.cache.forget(request.done, request.text, own)
            request.end()
            return
        written = request.depth + own - request.own + 1.0 if ended and request.operation.__class__ is Generate else 0.0
        self.cache.release(request.done, request.text, own, written=written)
        request.end()

    def _stop(self, request: Request) -> float:
        """Take a request out of the batch, if it was there, and return the tokens that are its own."""
        if request.finish < 0:
            return request.own
        request.left = request.finish - round(self._progress)
        request.finish = -1
        self._batch -= 1
        self._context -= request.context
        self._growth -= request.per_iteration
        if self._batch == 0:
            self._requests.clear()
            self._context = self._growth = 0.0  # forget what rounding has left
        return request.own + (request.began - request.left) * request.per_iteration

    def _makes_room(self) -> bool:
        """Make room for the next iteration; say whether a request had to lose its place."""
        before = self.preempted
        while self.cache.held + self._growth > self.cache.capacity and self._batch + len(self._reading) > 1:
            decoding = (entry[2] for entry in self._requests if entry[2].finish == entry[0])
            self._preempt(max((*decoding, *self._reading), key=lambda request: request.number))
        return self.preempted > before

    def _preempt(self, request: Request) -> None:
        """Take a request's place and let it wait at the front; what it had is read again."""
        self.preempted += 1
        if request.state == READING:
            self._reading.remove(request)
        own = self._stop(request)
        self.cache.forget(request.done, request.text, own)
        request.depth += own - request.own
        if request.began != request.left:
            request.new = own - 1.0  # its last token is computed when it decodes
        request.own, request.began = own, request.left
        request.state = QUEUED
        request.arrived = self._env._now
        self._waiting.appendleft(request)

    def _takes(self, request: Request) -> bool:
        """Whether there is room for a request, and for what the next iteration adds."""
        n_placed = self._batch + len(self._reading)
        if n_placed == 0:
            return True
        needed = self.cache.needs(request.done, request.text, request.own) + request.per_iteration + self._growth
        return n_placed < self._most and self.cache.held + needed <= self.cache.capacity

    def _take_in(self) -> None:
        """Give places to those who wait, in the order of their arrival, while there is room."""
        while self._waiting and self._takes(self._waiting[0]):
            request = self._waiting.popleft()
            self.waited_s += self._env._now - request.arrived
            is_lost = request.text and self.cache.has_lost(request.done)
            request.to_read = max(request.depth, request.new) if is_lost else request.new
            self.cache.admit(request.done, request.text, request.own)
            if not request.number:
                self._numbers += 1
                request.number = self._numbers
            request.state = READING
            self._reading.append(request)

    def _start_iteration(self) -> None:
        """Begin the next iteration; prompts, if there are any to read, are cut to the rows that decoding leaves."""
        if not self._reading:
            self._go_on_decoding()
            return
        self._is_reading = True
        left, read, depths = self.limits.room(self._batch), 0.0, 0.0
        for request in self._reading:
            tokens = min(request.to_read, left - read)
            if tokens <= 0.0 < request.to_read:
                break
            self._chunks.append((request, tokens))
            read += tokens
            depths += tokens * max(request.depth - request.to_read, 0.0)
        batch, context = (0, 0.0) if self.limits.apart else (self._batch, self._context)
        self._prefill_left = self._mixed_seconds(batch, context, read, depths / read if read else 0.0)

    def _mixed_seconds(self, batch: int, context: float, read: float, depth: float) -> float:
        # Where all text is cached, one token is computed all the same: a prefill of none.
        return self.cost.mixed(batch, context, read, depth) if batch or read else self.cost.prefill(0)
