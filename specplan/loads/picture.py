"""The gains by load, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from specplan.planning.planner import label
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.loads.load_plan import LoadPlan

__all__ = ["check_picture", "draw_loads"]

_APART: Final = 1.04
"""Factor by which intervals of one load stand apart."""
_KINDS: Final = (".png", ".svg", ".pdf")
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")


def check_picture(path: Path) -> None:
    """Refuse an ending that cannot be drawn.

    Raises
    ------
    ParameterError : it is none of .png, .svg and .pdf.
    """
    if path.suffix.lower() not in _KINDS:
        raise ParameterError("picture", str(path), f"must end in {', '.join(_KINDS)}")


def draw_loads(plan: LoadPlan, path: Path) -> None:
    """Draw gain against answers at once, with the intervals of the loads that were simulated at length.

    Raises
    ------
    ParameterError : the ending of the file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_picture(path)
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.axhline(1.0, color="#555555", linewidth=1.0, label="plain decoding")
    colours = dict(zip(plan.curve.gains, _COLOURS * 3, strict=False))
    for kind, gains in plan.curve.gains.items():
        points = [(n, gain) for n, gain in zip(plan.curve.answers, gains, strict=True) if gain is not None]
        first = next(option for option in plan.curve.options[kind] if option is not None)
        x, y = zip(*points, strict=True)
        axes.plot(x, y, marker="o", markersize=3, color=colours[kind], label=label(first.configuration))
    for load, rows in plan.loads:
        for place, row in enumerate(rows):
            if load.concurrency and row.option.configuration.speculates:
                low, high = row.gain.value - row.gain.low, row.gain.high - row.gain.value
                colour = colours.get(row.option.kind, "#000000")
                at, bars = load.concurrency * _APART**place, [[low], [high]]
                axes.errorbar([at], [row.gain.value], yerr=bars, color=colour, capsize=3, alpha=0.6)
    axes.set_xscale("log", base=2)
    axes.set_xticks(plan.curve.answers, [str(n) for n in plan.curve.answers])
    axes.set_xlabel("answers at once")
    axes.set_ylabel(f"gain over plain decoding on {plan.deployment.gpus} {plan.deployment.gpu.name}")
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize=8)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    figure.savefig(path, dpi=160, metadata=metadata)
