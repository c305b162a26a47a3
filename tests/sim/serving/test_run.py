"""Answers that come and go: windows, what users see, and what a server delivers."""

import gc
import math
from dataclasses import replace

import pytest
from sim_worlds import drawn_answers

from sim.algorithms.autoregressive import autoregressive
from sim.answers.drawn import DrawnAnswer
from sim.answers.lengths import Fixed
from sim.configuration import Configuration
from sim.engines.costs import LinearCost
from sim.engines.fixed import FixedEngine, PerToken
from sim.operations import Step
from sim.roles import DRAFT, TARGET
from sim.serving.answers import ServedAnswer, ServedLoad
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined
from sim.serving.run import closed_loop
from sim.trial import Trial
from theory.errors import ParameterError

TOKENS, PREFILL, ITERATION = 50, 0.3, 0.02


def trial(steps: int = 1) -> Trial:
    one = Fixed(TOKENS // steps)
    behaviour = drawn_answers(one, alpha=0.0, steps=steps, prompt_tokens=20)
    cost = LinearCost(base_s=ITERATION, prefill_s=PREFILL)
    return Trial.of(autoregressive, behaviour, {TARGET: ServingEngine(Joined(cost, ADDED))}, meets="plain")


def test_one_answer_after_the_other_is_seen_as_it_is() -> None:
    load = closed_loop(trial(), concurrency=1, tokens=4 * TOKENS, warmup_tokens=TOKENS)
    life = PREFILL + (TOKENS - 1) * ITERATION
    assert len(load.answers) == 3
    assert load.seconds == pytest.approx(3 * life)
    for answer in load.answers:
        assert (answer.ttft_s, answer.tpot_s) == (pytest.approx(PREFILL), pytest.approx(ITERATION))
    assert load.tokens_per_s == pytest.approx(TOKENS / life)
    assert load.busy == {TARGET: pytest.approx(1.0)}


def test_so_many_answers_are_in_flight_and_share_iterations() -> None:
    """Eight that begin apart read a prompt while seven decode: a life has eight prompts and its iterations."""
    life = 8 * PREFILL + (TOKENS - 1) * ITERATION
    load = closed_loop(trial(), concurrency=8, tokens=32 * TOKENS, warmup_tokens=8 * TOKENS, apart_s=life / 8)
    assert load.in_flight == 8.0
    assert load.tokens_per_s * load.seconds_per_token().value == pytest.approx(8.0, rel=0.02)
    assert load.tokens_per_s == pytest.approx(8 * TOKENS / life, rel=0.05)


def test_answers_that_have_not_ended_take_longer_than_so_far() -> None:
    """Kaplan and Meier's own rule: what is censored after an end is shared out among those that are left."""
    answers = tuple(ServedAnswer(0.0, 0.5, end, 10) for end in (1.0, 2.0, 4.0))
    load = ServedLoad(answers=answers, unended_s=(1.5, 3.0), n_ended=3, seconds=5.0, tokens=30, in_flight=1.0, busy={})
    # 5 at risk at 1, 3 at 2 and 1 at 4: survival 4/5, 8/15, 0
    assert load.percentiles("seconds") == {50: 4.0, 90: 4.0, 99: 4.0}
    assert load.mean("seconds") == pytest.approx(1.0 * 3 / 15 + 2.0 * 4 / 15 + 4.0 * 8 / 15)
    early = replace(load, unended_s=(1.5, 9.0))
    assert math.isnan(early.percentiles("seconds")[90]), "one that goes on for longer than all others may be any length"
    assert early.percentiles("ttft_s")[90] == 0.5


def test_percentiles_goodput_and_waste() -> None:
    answers = tuple(
        ServedAnswer(0.0, first, first + 9.0 * pace, 10, draft_in_vain=5)
        for first, pace in ((0.1, 0.01), (0.2, 0.02), (0.9, 0.03), (0.3, 0.09))
    )
    load = ServedLoad(answers=answers, n_ended=4, seconds=2.0, tokens=40, in_flight=1.0, busy={})
    assert load.good_share() == 1.0
    assert load.good_share(ttft_s=0.5) == 0.75
    assert load.good_share(ttft_s=0.5, tpot_s=0.05) == 0.5
    assert load.percentiles("tpot_s")[50] == pytest.approx(0.025)
    assert load.in_vain("draft") == 0.5
    assert load.in_vain("target") == 0.0
    empty = ServedLoad(answers=(), n_ended=0, seconds=1.0, tokens=0, in_flight=1.0, busy={})
    assert math.isnan(empty.percentiles("seconds")[90])
    assert math.isnan(empty.mean("seconds"))


@pytest.mark.parametrize(("wrong", "said"), [({"concurrency": 0}, "concurrency=0"), ({"tokens": 0}, "tokens=0")])
def test_counts_outside_their_domain_are_refused(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        closed_loop(trial(), **{"concurrency": 1, "tokens": 1, **wrong})


@pytest.mark.parametrize(("rules", "counts"), [("paper", False), ("released-code", True)])
def test_memory_does_not_grow_with_the_answers_that_have_ended(
    rules: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that live at the end of a window: of those in flight, however long the window was."""
    monkeypatch.setattr("sim.answers.drawn._drawn", DrawnAnswer)  # else 256 are kept
    gc.collect()
    gc.freeze()  # what was there before is not looked through
    try:
        alive = [_alive_after(n_answers, rules, counts=counts) for n_answers in (10, 40)]
    finally:
        gc.unfreeze()
    assert alive[1] <= alive[0] + 100  # 300 more are in what has ended meanwhile


def _alive_after(n_answers: int, rules: str, *, counts: bool) -> int:
    before = _n_steps()
    configuration = Configuration.parse(f"lr-async k1=3 rules={rules}")
    behaviour = drawn_answers(5, alpha=0.5, steps=10)
    engine = ServingEngine(Joined(LinearCost(base_s=ITERATION, prefill_s=PREFILL), ADDED))
    one = Trial.of(configuration.algorithm(), behaviour, {TARGET: engine, DRAFT: FixedEngine(PerToken(0.001))})
    load = closed_loop(one, concurrency=4, tokens=n_answers * 50, counts=counts)
    assert len(load.answers) == pytest.approx(n_answers, abs=4)
    assert load.in_vain("draft") > 0.0 or not counts
    return _n_steps() - before


def _n_steps() -> int:
    gc.collect()
    return sum(issubclass(type(one), Step) for one in gc.get_objects())  # isinstance would wake lazy objects of torch
