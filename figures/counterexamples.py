"""Three places where Lookahead Reasoning's formulas fail as printed: the floor of 1/c1, Lemma 5's w, the budget 13."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from _common import BLUE, GREY, VERMILION, new_figure, save
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ledger.lookahead_reasoning import exact
from ledger.lookahead_reasoning.hybrid.points import Asynchronous

COST, DEPTH = Fraction(2, 5), 2
ALPHAS = np.linspace(0.05, 0.9, 18)
HALF, FIFTH, BUDGET = 0.5, 0.2, 16
BUDGETS = range(8, 25)
LOW, MIDDLE, HIGH = "521/1000", "13/20", "799/1000"
CORNERS = list(
    itertools.product((LOW, MIDDLE, HIGH), ("1/1000", "2/31", "33/100"), (LOW, HIGH), ("1/1000", "199/1000"))
)
"""Points next to the corners of Theorem 4's box, and some between: alpha1, c1, alpha2, c2."""
LONGEST = 600
"""Accepted steps at which the stage's law is cut: 0.9**600 is below 1e-27."""


def draw_floor(axes: Axes) -> float:
    """S1 and S2 over the acceptance beside the timeline's mean; the largest excess of S1 over it."""
    ends = np.array([float(start) + 1.0 for start in exact.stage_steps(COST, DEPTH, LONGEST)])
    accepted = np.arange(LONGEST)
    timeline = np.empty_like(ALPHAS)
    for i, alpha in enumerate(ALPHAS):
        chance = (1.0 - alpha) * alpha**accepted
        timeline[i] = (chance @ (accepted + 1)) / (chance @ ends)
    s1, s2 = (
        np.array([float(exact.f_async(Fraction(a), COST, DEPTH, switch=rule)) for a in ALPHAS])
        for rule in ("floor", "ceil")
    )
    assert np.allclose(s2, timeline, rtol=1e-12), "S2 is not the timeline's"
    assert (s1 > timeline).all()
    axes.plot(ALPHAS, s1, color=VERMILION, label="S1, as the floor has it")
    axes.plot(ALPHAS, s2, color=BLUE, label="S2, as the ceiling has it")
    axes.plot(ALPHAS, timeline, "o", color=BLUE, markersize=4, label="timeline")
    axes.set(xlabel="acceptance of a drafted step [–]", ylabel="speedup [–]")
    axes.set_title("c1 = 2/5, two steps deep", fontsize=11, loc="left")
    return float((s1 / timeline - 1).max())


def w(gamma: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lemma 5's function at alpha = 1/2 and c = 1/5 on both levels."""
    single = [(1 - HALF**k) / ((1 - HALF) * (1 - FIFTH + FIFTH * k)) for k in (gamma, BUDGET / gamma)]
    return single[0] * single[1]


def draw_lemma(axes: Axes) -> None:
    """Lemma 5's w with a chord that lies above it, and its one peak."""
    gamma = np.linspace(1.0, BUDGET, 301)
    chord = np.array([8.0, 16.0])
    middle = np.array([12.0])
    below = float(w(chord).mean() - w(middle)[0])
    assert below > 0, "the chord does not lie above"
    slopes = np.sign(np.diff(w(gamma)))
    assert (np.diff(slopes) <= 0).all(), "more than one peak"
    axes.plot(gamma, w(gamma), color=BLUE, label="w")
    axes.plot(chord, w(chord), color=VERMILION, linestyle="--", label="a chord above it")
    axes.set(xlabel="depth of step-level speculation [steps]", ylabel="w [–]")
    axes.set_title(f"Lemma 5, M = {BUDGET}", fontsize=11, loc="left")


def draw_budgets(axes: Axes) -> list[int]:
    """Best hybrid over the better single method, smallest at corners of the box; the budgets at which it loses."""
    ratios = []
    for budget in BUDGETS:
        points = [Asynchronous(*map(Fraction, (*corner, budget))) for corner in CORNERS]
        ratios.append(min(float(point.hybrid / max(point.singles)) for point in points))
    lost = [budget for budget, ratio in zip(BUDGETS, ratios, strict=True) if ratio < 1]
    axes.axhline(1.0, color=GREY, linewidth=0.9)
    for budget, ratio in zip(BUDGETS, ratios, strict=True):
        axes.plot(budget, ratio, "o", color=VERMILION if ratio < 1 else BLUE, markersize=5)
    axes.set(xlabel="budget M [parallel tokens]", ylabel="best hybrid over best single [–]")
    axes.set_title("Theorem 4 by budget", fontsize=11, loc="left")
    return lost


def main() -> None:
    """Draw, and check the caption."""
    figure = new_figure(11.0, 3.6)
    left, middle, right = figure.subplots(1, 3)
    excess = draw_floor(left)
    draw_lemma(middle)
    lost = draw_budgets(right)
    assert lost == [8, 9, 10, 11, 13], f"hybrids lose at {lost}"
    for axes in (left, middle, right):
        axes.grid(color="#EEEEEE")
    left.legend(frameon=False, fontsize=8)
    middle.legend(frameon=False, fontsize=8)
    caption = (
        f"The floor of 1/c1 overstates the speedup by up to {excess:.1%}; w has one peak and is not concave; a single "
        "method beats every hybrid at some corner at budgets 8 to 11 and 13, and at none at 12 and 14 to 24."
    )
    save(figure, "counterexamples", seed=None, caption=caption)


if __name__ == "__main__":
    main()
