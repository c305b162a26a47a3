"""The serving engine: equal to `BatchEngine` where nothing is limited, and its own laws where something is."""

import pickle
from collections.abc import Callable

import pytest
from sim_worlds import drawn_answers, varied_answers
from simpy import Environment

from sim.algorithms import autoregressive
from sim.catalogue import methods
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.engines.device import Device
from sim.engines.protocol import Engine
from sim.fast.one_by_one import runs_one_by_one
from sim.operations import Generate, Operation, prompt
from sim.serving.engine import ServingEngine
from sim.serving.limits import ADDED, ENDLESS, Joined, JoinLaw, ServingLimits
from sim.trial import run_answer
from sim.virtual_clock import Session, VirtualClock
from theory.errors import ParameterError

TARGET = LinearCost(
    base_s=0.02, sequence_s=0.002, context_s=1e-6, prefill_s=0.005, prefill_token_s=1e-4, request_s=0.003
)
DRAFT = LinearCost(base_s=0.004, context_s=1e-7, prefill_s=0.002, prefill_token_s=1e-5)
BEHAVIOUR = varied_answers(prompt_tokens=300)
ONE_AT_A_TIME = ["autoregressive", "prompt-lookup", "draft-model", "eagle", "spec-reason", "rsd"]
MakeEngine = Callable[[LinearCost, Device | None], BatchEngine]


def chunked(cost: LinearCost, device: Device | None = None) -> ServingEngine:
    return ServingEngine(Joined(cost, ADDED), device)


def seconds(name: str, make: MakeEngine, index: int, *, shared: bool = False) -> float:
    one = methods()[name]
    answer = {"plain": BEHAVIOUR.baseline_answer, "speculation": BEHAVIOUR.answer, "candidates": BEHAVIOUR.beam_answer}
    device = Device() if shared else None
    target = make(TARGET, device)
    engines = {"target": target, "draft": make(DRAFT, device), "judge": target}
    finished = run_answer(one.build(), answer[one.meets](index), engines).finished
    assert finished is not None
    return finished


@pytest.mark.parametrize("name", ONE_AT_A_TIME)
def test_chunks_change_nothing_where_an_engine_has_one_request_at_a_time(name: str) -> None:
    assert seconds(name, chunked, 3) == pytest.approx(seconds(name, BatchEngine, 3), rel=1e-9)


def answers(n_tokens: list[int], prompt_tokens: int, engine: ServingEngine) -> list[Session]:
    """Run answers of one step that all arrive at once."""
    clock = VirtualClock({"target": engine}, record=False)
    sessions = []
    for n in n_tokens:
        answer = drawn_answers(n, alpha=0.0, steps=1, prompt_tokens=prompt_tokens).baseline_answer(0)
        sessions.append(clock.launch(autoregressive(answer.root), answer))
    clock.run(*sessions)
    return sessions


UNIT = LinearCost(base_s=1.0)


def test_a_prompt_is_read_in_a_pass_of_the_others_which_takes_what_reading_takes() -> None:
    """A prompt takes 3 s alone, one of them outside of the engine's passes: the pass that reads it takes 2 s for both.

    Then both decode in passes of 1 s. Many readers that would take less than a pass do not make it longer.
    """
    cost = Joined(LinearCost(base_s=1.0, prefill_s=3.0), JoinLaw(outside_s=1.0))
    assert ends_of(cost, [(0.0, 5, 0), (3.5, 3, 0)]) == pytest.approx([8.0, 8.0])
    cheap = Joined(LinearCost(base_s=1.0, prefill_s=0.5), JoinLaw(outside_s=0.2))
    assert ends_of(cheap, [(0.0, 5, 0), (0.6, 2, 0), (0.7, 2, 0)]) == pytest.approx([4.5, 3.5, 3.5])
    assert cheap.mixed(0, 0.0, 0.0, 0.0) == 0.5  # nobody decodes: as long as it takes alone


def ends_of(cost: Joined, requests: list[tuple[float, int, int]]) -> list[float]:
    env, ends = Environment(), [0.0] * len(requests)
    engine = ServingEngine(cost)
    engine.attach(env)
    for i, (at, n_tokens, n_prompt) in enumerate(requests):

        def ended(operation: Operation, i: int = i) -> None:
            ends[i] = env.now

        def submit(event: object, n: int = n_tokens, m: int = n_prompt, ended: Callable = ended) -> None:
            engine.submit(Generate("target", prompt(m)), n, m, m, ended)

        env.timeout(at).callbacks.append(submit)
    env.run()
    return ends


