"""What a threshold brings: the speedup predicted for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from calibrate.record.profile import Profile
from calibrate.thresholds.labelled_decisions import LabelledDecisions, rejudged
from sim.estimate import Estimate, proportion, ratio_of_totals

if TYPE_CHECKING:
    from sim.configuration import Configuration

__all__ = ["Speedup", "closed_form_speedup", "replayed_speedup"]

Speedup = Callable[[float], Estimate]
"""A threshold to what it brings."""


def replayed_speedup(profile: Profile, configuration: Configuration) -> Speedup:
    """Speedup of a threshold by replaying a profile's recorded answers with the verdicts that it would have given.

    Returns
    -------
    Threshold to speedup (ratio of totals over the recorded answers; the interval is that of sampling the answers).
    Approximate where a changed verdict would have led to other steps; see
    `calibrate.thresholds.labelled_decisions.rejudged`.
    """
    from specplan.planning.predict import Predictor

    known: dict[tuple[bool, ...], Estimate] = {}

    def speedup(threshold: float) -> Estimate:
        answers = rejudged(profile.all_answers, threshold)
        pattern = tuple(step.verdict.accepted for answer in answers for step in answer.steps)
        if pattern not in known:
            n = len(profile.answers)
            changed = profile.model_copy(update={"answers": answers[:n], "texts": answers[n:]})
            known[pattern] = Predictor(changed, uncertainty=False).predict(configuration).speedup
        return known[pattern]

    return speedup


def closed_form_speedup(labelled: LabelledDecisions, *, c1: float, k1: int) -> Speedup:
    """Speedup of a threshold by the closed form of async lookahead reasoning, from the share of decisions it accepts.

    Parameters
    ----------
    labelled : scored decisions; the acceptance is clustered by answer where the answers are known.
    c1 : draft step time / target step time, in [0, 1].
    k1 : target steps in flight, >= 1.

    Returns
    -------
    Threshold to speedup; its interval is that of the acceptance. Step times are taken as fixed, acceptance as
    independent from step to step, and verification as free: an upper estimate (LR, Theorem 1).
    """
    from theory.speedup import f_async

    def speedup(threshold: float) -> Estimate:
        alpha = _acceptance(labelled, threshold)
        value, low, high = (float(f_async(min(max(a, 0.0), 1.0), c1, k1)) for a in (alpha.value, alpha.low, alpha.high))
        slope = (high - low) / (alpha.high - alpha.low) if alpha.high > alpha.low else 0.0
        return Estimate(
            value=value,
            stderr=slope * alpha.stderr,
            low=low,
            high=high,
            n=alpha.n,
            estimator="closed form f_async of the share accepted",
        )

    return speedup


def _acceptance(labelled: LabelledDecisions, threshold: float) -> Estimate:
    decisions = labelled.decisions
    accepted = decisions.scores >= threshold
    share = proportion(int(accepted.sum()), decisions.n)
    if not labelled.clustered or decisions.n_answers < 2 or share.value in (0.0, 1.0):
        return share
    by_answer = np.bincount(decisions.answers, weights=accepted)
    return ratio_of_totals(by_answer, np.bincount(decisions.answers))
