"""When more than one draft per position pays: the best width over acceptance and correlation, and published tables."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from _common import BLUE, GREEN, ORANGE, SKY, VERMILION, new_figure, save
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from theory.branches import best_tree
from workshop.tree_widths import TreeRow, confspec_rows, lookahead_rows, position_cost

C1, M = 0.28, 16
ALPHA = np.linspace(0.02, 0.98, 49)
SIBLINGS = np.linspace(0.0, 1.0, 41)
CLASSES: Final = {"1": "#F2F2F2", "2": SKY, "3 to 4": ORANGE, "5 to 15": VERMILION}
FIRST: Final = (1, 2, 3, 5)  # least width of each class


class Setting(NamedTuple):
    """A map: what tokens are worth and positions cost."""

    title: str
    alpha2: float
    c2: float
    cost: float


def widths(setting: Setting) -> np.ndarray:
    """Best W at every correlation (rows) and acceptance (columns)."""
    return np.array(
        [
            [
                best_tree(
                    alpha, C1, setting.alpha2, setting.c2, M, "async", siblings=rho, position_cost=setting.cost
                ).width
                for alpha in ALPHA
            ]
            for rho in SIBLINGS
        ]
    )


def draw_map(panel: Axes, setting: Setting, found: np.ndarray) -> None:
    """Colour the best widths."""
    colours, norm = ListedColormap(list(CLASSES.values())), BoundaryNorm(np.arange(-0.5, 4.5), 4)
    panel.pcolormesh(ALPHA, SIBLINGS, np.digitize(found, FIRST) - 1, cmap=colours, norm=norm, rasterized=True)
    panel.axhline(0.63, color="black", linewidth=0.8, linestyle="--")
    panel.set_title(setting.title, fontsize=10, loc="left")
    panel.set_xlabel(r"$\alpha_1$, acceptance of one branch [–]")
    panel.set_ylabel(r"$\rho$, correlation of branches [–]")


def draw_rows(panel: Axes, rows: list[TreeRow], colour: str) -> None:
    """Predicted gains as lines and published ones as dots."""
    for row in rows:
        x = list(row.predicted)
        panel.plot(x, list(row.predicted.values()), color=colour, linewidth=0.8)
        panel.plot(x, list(row.published.values()), color=colour, linestyle="none", marker="o", markersize=4)


def main() -> None:
    """Draw three maps and the tables, and check what the caption says of them."""
    cost = position_cost()
    settings = (
        Setting("Steps alone, free positions", 0.0, 1.0, 0.0),
        Setting(f"Steps alone, {cost:.3f} T per position", 0.0, 1.0, cost),
        Setting(rf"With tokens ($\alpha_2$ = 0.7, $c_2$ = 0.05), {cost:.3f} T", 0.7, 0.05, cost),
    )
    maps = [widths(setting) for setting in settings]
    free, costly, tokens = (float((found > 1).mean()) for found in maps)
    assert (maps[0][SIBLINGS < 1.0][:, ALPHA > 0.3] > 1).all(), "free branches pay unless they agree"
    assert all((found[-1] == 1).all() for found in maps), "branches that always agree never pay"
    assert free > 0.9
    assert 0.2 < costly < 0.5
    assert tokens < 0.1
    at_measured = ALPHA[maps[1][np.argmin(abs(SIBLINGS - 0.63))] > 1]
    lookahead, confspec = lookahead_rows(), confspec_rows()
    assert all(row.best in row.best_published for row in [*lookahead, *confspec])
    figure = new_figure(10.0, 8.4)
    axes = figure.subplots(2, 2).flat
    for panel, setting, found in zip(axes, settings, maps, strict=False):
        draw_map(panel, setting, found)
    last = axes[3]
    draw_rows(last, lookahead, BLUE)
    draw_rows(last, confspec, GREEN)
    last.axhline(1.0, color="#999999", linewidth=0.8)
    last.set_xscale("log", base=2)
    last.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    last.set_xlabel("W, branches per position")
    last.set_ylabel("speedup / that of one branch [–]")
    last.set_title("Lines: predicted; dots: published", fontsize=10, loc="left")
    last.legend(
        handles=[
            Line2D([], [], color=BLUE, marker="o", markersize=4, label="LR, Table 3 (depth 2)"),
            Line2D([], [], color=GREEN, marker="o", markersize=4, label="ConfSpec, Table 4 (depth 5)"),
        ],
        frameon=False,
        fontsize=9,
    )
    legend = [Patch(facecolor=c, edgecolor="#999999", label=f"W = {label}") for label, c in CLASSES.items()]
    figure.legend(handles=legend, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(
        f"LR async, $c_1$ = {C1}, M = {M}; dashed: correlation of LR's Table 3", fontsize=10, x=0.01, ha="left"
    )
    caption = (
        f"More than one branch is best in {free:.0%} of the map while positions are free, in {costly:.0%} at the "
        f"{cost:.3f} of a target step that each takes in LR's Table 3 (there, at the measured correlation, for alpha1 "
        f"from {at_measured[0]:.2f} to {at_measured[-1]:.2f}), and in {tokens:.0%} when drafted tokens compete for "
        "positions. At the depths of the two tables the best width is the published one in all nine settings."
    )
    save(figure, "branches", seed=None, caption=caption)


if __name__ == "__main__":
    main()
