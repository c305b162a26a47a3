"""Times of drawn answers if no iteration is shared, by recursion on arrays: a control variate for the simulator.

The simulator is exact and slow. Its times of a few answers / the times computed here vary little between answers, so
that a few simulated answers are extended to many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibrate.replay.system import System
from sim.algorithms.rules import PRESETS, Rules
from sim.answers.drawn import SyntheticBehaviour
from sim.configuration import Configuration
from sim.engines.protocol import Cost
from sim.estimate import Estimate, ratio_of_totals
from sim.fast.recursions import async_recursion, sync_seconds
from sim.roles import DRAFT, JUDGE, TARGET

__all__ = ["FACTOR_KNOWN", "SIMULATED", "sharing_factor", "unshared_seconds"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

FACTOR_KNOWN: Final = 0.02
"""Half-width at which the factor of shared iterations is known well enough, as a share of it."""
SIMULATED: Final = (3, 6, 12)
"""Answers that are simulated for that factor, until it is known well enough."""
_CONTEXT: Final = 1000.0
"""Context at which the growth of an iteration's time is evaluated, tokens."""


def sharing_factor(simulate: Callable[[range], Array], unshared: Array, known: float = FACTOR_KNOWN) -> Estimate:
    """Return simulated seconds / seconds without shared iterations, ratio of totals over 3 to 12 answers, [-].

    Parameters
    ----------
    simulate : returns the simulated seconds of some of the answers, given their places.
    unshared : `unshared_seconds` of all answers.
    known : half-width at which the factor is known well enough, as a share of it, > 0.
    """
    seconds = np.empty(0)
    for n in SIMULATED:
        seconds = np.append(seconds, simulate(range(seconds.size, min(n, unshared.size))))
        factor = ratio_of_totals(seconds, unshared[: seconds.size])
        if factor.relative_half_width <= known:
            break
    return factor


def unshared_seconds(system: System, configuration: Configuration, indices: Sequence[int]) -> Array | None:
    """Return the seconds of answers on engines that never work on two steps at once; None for other configurations.

    Supported are plain decoding and Lookahead Reasoning with the judge, for drawn answers of equal numbers of steps;
    token-level speculation only as an average. Of several drafts of a position the first that is accepted is followed,
    as if it took no time to write and to judge the others.
    """
    behaviour = system.behaviour
    if not isinstance(behaviour, SyntheticBehaviour) or system.passes or not indices:
        return None
    drawn = _drawn(behaviour, tuple(indices), configuration.width)
    if drawn is None:
        return None
    written, proposed, accepted = drawn
    limit = np.inf if behaviour.lengths.limit is None else behaviour.lengths.limit
    target = np.minimum(written, limit)
    context = behaviour.prompt_tokens + np.cumsum(target, axis=1) - target / 2.0
    target_s = _step_seconds(system.costs[system.placement[TARGET]], target, context)
    if not configuration.spec.drafts_steps:
        return np.asarray(target_s.sum(axis=1))
    if configuration.method not in ("lr-async", "lr-sync") or configuration.decider != (JUDGE, None):
        return None
    draft_s = _step_seconds(system.costs[system.placement[DRAFT]], np.minimum(proposed, limit), context)
    rules, verify_s = PRESETS[configuration.rules], system.seconds.get(JUDGE)
    if verify_s is None:
        judge = system.costs[system.placement[JUDGE]]
        verify_s = judge.request_s + judge.prefill(1)
    k1, target_cut, draft_cut = configuration.k1, written > limit, proposed > limit
    if configuration.method == "lr-sync":
        judged_good = _judged(accepted, target_cut, draft_cut, rules)
        return sync_seconds(target_s, draft_s, judged_good, k1=k1, verify_s=verify_s, barrier=rules.barrier)
    cut = {"target_truncated": target_cut, "draft_truncated": draft_cut}
    commits, _ = async_recursion(target_s, draft_s, accepted, k1=k1, verify_s=verify_s, rules=rules, **cut)
    return np.asarray(commits[:, -1])


@lru_cache(maxsize=64)
def _drawn(behaviour: SyntheticBehaviour, indices: tuple[int, ...], width: int) -> tuple[Array, Array, Flags] | None:
    """Tokens of target steps and of the drafts that are followed, before any limit, and whether one was accepted.

    None if answers differ in their steps.
    """
    answers = [behaviour.answer(index) for index in indices]
    if len({answer.n_steps for answer in answers}) > 1:
        return None
    written = np.array([answer.target_lengths() for answer in answers], dtype=np.float64)
    proposed = np.array([[answer.draft_lengths(branch) for branch in range(width)] for answer in answers], np.float64)
    accepted = np.array([[answer.accepted(branch) for branch in range(width)] for answer in answers])
    followed = accepted.argmax(axis=1)[:, None]
    return written, np.take_along_axis(proposed, followed, axis=1)[:, 0], np.asarray(accepted.any(axis=1))


def _judged(accepted: Flags, target_cut: Flags, draft_cut: Flags, rules: Rules) -> Flags:
    """Which drafts are accepted if some are refused unjudged; each position counts as drafted."""
    good = accepted.copy()
    unjudged = np.full(len(good), rules.reject_first)
    for d in range(good.shape[1]):
        good[:, d] &= ~unjudged
        unjudged = rules.reject_after_truncation & np.where(good[:, d], draft_cut[:, d], target_cut[:, d])
    return good


def _step_seconds(cost: Cost, tokens: Array, context: Array) -> Array:
    """Seconds of steps at batch 1: the request, then an iteration for each token but the first."""
    empty = cost.iteration(1, 0.0)
    growth = (cost.iteration(1, _CONTEXT) - empty) / _CONTEXT
    return cost.request_s + cost.prefill(0) + np.maximum(tokens - 1.0, 0.0) * (empty + growth * context)
