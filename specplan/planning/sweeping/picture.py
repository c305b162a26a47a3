"""Pictures of a sweep: heat maps of the speedup over two names, and regions of which method wins where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from theory.errors import ParameterError

__all__ = ["draw_heat", "draw_regions", "winners"]

Row = dict[str, Any]

_COLOURS: Final = ("#BBBBBB", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
_PLAIN: Final = "plain decoding"


def best_by_place(rows: Sequence[Row], x: str, y: str, kind: str = "") -> dict[tuple[Any, Any], Row]:
    """Return the fastest row of each place; of one method if ``kind`` says so.

    Raises
    ------
    ParameterError : a name that is no column, or has no values.
    """
    for name in (x, y):
        if all(row.get(name) is None for row in rows):
            known = sorted(key for key in rows[0] if any(row.get(key) is not None for row in rows))
            raise ParameterError("column", name, f"is no column with values: choose among {', '.join(known)}")
    fastest: dict[tuple[Any, Any], Row] = {}
    for row in rows:
        place = row.get(x), row.get(y)
        if row["speedup"] is None or None in place or (kind and row["method"] != kind):
            continue
        if place not in fastest or row["speedup"] > fastest[place]["speedup"]:
            fastest[place] = row
    if not fastest:
        raise ParameterError("method", kind or "any", "has no speedup at any place of these two columns")
    return fastest


def winners(rows: Sequence[Row], x: str, y: str) -> dict[tuple[Any, Any], str]:
    """Return the fastest method of each place, with plain decoding where no other is faster by two standard errors."""
    return {
        place: row["method"] if row["speedup"] - 2.0 * (row["stderr"] or 0.0) > 1.0 else _PLAIN
        for place, row in best_by_place(rows, x, y).items()
    }


def draw_heat(rows: Sequence[Row], path: Path, x: str, y: str, method: str = "") -> None:
    """Draw the greatest speedup of each place as colours, and the line where it is 1."""
    best = best_by_place(rows, x, y, method)
    axes, figure, (xs, ys) = _axes(best, x, y)
    values = np.array([[best[a, b]["speedup"] if (a, b) in best else np.nan for a in xs] for b in ys])
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis")
    if min(values.shape) >= 2 and np.nanmin(values) < 1.0 < np.nanmax(values):
        axes.contour(values, levels=[1.0], colors="white", linewidths=1.5)
    figure.colorbar(image, label="speedup over plain decoding")
    _save(figure, axes, path, f"{method or 'best of all methods'}; white: speedup 1")


def draw_regions(rows: Sequence[Row], path: Path, x: str, y: str) -> None:
    """Draw which method is fastest at each place."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    won = winners(rows, x, y)
    axes, figure, (xs, ys) = _axes(won, x, y)
    names = [_PLAIN, *sorted({*won.values()} - {_PLAIN})]
    codes = np.array([[names.index(won[a, b]) if (a, b) in won else np.nan for a in xs] for b in ys])
    colours = [(_COLOURS * (1 + len(names) // len(_COLOURS)))[i] for i in range(len(names))]
    axes.imshow(codes, origin="lower", aspect="auto", cmap=ListedColormap(colours), vmin=-0.5, vmax=len(names) - 0.5)
    axes.legend(handles=[Patch(color=c, label=n) for c, n in zip(colours, names, strict=True)], loc="best")
    _save(figure, axes, path, "fastest method, the best of its other settings")


def _axes(places: Any, x: str, y: str) -> tuple[Any, Any, tuple[list[Any], list[Any]]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    axes = figure.add_subplot()
    ends = tuple(sorted({place[i] for place in places}, key=lambda v: (isinstance(v, str), v)) for i in (0, 1))
    for values, set_ticks in zip(ends, (axes.set_xticks, axes.set_yticks), strict=True):
        every = max(len(values) // 10, 1)
        shown = range(0, len(values), every)
        set_ticks(list(shown), [f"{values[i]:.3g}" if not isinstance(values[i], str) else values[i] for i in shown])
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return axes, figure, (ends[0], ends[1])


def _save(figure: Any, axes: Any, path: Path, title: str) -> None:
    from calibrate.record.files import replacing

    axes.set_title(title, fontsize=10)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)
