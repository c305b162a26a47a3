"""The serving engine: equal to `BatchEngine` where nothing is limited, and its own laws where something is."""

import pickle
from typing import Any

import pytest
from refusals import refuses
from sim_worlds import varied_answers
from simpy import Environment

from sim.catalogue import methods
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.operations import Generate, prompt
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, Joined, JoinLaw, ServingLimits
from sim.trial import Trial, session_of
from sim.virtual_clock import VirtualClock
from theory.errors import ParameterError

TARGET = LinearCost(
    base_s=0.02, sequence_s=0.002, context_s=1e-6, prefill_s=0.005, prefill_token_s=1e-4, request_s=0.003
)
DRAFT = LinearCost(base_s=0.004, context_s=1e-7, prefill_s=0.002, prefill_token_s=1e-5)
UNIT = LinearCost(base_s=1.0)
BEHAVIOUR = varied_answers(prompt_tokens=300)


def trial_of(name: str, target: BatchEngine, draft: BatchEngine) -> Trial:
    one, engines = methods()[name], {"target": target, "draft": draft, "judge": target}
    return Trial.of(one.build(), BEHAVIOUR, engines, meets=one.meets)


@pytest.mark.parametrize("name", ["autoregressive", "prompt-lookup", "draft-model", "eagle", "spec-reason", "rsd"])
def test_chunks_change_nothing_where_an_engine_has_one_request_at_a_time(name: str) -> None:
    plain = trial_of(name, BatchEngine(TARGET), BatchEngine(DRAFT))
    chunked = trial_of(name, *(ServingEngine(Joined(cost, ADDED)) for cost in (TARGET, DRAFT)))
    assert session_of(chunked, 3).finished == pytest.approx(session_of(plain, 3).finished, rel=1e-9)


def ends_of(engine: ServingEngine, *requests: tuple[float, int, int]) -> list[float]:
    """When requests end that are submitted at some moment, with so many tokens to write and to read."""
    env, ends = Environment(), [0.0] * len(requests)
    engine.attach(env)

    def ask(number: int, at: float, n_tokens: int, n_prompt: int) -> Any:
        yield env.timeout(at)
        operation = Generate("target", prompt(n_prompt))
        engine.submit(operation, n_tokens, n_prompt, n_prompt, lambda _: ends.__setitem__(number, env.now))

    for number, request in enumerate(requests):
        env.process(ask(number, *request))
    env.run()
    return ends


def test_a_prompt_is_read_in_a_pass_of_the_others_which_takes_what_reading_takes() -> None:
    """A prompt takes 3 s alone, one of them outside of the engine's passes: the pass that reads it takes 2 s for both.

    Then both decode in passes of 1 s. Many readers that would take less than a pass do not make it longer.
    """
    costly = Joined(LinearCost(base_s=1.0, prefill_s=3.0), JoinLaw(outside_s=1.0))
    assert ends_of(ServingEngine(costly), (0.0, 5, 0), (3.5, 3, 0)) == pytest.approx([8.0, 8.0])
    cheap = Joined(LinearCost(base_s=1.0, prefill_s=0.5), JoinLaw(outside_s=0.2))
    found = ends_of(ServingEngine(cheap), (0.0, 5, 0), (0.6, 2, 0), (0.7, 2, 0))
    assert found == pytest.approx([4.5, 3.5, 3.5])
    assert cheap.mixed(0, 0.0, 0.0, 0.0) == 0.5  # nobody decodes: as long as it takes alone


@pytest.mark.parametrize("name", [name for name, one in methods("step").items() if one.roles])
def test_step_methods_end_on_a_cache_that_is_too_small_for_all(name: str) -> None:
    """Evicted texts are read again: it takes longer than without a limit, and the same steps are committed."""
    found = []
    for capacity in (float("inf"), 1000.0):
        limits = ServingLimits(cache_tokens=capacity)
        trial = trial_of(name, *(ServingEngine(Joined(cost, ADDED), limits=limits) for cost in (TARGET, DRAFT)))
        clock = VirtualClock(trial.engines, record=False)
        sessions = [clock.launch(trial.algorithm(one.root), one) for one in map(trial.answer, range(4))]
        clock.run(*sessions)
        found.append((clock.env.now, [sum(s.n_tokens for s in one.committed) for one in sessions]))
    assert found[1][0] > found[0][0]
    assert found[1][1] == found[0][1]


def test_what_never_fits_is_refused() -> None:
    engine = ServingEngine(Joined(UNIT, ADDED), limits=ServingLimits(cache_tokens=20))
    engine.attach(Environment())
    with pytest.raises(ParameterError, match="cache_tokens=20 must hold a request of 21 tokens"):
        engine.submit(Generate("target", prompt(10)), 11, 10, 10, lambda _: None)


test_limits_guard_their_domains = refuses(
    ServingLimits,
    *(
        ({name: value}, name)
        for name, value in (("max_sequences", 0), ("max_batched_tokens", 1.5), ("cache_tokens", 0), ("rows", 0.5))
    ),
)


def test_an_engine_travels_to_another_process_idle() -> None:
    engine = ServingEngine(Joined(UNIT, ADDED), limits=ServingLimits(max_sequences=1))
    engine.attach(Environment())
    engine.submit(Generate("target", prompt(3)), 5, 3, 3, lambda _: None)
    assert ends_of(pickle.loads(pickle.dumps(engine)), (0.0, 5, 0), (0.0, 3, 0)) == pytest.approx([4.0, 6.0])


def test_a_lost_text_that_is_not_read_to_its_end_is_read_again() -> None:
    """Rows of 10, 60 tokens of text: a request that is cancelled after two iterations has brought back nothing."""
    env, ends = Environment(), []
    cost, limits = LinearCost(base_s=1.0, prefill_s=1.0), ServingLimits(max_batched_tokens=10, cache_tokens=100)
    engine = ServingEngine(Joined(cost, ADDED), limits=limits)
    engine.attach(env)
    first, second = (lambda _: ends.append(env.now), lambda _: ends.append(env.now))  # two owners of texts

    def ask(done: Any, new: int, text: int) -> Generate:
        operation = Generate("target", prompt(text))
        engine.submit(operation, 1, new, text, done)
        return operation

    for done, tokens in ((first, 60), (second, 80)):
        ask(done, tokens, tokens)
        env.run()
    again = ask(first, 0, 61)  # its text was evicted
    env.run(until=env.now + 1.5)
    again.cancelled = True
    engine.cancel(again)
    env.run()
    ask(first, 0, 61)
    env.run()
    assert ends == [6.0, 14.0, 16.0 + 7.0]
