r"""Closed forms of ConfSpec (Liu, Cao, He 2025): cost of gated verification, loss of accuracy.

A draft verifier decides where it is confident and escalates the other decisions. The paper's alpha, the share of
escalated decisions, is ``escalation`` here, because alpha1 is the acceptance of a draft step. Costs may be in any unit,
the same for all.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from theory.checks import FloatArray, broadcast_shape, count, positive, probability, unwrap

__all__ = [
    "Fallback",
    "accuracy_loss_bound",
    "break_even_escalation",
    "expected_verification_cost",
    "tolerable_disagreement",
]

Fallback = Literal["printed", "text", "reuse"]
"""After the first rejection: ``printed`` (Algorithm 1) lets the target write a step only if no draft was accepted,
``text`` (section 4.2) always, ``reuse`` commits the target step that the draft was compared with."""


def expected_verification_cost(escalation: ArrayLike, draft_cost: ArrayLike, target_cost: ArrayLike) -> FloatArray:
    """Mean cost of verifying one step, ``c_d + e c_t``.

    Parameters
    ----------
    escalation : share of decisions passed to the target verifier, [-], in [0, 1].
    draft_cost, target_cost : cost of one verification by each model, > 0, one unit (seconds, say).

    Returns
    -------
    Cost per verified step, in the same unit.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    ConfSpec, section 4.4.

    >>> round(float(expected_verification_cost(0.39, 8.7, 45.9)), 1)
    26.6
    """
    e = probability("escalation", escalation)
    draft, target = positive("draft_cost", draft_cost), positive("target_cost", target_cost)
    broadcast_shape(escalation=e, draft_cost=draft, target_cost=target)
    return unwrap(draft + e * target)


def break_even_escalation(draft_cost: ArrayLike, target_cost: ArrayLike) -> FloatArray:
    """Escalation below which the cascade costs less than the target verifier without a gate, ``max(0, 1 - c_d / c_t)``.

    Parameters
    ----------
    draft_cost, target_cost : cost of one verification by each model, > 0, one unit.

    Returns
    -------
    Escalation, [-], in [0, 1); 0 means that the cascade never pays.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    Claim CS-V2 of the ledger, from ConfSpec, section 4.4.

    >>> float(break_even_escalation(1.0, 4.0))
    0.75
    """
    draft, target = positive("draft_cost", draft_cost), positive("target_cost", target_cost)
    broadcast_shape(draft_cost=draft, target_cost=target)
    # the difference first: exact where the costs are close, so no digit of a small threshold is lost
    with np.errstate(over="ignore"):
        return unwrap(np.maximum(0.0, (target - draft) / target))


def accuracy_loss_bound(disagreement: ArrayLike, n_decisions: ArrayLike) -> FloatArray:
    """Largest change of accuracy when every decision differs from the target's with at most this probability.

    Parameters
    ----------
    disagreement : bound on P(a decision differs | all before agreed), [-], in [0, 1].
    n_decisions : decisions per answer, >= 0.

    Returns
    -------
    ``1 - (1 - d)**n``, [-]; at most ``n d``. Reached by answers that flip with the first differing decision.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    Claim CS-P2 of the ledger.

    >>> float(accuracy_loss_bound(0.5, 2))
    0.75
    """
    d, n = probability("disagreement", disagreement), count("n_decisions", n_decisions, minimum=0)
    broadcast_shape(disagreement=d, n_decisions=n)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = -np.expm1(n * np.log1p(-d))
    return unwrap(np.where(n == 0, 0.0, bound))


def tolerable_disagreement(accuracy_loss: ArrayLike, n_decisions: ArrayLike) -> FloatArray:
    """Disagreement per decision that keeps the change of accuracy within a tolerance, ``1 - (1 - loss)**(1 / n)``.

    Parameters
    ----------
    accuracy_loss : tolerated change of accuracy, [-], in [0, 1].
    n_decisions : decisions per answer, >= 1.

    Returns
    -------
    Largest disagreement, [-]; the inverse of `accuracy_loss_bound`.

    Raises
    ------
    ParameterError : a value outside its range, or shapes that do not broadcast.

    References
    ----------
    Claim CS-P2 of the ledger, solved for d.

    >>> float(tolerable_disagreement(0.75, 2))
    0.5
    """
    loss, n = probability("accuracy_loss", accuracy_loss), count("n_decisions", n_decisions)
    broadcast_shape(accuracy_loss=loss, n_decisions=n)
    with np.errstate(divide="ignore"):
        return unwrap(-np.expm1(np.log1p(-loss) / n))
