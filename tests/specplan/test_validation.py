"""The timeline above the measured one is that of the same answer."""

from __future__ import annotations

from bundled_pair import BundledPair

from calibrate.models import bundled_problems
from sim.algorithms import autoregressive, lookahead_async
from sim.behaviours import TraceBehaviour
from sim.engines import FixedEngine
from sim.replicate import run_answer
from specplan.validation import trace_of_session


def test_a_run_is_replayed_from_what_it_met(bundled_pair: BundledPair) -> None:
    async def run() -> None:
        problem, clock = bundled_problems(1, 7, "validation")[0], bundled_pair.clock
        root = await clock.root(problem.prompt)
        session = await clock.run(lookahead_async(root, k1=3), stream=problem.name)
        alone = await clock.run(autoregressive(root), stream=problem.name)
        trace = trace_of_session(session)
        assert trace is not None
        assert trace.prompt_tokens == root.n_tokens
        engines = {"target": FixedEngine(1.0), "draft": FixedEngine(0.2), "judge": FixedEngine(0.0)}
        answer = TraceBehaviour((trace,)).answer(0)
        replayed = run_answer(lambda prompt: lookahead_async(prompt, k1=3), answer, engines)
        real = [(step.role, step.n_tokens, step.final) for step in session.committed]
        assert [(step.role, step.n_tokens, step.final) for step in replayed.committed] == real
        assert trace_of_session(alone) is None

    bundled_pair.run(run())
