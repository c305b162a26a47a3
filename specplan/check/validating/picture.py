"""A plot of predicted against measured speedups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.check.validating.validation import Validation

__all__ = ["draw_rows"]

_GOOD: Final = "#0072B2"
_OFF: Final = "#D55E00"
_MARGIN: Final = 1.1
"""Factor by which the axes extend beyond the outermost intervals."""


def draw_rows(validation: Validation, path: Path) -> None:
    """Draw each configuration's speedup, predicted and measured, with both 95 % intervals and the line of equality.

    Parameters
    ----------
    validation : the predicted intervals are those for a measurement on as many fresh questions.
    path : PNG, SVG or PDF to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = sorted(validation.rows, key=lambda row: row.measured.speedup.value, reverse=True)
    figure = Figure(figsize=(8.5, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    ends = [end for row in rows for one in (row.expected, row.measured.speedup) for end in (one.low, one.high)]
    span = (min(end for end in ends if end > 0.0) / _MARGIN, max(ends) * _MARGIN)
    axes.plot(span, span, color="#555555", linewidth=1.0, label="predicted = measured")
    for number, row in enumerate(rows, 1):
        measured, predicted = row.measured.speedup, row.expected
        axes.errorbar(
            [measured.value],
            [predicted.value],
            xerr=_bars(measured),
            yerr=_bars(predicted),
            fmt="o",
            markersize=3,
            capsize=2,
            linewidth=0.9,
            color=_GOOD if row.good else _OFF,
            label=f"{number}  {row.name}" + ("" if row.good else " (off)"),
        )
        at, shift = (measured.value, predicted.value), (4, 4) if number % 2 else (4, -10)
        axes.annotate(str(number), at, xytext=shift, textcoords="offset points", fontsize=8)
    _log_axes(axes, span)
    axes.set_title(f"{validation.profile}: {rows[0].measured.speedup.n} answers", fontsize=10, loc="left")
    figure.legend(loc="outside right upper", fontsize=7, frameon=False, handlelength=1.0)
    figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def _bars(one: Estimate) -> list[list[float]]:
    """Lengths of the interval below and above the value."""
    return [[max(one.value - one.low, 0.0)], [max(one.high - one.value, 0.0)]]


def _log_axes(axes: Any, span: tuple[float, float]) -> None:
    """Give both axes the same logarithmic scale."""
    ticks = [tick for tick in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0) if span[0] <= tick <= span[1]]
    for scale, limits, place in (
        (axes.set_xscale, axes.set_xlim, axes.set_xticks),
        (axes.set_yscale, axes.set_ylim, axes.set_yticks),
    ):
        scale("log")
        limits(*span)
        place(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_aspect("equal", anchor="E")
    axes.set_xlabel("measured speedup, with 95 % interval [–]")
    axes.set_ylabel("predicted speedup, with 95 % interval [–]")
