"""The serving engine against a simulator that goes through every iteration and adds up every token that is kept.

Requests arrive, are cut, wait, lose their places, are cancelled wherever they are, and go on with a second request on
the same text, which may have been evicted meanwhile. Both must agree on who ends when, on the tokens that cancelled
requests had written, and on how often places were lost.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simpy import Environment, Event

from sim.answers.token_passes import PassedStep
from sim.engines.costs import LinearCost
from sim.operations import Generate, Operation, prompt
from sim.passes import Passes
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined, ServingLimits

COST = LinearCost(base_s=1.0, sequence_s=0.1, prefill_s=0.2, prefill_token_s=0.1, request_s=0.1)
PLACE, CANCELLED, LATER = 0.011, 0.005, 1e-5
"""Seconds beside tenths of seconds: what each answer's arrival, a cancellation and, doubled from answer to answer, each
second request add. No two sums of them agree, so no two moments coincide: who is first then is nobody's business."""


@dataclass(eq=False)
class Asked:
    """A request, and what the reference knows of it."""

    at: float
    text: int
    """Tokens of its text, the new ones included."""
    new: int
    passes: tuple[int, ...]
    is_counted_by_passes: bool
    cancelled_at: float = math.inf
    then: Asked | None = None
    """What the same answer asks after its end; its `at` is a delay."""
    owner: Asked | None = None
    number: int = 0
    done: int = 0
    """Passes behind it."""
    to_read: float = 0.0
    has_begun: bool = False
    """Whether its first token is there."""
    is_over: bool = False

    @property
    def tokens(self) -> int:
        """What it writes."""
        return 1 + sum(self.passes)

    @property
    def per_pass(self) -> float:
        """What a pass adds to the cache: their mean."""
        return sum(self.passes) / len(self.passes) if self.passes else 0.0

    @property
    def kept(self) -> float:
        """Tokens of it and its text."""
        return self.text + 1 + self.done * self.per_pass


@dataclass
class Seen:
    """What both simulators tell: by the order in which requests were made."""

    ends: dict[int, float] = field(default_factory=dict)
    cancelled: dict[int, int] = field(default_factory=dict)
    """Tokens that were written by then."""
    lost: int = 0
    peak: float = 0.0


class Reference:
    """One iteration after another."""

    def __init__(self, asked: list[Asked], limits: ServingLimits) -> None:
        self.limits, self.seen = limits, Seen()
        self.index = {id(one): i for i, one in enumerate(flat(asked))}
        self.events: list[tuple[float, int, str, Asked]] = []
        self.now, self.ends_at, self.numbers = 0.0, math.inf, 0
        self.waiting: deque[Asked] = deque()
        self.reading: list[Asked] = []
        self.decoding: list[Asked] = []
        self.cut: list[tuple[Asked, float]] = []
        self.decoders: list[Asked] = []
        self.going: list[Asked] = []
        self.idle: dict[int, float] = {}
        for one in asked:
            one.owner = one
            self.arrives(one, one.at)
        while self.events or self.ends_at < math.inf:
            if self.events and self.events[0][0] < self.ends_at:
                self.now, _, what, one = heappop(self.events)
                self.arrived(one) if what == "arrives" else self.cancel(one)
            else:
                self.now = self.ends_at
                self.boundary()

    def arrives(self, one: Asked, at: float) -> None:
        heappush(self.events, (at + COST.request_s, self.index[id(one)], "arrives", one))
        if one.cancelled_at < math.inf:
            heappush(self.events, (at + one.cancelled_at, self.index[id(one)], "is cancelled", one))

    @property
    def placed(self) -> list[Asked]:
        return self.decoding + self.reading

    @property
    def held(self) -> float:
        return sum(one.kept for one in self.placed)

    def evict(self) -> None:
        self.seen.peak = max(self.seen.peak, self.held)
        while self.idle and self.held + sum(self.idle.values()) > self.limits.cache_tokens:
            del self.idle[next(iter(self.idle))]

    def arrived(self, one: Asked) -> None:
        if not one.is_over:
            self.waiting.append(one)
            if self.ends_at == math.inf:
                self.begin()

    def cancel(self, one: Asked) -> None:
        if one.is_over:
            return
        one.is_over = True
        self.seen.cancelled[self.index[id(one)]] = 1 + sum(one.passes[: one.done]) if one.has_begun else 0
        if one in self.placed:
            self.going.append(one)
        elif one in self.waiting:
            self.waiting.remove(one)

    def leave(self, one: Asked, *, ended: bool) -> None:
        (self.decoding if one in self.decoding else self.reading).remove(one)
        if ended or one.to_read <= one.new:  # else a text that was lost has not been read to its end
            self.idle[id(one.owner)] = one.text + one.tokens if ended else one.text
        if ended:
            one.is_over = True
            self.seen.ends[self.index[id(one)]] = self.now
            if one.then is not None:
                one.then.owner = one.owner
                self.arrives(one.then, self.now + one.then.at)

    def boundary(self) -> None:
        for one in self.decoders:
            one.done += 1
        self.evict()
        for one in sorted(self.decoding, key=lambda one: one.number):
            if one.done == len(one.passes) and not one.is_over:
                self.leave(one, ended=True)
        for one, tokens in self.cut:
            one.to_read -= tokens
            if not one.is_over and one.to_read <= 0.0:
                one.has_begun = True
                self.reading.remove(one)
                self.decoding.append(one)
                if not one.passes:
                    self.leave(one, ended=True)
        for one in self.going:
            self.leave(one, ended=False)
        self.going = []
        self.begin()

    def begin(self) -> None:
        if not self.makes_room():
            while self.waiting and self.fits(self.waiting[0]):
                self.take(self.waiting.popleft())
        self.cut, self.ends_at = [], math.inf
        self.decoders = list(self.decoding) if not (self.limits.apart and self.reading) else []
        if not self.placed:
            return
        left = max(self.limits.max_batched_tokens - len(self.decoders), 1)
        for one in self.reading:
            tokens = min(one.to_read, left)
            if tokens <= 0 < one.to_read:
                break
            self.cut.append((one, tokens))
            left -= tokens
        seconds = COST.iteration(len(self.decoders), 0.0) if self.decoders else 0.0
        if self.reading:
            seconds += COST.prefill(math.ceil(sum(tokens for _, tokens in self.cut) - 1e-6))
        self.ends_at = self.now + seconds

    def growth(self) -> float:
        return sum(one.per_pass for one in self.decoding)

    def makes_room(self) -> bool:
        before = self.seen.lost
        while len(self.placed) > 1 and self.held + self.growth() > self.limits.cache_tokens:
            one = max(self.placed, key=lambda one: one.number)
            (self.decoding if one in self.decoding else self.reading).remove(one)
            self.waiting.appendleft(one)
            self.seen.lost += 1
        return self.seen.lost > before

    def fits(self, one: Asked) -> bool:
        if not self.placed:
            return True
        needed = self.held + self.growth() + one.kept + one.per_pass
        return len(self.placed) < self.limits.most_sequences and needed <= self.limits.cache_tokens

    def take(self, one: Asked) -> None:
        begins = not one.number
        if begins:
            self.numbers += 1
            one.number = self.numbers
        is_there = begins and (one.new == one.text or id(one.owner) in self.idle)
        one.to_read = one.new if is_there else one.text + one.done * one.per_pass
        self.idle.pop(id(one.owner), None)
        self.reading.append(one)
        self.evict()


