"""What a threshold brings: the speedup predicted for it, and the picture of risk against speedup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calibrate.record.profile import Profile
from calibrate.thresholds.labelled_decisions import LabelledDecisions, rejudged
from sim.estimate import Estimate, proportion, ratio_of_totals
from theory.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrate.thresholds.frontier import Frontier
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
        answers = rejudged(profile.answers, threshold)
        pattern = tuple(step.verdict.accepted for answer in answers for step in answer.steps)
        if pattern not in known:
            changed = profile.model_copy(update={"answers": answers})
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

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    _tradeoff(left, found)
    _by_threshold(right, found)
    top = max([found.bound.level * 2.0, *(p.row.risk for p in found.points if p.row.trials)])
    left.set_ylim(-0.02 * top, min(1.02, 1.15 * top))
    figure.suptitle(title or "Risk against speedup, threshold by threshold", fontsize=11)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150, metadata=_metadata(path, found))


def _metadata(path: Path, found: Frontier) -> dict[str, str | None]:
    if path.suffix.lower() == ".png":
        return {"Software": "specplan", "Description": found.verdict}
    # without a date the same frontier gives the same bytes
    return {"Date": None} if path.suffix.lower() == ".svg" else {"CreationDate": None}


def _columns(found: Frontier, keep: Callable[[Any], bool]) -> tuple[Sequence[float], Sequence[Any]]:
    points = [point for point in found.points if point.row.trials and keep(point)]
    return [point.speedup.value for point in points], points


def _tradeoff(axes: Axes, found: Frontier) -> None:
    sure = f"{100 * found.bound.confidence:g} %"
    groups = (
        ("certified", _CERTIFIED, lambda p: p.row.status == "certified"),
        ("not certified", _OTHER, lambda p: p.row.status != "certified"),
    )
    for label, colour, keep in groups:
        speedups, points = _columns(found, keep)
        if not points:
            continue
        risk = np.array([p.row.risk for p in points])
        across = np.abs([[p.speedup.value - p.speedup.low, p.speedup.high - p.speedup.value] for p in points]).T
        along = np.abs([[p.row.risk - p.row.low, p.row.high - p.row.risk] for p in points]).T
        style: dict[str, Any] = {
            "fmt": "o",
            "color": colour,
            "ecolor": colour,
            "markersize": 4,
            "elinewidth": 0.6,
            "alpha": 0.8,
        }
        axes.errorbar(speedups, risk, xerr=across, yerr=along, label=label, **style)
    axes.axhline(found.bound.level, color="black", linewidth=0.9, linestyle="--", label="bound")
    if found.best is not None:
        chosen = (found.best.speedup.value, found.best.row.risk)
        axes.plot(*chosen, "*", color=_CHOSEN, markersize=15, label=f"chosen: {found.best.row.threshold:.4g}", zorder=5)
    axes.set_xlabel("predicted speedup over plain decoding, bars 95 %")
    axes.set_ylabel(f"{_risk_name(found)}, limits one-sided {sure}")


def _by_threshold(axes: Axes, found: Frontier) -> None:
    rows = [point.row for point in found.points if point.row.trials]
    thresholds = [row.threshold for row in rows]
    axes.fill_between(thresholds, [row.low for row in rows], [row.high for row in rows], color=_OTHER, alpha=0.25)
    axes.plot(thresholds, [row.risk for row in rows], color=_OTHER, linewidth=1.2)
    certified = [row for row in rows if row.status == "certified"]
    axes.plot([r.threshold for r in certified], [r.risk for r in certified], "o", color=_CERTIFIED, markersize=4)
    axes.axhline(found.bound.level, color="black", linewidth=0.9, linestyle="--")
    if found.best is not None:
        axes.axvline(found.best.row.threshold, color=_CHOSEN, linewidth=1.2)
    axes.set_xlabel("threshold: scores of at least this are accepted")


def _risk_name(found: Frontier) -> str:
    return {
        "wrong-given-accepted": "P(wrong | accepted)",
        "accepted-and-wrong": "P(accepted and wrong)",
        "accuracy-loss": "loss of accuracy per answer",
    }[found.bound.risk]
