"""The gains by load, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specplan.planning.loads.shown.words import method_name
from specplan.planning.planner import kind, label
from theory.errors import ParameterError

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.planning.at_once import AtOnce
    from specplan.planning.loads.load_plan import LoadPlan

__all__ = ["check_picture", "draw_crowds", "draw_loads"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """The gains of one kind of configuration."""

    name: str
    points: Sequence[tuple[int, float]]
    """Answers at once, and the gain there, [-]."""
    estimates: list[tuple[int, Estimate]] = field(default_factory=list)
    """The same where the gain has an interval."""


def draw_loads(plan: LoadPlan, path: Path) -> None:
    """Draw gain against answers at once, with the intervals of the loads that were simulated at length.

    Raises
    ------
    ParameterError : the ending of the file.
    """
    curves = {}
    for one, gains in plan.curve.gains.items():
        points = [(n, gain) for n, gain in zip(plan.curve.answers, gains, strict=True) if gain is not None]
        first = next(option for option in plan.curve.options[one] if option is not None)
        curves[one] = _Curve(name=method_name(plan.deployment, first.configuration), points=points)
    for load, rows in plan.loads:
        for row in rows:
            if load.concurrency and row.option.kind in curves:
                curves[row.option.kind].estimates.append((load.concurrency, row.gain))
    base = f"plain decoding on {plan.deployment.gpus} {plan.deployment.gpu.name}"
    _draw(list(curves.values()), plan.curve.answers, base, path)


def draw_crowds(rows: Sequence[AtOnce], path: Path) -> None:
    """Draw gain against answers at once for the methods of a profile's plan, each point with its interval.

    Raises
    ------
    ParameterError : the ending of the file.
    """
    curves: dict[str, _Curve] = {}
    for row in sorted(rows, key=lambda row: row.answers):
        one = kind(row.configuration)
        curve = curves.setdefault(one, _Curve(name=label(row.configuration), points=[]))
        curve.estimates.append((row.answers, row.gain))
    drawn = [
        _Curve(name=curve.name, points=[(n, gain.value) for n, gain in curve.estimates], estimates=curve.estimates)
        for curve in curves.values()
    ]
    _draw(drawn, sorted({row.answers for row in rows}), "plain decoding with as many answers", path)


def _draw(curves: Sequence[_Curve], counts: Sequence[int], base: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_picture(path)
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.axhline(1.0, color="#555555", linewidth=1.0, label="plain decoding")
    for place, curve in enumerate(curves):
        colour = _COLOURS[place % len(_COLOURS)]
        x, y = zip(*curve.points, strict=True)
        axes.plot(x, y, marker="o", markersize=3, color=colour, label=curve.name)
        apart = _APART ** (place - (len(curves) - 1) / 2)
        for answers, gain in curve.estimates:
            bars = [[gain.value - gain.low], [gain.high - gain.value]]
            axes.errorbar([answers * apart], [gain.value], yerr=bars, color=colour, capsize=3, alpha=0.6)
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.set_xlabel("answers at once")
    axes.set_ylabel(f"gain over {base}")
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize=8)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    figure.savefig(path, dpi=160, metadata=metadata)
