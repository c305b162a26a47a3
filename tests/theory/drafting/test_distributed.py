"""Distributed speculation: the closed form against its own definition, Lookahead Reasoning, and the simulator."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_worlds import scripted, seconds_per_step

from sim.algorithms.lookahead_async import distributed
from sim.trial import run_answer
from theory.drafting.distributed import dsi_speedup, servers_needed
from theory.errors import ParameterError
from theory.speedup import f_async

COUNTS = st.integers(1, 8)
SHARES = st.floats(0.0, 1.0)


def run_seconds(runs: int, c: float, lookahead: int, servers: int) -> list[float]:
    """Times of runs with 0, 1, ..., ``runs`` drafts accepted, in target passes, pass by pass."""
    ends: list[float] = []
    for i in range(-(-runs // lookahead) + 1):
        free = ends[i - servers] if i >= servers else 0.0
        ends.append(max(i * lookahead * c, free) + 1.0)
    return [ends[-(-n // lookahead)] for n in range(runs + 1)]


@given(a=st.floats(0.0, 0.9), c=SHARES, lookahead=COUNTS, servers=COUNTS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_sum_over_runs_is_the_closed_form(a: float, c: float, lookahead: int, servers: int) -> None:
    """Runs of up to 400 drafts: what is left out has probability .9 ** 400 < 1e-18."""
    seconds = sum((1.0 - a) * a**n * run for n, run in enumerate(run_seconds(400, c, lookahead, servers)))
    assert float(dsi_speedup(a, c, lookahead, servers)) == pytest.approx(1.0 / ((1.0 - a) * seconds), rel=1e-9)


@given(a=SHARES, c=SHARES, servers=st.integers(1, 10**6))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_with_one_draft_between_passes_it_is_asynchronous_lookahead(a: float, c: float, servers: int) -> None:
    assert float(dsi_speedup(a, c, 1, servers)) == pytest.approx(float(f_async(a, c, servers)), rel=1e-9)


@given(a=SHARES, c=st.floats(1e-3, 1.0), lookahead=COUNTS, servers=COUNTS)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_more_servers_never_slow_it_down_and_enough_are_enough(
    a: float, c: float, lookahead: int, servers: int
) -> None:
    enough = int(servers_needed(c, lookahead))
    speedups = [float(dsi_speedup(a, c, lookahead, s)) for s in (servers, servers + 1, enough, enough + 1, 10**6)]
    assert speedups[0] <= speedups[1] * (1.0 + 1e-12)
    assert speedups[2:] == pytest.approx([speedups[2]] * 3, rel=1e-9)
    assert max(speedups) <= min(1.0 / c, 1.0 / (1.0 - a) if a < 1.0 else np.inf) * (1.0 + 1e-9)


@given(
    accepted=st.text("+-", min_size=1, max_size=24),
    lookahead=COUNTS,
    servers=COUNTS,
    c=st.sampled_from([0.125, 0.25, 0.5]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_simulated_answer_takes_the_time_of_its_runs(accepted: str, lookahead: int, servers: int, c: float) -> None:
    """Runs end at wrong drafts; an endless answer goes on after the last of them, so that its rest is left out."""
    answer = scripted(accepted + "+" * 2 * lookahead, [1] * (len(accepted) + 2 * lookahead)).answer(0)
    session = run_answer(partial(distributed, lookahead=lookahead, servers=servers), answer, seconds_per_step(c))
    expected, runs = 0.0, accepted.split("-")[:-1]
    for run in runs:
        expected += run_seconds(len(run), c, lookahead, servers)[-1]
    wrong = [i for i, letter in enumerate(accepted) if letter == "-"]
    if wrong:
        assert session.commit_times[wrong[-1]] == expected  # sums of powers of two: exact


@pytest.mark.parametrize(("name", "value"), [("lookahead", 0), ("servers", 0), ("servers", 2.5)])
def test_impossible_counts_are_refused(name: str, value: int) -> None:
    counts = {"lookahead": 2, "servers": 2, name: value}
    with pytest.raises(ParameterError, match=name):
        dsi_speedup(0.5, 0.1, **counts)
    with pytest.raises(ParameterError, match=name):
        distributed(scripted("+", [1]).answer(0).root, **counts)
