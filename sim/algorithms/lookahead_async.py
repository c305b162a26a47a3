"""Lookahead Reasoning, asynchronous (Fu et al. 2025, section 3.1, "Asynchronous Generation", and Appendix B.1.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from sim.algorithms.checks import CHECK_KNOBS, JUDGED, Check
from sim.algorithms.lookahead_tree import Lookahead
from sim.algorithms.rules import PAPER, PRESETS, Rules, check_counts
from sim.catalogue import Knob, Method
from sim.operations import DRAFT, JUDGE, Algorithm, Step

__all__ = ["LOOKAHEAD_KNOBS", "METHODS", "lookahead_async", "most_sequences"]


def lookahead_async(root: Step, *, k1: int, width: int = 1, rules: Rules = PAPER, check: Check = JUDGED) -> Algorithm:
    """Generate the answer to ``root`` by asynchronous Lookahead Reasoning.

    Parameters
    ----------
    root : the prompt.
    k1 : target steps in flight along one path, >= 1 (1 is plain decoding with drafts that are never used).
    width : drafts per position, >= 1 (the paper's W); targets in flight grow as ``width ** depth``.
    rules : scheduling rules; `PAPER`, `RELEASED_CODE` or `EAGER`, or your own.
    check : the verifier of drafts and its threshold.

    Raises
    ------
    ParameterError : ``k1`` or ``width`` is not a positive integer.
    """
    check_counts(k1, width)
    return _run(Lookahead(root, k1 + rules.extra_in_flight, width, rules, check))


def _run(state: Lookahead) -> Algorithm:
    actions = state.actions
    while not state.ended:
        done = yield actions
        actions.clear()
        state.on_done(done)
    yield from actions


def most_sequences(*, k1: int, width: int, rules: str, **knobs: object) -> int:
    """Return the target sequences in flight at the worst moment: one per node of a full tree of the window's depth."""
    return int(sum(width**level for level in range(k1 + PRESETS[rules].extra_in_flight)))


def _build(
    *, k1: int, width: int, rules: str, verifier: str, threshold: float | None, gamma: float
) -> Callable[[Step], Algorithm]:
    check = Check(verifier=verifier, threshold=threshold, gamma=gamma)
    return partial(lookahead_async, k1=k1, width=width, rules=PRESETS[rules], check=check)


LOOKAHEAD_KNOBS: Final = (
    Knob(name="k1", kind="integer", default=4, low=1, high=1024, help="target steps in flight along one path"),
    Knob(name="width", kind="integer", default=1, low=1, high=1024, help="drafts per position (W)"),
    Knob(name="rules", kind="choice", default="paper", choices=tuple(PRESETS), help="schedule"),
    *CHECK_KNOBS,
)

METHODS = (
    Method(
        name="lr-async",
        title="LR async",
        paper="Fu et al. 2025 (Lookahead Reasoning), section 3.1 and Appendix B.1.1; Theorem 2",
        level="step",
        algorithm=_build,
        knobs=LOOKAHEAD_KNOBS,
        roles=(DRAFT, JUDGE),
        exact="Theorem 2 for constant step times, independent acceptance and free verdicts",
        measured="step lengths, acceptance and scores along recorded answers; engine timings",
        closed_form="theory.speedup.f_async",
        in_flight=most_sequences,
    ),
)
