"""Autoregressive decoding with the target model, without speculation: the baseline of every speedup.

An answer is one request wherever its lengths were recorded or are written by a real engine, as by users of a server.
Drawn answers of published profiles are written step by step, as the papers' closed forms and Lookahead Reasoning's
released code have it. A target that writes each step in a request of its own, as in step-level methods, is
`step_by_step`.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.catalogue import KnobValue, Method
from sim.operations import WAIT, Algorithm, Commit, Generate, Outcome, Step, steps_after
from sim.roles import TARGET

__all__ = ["METHODS", "autoregressive", "decoded", "step_by_step"]


def autoregressive(root: Step) -> Algorithm:
    """Generate the answer to ``root``, in one request if it can be requested as a whole."""
    return _written(root, whole=True)


def step_by_step(root: Step) -> Algorithm:
    """Generate the answer to ``root``, in a request for each step."""
    return _written(root, whole=False)


def _written(root: Step, *, whole: bool) -> Algorithm:
    before = root
    while not before.final:
        yield Generate(TARGET, before, whole=whole)
        done = yield WAIT
        done.outcome = Outcome.COMMITTED
        for step in steps_after(before, done.result):
            yield Commit(step)
        before = done.result


def decoded(**knobs: KnobValue | None) -> Callable[[Step], Algorithm]:
    """Return plain decoding; the knobs configure the engine."""
    return autoregressive


METHODS = (
    Method(
        name="autoregressive",
        title="plain decoding",
        paper="the baseline of every paper",
        level="baseline",
        algorithm=decoded,
        exact="the speedup, 1 by definition",
        measured="step lengths, seconds per iteration and prefill",
        drafts_steps=False,
    ),
)
