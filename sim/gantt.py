"""Draw timelines as Gantt charts: one row per model and parallel sequence, coloured by outcomes."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.roles import DRAFT
from sim.timeline import Span, Timeline
from theory.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["beginning", "draw", "figure"]

# Okabe and Ito's palette, distinguishable for colour-blind readers; greys for references and discarded work.
_FACE = {
    "accepted": "#009E73",
    "committed": "#0072B2",
    "reference": "#A9CCE3",
    "rejected": "#D55E00",
    "discarded": "#ECECEC",
    "escalated": "#E69F00",
    "pending": "#FFFFFF",
}
_TEXT = {"accepted": "white", "committed": "white", "rejected": "white"}
_MEANING = {
    "accepted": "draft accepted (in the answer)",
    "committed": "target step committed (in the answer)",
    "reference": "target step used to verify only",
    "rejected": "draft rejected",
    "discarded": "discarded (wrong prefix, or after the end)",
    "escalated": "confidence too low: passed to another verifier",
    "pending": "undecided",
}
_ROW_INCHES = 0.30
_BAR = 0.80
_FIRST_STEPS = 20


def draw(
    timelines: Timeline | tuple[Timeline, ...] | list[Timeline],
    path: str | Path,
    *,
    until: float | None = None,
) -> None:
    """Draw one timeline, or several one above the other on the same time axis, to a PNG, SVG or PDF file.

    Parameters
    ----------
    timelines : at least one; the first on top.
    path : the file; its suffix chooses the format.
    until : draw only the first ``until`` seconds, > 0.

    Raises
    ------
    ParameterError : no timeline, ``until`` not positive, or an unknown suffix.
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ParameterError("path", str(path), "must end in .png, .svg or .pdf")
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None  # the same bytes for the same timeline
    figure(timelines, until=until).savefig(path, dpi=160, metadata=metadata)


def figure(timelines: Timeline | tuple[Timeline, ...] | list[Timeline], *, until: float | None = None) -> Figure:
    """Return the chart that `draw` saves, as a matplotlib figure."""
    from matplotlib.figure import Figure

    several = [timelines] if isinstance(timelines, Timeline) else list(timelines)
    if not several:
        raise ParameterError("timelines", several, "must hold at least one timeline")
    if until is not None and not until > 0.0:
        raise ParameterError("until", until, "must be > 0 seconds")
    end = min(max(t.duration for t in several), float("inf") if until is None else until)
    rows = [[("answer", 0), *((role, lane) for role in t.roles for lane in range(t.n_lanes(role)))] for t in several]
    heights = [len(r) for r in rows]
    inches = sum(heights) * _ROW_INCHES + 0.62 * len(several) + 1.15
    fig = Figure(figsize=(11.0, inches), layout="constrained")
    all_axes = fig.subplots(len(several), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    unit, scale = ("ms", 1e3) if end < 1.0 else ("s", 1.0)
    for axes, timeline, row in zip(all_axes, several, rows, strict=True):
        _panel(axes, timeline, row, end, scale)
        n, seconds = len(timeline.commits), timeline.duration
        took = f"{seconds:.2f} s" if seconds >= 1.0 else f"{seconds * 1e3:.1f} ms"
        heading = f"{timeline.label}:  {n} steps, {sum(commit.tokens for commit in timeline.commits)} tokens in {took}"
        axes.set_title(heading, loc="left", fontsize=9.5)
    all_axes[-1].set_xlabel(f"time since the question [{unit}]", fontsize=9)
    _legend(fig, several)
    return fig


def beginning(timeline: Timeline) -> float | None:
    """Return when the first 20 steps are in the answer, in seconds; None where it has no more."""
    return timeline.commits[_FIRST_STEPS - 1].time if len(timeline.commits) > _FIRST_STEPS else None


def _panel(axes: Axes, timeline: Timeline, rows: list[tuple[str, int]], end: float, scale: float) -> None:
    y = {row: len(rows) - 1 - i for i, row in enumerate(rows)}
    width_px = 9.0 * 72.0  # of the axes, roughly, in points: decides whether a label fits its bar
    for span in timeline.spans:
        if span.start <= end:
            _bar(axes, span, y[span.role, span.lane], scale, width_px / (end * scale))
    _answer_row(axes, timeline, y["answer", 0], end, scale, width_px / (end * scale))
    axes.set_yticks(
        list(y.values()), [row[0] if row[0] == "answer" else timeline.lane_name(*row) for row in rows], fontsize=8
    )
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(0.0, end * scale * 1.004)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    for above, below in pairwise(rows):
        if above[0] != below[0]:
            axes.axhline((y[above] + y[below]) / 2, color="#BBBBBB", linewidth=0.7)


def _bar(axes: Axes, span: Span, y: int, scale: float, points_per_unit: float) -> None:
    width = (span.end - span.start) * scale
    style: dict[str, Any] = {"facecolor": _FACE[span.outcome], "edgecolor": "white", "linewidth": 0.7}
    if span.outcome == "discarded":
        style |= {"edgecolor": "#B5B5B5", "hatch": "////" if span.cancelled else None, "linewidth": 0.4}
    if width * points_per_unit < 1.2:  # no duration: draw a visible tick
        style |= {"edgecolor": _FACE[span.outcome] if span.outcome != "discarded" else "#999999", "linewidth": 1.0}
    axes.broken_barh([(span.start * scale, width)], (y - _BAR / 2, _BAR), **style)
    label = str(span.depth) + (f"·{span.branch + 1}" if span.branch else "")
    if width * points_per_unit > 5.5 * len(label) + 2:
        colour = _TEXT.get(span.outcome, "#333333")
        x = (span.start + span.end) / 2 * scale
        axes.text(x, y, label, ha="center", va="center", fontsize=7, color=colour, clip_on=True)


def _answer_row(axes: Axes, timeline: Timeline, y: int, end: float, scale: float, points_per_unit: float) -> None:
    """Mark the commits of steps, in the colour of the model that wrote the last, with step numbers where they fit."""
    written = 0.0
    for time, group in groupby(timeline.commits, lambda commit: commit.time):
        if time > end:
            return
        x, steps = time * scale, list(group)
        colour = _FACE["accepted" if steps[-1].role == DRAFT else "committed"]
        axes.plot([x, x], [y - _BAR / 2, y + _BAR / 2], color=colour, linewidth=1.8, solid_capstyle="butt")
        first, last = steps[0].depth, steps[-1].depth
        label = f"{first}" if first == last else f"{first}–{last}"
        if (x - written) * points_per_unit > 5.0 * len(label) + 5.0:
            axes.annotate(
                label, (x, y), (-2.5, 0), textcoords="offset points", ha="right", va="center", fontsize=7, color=colour
            )
        written = x


def _legend(fig: Figure, timelines: list[Timeline]) -> None:
    from matplotlib.patches import Patch

    there = {span.outcome for timeline in timelines for span in timeline.spans}
    handles = []
    for outcome, text in _MEANING.items():
        if outcome in there:
            edge = "#B5B5B5" if outcome in ("discarded", "pending") else "white"
            handles.append(Patch(facecolor=_FACE[outcome], edgecolor=edge, label=text))
    if any(s.cancelled and s.outcome == "discarded" for t in timelines for s in t.spans):
        handles.append(Patch(facecolor=_FACE["discarded"], edgecolor="#B5B5B5", hatch="////", label="cancelled"))
    fig.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
