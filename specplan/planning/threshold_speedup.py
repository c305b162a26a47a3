"""What a threshold brings: the speedup predicted for it, and the picture of risk against speedup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrate.record.profile import Profile
from calibrate.thresholds.labelled_decisions import LabelledDecisions, rejudged
from sim.estimate import Estimate, proportion, ratio_of_totals
from theory.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrate.thresholds.frontier import Frontier, Point
    from sim.configuration import Configuration

__all__ = ["check_plot", "closed_form_speedup", "draw_frontier", "replayed_speedup"]

Speedup = Callable[[float], Estimate]

_SUFFIXES: Final = (".png", ".svg", ".pdf")
_CERTIFIED, _OTHER, _CHOSEN = "#009E73", "#777777", "#D55E00"  # Okabe and Ito's palette


def replayed_speedup(profile: Profile, configuration: Configuration) -> Speedup:
    """Speedup of a threshold by replaying a profile's recorded answers with the verdicts that it would have given.

    Parameters
    ----------
    profile : measured.
    configuration : method and knobs to simulate.

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


def check_plot(path: Path | None) -> None:
    """Refuse a picture of a format that is not drawn; to be called before the work.

    Raises
    ------
    ParameterError : the suffix is none of PNG, SVG and PDF.
    """
    if path is not None and path.suffix.lower() not in _SUFFIXES:
        raise ParameterError("plot", str(path), f"must end in one of {', '.join(_SUFFIXES)}")


def draw_frontier(found: Frontier, path: Path, *, title: str = "") -> None:
    """Draw risk against predicted speedup, and risk against threshold, with bands; the chosen point is marked.

    Parameters
    ----------
    found : the frontier.
    path : PNG, SVG or PDF.
    title : heading of the picture.

    Raises
    ------
    ParameterError : another suffix.
    """
    check_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 7.0), layout="constrained")  # legible at 80 mm
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1)
    _tradeoff(upper, found)
    _by_threshold(lower, found)
    rows = [p.row for p in found.points if p.row.trials]
    for axes, shown in ((upper, [row.risk for row in rows]), (lower, [row.high for row in rows])):
        top = max([found.bound.level * 2.0, *shown])
        axes.set_ylim(-0.03 * top, min(1.02, 1.1 * top))
    figure.suptitle(title or "Risk against speedup, threshold by threshold", fontsize=10, wrap=True)
    figure.legend(*upper.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    figure.savefig(path, dpi=150, metadata=_metadata(path, found))


def _metadata(path: Path, found: Frontier) -> dict[str, str | None]:
    if path.suffix.lower() == ".png":
        return {"Software": "specplan", "Description": found.verdict}
    # without a date the same frontier gives the same bytes
    return {"Date": None} if path.suffix.lower() == ".svg" else {"CreationDate": None}


def _distinct(found: Frontier) -> list[tuple[Point, float]]:
    """Each point that accepts other drafts than the one before, and the highest threshold that accepts the same."""
    kept: list[tuple[Point, float]] = []
    for point in sorted((p for p in found.points if p.row.trials), key=lambda p: p.row.threshold):
        if kept and _drawn(kept[-1][0]) == _drawn(point):
            kept[-1] = kept[-1][0], point.row.threshold
        else:
            kept.append((point, point.row.threshold))
    return kept


def _drawn(point: Point) -> tuple[Any, ...]:
    """What tells a point from others in the picture."""
    return point.row.trials, point.row.risk, point.row.status == "certified", point.speedup.value


def _tradeoff(axes: Axes, found: Frontier) -> None:
    distinct = [point for point, _ in _distinct(found)]
    groups = (
        ("certified", _CERTIFIED, "o", [p for p in distinct if p.row.status == "certified"]),
        ("not certified", _OTHER, "s", [p for p in distinct if p.row.status != "certified"]),
    )
    for label, colour, marker, points in groups:
        if not points:
            continue
        speedups, risks = [p.speedup.value for p in points], [p.row.risk for p in points]
        axes.plot(speedups, risks, marker, color=colour, markersize=4, alpha=0.8, label=label)
        for risk in set(risks):  # at one risk only the fastest has its interval: they would lie upon each other
            fastest = max((p.speedup for p in points if p.row.risk == risk), key=lambda speedup: speedup.value)
            axes.hlines(risk, fastest.low, fastest.high, color=colour, linewidth=0.8, alpha=0.8)
    axes.axhline(found.bound.level, color="black", linewidth=0.9, linestyle="--", label="bound")
    axes.axvline(1.0, color="black", linewidth=0.9, linestyle=":", label="speedup 1")
    if found.best is not None:
        chosen = (found.best.speedup.value, found.best.row.risk)
        axes.plot(*chosen, "*", color=_CHOSEN, markersize=13, label=f"chosen: {found.best.row.threshold:.4g}", zorder=5)
    axes.set_xlabel("predicted speedup over plain decoding [-], 95 %")
    axes.set_ylabel(f"{_risk_name(found)} [-]")


def _by_threshold(axes: Axes, found: Frontier) -> None:
    """Thresholds that accept the same are one point, and points stand evenly: scores near 0 and 1 do not pile up."""
    distinct = _distinct(found)
    rows = [point.row for point, _ in distinct]
    at = np.arange(len(rows))
    bars = np.abs([[row.risk - row.low, row.high - row.risk] for row in rows]).T
    for colour, marker, sure in ((_CERTIFIED, "o", True), (_OTHER, "s", False)):
        some = [i for i, row in enumerate(rows) if (row.status == "certified") is sure]
        if some:
            risk = [rows[i].risk for i in some]
            axes.errorbar(at[some], risk, yerr=bars[:, some], fmt=marker, color=colour, markersize=4, elinewidth=0.8)
    axes.axhline(found.bound.level, color="black", linewidth=0.9, linestyle="--")
    if found.best is not None:
        best = sum(row.threshold <= found.best.row.threshold for row in rows) - 1
        axes.axvline(best, color=_CHOSEN, linewidth=1.2, zorder=0)
    shown = at[:: max(-(-len(rows) // 8), 1)]
    axes.set_xticks(shown, [f"{distinct[i][1]:.4g}" for i in shown], rotation=45, ha="right", fontsize=8)
    axes.set_xlabel("threshold [score], the highest of its kind")
    axes.set_ylabel(f"{_risk_name(found)} [-], {100 * found.bound.confidence:g} %")


def _risk_name(found: Frontier) -> str:
    return {
        "wrong-given-accepted": "P(wrong | accepted)",
        "accepted-and-wrong": "P(accepted and wrong)",
        "accuracy-loss": "loss of accuracy per answer",
    }[found.bound.risk]
