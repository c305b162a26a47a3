"""Worlds of a deployment: at one answer at once and fixed lengths the load is the single answer."""

from typing import Any

import numpy as np
import pytest
from deployments import arrangement_of, deployment

from sim.configuration import Configuration
from sim.serving.arrivals import Arrivals
from sim.serving.limits import ServingLimits
from sim.serving.run import arriving, closed_loop
from sim.trial import run_trial
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.costs import CLIENT_S, REQUEST_S, WORD_S
from specplan.worlds.drafters.known_acceptance import known_acceptances
from specplan.worlds.sizes import Traced
from specplan.worlds.world import World
from theory.hardware.engines import engine_named

WANTED = deployment(draft="Qwen/Qwen3-0.6B", judge="Qwen/Qwen3-1.7B", gpus=4, context=700, answer_tokens=300)
ALONE = Arrangement(tp=2, replicas=1)
AHEAD = Arrangement(tp=1, replicas=1, drafting="own", own_gpus=2)
CONFIGURATIONS = {
    "autoregressive": ALONE,
    "prompt-lookup k2=4": ALONE,
    "draft-model k2=3": ALONE,
    "lr-async k1=3 rules=released-code": AHEAD,
    "lr-sync k1=2 rules=released-code + prompt-lookup k2=3": AHEAD,
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_one_answer_at_once_takes_what_the_answer_takes_alone(name: str) -> None:
    """The load plan at concurrency 1 is the single-answer plan: one answer after the other, each as if alone."""
    trial = World(WANTED).trial(Configuration.parse(name), CONFIGURATIONS[name], ServingLimits())
    alone = run_trial(trial, range(3))
    tokens = sum(counts.committed_tokens for counts in alone.counts)
    load = closed_loop(trial, concurrency=1, tokens=tokens)
    assert len(load.answers) == 3
    assert [answer.seconds for answer in load.answers] == pytest.approx(alone.seconds.tolist(), rel=1e-9)
    assert load.tokens_per_s == pytest.approx(tokens / alone.seconds.sum(), rel=1e-9)


def test_a_client_waits_longer_than_who_asks_in_the_engines_process() -> None:
    """And the longer, the more words the prompt has: by HTTP and from text to tokens."""
    for context in (200, 8_292):
        world = World(deployment(draft="Qwen/Qwen3-0.6B", gpus=2, context=context, answer_tokens=100))
        plain, looked_up, step = (
            world.round_cost(Configuration.parse(name), 1).request_s
            for name in ("autoregressive", "prompt-lookup k2=4", "lr-async k1=2")
        )
        assert plain == looked_up == pytest.approx(CLIENT_S + WORD_S * (context - 100))
        assert step == REQUEST_S < plain


def test_answers_of_a_trace_have_its_sizes() -> None:
    sizes = Arrivals.of([0.0, 50.0], [100, 900], [40, 160])
    trial = World(WANTED).trial(Configuration.parse("autoregressive"), ALONE, ServingLimits(), Traced(sizes))
    load = arriving(trial, sizes.times_s.tolist())
    assert [answer.tokens for answer in load.answers] == [40, 160]
    assert load.answers[1].ttft_s > load.answers[0].ttft_s, "the longer prompt takes longer to read"
    steps = World(WANTED).trial(Configuration.parse("lr-async k1=2"), AHEAD, ServingLimits(), Traced(sizes))
    written = [sum(trial_answer.written_lengths()) for trial_answer in map(steps.answer, range(2))]  # type: ignore[attr-defined]
    assert written[1] > written[0]


def test_answers_of_steps_end_where_the_cache_does() -> None:
    """Their steps are drawn one by one, and some add up to more than the answer's tokens."""
    limits = ServingLimits(cache_tokens=700 + 256)
    for judge in (None, "Qwen/Qwen3-1.7B"):
        wanted = deployment(draft="Qwen/Qwen3-0.6B", judge=judge, gpus=4, context=700, answer_tokens=300)
        own = Arrangement(tp=1, replicas=1, drafting="own", own_gpus=1)
        trial = World(wanted).trial(Configuration.parse("lr-async k1=3 rules=released-code"), own, limits)
        load = closed_loop(trial, concurrency=1, tokens=20_000)
        assert max(answer.tokens for answer in load.answers) <= 300 + 256
        assert np.mean([answer.tokens for answer in load.answers]) > 0.75 * 300, "cut ones alone are shorter"


def test_moved_beliefs_move_the_world_and_known_ones_do_not() -> None:
    lookup = Configuration.parse("prompt-lookup k2=4")

    def pace(z: float, **known: Any) -> float:
        world = World(deployment(gpus=1, context=700, answer_tokens=300, **known), {"token acceptance": z})
        trial = world.trial(lookup, arrangement_of(), ServingLimits())
        return closed_loop(trial, concurrency=1, tokens=3_000).tokens_per_s

    assert pace(-1.96) < pace(0.0) < pace(1.96)
    known = known_acceptances(["ngram=0.4"])
    assert pace(-1.96, acceptance=known) == pace(1.96, acceptance=known)


def test_rounds_whose_lookup_finds_nothing_verify_nothing_in_vllm() -> None:
    """SGLang fills its drafts up; of other methods every round drafts."""
    lookup = Configuration.parse("prompt-lookup k2=6")
    for engine, known, rows in (
        ("vllm", ["ngram=0.4"], 1.0 + 5.0 * (0.4 + 0.5 * 0.6)),
        ("vllm", ["ngram=1.0"], 6.0),
        ("sglang", ["ngram=0.4"], 6.0),
    ):
        world = World(deployment(gpus=1, engine=engine_named(engine), acceptance=known_acceptances(known)))
        assert world.passes(lookup).rows == pytest.approx(rows)
    assert World(WANTED).passes(Configuration.parse("draft-model k2=4")).rows == 4.0


def test_step_answers_are_as_long_on_average_as_whole_ones() -> None:
    world = World(deployment(draft="Qwen/Qwen3-0.6B", gpus=2, context=9000, answer_tokens=4000))
    trial = world.trial(Configuration.parse("lr-async k1=2"), AHEAD, ServingLimits())
    lengths = [sum(trial.answer(i).written_lengths()) for i in range(40)]  # type: ignore[attr-defined]
    assert abs(np.mean(lengths) / 4000 - 1.0) < 5.0 * np.std(lengths) / 4000 / 40**0.5
