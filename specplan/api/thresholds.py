"""A verifier's threshold, or the gate of a cascade, with a guarantee."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from specplan.api.planning import profile
from specplan.show.result import Result, flat
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.record.profile import Profile
    from calibrate.thresholds.frontier import Cascade, Frontier
    from calibrate.thresholds.labelled_decisions import LabelledDecisions
    from calibrate.thresholds.risk import Bound
    from sim.configuration import Configuration
    from sim.estimate import Estimate
    from specplan.show.page import Report

__all__ = ["Pairs", "Thresholds", "thresholds"]

Pairs: TypeAlias = "str | Path | Sequence[Mapping[str, Any]]"
"""Labelled decisions: a file of JSON lines, or its rows."""

_RISK_OF: Final = {
    "false-accept": "wrong-given-accepted",
    "accepted-and-wrong": "accepted-and-wrong",
    "accuracy-loss": "accuracy-loss",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Thresholds(Result):
    """Every threshold of a grid with its risk and what it brings, and the one to choose."""

    found: Frontier | Cascade
    labelled: LabelledDecisions
    speedup_from: str
    """What the speedups rest on, in words; empty for the gate of a cascade, which has costs instead."""

    @property
    def threshold(self) -> float | None:
        """The threshold to choose; None if none is certified."""
        rows = self.found.points if hasattr(self.found, "points") else self.found.rows
        if self.found.chosen is None:
            return None
        chosen = rows[self.found.chosen]
        return float(chosen.row.threshold if hasattr(chosen, "row") else chosen.threshold)

    def headline(self) -> str:
        """Return what to do and how sure it is, and what more labels would bring."""
        return f"{self.found.verdict} {self.found.advice}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each threshold, the safest first; the limits of its risk are one-sided."""
        if hasattr(self.found, "points"):
            rows = [(point.row, {"speedup": point.speedup}) for point in self.found.points]
        else:
            rows = [(row, {"cost": cost}) for row, cost in zip(self.found.rows, self.found.costs, strict=True)]
        names = ("threshold", "accepted", "failures", "trials", "p_value", "status", "units_needed")
        return [
            flat({name: getattr(row, name) for name in names})
            | {"risk": row.risk, "risk_low": row.low, "risk_high": row.high, "chosen": i == self.found.chosen}
            | flat(brings)
            for i, (row, brings) in enumerate(rows)
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan thresholds --json`` prints."""
        known = self.labelled
        return {
            "schema": "specplan.thresholds" if self.speedup_from else "specplan.gate",
            "schema_version": 1,
            "source": known.source,
            "n_decisions": known.decisions.n,
            "n_answers": known.decisions.n_answers if known.clustered else None,
            "n_unlabelled": known.n_unlabelled,
            "n_unscored": known.n_unscored,
            "clustered": known.clustered,
            **dataclasses.asdict(self.found),
        }

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan thresholds`` prints, with ``verbose`` what it prints with ``-v``."""
        from specplan.show.rendering import as_text
        from specplan.show.texts.thresholds import first_screen

        return as_text(self.report()) if verbose else first_screen(self.found, self.labelled, self.speedup_from)

    def conclude(self) -> None:
        """End the command with 3 where more labels would certify a threshold, with 1 where they would not."""
        from click.exceptions import Exit

        if self.threshold is None:
            raise Exit(1 if self.found.labels_needed is None else 3)

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        from specplan.show.thresholds import thresholds_report

        return thresholds_report(self.found, self.labelled, self.speedup_from)


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
    >>> found = sp.thresholds(pairs=right + [{"score": 0.2, "label": False}] * 100, c1=0.2)
    >>> 0.2 < found.threshold <= 0.9
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
    from calibrate.thresholds.frontier import cascade, frontier
    from calibrate.thresholds.labelled_decisions import check_scores, default_grid
    from sim.catalogue import choice

    if (of is None) == (pairs is None):
        raise ParameterError("profile", of, "must be given, or pairs, and not both")
    for name, cost in (("gate_cost", gate_cost), ("judge_cost", judge_cost)):
        if cost is not None and not gate:
            raise ParameterError(name, cost, "is for a gate only")

    def guarantee(labelled: LabelledDecisions) -> Bound:
        return _bound(labelled, bound, risk, confidence, sampling, decisions)

    if gate:
        labelled, gate_cost, judge_cost = _gated(pairs, gate_cost, judge_cost)
        cheapest = cascade(
            labelled.decisions, guarantee(labelled), gate_cost=gate_cost, judge_cost=judge_cost, grid=grid
        )
        return Thresholds(found=cheapest, labelled=labelled, speedup_from="")
    from calibrate.thresholds.labelled_decisions import SCORES

    kind = choice("score", score, SCORES)
    if of is not None:
        labelled, speedup, rests_on = _of_profile(of, label, _configuration(method, k1))
    else:
        assert pairs is not None
        labelled, speedup, rests_on = _of_pairs(pairs, c1, k1)
    if grid is None:
        check_scores(labelled, kind)
    fastest = frontier(labelled.decisions, default_grid(kind) if grid is None else grid, guarantee(labelled), speedup)
    return Thresholds(found=fastest, labelled=labelled, speedup_from=rests_on)


_Known: TypeAlias = "tuple[LabelledDecisions, Callable[[float], Estimate], str]"
"""Labelled decisions, the speedup of a threshold, and what that rests on."""


def _of_profile(of: Profile | str | Path, label: str, configuration: Configuration) -> _Known:
    from calibrate.thresholds.labelled_decisions import LABELS, decisions_of_profile
    from sim.catalogue import choice
    from specplan.planning.threshold_speedup import replayed_speedup

    given = profile(of)
    labelled = decisions_of_profile(given, choice("label", label, LABELS))
    rests_on = (
        f"recorded answers replayed with changed verdicts ({configuration.method}, k1 = {configuration.k1}); "
        "after a changed verdict a real run would go on from another step"
    )
    return labelled, replayed_speedup(given, configuration), rests_on


def _of_pairs(pairs: Pairs, c1: float | None, k1: int) -> _Known:
    from specplan.planning.threshold_speedup import closed_form_speedup

    labelled = _read(pairs, gate=False)
    if c1 is None:
        raise ParameterError("c1", None, "must be given with pairs: draft / target step time")
    rests_on = f"closed form f_async(share accepted, c1 = {c1:g}, k1 = {k1})"
    return labelled, closed_form_speedup(labelled, c1=c1, k1=k1), rests_on


def _gated(
    pairs: Pairs | None, gate_cost: float | None, judge_cost: float | None
) -> tuple[LabelledDecisions, float, float]:
    """The decisions of a gate, and what a verification costs by either."""
    if pairs is None:
        raise ParameterError("pairs", None, "must be given for a gate: rows with gate, judge and answer")
    if gate_cost is None or judge_cost is None:
        name = "gate_cost" if gate_cost is None else "judge_cost"
        raise ParameterError(name, None, "must be given for a gate: cost of one verification")
    return _read(pairs, gate=True), gate_cost, judge_cost


def _read(pairs: Pairs, *, gate: bool) -> LabelledDecisions:
    from calibrate.thresholds.labelled_decisions import decisions_of_rows, read_decisions

    return read_decisions(pairs, gate=gate) if isinstance(pairs, (str, Path)) else decisions_of_rows(pairs, gate=gate)


def _configuration(method: str, k1: int) -> Configuration:
    from sim.catalogue import choice
    from sim.configuration import Configuration

    if k1 < 2:
        raise ParameterError("k1", k1, "must be at least 2: with one step in flight nothing is accepted")
    return Configuration(method=choice("method", method, ("lr-async", "lr-sync")), k1=k1)


def _bound(
    labelled: LabelledDecisions,
    bound: str,
    level: float,
    confidence: float,
    sampling: str | None,
    decisions: int | None,
) -> Bound:
    from calibrate.thresholds.risk import SAMPLINGS, Bound
    from sim.catalogue import choice

    risk: Any = _RISK_OF[choice("bound", bound, tuple(_RISK_OF))]
    default = "per-answer-mean" if labelled.clustered else "independent"
    chosen = choice("sampling", sampling or default, SAMPLINGS)
    if chosen != "independent" and not labelled.clustered:
        raise ParameterError("sampling", chosen, "needs decisions that name their answer")
    if decisions is None and risk == "accuracy-loss" and chosen == "independent":
        if not labelled.clustered:
            raise ParameterError("decisions", None, "must be given: decisions of an answer at most")
        decisions = labelled.decisions.largest_answer
    return Bound(
        level=level,
        risk=risk,
        confidence=confidence,
        sampling=chosen,
        decisions_per_answer=decisions or 1,
    )
