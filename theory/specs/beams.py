r"""Closed forms of test-time scaling: beam search, RSD with several beams, and SPECS; how long, how often, how good.

A step's cost is the time of generating its candidates side by side and of scoring them, in target steps: one of plain
decoding takes 1. Where candidates have different lengths the cost is the time of a batch that empties. Candidates are
independent given the prefix, one position's law is the next one's. Under these assumptions everything here is exact
(``tests/sim/algorithms/test_beams.py`` compares with the simulator).
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import (
    FloatArray,
    broadcast_shape,
    count,
    positive,
    probability,
    scalar_count,
    scalar_probability,
    unwrap,
)
from theory.errors import ParameterError
from theory.step_methods import any_of

__all__ = [
    "beam_speedup",
    "rsd_beams_speedup",
    "specs_speedup",
]

Switch: TypeAlias = Literal["once", "both-ways", "retry", "random", "never"]
_SWITCHES: Final = ("once", "both-ways", "retry", "random", "never")


def beam_speedup(step_cost: ArrayLike) -> FloatArray:
    """Speedup of beam search that keeps one beam, 1 / q, usually below 1: what it buys is accuracy.

    Parameters
    ----------
    step_cost : time of generating and scoring all candidates of a step (q), target steps, > 0.

    Returns
    -------
    Speedup over plain decoding, [-].

    Raises
    ------
    ParameterError : a value outside its range.

    References
    ----------
    The schedule of Snell et al. 2025 and SPECS, section 4.1.

    >>> float(beam_speedup(1.25))
    0.8
    """
    return unwrap(1.0 / positive("step_cost", step_cost))


def rsd_beams_speedup(alpha1: ArrayLike, width: ArrayLike, draft_cost: ArrayLike, target_cost: ArrayLike) -> FloatArray:
    r"""Speedup of RSD with several beams: the best draft stands, or the target's candidates are generated as well.

    .. math:: S = \frac{1}{q_D + (1 - \alpha)^n q_T}

    Parameters
    ----------
    alpha1 : probability that the reward of a draft step reaches the threshold, [-], in [0, 1].
    width : candidates per position (n), >= 1.
    draft_cost, target_cost : time of generating and scoring the candidates of either model, target steps, > 0.

    Returns
    -------
    Speedup over plain decoding, [-].

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    SPECS, section 4.1 ("RSD"), after Liao et al. 2025.

    >>> float(rsd_beams_speedup(0.5, 1, 0.5, 1.0)), float(rsd_beams_speedup(0.5, 2, 0.25, 1.0))
    (1.0, 2.0)
    """
    a, n = probability("alpha1", alpha1), count("width", width)
    d, t = positive("draft_cost", draft_cost), positive("target_cost", target_cost)
    broadcast_shape(alpha1=a, width=n, draft_cost=d, target_cost=t)
    return unwrap(np.asarray(1.0 / (d + (1.0 - np.asarray(any_of(a, n))) * t)))


def specs_speedup(
    n_steps: int,
    promising_target: float,
    promising_draft: float,
    target_cost: float,
    draft_cost: float,
    *,
    switch: Switch = "once",
    start: Literal["target", "draft"] = "target",
    share: float = 0.5,
) -> float:
    r"""Speedup of SPECS: steps over the time of the expected generations by either model.

    Who generates is a Markov chain: with probability t the target generates a step, and

    .. math:: t' = t \, P(\text{target again}) + (1 - t) \, P(\text{back to the target}).

    Parameters
    ----------
    n_steps : steps of the answer, >= 1.
    promising_target, promising_draft : probability that some candidate of the model is rewarded above tau, in [0, 1]:
        ``any_of(q, n)`` for n independent candidates.
    target_cost : time of generating and rewarding the target's candidates of a step, target steps, > 0.
    draft_cost : time of generating, rewarding and, where the score has it, weighing the draft's by likelihood, > 0.
    switch : as in `sim.algorithms.specs`: ``once`` (Algorithm 1), ``both-ways``, ``retry``, ``random``, ``never``.
    start : who generates the first step; ``retry`` begins every step with the draft.
    share : ``random`` only: probability that the target generates a step after the first.

    Returns
    -------
    Speedup over plain decoding, [-].

    Raises
    ------
    ParameterError : a value outside its range, a cost that is not positive, or no such ``switch`` or ``start``.

    References
    ----------
    SPECS, Algorithm 1, line 9, and its ablations (Tables 2 and 6).

    >>> specs_speedup(4, 1.0, 1.0, 1.0, 0.5), specs_speedup(4, 0.0, 0.75, 1.0, 0.5, switch="retry")
    (1.6, 1.3333333333333333)
    """
    target, draft = float(positive("target_cost", target_cost)), float(positive("draft_cost", draft_cost))
    n, p, q = (
        scalar_count("n_steps", n_steps),
        scalar_probability("promising_target", promising_target),
        scalar_probability("promising_draft", promising_draft),
    )
    lot = scalar_probability("share", share)
    if switch not in _SWITCHES:
        raise ParameterError("switch", switch, f"must be one of {', '.join(_SWITCHES)}")
    if start not in ("target", "draft"):
        raise ParameterError("start", start, "must be 'target' or 'draft'")
    if switch == "retry":
        return n / (n * (1.0 - q) * target + n * draft)
    again, back = {
        "once": (1.0 - p, 0.0),
        "both-ways": (1.0 - p, 1.0 - q),
        "random": (lot, lot),
        "never": (1.0, 0.0),
    }[switch]
    t = float(start == "target")
    by_target = 0.0
    for _ in range(n):
        by_target += t
        t = t * again + (1.0 - t) * back
    return n / (by_target * target + (n - by_target) * draft)
