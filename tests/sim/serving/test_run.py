"""Answers that come and go: windows, what users see, and what a server delivers."""

import gc
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from refusals import refused
from sim_worlds import batch_engines, drawn_answers

from sim.algorithms.autoregressive import autoregressive
from sim.answers.drawn import DrawnAnswer
from sim.configuration import Configuration
from sim.engines.costs import LinearCost
from sim.engines.fixed import FixedEngine, PerToken
from sim.operations import Step
from sim.roles import DRAFT, TARGET
from sim.serving.answers import ServedAnswer, ServedLoad
from sim.serving.arrivals import bursty_times
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined
from sim.serving.run import OverloadError, arriving, closed_loop
from sim.trial import Trial

TOKENS, PREFILL, ITERATION = 50, 0.3, 0.02
DECODING = (TOKENS - 1) * ITERATION
COST = Joined(LinearCost(base_s=ITERATION, prefill_s=PREFILL), ADDED)


def trial() -> Trial:
    behaviour = drawn_answers(TOKENS, alpha=0.0, steps=1, prompt_tokens=20)
    return Trial.of(autoregressive, behaviour, {TARGET: ServingEngine(COST)}, meets="plain")


def test_one_answer_after_the_other_is_seen_as_it_is() -> None:
    load = closed_loop(trial(), concurrency=1, tokens=4 * TOKENS, warmup_tokens=TOKENS)
    life = PREFILL + DECODING
    assert [(one.ttft_s, one.tpot_s) for one in load.answers] == [pytest.approx((PREFILL, ITERATION))] * 3
    assert (load.seconds, load.tokens_per_s) == pytest.approx((3 * life, TOKENS / life))
    assert load.busy == {TARGET: pytest.approx(1.0)}


@pytest.mark.parametrize("met", [False, True])
def test_so_many_answers_are_in_flight_and_share_iterations(met: bool) -> None:
    """Eight that begin apart read a prompt while seven decode: a life has eight prompts and its iterations."""
    life = 8 * PREFILL + DECODING
    apart_s = 0.0 if met else life / 8
    window = {"concurrency": 8, "tokens": 32 * TOKENS, "warmup_tokens": 8 * TOKENS}
    load = closed_loop(trial(), **window, met_under_way=met, apart_s=apart_s)
    assert load.in_flight == 8.0
    assert load.tokens_per_s * load.seconds_per_token().value == pytest.approx(8.0, rel=0.02)
    assert load.tokens_per_s == pytest.approx(8 * TOKENS / life, rel=0.05)


def loaded(answers: tuple[ServedAnswer, ...], **more: object) -> ServedLoad:
    fields = {"n_ended": len(answers), "seconds": 2.0, "tokens": 0, "in_flight": 1.0, "busy": {}, **more}
    return ServedLoad(answers=answers, **fields)  # type: ignore[arg-type]


def test_answers_that_have_not_ended_take_longer_than_so_far() -> None:
    """Kaplan and Meier's own rule: what is censored after an end is shared out among those that are left."""
    load = loaded(tuple(ServedAnswer(0.0, 0.5, end, 10) for end in (1.0, 2.0, 4.0)), unended_s=(1.5, 3.0))
    # 5 at risk at 1, 3 at 2 and 1 at 4: survival 4/5, 8/15, 0
    assert load.percentiles("seconds") == {50: 4.0, 90: 4.0, 99: 4.0}
    assert load.mean("seconds") == pytest.approx(1.0 * 3 / 15 + 2.0 * 4 / 15 + 4.0 * 8 / 15)
    early = replace(load, unended_s=(1.5, 9.0))
    assert math.isnan(early.percentiles("seconds")[90]), "one that goes on for longer than all others may be any length"
    assert early.percentiles("ttft_s")[90] == 0.5


def test_percentiles_goodput_and_waste() -> None:
    paces = ((0.1, 0.01), (0.2, 0.02), (0.9, 0.03), (0.3, 0.09))
    load = loaded(tuple(ServedAnswer(0.0, first, first + 9.0 * pace, 10, draft_in_vain=5) for first, pace in paces))
    assert load.good_share() == 1.0
    assert load.good_share(ttft_s=0.5) == 0.75
    assert load.good_share(ttft_s=0.5, tpot_s=0.05) == 0.5
    assert load.percentiles("tpot_s")[50] == pytest.approx(0.025)
    assert (load.in_vain("draft"), load.in_vain("target")) == (0.5, 0.0)
    empty = loaded(())
    assert math.isnan(empty.percentiles("seconds")[90])
    assert math.isnan(empty.mean("seconds"))


def by_events() -> Trial:
    """A trial that the loop without events does not run."""
    behaviour = drawn_answers(20.0, cv=0.5, alpha=0.7, steps=20, seed=3, correlation=0.5)
    return Trial.of(autoregressive, behaviour, batch_engines(None))


@pytest.mark.parametrize("make", [trial, by_events])
def test_overload_is_said(make: Callable[[], Trial]) -> None:
    with pytest.raises(OverloadError, match="overload"):
        arriving(make(), bursty_times(50.0, 1.0, 200).tolist(), max_in_flight=30)


test_loads_of_nothing_are_refused = refused(
    lambda call, options: call(trial(), **options),
    (closed_loop, {"concurrency": 0, "tokens": 1}, "concurrency=0"),
    (closed_loop, {"concurrency": 1, "tokens": 0}, "tokens=0"),
    (arriving, {"moments_s": []}, "moments_s=0"),
)


@pytest.mark.parametrize(("rules", "counts"), [("paper", False), ("released-code", True)])
def test_memory_does_not_grow_with_the_answers_that_have_ended(
    rules: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that live at the end of a window: of those in flight, however long the window was."""
    monkeypatch.setattr("sim.answers.drawn._drawn", DrawnAnswer)  # else 256 are kept

    def n_steps() -> int:
        gc.collect()
        return sum(issubclass(type(one), Step) for one in gc.get_objects())  # isinstance would wake objects of torch

    def alive_after(n_answers: int) -> int:
        before = n_steps()
        behaviour, engine = drawn_answers(5, alpha=0.5, steps=10), ServingEngine(COST)
        algorithm = Configuration.parse(f"lr-async k1=3 rules={rules}").algorithm()
        one = Trial.of(algorithm, behaviour, {TARGET: engine, DRAFT: FixedEngine(PerToken(0.001))})
        load = closed_loop(one, concurrency=4, tokens=n_answers * 50, counts=counts)
        assert len(load.answers) == pytest.approx(n_answers, abs=4)
        assert load.in_vain("draft") > 0.0 or not counts
        return n_steps() - before

    gc.collect()
    gc.freeze()  # what was there before is not looked through
    try:
        few, many = map(alive_after, (10, 40))
    finally:
        gc.unfreeze()
    assert many <= few + 100  # 300 more are in what has ended meanwhile
