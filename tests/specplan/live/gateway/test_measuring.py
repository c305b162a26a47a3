"""Closed loops in virtual time: the gateway never loses more than it says, and runs what gains.

A planted engine whose passes all answers share; drafts make them longer for everyone (`virtual_gateways`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from virtual_gateways import SPECULATING, STREAMED, ClosedLoop, Engine

from specplan.live.comparing.comparison import Comparison, Verdict
from specplan.live.gateway.plans import PLAIN

CLIENTS = (1, 4, 8)
DRAFTS_S = {1: 0.003, 4: 0.0012, 8: 0.0008}
GOOD = {n: Engine(tokens=1.6, drafts_s=seconds) for n, seconds in DRAFTS_S.items()}
"""Gains 1.3 to 1.4."""
BAD = {n: replace(engine, drafts_s=10.0 * engine.drafts_s) for n, engine in GOOD.items()}
"""The same with a draft that is ten times as slow: 0.49 to 0.66."""
SLOW = replace(GOOD[4], pass_s=2 * GOOD[4].pass_s, sequence_s=2 * GOOD[4].sequence_s, drafts_s=2 * GOOD[4].drafts_s)
NEVER_BELOW = 0.97


def always(engine: Engine) -> Callable[[float], Engine]:
    return lambda now: engine


@cache
def plain_speed(n: int, engine: Engine, **more: int) -> float:
    """Tokens per second of plain decoding."""
    return ClosedLoop(n, always(engine), seed=9, policy=PLAIN, **more).run(60 * n).speed()


def comparison(loop: ClosedLoop) -> Comparison:
    measured = loop.control.measured
    assert measured is not None
    (only,) = measured.comparisons.values()
    return only


def test_a_good_plan_is_on_after_trials_and_a_bad_one_is_off() -> None:
    good = ClosedLoop(4, always(GOOD[4]), tokens=120, step=12).run(150)
    assert comparison(good).verdict is Verdict.GAINS
    assert good.said[0].startswith(
        "at 4 in flight lr-sync k1=2 gains and is on; tokens per second over plain decoding 1."
    )
    bad = ClosedLoop(4, always(BAD[4]), tokens=120, step=12).run(250)
    assert comparison(bad).verdict is not Verdict.GAINS
    plain = plain_speed(4, BAD[4], tokens=120, step=12)
    assert bad.speed() >= 0.97 * plain
    assert "pauses: it lost what trials may lose" in bad.said[0]


def test_what_the_first_change_ever_costs_eight_clients_does_not_end_the_first_trial() -> None:
    """Two answers' work, of the four that may be lost, before a token is written."""
    engine = Engine(pass_s=0.008, sequence_s=0.00025, tokens=2.2, drafts_s=0.0003, switch_s=0.16, cold_s=0.12)
    assert engine.gain(8) > 1.6
    loop = ClosedLoop(8, always(engine), tokens=106, step=10, candidate=STREAMED).run(160)
    assert "gains and is on" in loop.said[0]
    assert loop.speed() > 1.3 * plain_speed(8, engine, tokens=106, step=10)


@pytest.mark.slow
@pytest.mark.parametrize("n", CLIENTS)
def test_where_the_plan_is_good_nearly_all_of_its_gain_is_had(n: int) -> None:
    loop = ClosedLoop(n, always(GOOD[n]), seed=n).run(1600)
    plain = plain_speed(n, GOOD[n])
    best = ClosedLoop(n, always(GOOD[n]), seed=9, policy=SPECULATING).run(60 * n).speed() / plain
    assert best > 1.2
    assert loop.speed() / plain - 1.0 >= 0.9 * (best - 1.0)
    assert loop.worst(lambda moment: plain) >= NEVER_BELOW
    found = comparison(loop)
    assert found.verdict is Verdict.GAINS
    assert found.tokens_per_second.low < best < found.tokens_per_second.high
    assert found.tokens_per_second.value == pytest.approx(best, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("n", CLIENTS)
@pytest.mark.parametrize("slower", [1.0, 0.6, 20.0])
def test_where_the_plan_is_bad_next_to_nothing_is_lost(n: int, slower: float) -> None:
    """Drafts that are ten, six or two hundred times as slow as they should be."""
    engine = replace(BAD[n], drafts_s=slower * BAD[n].drafts_s)
    assert engine.gain(n) < 0.95
    loop, plain = ClosedLoop(n, always(engine), seed=n).run(1200), plain_speed(n, engine)
    assert loop.worst(lambda moment: plain) >= NEVER_BELOW
    assert loop.speed() >= 0.98 * plain
    assert comparison(loop).verdict is not Verdict.GAINS


@pytest.mark.slow
@pytest.mark.parametrize("n", CLIENTS)
def test_workers_that_know_a_pass_late_what_is_decided_lose_nothing_by_it(n: int) -> None:
    for engine, verdicts in ((GOOD[n], {Verdict.GAINS}), (BAD[n], {Verdict.UNKNOWN, Verdict.LOSES})):
        plain = plain_speed(n, engine)
        at_once, late = (ClosedLoop(n, always(engine), seed=n, late=late).run(1200) for late in (False, True))
        assert comparison(late).verdict in verdicts
        assert late.speed() == pytest.approx(at_once.speed(), abs=0.005 * plain)
        assert late.worst(lambda moment, plain=plain: plain) >= NEVER_BELOW


@pytest.mark.slow
@pytest.mark.parametrize("n", CLIENTS)
def test_a_draft_that_slows_down_in_the_middle_is_left(n: int) -> None:
    plain = plain_speed(n, GOOD[n])
    middle = 500 * 240 / plain
    loop = ClosedLoop(n, lambda now: GOOD[n] if now < middle else BAD[n], seed=n).run(1500)
    assert loop.speed(0.0, middle) > 1.15 * plain
    assert loop.speed(middle) >= 0.975 * plain
    assert loop.worst(lambda moment: plain) >= NEVER_BELOW
    assert comparison(loop).verdict is not Verdict.GAINS
    assert sum("gains and is on" in line for line in loop.said) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(BAD[4], GOOD[4]), (GOOD[4], SLOW)], ids=["recovers", "slows"])
def test_what_gains_after_a_change_of_the_engine_is_on(before: Engine, after: Engine) -> None:
    plain, then = plain_speed(4, before), plain_speed(4, after)
    middle = 400 * 240 / plain
    loop = ClosedLoop(4, lambda now: before if now < middle else after).run(2000)
    assert comparison(loop).verdict is Verdict.GAINS
    assert loop.worst(lambda moment: min(plain, then)) >= NEVER_BELOW
    assert loop.speed(loop.now - 100.0) > 1.2 * then


@pytest.mark.slow
def test_each_load_is_measured_by_itself() -> None:
    """What gains with one answer at a time loses with eight."""
    engine = Engine(tokens=1.6, drafts_s=0.004)
    assert engine.gain(1) > 1.3
    assert engine.gain(8) < 0.8
    loop = ClosedLoop(8, always(engine)).run(800)
    loop.shrink(1)
    loop.run(1100)
    measured = loop.control.measured
    assert measured is not None
    assert measured.comparisons[8].verdict is not Verdict.GAINS
    assert measured.comparisons[1].verdict is Verdict.GAINS
    state = {one["load"]: one for one in measured.state()}
    assert state[1]["verdict"] == "gains"
    assert state[1]["tokens_per_second"]["low"] > 1.0