def flat(asked: list[Asked]) -> list[Asked]:
    return [each for one in asked for each in (one, one.then) if each is not None]


def engine(asked: list[Asked], limits: ServingLimits) -> tuple[Seen, ServingEngine]:
    """Let the engine serve them."""
    env, serving, seen = Environment(), ServingEngine(Joined(COST, ADDED), limits=limits), Seen()
    serving.attach(env)
    index = {id(one): i for i, one in enumerate(flat(asked))}

    def live(one: Asked | None) -> Iterator[Event]:
        ended = env.event()

        def done(operation: Operation) -> None:  # of all requests of an answer, whose text it stands for
            ended.succeed()

        while one is not None:
            yield env.timeout(one.at)
            operation = Generate("target", prompt(one.text))
            operation.pending = PassedStep(prompt(1), Passes.of(one.passes)) if one.is_counted_by_passes else prompt(1)
            serving.submit(operation, one.tokens, one.new, one.text, done)
            yield ended if math.isinf(one.cancelled_at) else ended | env.timeout(one.cancelled_at)
            if not ended.triggered:
                operation.cancelled = True
                serving.cancel(operation)
                seen.cancelled[index[id(one)]] = operation.n_generated
                return
            seen.ends[index[id(one)]] = env.now
            one, ended = one.then, env.event()

    for one in asked:
        env.process(live(one))
    env.run()
    seen.lost, seen.peak = serving.preempted, serving.cache.peak
    return seen, serving


@st.composite
def requests(draw: st.DrawFn) -> list[Asked]:
    """Draw answers of one request or two."""

    def one(at: float, before: int) -> Asked:
        new = draw(st.integers(0 if before else 1, 40))
        by_passes = draw(st.booleans())
        passes = draw(st.lists(st.integers(1, 4) if by_passes else st.just(1), max_size=25))
        cancelled_at = 0.1 * draw(st.integers(0, 600)) + CANCELLED if draw(st.integers(0, 4)) >= 3 else math.inf
        return Asked(at, before + new, new, tuple(passes), by_passes, cancelled_at)

    found = []
    for place in range(draw(st.integers(1, 8) | st.just(8))):
        first = one(0.1 * draw(st.integers(0, 60)) + PLACE * place, 0)
        if draw(st.booleans()):
            first.then = one(0.1 * draw(st.integers(0, 300)) + LATER * 2**place, first.text + first.tokens)
        found.append(first)
    return found


@settings(max_examples=150, deadline=None)
@given(
    asked=requests(),
    spare=st.sampled_from([0, 5, 20, 60, 150, math.inf]),
    rows=st.sampled_from([1, 3, 10, 60]),
    most=st.integers(1, 8),
    apart=st.booleans(),
)
def test_every_iteration_one_by_one(asked: list[Asked], spare: float, rows: int, most: int, apart: bool) -> None:
    capacity = max(one.text + one.tokens for one in flat(asked)) + spare + 0.3717  # no fraction of few passes: no ties
    limits = ServingLimits(max_batched_tokens=rows, max_sequences=most, cache_tokens=capacity, apart=apart)
    found, serving = engine(asked, limits)
    expected = Reference(asked, limits).seen
    assert found.ends == pytest.approx(expected.ends, rel=1e-9)
    assert found.cancelled == expected.cancelled
    assert found.lost == expected.lost
    assert found.peak == pytest.approx(expected.peak, rel=1e-9)
    assert found.peak <= capacity
    assert serving.cache.held == pytest.approx(0.0, abs=1e-6)
    reached = [i for i in expected.ends] + [i for i in expected.cancelled]
    assert len(reached) == len(set(reached))  # each one ends once, or is cancelled
