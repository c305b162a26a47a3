r"""Closed forms of methods that speculate on reasoning steps, other than Lookahead Reasoning.

All times are in target steps: a target step takes 1, a draft step c1, a score, gate or judge its cost, independent of
concurrent requests. Acceptance is independent from position to position. Answers are long, so that their ends do not
count. Under these assumptions every formula here is exact (``tests/sim/algorithms/test_step_methods.py`` compares each
with the simulator to rounding); the simulator computes the effect of varying lengths and shared engines.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from theory.cascade import Fallback
from theory.checks import FloatArray, broadcast_shape, count, nonnegative, probability, ratio, unwrap
from theory.errors import ParameterError
from theory.kernels import geometric_sum
from theory.speedup import f_async

__all__ = [
    "any_of",
    "best_of_speedup",
    "confspec_pipeline_speedup",
    "confspec_speedup",
    "graded_speedup",
]


def any_of(alpha1: ArrayLike, width: ArrayLike) -> FloatArray:
    """Probability that at least one of independent events happens, ``1 - (1 - a)**W``.

    Parameters
    ----------
    alpha1 : probability of each, [-], in [0, 1].
    width : how many, >= 1.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    Fu et al. 2025 (Lookahead Reasoning), section 3.1. Siblings of a real draft tree are correlated:
    `theory.branches.accepted_among`.

    >>> float(any_of(0.5, 2))
    0.75
    """
    a, w = probability("alpha1", alpha1), count("width", width)
    broadcast_shape(alpha1=a, width=w)
    with np.errstate(divide="ignore"):
        return unwrap(-np.expm1(w * np.log1p(-a)))


def graded_speedup(alpha1: ArrayLike, c1: ArrayLike, score_cost: ArrayLike = 0.0) -> FloatArray:
    r"""Speedup of SpecReason and of single-path RSD: draft, score, and the target's own step where it fails.

    .. math:: S = \frac{1}{c_1 + s + 1 - \alpha}

    Parameters
    ----------
    alpha1 : probability that the score of a draft step reaches the threshold, [-], in [0, 1].
    c1 : draft step time / target step time, [-], in [0, 1].
    score_cost : time of a score / target step time (s), >= 0.

    Returns
    -------
    Speedup over plain decoding, [-]; below 1 where ``alpha1 < c1 + s``.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    The schedule of Pan et al. 2025 (SpecReason) and Liao et al. 2025 (RSD), as in ConfSpec, section 3.2.

    >>> float(graded_speedup(0.75, 0.25))
    2.0
    """
    a, c, s = probability("alpha1", alpha1), ratio("c1", c1), nonnegative("score_cost", score_cost)
    broadcast_shape(alpha1=a, c1=c, score_cost=s)
    with np.errstate(divide="ignore"):
        return unwrap(1.0 / (c + s + (1.0 - a)))


def best_of_speedup(alpha1: ArrayLike, c1: ArrayLike, width: ArrayLike, select_cost: ArrayLike = 0.0) -> FloatArray:
    """Speedup of SpecCoT with independent drafts that are generated and graded concurrently at no extra cost.

    Parameters
    ----------
    alpha1 : probability that a draft is good enough, [-], in [0, 1].
    c1 : draft step time / target step time, [-], in [0, 1].
    width : drafts per position, >= 1.
    select_cost : time of the selection / target step time, >= 0.

    Returns
    -------
    `graded_speedup` with the probability that one of the drafts is good enough.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    The schedule of Shi et al. 2025 (SpecCoT), as in ConfSpec, section 3.2.

    >>> float(best_of_speedup(0.5, 0.25, 2))
    2.0
    """
    return graded_speedup(any_of(alpha1, width), c1, select_cost)


def confspec_speedup(
    alpha1: ArrayLike,
    c1: ArrayLike,
    k1: ArrayLike,
    *,
    fallback: Fallback = "printed",
    gate_cost: ArrayLike = 0.0,
    judge_cost: ArrayLike = 0.0,
    escalation: ArrayLike = 0.0,
    width: ArrayLike = 1,
) -> FloatArray:
    r"""Speedup of ConfSpec's Algorithm 1: steps committed per iteration over the time of an iteration.

    .. math:: S = \frac{\mathrm{E}[\text{committed}]}{k_1 c_1 + 1 + \mathrm{E}[\text{verified}] (v_D + e v_T) + r}

    Verified are 1 + p + ... + p**(k1 - 1) steps, the first rejected one included; committed are as many, but as printed
    p + ... + p**k1 + 1 - p. r is the probability that the iteration ends with a step that the target writes anew: 1 - p
    (printed: no draft was accepted), 1 - p**k1 (text: not all were), 0 (reuse). With ``width`` > 1 a position is
    accepted with p = 1 - (1 - alpha1)**W, and its siblings are checked concurrently, so that it takes longer if
    any is escalated.

    Parameters
    ----------
    alpha1 : probability that a draft step is accepted given that those before it were, [-], in [0, 1].
    c1 : draft step time / target step time, [-], in [0, 1].
    k1 : steps drafted per iteration, >= 1.
    fallback : as in `theory.cascade.Fallback`.
    gate_cost, judge_cost : time of a verdict by the draft and by the judge / target step time, >= 0.
    escalation : share of drafts on which the gate is not confident, [-], in [0, 1]; independent of acceptance.
    width : drafts per position, >= 1.

    Returns
    -------
    Speedup over plain decoding, [-].

    Raises
    ------
    ParameterError : a value outside its range, an unknown fallback, or shapes that do not broadcast.

    References
    ----------
    ConfSpec, Algorithm 1 and sections 4.2 to 4.4.

    >>> float(confspec_speedup(1.0, 0.25, 4)), float(confspec_speedup(0.0, 0.25, 4, fallback="reuse"))
    (2.0, 0.5)
    """
    _check_fallback(fallback)
    p, c, k = np.asarray(any_of(alpha1, width)), ratio("c1", c1), count("k1", k1)
    gate, judge = nonnegative("gate_cost", gate_cost), nonnegative("judge_cost", judge_cost)
    escalated = any_of(probability("escalation", escalation), width)
    broadcast_shape(alpha1=p, c1=c, k1=k, gate_cost=gate, judge_cost=judge, escalation=np.asarray(escalated))
    anew = {"printed": 1.0 - p, "text": 1.0 - p**k, "reuse": np.zeros(())}
    committed = verified = geometric_sum(p, k.astype(np.float64))
    if fallback == "printed":  # 1 + p^2 + ... + p^k: the leading p cancels against -p
        committed = 1.0 + p * p * geometric_sum(p, (k - 1).astype(np.float64))
    return unwrap(np.asarray(committed / (k * c + 1.0 + verified * (gate + escalated * judge) + anew[fallback])))


def confspec_pipeline_speedup(
    alpha1: ArrayLike, c1: ArrayLike, k1: ArrayLike, *, fallback: Fallback = "reuse", width: ArrayLike = 1
) -> FloatArray:
    r"""Speedup of ConfSpec run as an asynchronous pipeline with free verdicts: Theorem 2 of Lookahead Reasoning.

    .. math:: S = f, \quad \frac{1}{1/f + 1 - p} \text{ (text)}, \quad
              \frac{p + (1 - p)^2}{1/f + (1 - p)^2} \text{ (printed)}, \qquad f = f_{async}(p, c_1, k_1)

    A stage ends with a rejection and takes 1 / ((1 - p) f) target steps. With ``reuse`` it commits the target step of
    the comparison too; with ``text`` a new target step, one step time later; as ``printed`` it commits its accepted
    drafts only, or, if there are none, with probability 1 - p, a new target step.

    Parameters
    ----------
    alpha1 : probability that a draft step is accepted given that those before it were, [-], in [0, 1].
    c1 : draft step time / target step time, [-], in [0, 1].
    k1 : target steps in flight along one path, >= 1.
    fallback : as in `theory.cascade.Fallback`.
    width : drafts per position, >= 1; independent, so that p = 1 - (1 - alpha1)**W, and concurrent at no cost.

    Returns
    -------
    Speedup over plain decoding, [-].

    Raises
    ------
    ParameterError : a value outside its range, an unknown fallback, or shapes that do not broadcast.

    References
    ----------
    ConfSpec, Appendix B, "Asynchronous Execution"; Fu et al. 2025 (Lookahead Reasoning), Theorem 2.

    >>> float(confspec_pipeline_speedup(0.0, 0.25, 4)), float(confspec_pipeline_speedup(0.0, 0.25, 4, fallback="text"))
    (1.0, 0.5)
    """
    _check_fallback(fallback)
    p = np.asarray(any_of(alpha1, width))
    f = np.asarray(f_async(p, c1, k1))
    anew = {"printed": (1.0 - p) ** 2, "text": 1.0 - p, "reuse": np.zeros_like(p)}[fallback]
    committed = p + anew if fallback == "printed" else np.ones_like(p)
    return unwrap(np.asarray(committed / (1.0 / f + anew)))


def _check_fallback(fallback: str) -> None:
    if fallback not in get_args(Fallback):
        raise ParameterError("fallback", fallback, f"must be one of {', '.join(get_args(Fallback))}")
