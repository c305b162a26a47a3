"""The batch engine against a reference that plays every single iteration, on random workloads."""

import pickle
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from simpy import Environment

from sim.engines.batching import RESTED_S, BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.device import Device
from sim.engines.fixed import FixedEngine
from sim.engines.protocol import Engine
from sim.operations import Operation


@dataclass
class Request:
    engine: int
    arrival: float
    n_tokens: int
    n_prompt: int
    context: int
    cancel: float = float("inf")
    end: float = float("nan")
    emitted: int = 0
    state: str = "new"


@dataclass
class Reference:
    """One engine, iteration by iteration: `work_left` seconds of processor until the running one ends."""

    cost: LinearCost
    waking_s: float
    max_batch: float = float("inf")
    queue: list[Request] = field(default_factory=list)
    batch: list[Request] = field(default_factory=list)
    prefilling: Request | None = None
    work_left: float = 0.0
    busy: bool = False
    resting_since: float = -float("inf")

    def next_iteration(self, now: float) -> None:
        """At a boundary: take out who is done or cancelled, then prefill the oldest, or decode."""
        for request in list(self.batch):
            if request.state == "cancelled":
                self.batch.remove(request)
            elif request.emitted == request.n_tokens:
                request.end, request.state = now, "done"
                self.batch.remove(request)
        self.queue = [request for request in self.queue if request.state != "cancelled"]
        rested = not self.busy and now - self.resting_since >= RESTED_S
        self.busy = bool(self.queue or self.batch)
        self.resting_since = now
        if self.queue and len(self.batch) < self.max_batch:
            self.prefilling = self.queue.pop(0)
            prefill_s = self.cost.prefill(self.prefilling.n_prompt) + rested * self.waking_s
            self.work_left = prefill_s
        elif self.batch:
            context = sum(request.context + request.n_tokens / 2 for request in self.batch)
            self.work_left = self.cost.iteration(len(self.batch), context)

    def end_iteration(self) -> None:
        if self.prefilling is not None:
            self.prefilling.emitted = 1
            self.batch.append(self.prefilling)
            self.prefilling = None
        else:
            for request in self.batch:
                request.emitted += 1


@dataclass(frozen=True)
class Machine:
    """On which device each engine runs, its time while an engine of another device works / while none does, what the
    first prefill after a rest takes more, and most sequences of a batch."""

    homes: tuple[int, ...]
    beside: tuple[float, ...]
    waking_s: float = 0.0
    max_batch: float = float("inf")

    def slowness(self, k: int, busy: list[int]) -> float:
        """Seconds that engine k takes for a second of work, with the busy ones."""
        others = any(self.homes[i] != self.homes[k] for i in busy)
        return sum(self.homes[i] == self.homes[k] for i in busy) * (self.beside[k] if others else 1.0)


SHARED = Machine((0, 0, 0), (1.0, 1.0, 1.0))
APART = Machine((0, 1, 2), (1.0, 1.0, 1.0))


def reference(costs: list[LinearCost], requests: list[Request], machine: Machine) -> None:
    """Fill in the ends of the requests."""
    engines = [Reference(cost, machine.waking_s, machine.max_batch) for cost in costs]
    outside = [(r.arrival + costs[r.engine].request_s, 0, i) for i, r in enumerate(requests)]
    outside += [(r.cancel, 1, i) for i, r in enumerate(requests) if r.cancel < float("inf")]
    outside.sort(reverse=True)
    now = 0.0
    while outside or any(engine.busy for engine in engines):
        busy = [k for k, engine in enumerate(engines) if engine.busy]
        slowness = {k: machine.slowness(k, busy) for k in busy}
        ends = [(now + engines[k].work_left * slowness[k], k) for k in busy]
        end, first = min(ends, default=(float("inf"), -1))
        then = min(end, outside[-1][0] if outside else float("inf"))
        for k in busy:
            engines[k].work_left -= (then - now) / slowness[k]
        now = then
        if end <= now:
            engines[first].end_iteration()
            engines[first].next_iteration(now)
            continue
        _, is_cancel, i = outside.pop()
        request = requests[i]
        if is_cancel and request.state != "done":
            request.state = "cancelled"
        elif not is_cancel and request.state == "new":
            engine = engines[request.engine]
            engine.queue.append(request)
            if not engine.busy:
                engine.next_iteration(now)


def simulated(costs: list[LinearCost], requests: list[Request], machine: Machine) -> list[float]:
    env, devices = Environment(), {home: Device() for home in machine.homes[: len(costs)]}
    for one, other in combinations(devices.values(), 2):
        one.join(other)
    engines = [
        BatchEngine(cost, devices[home], beside=beside, waking_s=machine.waking_s, max_batch=machine.max_batch)
        for cost, home, beside in zip(costs, machine.homes, machine.beside, strict=False)
    ]
    for engine in engines:
        engine.attach(env)
    ends = [float("nan")] * len(requests)

    def live(i: int, request: Request):  # type: ignore[no-untyped-def]
        yield env.timeout(request.arrival)
        operation = Operation("x")
        operation.started = env.now

        def done(op: Operation) -> None:
            ends[i] = op.finished = env.now

        engine = engines[request.engine]
        engine.submit(operation, request.n_tokens, request.n_prompt, request.context, done)
        if request.cancel < float("inf"):
            yield env.timeout(request.cancel - request.arrival)
            if operation.finished < 0.0:
                operation.cancelled = True
                engine.cancel(operation)
                assert 0 <= operation.n_generated < request.n_tokens

    for i, request in enumerate(requests):
        env.process(live(i, request))
    env.run()
    for engine in engines:
        assert not engine.busy
    return ends


