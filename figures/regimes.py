"""Which level to speculate at, over (alpha1, alpha2): the regime of the exact optimum for a given budget."""

from __future__ import annotations

import numpy as np
from _common import GREEN, ORANGE, SKY, new_figure, save
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.patches import Patch, Rectangle

from theory.budget import REGIMES, regime_map

C1, C2, M = 0.3, 0.1, 16
N = 201
COLOURS = dict(
    zip(("autoregressive", "token-only", "step-only", "hybrid"), ("#F2F2F2", SKY, ORANGE, GREEN), strict=True)
)
THEOREM_4 = (0.52, 0.80)  # both acceptances strictly between these; c1 < 1/3, c2 < 1/5, M >= 16 and even


def main() -> None:
    """Draw both schedules, and check LR's Theorem 4 on the grid."""
    alpha = np.linspace(0.0, 0.99, N)
    a1, a2 = np.meshgrid(alpha, alpha)
    inside = (a1 > THEOREM_4[0]) & (a1 < THEOREM_4[1]) & (a2 > THEOREM_4[0]) & (a2 < THEOREM_4[1])
    names = list(REGIMES)
    figure = new_figure(10.0, 5.1)
    axes = figure.subplots(1, 2, sharey=True)
    for panel, mode in zip(axes, ("sync", "async"), strict=True):
        found = regime_map(a1, C1, a2, C2, M, mode)
        hybrid = found.regime == names.index("hybrid")
        if mode == "async":
            assert hybrid[inside].all(), "LR's Theorem 4 fails on the grid"
            assert (found.k1[(a1 > 0.0) & (a2 < 0.8)] > 1).all(), "the caption says that steps always pay there"
        else:
            assert set(np.unique(found.regime)) == {0, 1, 2, 3}, "the caption says that all four regimes occur"
        colours = ListedColormap([COLOURS[name] for name in names])
        norm = BoundaryNorm(np.arange(-0.5, 4.5), 4)
        panel.pcolormesh(alpha, alpha, found.regime, cmap=colours, norm=norm, rasterized=True)
        levels = panel.contour(alpha, alpha, found.speedup, levels=[1.5, 2, 3, 4, 6], colors="black", linewidths=0.6)
        panel.clabel(levels, fmt="%g×", fontsize=8)
        panel.set_xlabel(r"$\alpha_1$, acceptance of a draft step [–]")
        panel.set_title(f"Lookahead Reasoning, {mode}", fontsize=11, loc="left")
        panel.set_aspect("equal")
    side = THEOREM_4[1] - THEOREM_4[0]
    axes[1].add_patch(Rectangle((THEOREM_4[0],) * 2, side, side, fill=False, linewidth=1.6, linestyle="--"))
    note = {"fontsize": 8, "ha": "left", "va": "top"}
    axes[1].text(THEOREM_4[0] + 0.01, THEOREM_4[1] - 0.01, "Theorem 4 of LR:\nhybrid", **note)
    axes[0].set_ylabel(r"$\alpha_2$, acceptance of a drafted token [–]")
    legend = [Patch(facecolor=COLOURS[name], edgecolor="#999999", label=name) for name in names]
    figure.legend(handles=legend, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(f"$c_1$ = {C1}, $c_2$ = {C2}, M = {M}; lines: speedup", fontsize=10, x=0.01, ha="left")
    caption = (
        f"At M = {M} all four regimes occur in sync mode; in async mode drafting steps pays at any acceptance while "
        "alpha2 < 0.8, and the optimum is hybrid throughout the range of LR's Theorem 4."
    )
    save(figure, "regimes", seed=None, caption=caption)


if __name__ == "__main__":
    main()
