"""Loads in replications: standard errors that are right, windows that go on until they are small, Little's law."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from random_loads import random_load

from sim.configuration import Configuration
from sim.estimate import Estimate
from sim.random_streams import stream
from sim.serving.load_run import (
    CHOICE,
    REPORT,
    LittleError,
    LoadRun,
    Window,
    check_little,
    gain,
    quotient,
    throughput,
    until_known,
)

PLAIN = Configuration(method="autoregressive")
LOAD = replace(
    random_load(0),
    configuration=Configuration.parse("eagle k2=4"),
    concurrency=16,
    prompt=2000,
    answer=150,
    spread=0.8,
    cache=math.inf,
    chunked=True,
    accepted=0.6,
)


def run(configuration: Configuration, first: int = CHOICE, lives: float = 1.0) -> LoadRun:
    return LoadRun(LOAD.trial(configuration), 16, Window.of_lives(16, LOAD.answer, lives=lives, answers=16), first)


def drawn(seed: int, spread: float, mean: float = 100.0) -> NDArray[np.float64]:
    return mean * np.exp(spread * stream(seed, "throughputs", 0).standard_normal(64))


def test_replications_go_on_until_the_standard_error_is_small() -> None:
    for spread, precision in ((0.01, 0.02), (0.05, 0.01), (0.2, 0.03)):
        estimate = until_known(throughput(lambda n, s=spread: drawn(1, s)[:n]), precision=precision)[0]
        assert estimate.relative_half_width <= 1.96 * precision or estimate.n == 64
        fewer = until_known(throughput(lambda n, s=spread: drawn(1, s)[:n]), precision=2.0 * precision)[0]
        assert fewer.n <= estimate.n


def test_the_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    """Replications stop when they look precise, which costs some coverage: 92 of 100 at least (it sees 94)."""
    covered = sum(
        until_known(throughput(lambda n, i=i: drawn(i, 0.05)[:n]), precision=0.02)[0].contains(
            100.0 * math.exp(-(0.05**2) / 2)
        )
        for i in range(600)
    )
    assert covered >= 0.92 * 600


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


def test_long_windows_and_many_short_ones_deliver_the_same() -> None:
    short = throughput(run(LOAD.configuration).throughputs)(24)
    long = throughput(run(LOAD.configuration, lives=8.0).throughputs)(4)
    assert abs(short.value - long.value) < 4.0 * math.hypot(short.stderr, long.stderr)


def test_a_load_that_breaks_littles_law_is_an_error_that_names_it() -> None:
    loop = run(PLAIN, lives=8.0)
    load = loop.run(4)[0]
    right = throughput(loop.throughputs)(4)
    check_little("plain decoding", 16, right, load)
    for factor in (0.8, 1.87):  # the latter was seen when tokens counted as their answers ended
        wrong = _scaled(right, factor)
        with pytest.raises(LittleError, match=r"plain decoding, 16 at once: .*not 16 .*Little's law"):
            check_little("plain decoding, 16 at once", 16, wrong, load)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return replace(estimate, value=factor * estimate.value, stderr=factor * estimate.stderr)
