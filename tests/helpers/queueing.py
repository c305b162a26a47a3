r"""Queues with exact answers: what a server under load must reproduce where it is one of them.

Rates are per second, times in seconds; ``load`` is the share of its capacity that a server needs, rho = rate x mean
service / servers, and must be below 1. Sources: L. Kleinrock, *Queueing Systems* I (1975) and II (1976), here K1 and
K2; A. K. Erlang's paper of 1917; C. D. Crommelin, *P. O. Elec. Eng. J.* 25 (1932); Kendall's notation throughout.
"""

from __future__ import annotations

import math

from theory.errors import ParameterError

__all__ = [
    "constant_batch_throughput",
    "erlang_b",
    "erlang_c",
    "machine_repair_throughput",
    "md1_wait",
    "md1_wait_cdf",
    "mg1_wait",
    "mm1_ps_sojourn",
    "mm1_ps_sojourn_of",
    "mmc_wait",
]


def mm1_ps_sojourn(rate: float, service_s: float) -> float:
    r"""Mean seconds in an M/M/1 queue that shares its server equally: S / (1 - rho); holds for M/G/1 too (K2 4.4).

    >>> mm1_ps_sojourn(0.5, 1.0)
    2.0
    """
    return mm1_ps_sojourn_of(service_s, rate, service_s)


def mm1_ps_sojourn_of(size_s: float, rate: float, service_s: float) -> float:
    r"""Mean seconds there of a job that takes ``size_s`` alone: x / (1 - rho), the same stretch for all (K2 4.4).

    >>> mm1_ps_sojourn_of(3.0, 0.5, 1.0)
    6.0
    """
    _positive(size_s=size_s)
    return size_s / (1.0 - _load(rate, service_s, 1))


def mg1_wait(rate: float, service_s: float, cv: float) -> float:
    r"""Mean wait of an M/G/1 queue, first come first served: rho S (1 + cv^2) / (2 (1 - rho)).

    Pollaczek's and Khinchine's formula (K1 5.6); ``cv`` is the standard deviation of the service / its mean.

    >>> mg1_wait(0.5, 1.0, 1.0)
    1.0
    """
    if not (math.isfinite(cv) and cv >= 0.0):
        raise ParameterError("cv", cv, "must be finite and >= 0")
    load = _load(rate, service_s, 1)
    return load * service_s * (1.0 + cv * cv) / (2.0 * (1.0 - load))


def md1_wait(rate: float, service_s: float) -> float:
    r"""Mean wait of an M/D/1 queue, where all take the same time: rho S / (2 (1 - rho)).

    >>> md1_wait(0.5, 1.0)
    0.5
    """
    return mg1_wait(rate, service_s, 0.0)


def md1_wait_cdf(wait_s: float, rate: float, service_s: float) -> float:
    r"""Probability that an M/D/1 queue lets one wait at most ``wait_s`` (Erlang 1917, Crommelin 1932).

    .. math:: P(W \le t) = (1-\rho) \sum_{j=0}^{\lfloor t/S \rfloor} \frac{(-x_j)^j}{j!} e^{x_j},\quad
              x_j = \lambda (t - jS)

    The terms alternate and grow, so that floats would cancel: they are summed in ball arithmetic, whose precision
    doubles until the last digit stands.

    >>> md1_wait_cdf(0.0, 0.5, 1.0)
    0.5
    """
    if not (math.isfinite(wait_s) and wait_s >= 0.0):
        raise ParameterError("wait_s", wait_s, "must be finite and >= 0")
    _load(rate, service_s, 1)
    from flint import arb, ctx

    terms, before = math.floor(wait_s / service_s), ctx.prec
    try:
        ctx.prec = 128
        while True:
            total = arb(0)
            for j in range(terms + 1):
                x = arb(rate) * (arb(wait_s) - j * arb(service_s))
                total += (-x) ** j / arb(j).fac() * x.exp()
            found = (1 - arb(rate) * arb(service_s)) * total
            if float(found.rad()) <= 1e-17:
                return min(max(float(found), 0.0), 1.0)
            ctx.prec *= 2
    finally:
        ctx.prec = before


