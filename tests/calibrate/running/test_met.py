"""What a run met, simulated again, commits the same steps."""

from __future__ import annotations

from bundled_pair import BundledPair, brief_problems
from sim_worlds import seconds_per_step

from calibrate.running.met import trace_of_session
from sim.algorithms import autoregressive, lookahead_async
from sim.answers.drawn import TraceBehaviour
from sim.trial import run_answer


async def test_a_run_is_replayed_from_what_it_met(bundled_pair: BundledPair) -> None:
    problem, clock = brief_problems(1, 7, "validation")[0], bundled_pair.clock
    root = await clock.root(problem.prompt)
    session = await clock.run(lookahead_async(root, k1=3), stream=problem.name)
    alone = await clock.run(autoregressive(root), stream=problem.name)
    trace = trace_of_session(session)
    assert trace.prompt_tokens == root.n_tokens
    answer = TraceBehaviour((trace,)).answer(0)
    replayed = run_answer(lambda prompt: lookahead_async(prompt, k1=3), answer, seconds_per_step(0.2))
    real = [(step.role, step.n_tokens, step.final) for step in session.committed]
    assert [(step.role, step.n_tokens, step.final) for step in replayed.committed] == real
    assert trace_of_session(alone) is None
