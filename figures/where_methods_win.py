"""Where a method of steps wins, over the acceptance of a draft step and its price: simulated, lengths vary."""

from __future__ import annotations

import numpy as np
from _common import GREY, ORANGE, SKY, new_figure, save
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.patches import Patch

import specplan as sp

JUDGES = (0.02, 0.2)
"""Seconds of a verdict, or of a score, over those of a target step."""
GRID = {"from": 0.04, "to": 0.96, "points": 24}
METHODS = {"lr-async": ("LR async, k1 = 4", ORANGE), "spec-reason": ("SpecReason", SKY)}
SEED = 1


def speedups(judge: float) -> tuple[np.ndarray, np.ndarray]:
    """The grid's ticks, and speedups by method, price and acceptance, shape (2, n, n)."""
    grid = {
        "precision": 0.004,
        "seed": SEED,
        "fixed": {"cv": 1.0, "judge": judge, "k1": 4},
        "vary": {"method": list(METHODS), "alpha1": GRID, "c1": GRID},
    }
    rows = sp.sweep(grid).records()
    ticks = np.array(sorted({row["alpha1"] for row in rows}))
    at = {(row["method"], row["c1"], row["alpha1"]): row["speedup"] for row in rows}
    return ticks, np.array([[[at[name, c, a] for a in ticks] for c in ticks] for name in METHODS])


def main() -> None:
    """Draw both prices of a verdict, and check what the caption says."""
    figure = new_figure(10.0, 5.2)
    axes = figure.subplots(1, 2, sharey=True)
    colours = [("plain decoding", GREY), *METHODS.values()]
    norm = BoundaryNorm(np.arange(-0.5, len(colours)), len(colours))
    won = []
    for panel, judge in zip(axes, JUDGES, strict=True):
        ticks, found = speedups(judge)
        best = found.max(axis=0)
        winner = np.where(best > 1.0, 1 + found.argmax(axis=0), 0)
        won.append(winner)
        panel.pcolormesh(ticks, ticks, winner, cmap=ListedColormap([c for _, c in colours]), norm=norm, alpha=0.8)
        levels = panel.contour(ticks, ticks, best, levels=[1.1, 1.25, 1.5, 2, 3], colors="black", linewidths=0.7)
        panel.clabel(levels, fmt="%g×", fontsize=8)
        panel.set_title(f"a verdict takes {judge:g} of a target step", fontsize=11, loc="left")
        panel.set_xlabel(r"$\alpha_1$, acceptance of a draft step [–]")
        panel.set_aspect("equal")
    axes[0].set_ylabel(r"$c_1$, time of a draft step over a target step [–]")
    legend = [Patch(facecolor=colour, alpha=0.8, label=name) for name, colour in colours]
    figure.legend(handles=legend, loc="outside lower center", ncols=len(colours), frameon=False)
    _, ours, graded = ([int((one == code).sum()) for one in won] for code in range(3))
    for one in won:
        for better in (one[:, 1:][one[:, :-1] == 2], one[:-1][one[1:] == 2]):
            assert (better == 2).all(), "the caption says that SpecReason has the corner of good and cheap drafts"
        assert ((one > 0) | (ticks[None, :] < ticks[:, None] + 0.2)).all(), "... and that LR or SpecReason pays there"
    assert graded[1] < 0.3 * graded[0], "... what dear verdicts leave SpecReason"
    assert 0.9 * ours[0] < ours[1] < ours[0], "... what they leave LR"
    caption = (
        "Where drafts are cheap and nearly always right SpecReason wins, whose target writes only what it must; LR "
        "wins in the band around, and neither pays where drafts are dear or often wrong. Verdicts that take a fifth of "
        "a step leave SpecReason a quarter of its region, LR nearly all."
    )
    save(figure, "where_methods_win", seed=SEED, caption=caption)


if __name__ == "__main__":
    main()