def erlang_b(servers: int, offered: float) -> float:
    r"""Probability that all of ``servers`` are busy where nobody waits: Erlang's first formula (1917; K1 3.7).

    B(0) = 1, B(c) = a B(c-1) / (c + a B(c-1)), with a = ``offered`` = rate x mean service, >= 0.

    >>> erlang_b(1, 1.0), erlang_b(2, 1.0)
    (0.5, 0.2)
    """
    _servers(servers)
    if not (math.isfinite(offered) and offered >= 0.0):
        raise ParameterError("offered", offered, "must be finite and >= 0")
    found = 1.0
    for c in range(1, servers + 1):
        found = offered * found / (c + offered * found)
    return found


def erlang_c(servers: int, offered: float) -> float:
    r"""Probability of having to wait for one of ``servers``: Erlang's second formula (1917; K1 3.8).

    C = B / (1 - rho (1 - B)), rho = ``offered`` / ``servers`` < 1.

    >>> erlang_c(1, 0.5)
    0.5
    """
    busy = erlang_b(servers, offered)
    load = offered / servers
    if not load < 1.0:
        raise ParameterError("offered", offered, f"must be below the {servers} servers: else the queue grows")
    return busy / (1.0 - load * (1.0 - busy))


def mmc_wait(rate: float, service_s: float, servers: int) -> float:
    r"""Mean wait of an M/M/c queue: C S / (c (1 - rho)) (K1 3.8).

    >>> mmc_wait(0.5, 1.0, 1)
    1.0
    """
    _servers(servers)
    load = _load(rate, service_s, servers)
    return erlang_c(servers, rate * service_s) * service_s / (servers * (1.0 - load))


def machine_repair_throughput(customers: int, think_s: float, service_s: float, servers: int = 1) -> float:
    r"""Jobs per second of a closed queue: ``customers`` think, then wait for one of ``servers`` (exponential; K1 3.10).

    With p_n proportional to N! / (N-n)! / prod_{i<=n} min(i, c) x (S/Z)^n the throughput is sum p_n min(n, c) / S. It
    is the same for any distribution of the thinking times of mean Z (Baskett et al., *J. ACM* 22, 1975).

    >>> machine_repair_throughput(1, 3.0, 1.0)
    0.25
    """
    _servers(customers, "customers")
    _servers(servers)
    _positive(think_s=think_s, service_s=service_s)
    logs = [0.0]  # in logarithms: the weights of many customers overflow
    for n in range(1, customers + 1):
        logs.append(logs[-1] + math.log((customers - n + 1) * service_s / (think_s * min(n, servers))))
    top = max(logs)
    weights = [math.exp(value - top) for value in logs]
    return math.fsum(w * min(n, servers) for n, w in enumerate(weights)) / (service_s * math.fsum(weights))


def constant_batch_throughput(
    concurrency: int, iteration_s: float, answer_tokens: float, idle_s: float = 0.0, per_iteration: float = 1.0
) -> float:
    r"""Answers per second of one engine with a constant batch: N / (idle + tokens x iteration / per_iteration).

    Exact in a closed loop whose answers are always in the batch; it is Little's law, N = X R.

    Parameters
    ----------
    concurrency : answers in flight, >= 1.
    iteration_s : seconds of an iteration of that batch, > 0.
    answer_tokens : mean tokens that an answer decodes, > 0.
    idle_s : seconds of an answer outside the batch, >= 0, which must occupy no engine.
    per_iteration : tokens that an iteration gives a sequence, >= 1.

    >>> constant_batch_throughput(8, 0.02, 100.0)
    4.0
    """
    _servers(concurrency, "concurrency")
    _positive(iteration_s=iteration_s, answer_tokens=answer_tokens, per_iteration=per_iteration)
    if not (math.isfinite(idle_s) and idle_s >= 0.0):
        raise ParameterError("idle_s", idle_s, "must be finite and >= 0")
    return concurrency / (idle_s + answer_tokens * iteration_s / per_iteration)


def _load(rate: float, service_s: float, servers: int) -> float:
    _positive(rate=rate, service_s=service_s)
    load = rate * service_s / servers
    if not load < 1.0:
        raise ParameterError("rate", rate, f"must be below {servers / service_s:g} per second: else the queue grows")
    return load


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0.0):
            raise ParameterError(name, value, "must be finite and > 0")


def _servers(value: int, name: str = "servers") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(name, value, "must be an integer >= 1")
