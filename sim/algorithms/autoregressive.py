"""Autoregressive decoding with the target model, without speculation: the baseline of every speedup."""

from __future__ import annotations

from collections.abc import Callable

from sim.catalogue import Method
from sim.operations import TARGET, WAIT, Algorithm, Commit, Generate, Outcome, Step

__all__ = ["METHODS", "autoregressive"]


def autoregressive(root: Step, *, role: str = TARGET) -> Algorithm:
    """Generate the answer to ``root`` one step after the other with the model ``role``."""
    step = root
    while not step.final:
        yield Generate(role, step)
        done = yield WAIT
        step = done.result
        done.outcome = Outcome.COMMITTED
        yield Commit(step)


def _build() -> Callable[[Step], Algorithm]:
    return autoregressive


METHODS = (
    Method(
        name="autoregressive",
        title="plain decoding",
        paper="the baseline of every paper",
        level="baseline",
        algorithm=_build,
        exact="the speedup, 1 by definition",
        measured="step lengths, seconds per iteration and prefill",
        drafts_steps=False,
    ),
)
