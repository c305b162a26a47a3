"""What a run met, simulated again, commits the same steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sim_worlds import seconds_per_step

from calibrate.running.interleaved import trace_of_session
from sim.algorithms import autoregressive, draft_trajectory, lookahead_async, lookahead_sync
from sim.algorithms.checks import CASCADE, Check
from sim.algorithms.confspec import confspec
from sim.answers.drawn import TraceBehaviour
from sim.operations import Algorithm, Step
from sim.trial import run_answer

QUESTION = " he has two apples.\n\n"


@pytest.mark.parametrize(
    "make",
    [
        partial(lookahead_async, k1=3),
        partial(lookahead_sync, k1=3),
        partial(lookahead_sync, k1=1),
        partial(confspec, k1=3, fallback="reuse"),
        partial(lookahead_async, k1=3, check=Check(verifier=CASCADE)),
        autoregressive,
    ],
    ids=["async", "sync", "no drafts", "Algorithm 1", "cascade", "plain"],
)
async def test_a_run_is_replayed_from_what_it_met(engines: Any, make: Callable[[Step], Algorithm]) -> None:
    clock = engines.clock()
    root = await clock.root(QUESTION)
    session = await clock.run(make(root), stream="p")
    await clock.drain()
    trace = trace_of_session(session)
    assert trace is not None
    assert trace.prompt_tokens == root.n_tokens
    behaviour = TraceBehaviour((trace,))
    answer = behaviour.baseline_answer(0) if make is autoregressive else behaviour.answer(0)
    replayed = run_answer(make, answer, seconds_per_step(0.2))
    real = [(step.role, step.n_tokens, step.final) for step in session.committed]
    assert [(step.role, step.n_tokens, step.final) for step in replayed.committed] == real


async def test_steps_without_a_targets_step_beside_them_leave_it_open(engines: Any) -> None:
    clock = engines.clock()
    session = await clock.run(draft_trajectory(await clock.root(QUESTION), scorers=()), stream="p")
    assert session.committed
    assert trace_of_session(session) is None
