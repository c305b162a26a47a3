"""The simulator and an idiomatic SimPy program of the same timeline, for rows of ``benchmarks.speed``.

Random step lengths, width 1, the paper's rules. Both simulate the same answers, drawn before the clock starts. Ours
goes through the generator protocol and the virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.idiomatic_simpy import idiomatic_commit_times
from sim.algorithms import lookahead_async
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import DrawnAnswer, SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths, Lognormal
from sim.engines.fixed import FixedEngine, PerToken
from sim.virtual_clock import VirtualClock

__all__ = ["answer_of", "our_commit_times", "yardstick"]

TARGET_TOKEN_S = 0.01
DRAFT_TOKEN_S = 0.002


def answer_of(n_steps: int) -> DrawnAnswer:
    """Draw one long answer."""
    lengths = Lengths(
        target=Lognormal(mean=40.0, cv=1.2), draft=Lognormal(mean=40.0, cv=1.2), correlation=0.6, lag1=0.37
    )
    return SyntheticBehaviour(lengths=lengths, acceptance=Acceptance(alpha=0.7), steps=Fixed(n_steps)).answer(0)


def our_commit_times(answer: DrawnAnswer, k1: int, *, record: bool = False) -> list[float]:
    """Simulate with the generator protocol."""
    engines = {
        "target": FixedEngine(PerToken(TARGET_TOKEN_S)),
        "draft": FixedEngine(PerToken(DRAFT_TOKEN_S)),
        "judge": FixedEngine(0.0),
    }
    clock = VirtualClock(engines, record=record)
    session = clock.launch(lookahead_async(answer.root, k1=k1), answer)
    clock.run(session)
    return session.commit_times


def yardstick(answer: DrawnAnswer) -> Callable[[int], list[float]]:
    """Return the idiomatic program on the same answer, as a function of k1."""
    target_s = [TARGET_TOKEN_S * n for n in answer.target_lengths()]
    draft_s = [DRAFT_TOKEN_S * n for n in answer.draft_lengths()]
    accepted = answer.accepted()
    return lambda k1: idiomatic_commit_times(target_s, draft_s, accepted, k1=k1)
