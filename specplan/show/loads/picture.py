"""The gains by load, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from specplan.show.loads.reports import curves

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadPlan

__all__ = ["draw_loads"]

_APART: Final = 1.04
"""Factor by which intervals of one load stand apart."""
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")


def draw_loads(plan: LoadPlan, path: Path) -> None:
    """Draw gain against answers at once, with the intervals of the loads that were simulated at length.

    Parameters
    ----------
    plan : with a load of answers at once.
    path : PNG, SVG or PDF.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.axhline(1.0, color="#555555", linewidth=1.0, label="plain decoding")
    drawn = curves(plan)
    for place, curve in enumerate(drawn):
        colour = _COLOURS[place % len(_COLOURS)]
        x, y = zip(*curve.points, strict=True)
        axes.plot(x, y, marker="o", markersize=3, color=colour, label=curve.name)
        apart = _APART ** (place - (len(drawn) - 1) / 2)
        for (answers, gain), ends in zip(curve.points, curve.intervals, strict=True):
            if ends is not None:
                bars = [[gain - ends.low], [ends.high - gain]]
                axes.errorbar([answers * apart], [gain], yerr=bars, color=colour, capsize=3, alpha=0.6)
    axes.set_xscale("log", base=2)
    axes.set_xticks(plan.curve.answers, [str(n) for n in plan.curve.answers])
    axes.set_xlabel("answers at once")
    axes.set_ylabel(f"gain over plain decoding on {plan.simulator.place}")
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize=8)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    figure.savefig(path, dpi=160, metadata=metadata)
