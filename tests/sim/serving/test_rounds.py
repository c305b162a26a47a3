"""Rounds of clients: on engines that nobody shares they are list scheduling, on shared ones what batches cost."""

from functools import partial
from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from sim_worlds import seconds_per_token

from sim.algorithms import autoregressive, lookahead_async
from sim.answers.drawn import TraceBehaviour
from sim.answers.traces import AnswerTrace, StepTrace
from sim.engines.batching import BatchEngine
from sim.engines.costs import LinearCost
from sim.operations import MakeAlgorithm
from sim.serving.rounds import Round, limited, simulated_round
from sim.trial import Trial, run_trial


def answers(*lengths: int) -> TraceBehaviour:
    """Answers of one accepted step each, so long."""
    steps = (
        StepTrace(draft_tokens=n, target_tokens=n, accepted=True, draft_final=True, target_final=True) for n in lengths
    )
    return TraceBehaviour(tuple(AnswerTrace(prompt_tokens=1, steps=(step,)) for step in steps))


def shared(n: int, *, prefill_s: float = 0.0, make: MakeAlgorithm = autoregressive) -> Trial:
    """So many answers of 11 tokens, in iterations of 1 s of an engine for all."""
    engine = BatchEngine(LinearCost(base_s=1.0, prefill_s=prefill_s))
    return Trial.of(make, answers(*[11] * n), {"target": engine, "draft": engine, "judge": engine})


@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=12), clients=st.integers(1, 12), k1=st.integers(1, 3))
@settings(max_examples=50)
def test_on_engines_without_a_queue_the_next_question_goes_to_the_first_client_that_is_free(
    lengths: list[int], clients: int, k1: int
) -> None:
    clients = min(clients, len(lengths))
    trial = Trial.of(partial(lookahead_async, k1=k1), answers(*lengths), seconds_per_token(1.0, 0.25))
    indices = list(range(len(lengths)))
    alone = run_trial(trial, indices).seconds
    found = simulated_round(trial, indices, clients)
    free = [0.0] * clients
    for seconds in alone:
        heappush(free, heappop(free) + seconds)
    assert found.seconds == pytest.approx(tuple(alone))
    assert found.makespan == pytest.approx(max(free))
    assert found.tokens == tuple(lengths)
    assert found.answers_at_once == pytest.approx(sum(alone) / max(free))
    for counted in found.in_flight.values():
        assert sum(seconds for _, seconds in counted) == pytest.approx(found.makespan)


def test_clients_share_the_batch_of_an_engine_as_far_as_it_has_places() -> None:
    """Iterations of 1 s however many they serve: two clients need half the time for answers of one length."""
    one, two = (simulated_round(shared(4), range(4), clients) for clients in (1, 2))
    assert (one.makespan, two.makespan) == pytest.approx((40.0, 20.0))
    assert two.in_flight["target"] == ((2, pytest.approx(20.0)),)
    four = simulated_round(limited(shared(4), {"target": 2}), range(4), 4)
    assert four.seconds == pytest.approx((10.0, 10.0, 20.0, 20.0))
    assert [found.most_steps("target") for found in (one, two, four)] == [1, 2, 4]  # asked for, not decoded


def test_users_see_the_first_token_of_an_answer_or_its_first_step() -> None:
    """A prompt takes 0.5 s, others wait for it; a method that writes steps shows the first of them when it is whole."""
    assert simulated_round(shared(3, prefill_s=0.5), range(3), 1).first == pytest.approx((0.5,) * 3)
    assert simulated_round(shared(2, prefill_s=0.5), range(2), 2).first == pytest.approx((0.5, 1.0))
    found = simulated_round(shared(2, prefill_s=0.5, make=partial(lookahead_async, k1=1)), range(2), 1)
    assert found.first == pytest.approx(found.seconds)


def test_what_runs_on_after_the_last_answer_counts_up_to_there() -> None:
    in_flight = {"target": ((1, 1.0), (2, 1.0))}
    found = Round(seconds=(2.0, 1.0), tokens=(1, 1), first=(2.0, 1.0), makespan=2.0, in_flight=in_flight)
    assert (found.answers_at_once, found.most_steps("target"), found.most_steps("draft")) == (1.5, 2, 0)


test_every_client_needs_a_question = refused(
    lambda clients: simulated_round(shared(2), range(2), clients),
    *(
        (clients, f"concurrency={clients} must be an integer from 1 to 2, the questions")
        for clients in (0, 3, -1, True)
    ),
)
