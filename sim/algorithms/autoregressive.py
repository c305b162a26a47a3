"""Autoregressive decoding with the target model alone: the baseline of every speedup."""

from __future__ import annotations

from sim.operations import TARGET, WAIT, Algorithm, Commit, Generate, Outcome, Step

__all__ = ["autoregressive"]


def autoregressive(root: Step, *, role: str = TARGET) -> Algorithm:
    """Generate the answer to ``root`` one step after the other with the model ``role``."""
    step = root
    while not step.final:
        yield Generate(role, step)
        done = yield WAIT
        step = done.result
        done.outcome = Outcome.COMMITTED
        yield Commit(step)