@pytest.mark.parametrize("name", ["autoregressive", "spec-reason"])
def test_one_request_at_a_time_needs_no_events_on_an_engine_that_joins(name: str) -> None:
    """The same times as on the virtual clock, also after a rest."""

    def engines() -> dict[str, Engine]:
        cost = Joined(TARGET, JoinLaw(outside_s=0.002))
        target = ServingEngine(cost, limits=ENDLESS, waking_s=0.004)
        return {"target": target, "draft": BatchEngine(DRAFT), "judge": target}

    one = methods()[name]
    answers = BEHAVIOUR.baseline_answer if one.meets == "plain" else BEHAVIOUR.answer
    known = runs_one_by_one(one.build(), answers, engines(), range(3))
    assert known is not None
    clocked = [run_answer(one.build(), answers(i), engines()).finished for i in range(3)]
    assert list(known[0]) == pytest.approx(clocked, rel=1e-12)


@pytest.mark.parametrize("name", [name for name, one in methods("step").items() if one.roles])
def test_step_methods_end_on_a_cache_that_is_too_small_for_all(name: str) -> None:
    """Evicted texts are read again: it takes longer than without a limit, and the same steps are committed."""
    found = []
    for capacity in (float("inf"), 1000.0):
        limits = ServingLimits(cache_tokens=capacity)
        target = ServingEngine(Joined(TARGET, ADDED), limits=limits)
        clock = VirtualClock(
            {"target": target, "draft": ServingEngine(Joined(DRAFT, ADDED), limits=limits), "judge": target},
            record=False,
        )
        worlds = [BEHAVIOUR.answer(index) for index in range(4)]
        sessions = [clock.launch(methods()[name].build()(world.root), world) for world in worlds]
        clock.run(*sessions)
        found.append((clock.env.now, [sum(s.n_tokens for s in one.committed) for one in sessions]))
    assert found[1][0] > found[0][0]
    assert found[1][1] == found[0][1]


def test_what_never_fits_is_refused() -> None:
    engine = ServingEngine(Joined(UNIT, ADDED), limits=ServingLimits(cache_tokens=20))
    with pytest.raises(ParameterError, match="cache_tokens=20 must hold a request of 21 tokens"):
        answers([11], 10, engine)


@pytest.mark.parametrize("bad", [{"max_sequences": 0}, {"max_batched_tokens": 1.5}, {"cache_tokens": 0}, {"rows": 0.5}])
def test_limits_guard_their_domains(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(bad))):
        ServingLimits(**bad)  # type: ignore[arg-type]


def test_an_engine_travels_to_another_process_idle() -> None:
    engine = pickle.loads(pickle.dumps(chunked(UNIT)))
    assert answers([5], 0, engine)[0].finished == pytest.approx(4.0)


def test_a_lost_text_that_is_not_read_to_its_end_is_read_again() -> None:
    """Rows of 10, 60 tokens of text: a request that is cancelled after two iterations has brought back nothing."""
    env, ends = Environment(), []
    engine = ServingEngine(
        Joined(LinearCost(base_s=1.0, prefill_s=1.0), ADDED),
        limits=ServingLimits(max_batched_tokens=10, cache_tokens=100),
    )
    engine.attach(env)

    def first(operation: Operation) -> None:
        ends.append(env.now)

    def second(operation: Operation) -> None:
        ends.append(env.now)

    def ask(done: Callable[[Operation], None], new: int, text: int) -> Generate:
        operation = Generate("target", prompt(text))
        engine.submit(operation, 1, new, text, done)
        return operation

    for done, new, text in ((first, 60, 60), (second, 80, 80)):
        ask(done, new, text)
        env.run()
    again = ask(first, 0, 61)  # its text was evicted
    env.run(until=env.now + 1.5)
    again.cancelled = True
    engine.cancel(again)
    env.run()
    ask(first, 0, 61)
    env.run()
    assert ends == [6.0, 14.0, 16.0 + 7.0]
