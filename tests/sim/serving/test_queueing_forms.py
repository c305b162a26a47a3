"""The closed forms of queues against 50 digits, exact fractions, and other ways to the same number."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
import queueing as q
from hypothesis import given, settings
from hypothesis import strategies as st

LOADS = st.floats(0.01, 0.98)
SERVERS = st.integers(1, 60)


@given(SERVERS, st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50))
def test_erlang_c_is_its_definition(servers: int, load: Fraction) -> None:
    """a^c / c! / (1 - rho) over itself and the terms below c."""
    offered = load * servers
    last = offered**servers / math.factorial(servers) / (1 - load)
    found = last / (last + sum(offered**n / math.factorial(n) for n in range(servers)))
    assert q.erlang_c(servers, float(offered)) == pytest.approx(float(found), rel=1e-12)


def crommelin(t: float, rate: float, service: float) -> mpmath.mpf:
    """The distribution of the wait in an M/D/1 queue at 200 digits, as it stands in the books."""
    with mpmath.workdps(200):
        rate, service, t = mpmath.mpf(rate), mpmath.mpf(service), mpmath.mpf(t)
        terms = []
        for j in range(int(mpmath.floor(t / service)) + 1):
            x = rate * (t - j * service)
            terms.append((-x) ** j / mpmath.factorial(j) * mpmath.exp(x))
        return (1 - rate * service) * mpmath.fsum(terms)


@settings(max_examples=50)
@given(LOADS, st.floats(0.0, 60.0))
def test_the_wait_of_md1_to_all_digits(load: float, t: float) -> None:
    assert q.md1_wait_cdf(t, load, 1.0) == pytest.approx(float(crommelin(t, load, 1.0)), abs=1e-15)


@given(st.integers(1, 30), st.fractions(Fraction(1, 20), 20, max_denominator=20), st.integers(1, 5))
def test_machine_repair_is_its_balance_equations(customers: int, ratio: Fraction, servers: int) -> None:
    """Solved as fractions: the flow up from n, (N - n) / Z, is the flow down from n + 1, min(n + 1, c) / S."""
    weights = [Fraction(1)]
    for n in range(customers):
        weights.append(weights[-1] * (customers - n) * ratio / min(n + 1, servers))
    found = sum(w * min(n, servers) for n, w in enumerate(weights)) / sum(weights) / ratio
    assert q.machine_repair_throughput(customers, 1.0, float(ratio), servers) == pytest.approx(float(found), rel=1e-12)
