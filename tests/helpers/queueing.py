r"""Queues with exact answers: what a server under load must reproduce where it is one of them.

Rates are per second, times in seconds; rho = rate x mean service / servers must be below 1. Sources: L. Kleinrock,
*Queueing Systems* I (1975) and II (1976), here K1 and K2; A. K. Erlang's paper of 1917; C. D. Crommelin, *P. O. Elec.
Eng. J.* 25 (1932); Kendall's notation throughout. `test_queueing_forms` checks them.
"""

from __future__ import annotations

import math

from flint import arb, ctx


def mm1_ps_sojourn(rate: float, service_s: float) -> float:
    r"""Mean seconds in an M/M/1 queue that shares its server equally: S / (1 - rho); holds for M/G/1 too (K2 4.4)."""
    return mm1_ps_sojourn_of(service_s, rate, service_s)


def mm1_ps_sojourn_of(size_s: float, rate: float, service_s: float) -> float:
    r"""Mean seconds there of a job that takes ``size_s`` alone: x / (1 - rho), the same stretch for all (K2 4.4)."""
    return size_s / (1.0 - rate * service_s)


def mg1_wait(rate: float, service_s: float, cv: float) -> float:
    r"""Mean wait of an M/G/1 queue, first come first served: rho S (1 + cv^2) / (2 (1 - rho)).

    Pollaczek's and Khinchine's formula (K1 5.6); ``cv`` is the standard deviation of the service / its mean.
    """
    load = rate * service_s
    return load * service_s * (1.0 + cv * cv) / (2.0 * (1.0 - load))


def md1_wait(rate: float, service_s: float) -> float:
    r"""Mean wait of an M/D/1 queue, where all take the same time: rho S / (2 (1 - rho))."""
    return mg1_wait(rate, service_s, 0.0)


def md1_wait_cdf(wait_s: float, rate: float, service_s: float) -> float:
    r"""Probability that an M/D/1 queue lets one wait at most ``wait_s`` (Erlang 1917, Crommelin 1932).

    .. math:: P(W \le t) = (1-\rho) \sum_{j=0}^{\lfloor t/S \rfloor} \frac{(-x_j)^j}{j!} e^{x_j},\quad
              x_j = \lambda (t - jS)

    The terms alternate and grow, so that floats would cancel: they are summed in ball arithmetic, whose precision
    doubles until the last digit stands.
    """
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
    """
    found = 1.0
    for c in range(1, servers + 1):
        found = offered * found / (c + offered * found)
    return found


def erlang_c(servers: int, offered: float) -> float:
    r"""Probability of having to wait for one of ``servers``: Erlang's second formula (1917; K1 3.8).

    C = B / (1 - rho (1 - B)), rho = ``offered`` / ``servers`` < 1.
    """
    busy = erlang_b(servers, offered)
    return busy / (1.0 - offered / servers * (1.0 - busy))


def mmc_wait(rate: float, service_s: float, servers: int) -> float:
    r"""Mean wait of an M/M/c queue: C S / (c (1 - rho)) (K1 3.8)."""
    return erlang_c(servers, rate * service_s) * service_s / (servers - rate * service_s)


def machine_repair_throughput(customers: int, think_s: float, service_s: float, servers: int = 1) -> float:
    r"""Jobs per second of a closed queue: ``customers`` think, then wait for one of ``servers`` (exponential; K1 3.10).

    With p_n proportional to N! / (N-n)! / prod_{i<=n} min(i, c) x (S/Z)^n the throughput is sum p_n min(n, c) / S. It
    is the same for any distribution of the thinking times of mean Z (Baskett et al., *J. ACM* 22, 1975).
    """
    logs = [0.0]  # in logarithms: the weights of many customers overflow
    for n in range(1, customers + 1):
        logs.append(logs[-1] + math.log((customers - n + 1) * service_s / (think_s * min(n, servers))))
    top = max(logs)
    weights = [math.exp(value - top) for value in logs]
    return math.fsum(w * min(n, servers) for n, w in enumerate(weights)) / (service_s * math.fsum(weights))


def constant_batch_throughput(concurrency: int, iteration_s: float, answer_tokens: float) -> float:
    r"""Answers per second of an engine whose batch is constant: N / (tokens x iteration), Little's law."""
    return concurrency / (answer_tokens * iteration_s)
