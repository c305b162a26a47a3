"""The serving engine set up so that it is a queue with an exact answer, and gives that answer.

The mean service takes 1 s throughout, so that the load of a server, rho, is its arrivals per second. The closed forms
are those of L. Kleinrock, *Queueing Systems* I and II (K1 and K2 below).

Statistical tests compare the mean of independent replications with the closed form: they allow ``Z`` standard errors of
Student's distribution, a false alarm of 1e-4 per comparison (the seeds are fixed: one that passes goes on passing), and
the bias of whole iterations, derived where it is used. Where one path can be told exactly, it is.
"""

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sim.algorithms import autoregressive
from sim.engines.costs import LinearCost
from sim.operations import Generate, Step, prompt
from sim.serving.arrivals import bursty_times
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined, ServingLimits
from sim.virtual_clock import VirtualClock

REPLICATIONS = 24
ANSWERS = 700
WARMUP = 100
"""Answers. Relaxation takes about S / (1 - sqrt(rho))^2, 38 services at 0.7: 100 arrivals leave e^-3.7 of the start."""
SEEN = 0.35
"""The error that a comparison allows is below this share of the exact value: else it could not tell much."""
Z = float(stats.t.isf(0.5e-4, REPLICATIONS - 1))
ITERATIONS = 200
"""Mean iterations of an answer where whole iterations stand for continuous service."""
STEP = 1.0 / ITERATIONS
Times = NDArray[np.floating[Any]]


class OneStep:
    """An answer of one step that decodes so many iterations after a first token that takes no time."""

    def __init__(self, iterations: int) -> None:
        self.root = prompt()
        self.iterations = iterations

    def generate(self, operation: Generate) -> Step:
        return Step(operation.prefix, operation.role, self.iterations + 1, True)


def sojourns(cost: LinearCost, limits: ServingLimits, times: Times, iterations: NDArray[np.int64]) -> Times:
    """Let answers arrive, and tell how long each takes."""
    clock = VirtualClock({"target": ServingEngine(Joined(cost, ADDED), limits=limits)}, record=False)
    answers: list[Any] = [OneStep(n) for n in iterations.tolist()]
    sessions = [
        clock.launch(autoregressive(one.root), one, at=at) for one, at in zip(answers, times.tolist(), strict=True)
    ]
    clock.run(*sessions)
    return np.array([(session.finished or 0.0) - session.started for session in sessions])


def poisson_times(rate: float, seed: int, replication: int) -> Times:
    return bursty_times(rate, 1.0, ANSWERS, seed=seed, replication=replication)


def geometric(replication: int) -> NDArray[np.int64]:
    return np.random.default_rng([7, replication]).geometric(STEP, ANSWERS)


def in_line(times: Times, services: Times, servers: int) -> Times:
    """Waits for places that are taken first come, first served (the recursion of Kiefer and Wolfowitz)."""
    free = [0.0] * servers
    waits = []
    for now, service in zip(times, services, strict=True):
        begun = max(heappop(free), now)
        heappush(free, begun + service)
        waits.append(begun - now)
    return np.array(waits)


def agrees(samples: Sequence[Any], exact: float, bias: tuple[float, float] = (0.0, 0.0)) -> None:
    """Check the mean of replications; the truth may lie between ``exact`` and both ends of the bias."""
    error = Z * float(np.std(samples, ddof=1)) / math.sqrt(len(samples))
    found = float(np.mean(samples))
    assert exact + bias[0] - error <= found <= exact + bias[1] + error, (found, exact, error)
    assert error < SEEN * exact, (error, exact)


def test_one_sequence_of_one_length_is_md1() -> None:
    """Each wait is Lindley's recursion, to the rounding, and their mean is rho / (2 (1 - rho))."""
    load, means = 0.7, []
    for r in range(REPLICATIONS):
        times, lengths = poisson_times(load, 5, r), np.full(ANSWERS, 10)
        waits = sojourns(LinearCost(base_s=0.1), ServingLimits(max_sequences=1), times, lengths) - 1.0
        assert waits == pytest.approx(in_line(times, np.ones(ANSWERS), 1), abs=1e-9)
        means.append(waits[WARMUP:].mean())
    agrees(means, load / (2.0 * (1.0 - load)))


def test_iterations_that_grow_with_the_batch_share_the_server() -> None:
    """Mean sojourn 1 / (1 - rho), whatever the distribution of the lengths (K2 4.4).

    Bias: an arrival waits for the end of the running iteration and is read in the next, so it loses at most two
    iterations of the batch it meets, on average rho / (1 - rho) sequences and itself; service so deferred delays others
    by no more than the same again.
    """
    load, cost = 0.5, LinearCost(base_s=0.0, sequence_s=STEP)
    means = [
        sojourns(cost, ServingLimits(), poisson_times(load, 8, r), geometric(r))[WARMUP:].mean()
        for r in range(REPLICATIONS)
    ]
    most = 4.0 * STEP / (1.0 - load)
    agrees(means, 1.0 / (1.0 - load), (-most, most))


def test_iterations_of_constant_time_are_servers() -> None:
    """M/M/c: each wait is that of places taken in line, their mean is Erlang C's, and so is their exponential tail.

    Bias: a place is taken at most two iterations late (the running one, and the one that reads), which adds 0 to 2
    iterations to a wait and to the service that occupies a place: the load grows by up to 2 / ITERATIONS. Geometric
    lengths vary less than exponential ones, by 1 / ITERATIONS in cv^2, and so the wait is shorter by half of that.
    """
    servers, load, t = 2, 0.5, 0.5
    means, beyond = [], []
    for r in range(REPLICATIONS):
        times, lengths = poisson_times(load * servers, 10, r), geometric(r)
        limits = ServingLimits(max_sequences=servers)
        waits = sojourns(LinearCost(base_s=STEP), limits, times, lengths) - lengths * STEP
        late = waits - in_line(times, lengths * STEP, servers)
        assert late.min() >= -1e-9
        assert late.mean() <= 2.0 * STEP / (1.0 - load)  # those who are late make others late, as load does
        means.append(waits[WARMUP:].mean())
        beyond.append((waits[WARMUP:] > t).mean())
    rate, longer = load * servers, 1.0 + 2.0 * STEP

    def waits_at_all(offered: float) -> float:
        """Erlang's second formula (K1 3.8)."""
        last = offered**servers / math.factorial(servers) / (1.0 - offered / servers)
        return last / (last + sum(offered**n / math.factorial(n) for n in range(servers)))

    def wait(service: float) -> float:
        return waits_at_all(rate * service) / (servers / service - rate)

    def tail(service: float, at: float) -> float:
        return waits_at_all(rate * service) * math.exp(-(servers / service - rate) * at)

    agrees(means, wait(1.0), (-wait(1.0) * STEP / 2.0, wait(longer) - wait(1.0) + 2.0 * STEP))
    agrees(beyond, tail(1.0, t), (-tail(1.0, t) * STEP, tail(longer, t - 2.0 * STEP) - tail(1.0, t)))


@pytest.mark.parametrize("concurrency", [1, 7, 64])
def test_a_constant_batch_is_exact(concurrency: int) -> None:
    """Answers of one length that begin together stay together: throughput N / (tokens x iteration)."""
    cost = LinearCost(base_s=0.02, sequence_s=0.001)
    limits = ServingLimits(apart=True)  # else the first one has an iteration for itself, while the others are read
    found = sojourns(cost, limits, np.zeros(concurrency), np.full(concurrency, 100))
    assert found == pytest.approx(100.0 * cost.iteration(concurrency, 0.0), rel=1e-9)
