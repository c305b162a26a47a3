"""Loads in replications: standard errors that are right, windows that go on until they are small, Little's law."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from random_loads import METHODS, random_load

from sim.configuration import PLAIN, Configuration
from sim.gaps.worlds import World, behaviour_of, engines_of
from sim.random_streams import stream
from sim.serving.arrivals import bursty_times
from sim.serving.load_run import (
    CHOICE,
    REPORT,
    ArrivalRun,
    LittleError,
    LoadRun,
    Window,
    check_little,
    gain,
    quotient,
    sooner,
    throughput,
    until_known,
)
from sim.trial import Trial

LOAD = replace(
    random_load(0),
    configuration=Configuration.parse("eagle k2=4"),
    concurrency=16,
    prompt=2000,
    answer=150,
    spread=0.8,
    cache=math.inf,
    apart=False,
    accepted=0.6,
)


def run(configuration: Configuration, first: int = CHOICE, lives: float = 1.0) -> LoadRun:
    return LoadRun(LOAD.trial(configuration), 16, Window.of_lives(16, LOAD.answer, lives=lives, answers=16), first)


def drawn(seed: int, spread: float, n: int = 64) -> NDArray[np.float64]:
    return 100.0 * np.exp(spread * stream(seed, "throughputs", 0).standard_normal(64))[:n]


@pytest.mark.parametrize(("spread", "precision"), [(0.01, 0.02), (0.05, 0.01), (0.2, 0.03)])
def test_replications_go_on_until_the_standard_error_is_small(spread: float, precision: float) -> None:
    known = throughput(lambda n: drawn(1, spread, n))
    fine, coarse = (until_known(known, precision=times * precision)[0] for times in (1.0, 2.0))
    assert fine.relative_half_width <= 1.96 * precision or fine.n == 64
    assert coarse.n <= fine.n


def test_the_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    """Replications stop when they look precise, which costs some coverage: 92 of 100 at least (it sees 94)."""
    estimates = [until_known(throughput(lambda n, i=i: drawn(i, 0.05, n)), precision=0.02)[0] for i in range(600)]
    mean = 100.0 * math.exp(-(0.05**2) / 2)
    assert sum(one.contains(mean) for one in estimates) >= 0.92 * 600


def test_pairs_on_the_same_answers_know_a_gain_better_than_their_parts() -> None:
    own, plain = run(LOAD.configuration), run(PLAIN)
    paired = gain(own.throughputs, plain.throughputs)(24)
    apart = quotient(throughput(own.throughputs)(24), throughput(plain.throughputs)(24))
    assert paired.value == pytest.approx(apart.value, rel=1e-9)
    assert paired.stderr < apart.stderr


def test_what_is_reported_comes_from_other_answers_than_the_choice() -> None:
    chosen, reported = run(PLAIN).throughputs(8), run(PLAIN, REPORT).throughputs(8)
    assert not set(chosen) & set(reported)
    error = math.hypot(chosen.std(ddof=1), reported.std(ddof=1)) / 8**0.5
    assert abs(chosen.mean() - reported.mean()) < 5.0 * error


def check_windows(short: LoadRun, long: LoadRun, resolution: float, n: int = 6) -> None:
    """Both deliver the same up to chance, and chance is finer than a resolution."""
    few, many = throughput(short.throughputs)(n), throughput(long.throughputs)(4)
    error = math.hypot(few.stderr / few.value, many.stderr / many.value)
    assert 4.0 * error < resolution
    assert abs(few.value / many.value - 1.0) < 4.0 * error + 0.01


def test_long_windows_and_many_short_ones_deliver_the_same() -> None:
    check_windows(run(LOAD.configuration), run(LOAD.configuration, lives=8.0), 0.15, n=24)


def test_answers_that_begin_a_round_together_are_not_counted_in_step() -> None:
    """Nearly all of 8 steps are accepted: a burst is more than the tokens of a window, which read 3.5 for 1.8."""
    world = World(alpha1=0.97, c1=0.03, judge=0.05, sequence=0.0122, cv=1.2, steps=100, ends=True)
    configuration = Configuration(method="lr-async", k1=8)
    trial = Trial.of(configuration.algorithm(), behaviour_of(world, 0), engines_of(world))
    windows = (Window.of_steps(32), Window(tokens=51_200, warmup=25_600))
    short, long = (LoadRun(trial, 32, window) for window in windows)
    check_windows(short, long, 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n in range(len(METHODS)) if not random_load(n).is_whole])
def test_windows_of_steps_deliver_what_those_of_lives_do(number: int) -> None:
    load = random_load(number)
    short = LoadRun(load.trial(load.configuration), load.concurrency, Window.of_steps(load.concurrency))
    check_windows(short, load.run(lives=4.0), 0.25)


def arrivals(configuration: Configuration) -> ArrivalRun:
    return ArrivalRun(LOAD.trial(configuration), lambda i: bursty_times(0.5, 1.0, 40, replication=i).tolist(), warmup=8)


def test_arrivals_are_replicated_until_the_gain_is_known_and_a_trace_is_met_once() -> None:
    own, plain = arrivals(LOAD.configuration), arrivals(PLAIN)
    estimate = sooner(own, plain, precision=0.03)
    assert estimate.relative_half_width <= 1.96 * 0.03 or estimate.n == own.most
    assert estimate.n == len(own.loads) == len(plain.loads) >= 4
    moments = bursty_times(0.5, 1.0, 160).tolist()
    trace = [ArrivalRun(LOAD.trial(one), lambda _: moments, warmup=8, most=1) for one in (LOAD.configuration, PLAIN)]
    met = sooner(*trace, precision=0.001)
    assert [len(run.loads) for run in trace] == [1, 1]
    assert abs(met.value - estimate.value) < 4.0 * math.hypot(met.stderr, estimate.stderr)
    # Each replication has moments and answers of its own, without the warm-up.
    first, second = plain.run(2)
    assert len(first.answers) == len(second.answers) == 32
    assert {answer.arrived_s for answer in first.answers}.isdisjoint(answer.arrived_s for answer in second.answers)
    assert [answer.tokens for answer in first.answers] != [answer.tokens for answer in second.answers]


def test_a_load_that_breaks_littles_law_is_an_error_that_names_it() -> None:
    loop = run(PLAIN, lives=8.0)
    load, right = loop.run(4)[0], throughput(loop.throughputs)(4)
    check_little("plain decoding", 16, right, load)
    for factor in (0.8, 1.87):  # the latter was seen when tokens counted as their answers ended
        wrong = replace(right, value=factor * right.value, stderr=factor * right.stderr)
        with pytest.raises(LittleError, match=r"plain decoding, 16 at once: .*not 16 .*Little's law"):
            check_little("plain decoding, 16 at once", 16, wrong, load)
