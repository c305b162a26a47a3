"""Tokens per second by mean values, against simulations of the same options."""

from dataclasses import replace

import pytest
from deployments import deployment, head_of, option

from sim.configuration import PLAIN, Configuration
from sim.serving.load_run import CURVE
from specplan.planning.loads.from_names import FromNames
from specplan.planning.loads.options import Option
from specplan.planning.mean_values import MEANS_OFF, MeanRate
from specplan.worlds.arrangements import Arrangement
from specplan.worlds.sizes import Drawn
from theory.hardware.engines import engine_named

WANTED = deployment(draft="Qwen/Qwen3-0.6B", head=head_of("Qwen/Qwen3-8B"), gpus=2, context=900, answer_tokens=400)
TOKENS = [Configuration(method=name, k2=4) for name in ("prompt-lookup", "draft-model", "eagle")]


@pytest.mark.parametrize("answers", [1, 5, 24])
def test_simulations_are_near_mean_values(answers: int) -> None:
    simulator = FromNames(WANTED)
    for configuration in (PLAIN, *TOKENS):
        for where in ({"tp": 2}, {"replicas": 2}):
            one = option(configuration, **where)
            mean = simulator.mean_rate(one, answers)
            assert not mean.is_bound
            simulated = simulator.throughputs(one, answers, CURVE)(2).mean()
            assert mean.tokens_per_s == pytest.approx(simulated, rel=0.04), one.text


@pytest.mark.parametrize("spread", [0.0, 0.4])
def test_equal_answers_in_sglang_stay_in_step(spread: float) -> None:
    """Their prompts are read one after the other before any of them decodes: the rate is that of others, first tokens
    are not."""
    wanted = deployment(engine=engine_named("sglang"), context=9000, answer_tokens=1000, answer_spread=spread)
    simulator, one, answers = FromNames(wanted), option(PLAIN), 8
    simulated = float(simulator.throughputs(one, answers, CURVE)(2).mean())
    assert simulator.mean_rate(one, answers).tokens_per_s == pytest.approx(simulated, rel=0.04)
    alone, together = (
        simulator.served(one, n, simulator.reported(one, one, n)[1]).percentiles("ttft_s")[50] for n in (1, answers)
    )
    assert (together / alone == pytest.approx((answers + 1) / 2, rel=0.15)) == (spread == 0.0)


def test_of_a_cache_that_may_be_full_they_are_a_bound() -> None:
    simulator = FromNames(deployment(target="Qwen/Qwen3-32B", context=9000, answer_tokens=6000))
    one = option(PLAIN)
    mean = simulator.mean_rate(one, 16)
    assert mean.is_bound
    simulated = float(simulator.throughputs(one, 16, CURVE)(2).mean())
    assert simulated < mean.tokens_per_s * (1.0 + MEANS_OFF)
    free = simulator.mean_rate(one, 1)
    assert not free.is_bound


def test_the_search_chooses_what_simulations_of_all_options_choose() -> None:
    """Within what simulations tell apart: the chosen option loses at most 2 % to the best one simulated."""
    simulator = FromNames(WANTED, ("prompt-lookup", "draft-model", "eagle"))
    for answers in (1, 16):
        for kind, (chosen, _) in simulator.best_of_each_kind(answers, {}).items():
            places = simulator.considered.plain if kind == PLAIN.method else simulator.considered.tokens[kind]
            rates = [
                float(simulator.throughputs(one, answers, CURVE)(2).mean())
                for one in (Option(_drafting(simulator, chosen, place, answers), place) for place in places)
            ]
            own = float(simulator.throughputs(chosen, answers, CURVE)(2).mean())
            assert own >= 0.98 * max(rates), kind


def _drafting(simulator: FromNames, chosen: Option, place: Arrangement, answers: int) -> Configuration:
    """The configuration of a kind on another arrangement."""
    token = chosen.configuration.token
    if token is None:
        return PLAIN
    k = simulator.depths.k(token, place.split, -(-answers // place.replicas))
    return Configuration(method=token, k2=k + 1)


def test_tokens_written_are_seen_more_in_long_answers() -> None:
    equal = Drawn(prompt_tokens=10, mean=400, spread=0.0, longest=400)
    assert equal.mean_written == 200.0
    spread = replace(equal, spread=0.8, longest=1600)
    lengths = [spread.of(i)[1] for i in range(1600)]
    expected = sum(n * n for n in lengths) / (2.0 * sum(lengths))
    assert spread.mean_written == pytest.approx(expected, rel=0.05)


def test_copies_add_and_one_bound_makes_a_bound() -> None:
    both = MeanRate.together([(MeanRate(10.0), 2), (MeanRate(5.0, is_bound=True), 1)])
    assert both == MeanRate(25.0, is_bound=True)
