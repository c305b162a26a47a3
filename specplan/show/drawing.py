"""Pictures of a report, drawn by matplotlib: lines with intervals, and points around a diagonal."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from specplan.show.page import Interval, cleaned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Line", "as_svg", "lines", "scatter"]

_REFERENCE: Final[dict[str, Any]] = {"color": "#8a4b00", "linestyle": "--", "linewidth": 1.2}
_MARKS: Final = "osD^v"
"""Shapes of points, of which each has ten colours."""
_WHISKER: Final[dict[str, Any]] = {"linewidth": 1.8, "alpha": 0.55}
_LETTERS: Final = 100
"""Letters of names of a legend in a row, with their marks."""


@dataclass(frozen=True, slots=True)
class Line:
    """Points joined by a line."""

    name: str
    points: Sequence[tuple[float, float]]
    intervals: Sequence[Interval | None] = ()
    """Interval of each point, if any."""


def lines(
    every: Sequence[Line], *, x_name: str, y_name: str, log: bool = False, reference: float | None = None
) -> Figure:
    """Return lines over a common axis, with intervals as whiskers; what is not finite is left out."""
    from matplotlib.transforms import ScaledTranslation

    figure, axes = _axes(x_name, y_name)
    if reference is not None:
        axes.axhline(reference, **_REFERENCE)
    tops = [0.0 if reference is None else reference]
    abreast = min(len(every), 5)
    for i, line in enumerate(every):
        points = 2.3 * (i % abreast - (abreast - 1) / 2) if line.intervals else 0.0  # so that whiskers do not overlap
        shift = ScaledTranslation(points / 72.0, 0.0, figure.dpi_scale_trans)
        place = axes.transData + shift
        known = [point for point in line.points if math.isfinite(point[1])]
        axes.plot(*zip(*known, strict=True), **_style(i), transform=place)
        tops += [y for _, y in known]
        for (x, y), one in zip(line.points, line.intervals, strict=False):
            if one is not None and math.isfinite(y + one.high - one.low):
                axes.plot([x, x], [one.low, one.high], color=f"C{i}", **_WHISKER, transform=place)
                tops.append(one.high)
    if log:
        axes.set_xscale("log")
    xs = sorted({x for line in every for x, _ in line.points})
    axes.update_datalim([(x, 0.0) for x in xs])  # which moved lines are not counted in
    axes.autoscale_view(scaley=False)
    if len(xs) <= 12:
        axes.set_xticks(xs, [f"{x:g}" for x in xs])
        axes.set_xticks([], minor=True)
    axes.set_ylim(0.0, 1.06 * max(tops) or 1.0)
    return _with_legend(figure, [line.name for line in every])


def scatter(
    groups: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_name: str,
    y_name: str,
    intervals: Mapping[str, tuple[Interval, Interval]] | None = None,
) -> Figure:
    """Return points (x, y) by group, with a diagonal; wide ranges are logarithmic.

    ``intervals`` gives the intervals of x and y of a group, drawn as whiskers; those that are not finite are left out.
    """
    figure, axes = _axes(x_name, y_name)
    places = {name: i for i, name in enumerate(groups)}
    whiskers = []
    for name, (first, second) in ({} if intervals is None else intervals).items():
        if math.isfinite(first.high - first.low):
            whiskers.append((name, [first.low, first.high], [second.value] * 2))
        if math.isfinite(second.high - second.low):
            whiskers.append((name, [first.value] * 2, [second.low, second.high]))
    both = [value for points in groups.values() for point in points for value in point]
    both += [end for _, along, across in whiskers for end in (*along, *across)]
    low, high = min(both), max(both)
    if high > 20.0 * low > 0.0:
        low, high = low / 1.2, high * 1.2
        for axis, scaled in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
            scaled("log", subs=(2, 5))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("{x:g}")
    else:
        low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    axes.plot([low, high], [low, high], **_REFERENCE)
    for name, points in groups.items():
        axes.plot(*zip(*points, strict=True), **_style(places[name]), linestyle="", alpha=0.7)
    for name, along, across in whiskers:
        axes.plot(along, across, color=f"C{places[name]}", **_WHISKER)
    if high > low:
        axes.set(xlim=(low, high), ylim=(low, high))
    return _with_legend(figure, list(groups))


def _axes(x_name: str, y_name: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(_plain(x_name))
    axes.set_ylabel(_plain(y_name))
    axes.grid(color="#e3e7ec")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _style(i: int) -> dict[str, Any]:
    """Colour and marks of the ``i``-th line or group."""
    return {"color": f"C{i}", "marker": _MARKS[i // 10 % len(_MARKS)], "markersize": 5, "markeredgewidth": 0}


def _plain(text: str) -> str:
    """A text without hidden characters, and without formulas."""
    return cleaned(text).replace("$", r"\$")


def _with_legend(figure: Figure, names: Sequence[str]) -> Figure:
    """The figure with the names of its curves or groups below."""
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], **_style(i), linestyle="") for i in range(len(names))]
    columns = max(1, min(4, _LETTERS // (max(map(len, names)) + 5)))
    rows = -(-len(names) // columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * rows)
    figure.legend(marks, list(map(_plain, names)), loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
    return figure


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG text, which is the same for the same figure, in the fonts of its reader."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "specplan", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # that a name has, and the font to measure it by has not
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