def workload(seed: int, n_engines: int) -> tuple[list[LinearCost], list[Request]]:
    rng = np.random.default_rng(seed)
    costs = [
        LinearCost(
            base_s=rng.uniform(0.5, 1.5),
            sequence_s=rng.uniform(0.0, 0.3),
            context_s=rng.uniform(0.0, 0.01),
            prefill_s=rng.choice([0.0, rng.uniform(0.0, 2.0)]),
            prefill_token_s=rng.choice([0.0, rng.uniform(0.0, 0.1)]),
            request_s=rng.choice([0.0, rng.uniform(0.0, 1.0)]),
        )
        for _ in range(n_engines)
    ]
    requests = []
    for _ in range(rng.integers(1, 16)):
        arrival = rng.uniform(0.0, 30.0)
        cancel = arrival + rng.exponential(15.0) if rng.random() < 0.4 else float("inf")
        n_tokens, n_prompt, context = (int(x) for x in rng.integers(1, [12, 30, 300]))
        requests.append(Request(int(rng.integers(n_engines)), arrival, n_tokens, n_prompt, context, cancel))
    return costs, requests


MACHINES = st.one_of(
    st.sampled_from([SHARED, APART]),
    st.builds(
        Machine,
        st.tuples(*[st.integers(0, 2)] * 3),
        st.tuples(*[st.floats(0.8, 3.0)] * 3),
        st.floats(0.0, 3.0),
        st.sampled_from([1, 2, 3, float("inf")]),
    ),
)


@given(seed=st.integers(0, 2**32), n_engines=st.integers(1, 3), machine=MACHINES)
@settings(max_examples=200)
def test_batch_engine_plays_every_iteration_as_the_reference_does(seed: int, n_engines: int, machine: Machine) -> None:
    costs, requests = workload(seed, n_engines)
    ends = simulated(costs, requests, machine)
    reference(costs, requests, machine)
    # Both add the same times in another order: rounding only.
    np.testing.assert_allclose(ends, [r.end for r in requests], rtol=1e-9, atol=1e-9)


def test_mean_context_is_exact_for_a_request_alone() -> None:
    """A sequence counts with its mean context, exact for one alone: i tokens are cached when token i + 1 is made."""
    n, context = 9, 100
    (end,) = simulated([LinearCost(base_s=0.0, context_s=1.0)], [Request(0, 0.0, n, 0, context)], APART)
    assert end == pytest.approx(sum(context + i for i in range(1, n)), rel=1e-12)


def ends_on(engine: Engine, *requests: tuple[int, int, int], until: float | None = None) -> list[float]:
    """When requests of so many tokens, new and cached ones, end that are submitted at 0."""
    env, ends = Environment(), []
    engine.attach(env)
    for request in requests:
        engine.submit(Operation("x"), *request, lambda operation: ends.append(env.now))
    env.run(until)
    return ends


def test_an_engine_can_be_attached_again() -> None:
    """Left in the middle, it forgets what it did."""
    engine = BatchEngine(LinearCost(base_s=1.0, prefill_s=1.0))
    for _ in range(2):
        assert ends_on(engine, (4, 0, 0), until=2.5) == []
        assert engine.busy
    assert ends_on(engine, (4, 0, 0)) == [4.0]


def test_engines_travel_without_their_runs() -> None:
    device, other = Device(), Device()
    device.join(other)
    homes = ((1.0, device), (2.0, device), (3.0, other))
    engines = [BatchEngine(LinearCost(base_s=s), home, beside=1.5, waking_s=0.2) for s, home in homes]
    engines[0].attach(Environment())
    a, b, c = pickle.loads(pickle.dumps(engines))
    assert a.device is b.device is not c.device
    kept = [(one.cost.base_s, one.beside, one.waking_s) for one in (a, b, c)]
    assert kept == [(s, 1.5, 0.2) for s in (1.0, 2.0, 3.0)]
    fixed = FixedEngine(2.0)
    fixed.attach(Environment())
    assert ends_on(pickle.loads(pickle.dumps(fixed)), (1, 0, 0)) == [2.0]


def test_a_fixed_engine_ignores_its_neighbours_and_delivers_free_work_at_once() -> None:
    costly = FixedEngine(lambda n, p, c: n + 0.1 * p + 0.01 * c)
    assert ends_on(costly, *[(2, 3, 4)] * 3) == pytest.approx([2.34] * 3)
    free, ended = FixedEngine(0.0), []
    free.attach(Environment())
    free.submit(Operation("x"), 2, 3, 4, ended.append)
    assert len(ended) == 1


test_bad_engines = refused(
    lambda call: call(),
    (lambda: FixedEngine(-1.0), "seconds"),
    (lambda: LinearCost(base_s=float("nan")), "base_s"),
    (lambda: BatchEngine(LinearCost(base_s=1.0), waking_s=-1.0), "waking_s"),
    (lambda: BatchEngine(LinearCost(base_s=1.0), max_batch=0), r"max_batch=0 must be >= 1"),
    (lambda: ends_on(BatchEngine(LinearCost(base_s=0.0)), (3, 1, 1)), "must take more than 0 s"),
)
