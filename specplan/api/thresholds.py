"""A verifier's threshold, or the gate of a cascade, with a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from calibrate.thresholds.frontier import cascade, frontier
from calibrate.thresholds.labelled_decisions import (
    LABELS,
    SCORES,
    LabelledDecisions,
    check_scores,
    decisions_of_profile,
    default_grid,
    read_decisions,
    rejudged,
)
from calibrate.thresholds.risk import SAMPLINGS, Bound
from sim.catalogue import choice
from sim.configuration import Configuration
from sim.estimate import Estimate, proportion, ratio_of_totals
from specplan.api.planning import profile
from specplan.show.thresholds import Thresholds
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.record.profile import Profile

__all__ = ["Pairs", "Thresholds", "closed_form_speedup", "replayed_speedup", "thresholds"]

Pairs: TypeAlias = "str | Path | Sequence[Mapping[str, Any]]"
"""Labelled decisions: a file of JSON lines, or its rows."""
Speedup: TypeAlias = Callable[[float], Estimate]
"""A threshold to what it brings."""
_RISK_OF: Final = {
    "false-accept": "wrong-given-accepted",
    "accepted-and-wrong": "accepted-and-wrong",
    "accuracy-loss": "accuracy-loss",
}


def thresholds(
    of: Profile | str | Path | None = None,
    *,
    pairs: Pairs | None = None,
    gate: bool = False,
    bound: str = "false-accept",
    risk: float = 0.05,
    confidence: float = 0.95,
    sampling: str | None = None,
    score: str = "probability",
    grid: Sequence[float] | None = None,
    label: str = "same-meaning",
    decisions: int | None = None,
    method: str = "lr-async",
    k1: int = 4,
    c1: float | None = None,
    gate_cost: float | None = None,
    judge_cost: float | None = None,
) -> Thresholds:
    """Choose a verifier's threshold with a guarantee on fresh data, as ``specplan thresholds`` does.

    >>> import specplan as sp
    >>> right = [{"score": 0.9, "label": True}] * 400
    >>> chosen = sp.thresholds(pairs=right + [{"score": 0.2, "label": False}] * 100, c1=0.2)
    >>> 0.2 < chosen.threshold <= 0.9
    True
    >>> judged = [{"gate": 0.99, "judge": True}] * 300 + [{"gate": 0.55, "judge": False}] * 100
    >>> sp.thresholds(pairs=judged, gate=True, gate_cost=1, judge_cost=4).threshold > 0.55
    True

    Parameters
    ----------
    of : a measured profile whose steps have scores and ground truth, its name or its file; or else ``pairs``.
    pairs : decisions with score, label and perhaps answer: a file of JSON lines, or its rows.
    gate : choose gamma of a confidence cascade; the pairs then hold gate, judge and perhaps answer.
    bound : of which risk: false-accept, P(wrong | accepted); accepted-and-wrong, P(both); accuracy-loss, per answer.
    risk : largest allowed, in (0, 1).
    confidence : with which it holds, in (0, 1).
    sampling : independent or per-answer-mean; default by what is known of answers.
    score : kind of score: probability, 0-9 or cosine.
    grid : thresholds, fixed before the labels were seen; default by kind of score.
    label : of a profile: same-meaning or correct.
    decisions : of an answer at most, for accuracy-loss of independent ones.
    method, k1 : what speeds up: of a profile lr-async or lr-sync, target steps in flight, >= 2.
    c1 : draft / target step time, with pairs.
    gate_cost, judge_cost : of one verification, > 0, in one unit, with a gate.

    Raises
    ------
    ParameterError : an argument outside its range, or one that is missing.
    SchemaError : decisions that cannot be read, or that lack scores or labels.
    """
    if (of is None) == (pairs is None):
        raise ParameterError("profile", of, "must be given, or pairs, and not both")
    for name, cost in (("gate_cost", gate_cost), ("judge_cost", judge_cost)):
        if cost is not None and not gate:
            raise ParameterError(name, cost, "is for a gate only")

    def guarantee(labelled: LabelledDecisions) -> Bound:
        return _bound(labelled, bound, risk, confidence, sampling, decisions)

    if gate:
        if pairs is None:
            raise ParameterError("pairs", None, "must be given for a gate: rows with gate, judge and answer")
        if gate_cost is None or judge_cost is None:
            name = "gate_cost" if gate_cost is None else "judge_cost"
            raise ParameterError(name, None, "must be given for a gate: cost of one verification")
        labelled = read_decisions(pairs, gate=True)
        cheapest = cascade(
            labelled.decisions, guarantee(labelled), gate_cost=gate_cost, judge_cost=judge_cost, grid=grid
        )
        return Thresholds(search=cheapest, labelled=labelled, speedup_from="")
    kind = choice("score", score, SCORES)
    speedup: Speedup
    if of is not None:
        if k1 < 2:
            raise ParameterError("k1", k1, "must be at least 2: with one step in flight nothing is accepted")
        configuration = Configuration(method=choice("method", method, ("lr-async", "lr-sync")), k1=k1)
        given = profile(of)
        labelled = decisions_of_profile(given, choice("label", label, LABELS))
        speedup = replayed_speedup(given, configuration)
        rests_on = (
            f"recorded answers replayed with changed verdicts ({configuration.method}, k1 = {k1}); "
            "after a changed verdict a real run would go on from another step"
        )
    else:
        assert pairs is not None
        labelled = read_decisions(pairs)
        if c1 is None:
            raise ParameterError("c1", None, "must be given with pairs: draft / target step time")
        speedup = closed_form_speedup(labelled, c1=c1, k1=k1)
        rests_on = f"closed form f_async(share accepted, c1 = {c1:g}, k1 = {k1})"
    if grid is None:
        check_scores(labelled, kind)
    fastest = frontier(labelled.decisions, default_grid(kind) if grid is None else grid, guarantee(labelled), speedup)
    return Thresholds(search=fastest, labelled=labelled, speedup_from=rests_on)


def _bound(
    labelled: LabelledDecisions,
    bound: str,
    level: float,
    confidence: float,
    sampling: str | None,
    decisions: int | None,
) -> Bound:
    risk: Any = _RISK_OF[choice("bound", bound, tuple(_RISK_OF))]
    default = "per-answer-mean" if labelled.clustered else "independent"
    chosen = choice("sampling", sampling or default, SAMPLINGS)
    if chosen != "independent" and not labelled.clustered:
        raise ParameterError("sampling", chosen, "needs decisions that name their answer")
    if decisions is None and risk == "accuracy-loss" and chosen == "independent":
        if not labelled.clustered:
            raise ParameterError("decisions", None, "must be given: decisions of an answer at most")
        decisions = labelled.decisions.largest_answer
    return Bound(level=level, risk=risk, confidence=confidence, sampling=chosen, decisions_per_answer=decisions or 1)


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
