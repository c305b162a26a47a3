"""Speedup over (k1, k2): contours of h, the budget's boundary and the optimum on it."""

from __future__ import annotations

import numpy as np
from _common import new_figure, save
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet

from theory import best_hybrid, h, parallel_dim

ALPHA1, C1, ALPHA2, C2, M = 0.6, 0.2, 0.7, 0.05, 16
K1_MAX, K2_MAX = 12, 17


def panel(axes: Axes, mode: str) -> QuadContourSet:
    """Draw one schedule and check its optimum against all pairs within the budget."""
    k1, k2 = np.meshgrid(np.arange(1, K1_MAX + 1), np.arange(1, K2_MAX + 1))
    speedup = h(ALPHA1, C1, k1, ALPHA2, C2, k2, mode)
    allowed = parallel_dim(C1, k1, k2, mode) <= M
    best = best_hybrid(ALPHA1, C1, ALPHA2, C2, M, mode)
    assert np.isclose(best.speedup, speedup[allowed].max(), rtol=1e-12), "a pair on the grid beats the optimiser"
    assert best.k1 > 1, "the caption says that both levels are used"
    assert best.k2 > 1, "the caption says that both levels are used"
    drawn = axes.contourf(k1, k2, speedup, levels=np.arange(0.8, 5.61, 0.4), cmap="cividis", extend="both")
    axes.contour(k1, k2, speedup, levels=np.arange(1.0, 5.51, 0.5), colors="white", linewidths=0.5)
    fine = np.linspace(1.0, K1_MAX, 400)
    cap = np.ceil(1.0 / C1) if mode == "async" else np.inf
    edge = M / np.minimum(fine, cap)
    axes.fill_between(fine, edge, K2_MAX, color="white", alpha=0.45, linewidth=0)
    axes.plot(fine, edge, color="black", linewidth=1.8, label=f"budget: M = {M} positions in flight")
    star = {"marker": "*", "markersize": 17, "markeredgecolor": "black", "color": "#E69F00", "linestyle": "none"}
    axes.plot(best.k1, best.k2, label=f"optimum {best.speedup:.2f} at ({best.k1}, {best.k2})", **star)
    axes.set_xlim(1, K1_MAX)
    axes.set_ylim(1, K2_MAX)
    axes.set_xlabel("$k_1$ [target steps in flight]")
    axes.set_title(f"Lookahead Reasoning, {mode}", fontsize=11, loc="left")
    axes.legend(loc="upper right", fontsize=9)
    return drawn


def main() -> None:
    """Draw both schedules."""
    figure = new_figure(10.0, 4.4)
    left, right = figure.subplots(1, 2, sharey=True)
    panel(left, "sync")
    drawn = panel(right, "async")
    left.set_ylabel("$k_2$ [tokens per target pass]")
    figure.colorbar(drawn, ax=[left, right], label="speedup $h = f \\cdot g$ [–]")
    figure.suptitle(
        rf"$\alpha_1$ = {ALPHA1}, $c_1$ = {C1}, $\alpha_2$ = {ALPHA2}, $c_2$ = {C2}", fontsize=10, x=0.01, ha="left"
    )
    caption = f"Within a budget of {M} positions the best speedup uses both levels, in sync and in async mode."
    save(figure, "speedup_k1_k2", seed=None, caption=caption)


if __name__ == "__main__":
    main()
