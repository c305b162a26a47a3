"""Closed form against simulation: f_sync and f_async as lines, simulated speedups on them, residuals below."""

from __future__ import annotations

from functools import partial

import numpy as np
from _common import BLUE, GREEN, VERMILION, new_figure, save
from scipy.stats import t as student

from sim.algorithms import lookahead_async, lookahead_sync
from sim.answers.acceptance import Acceptance
from sim.answers.drawn import SyntheticBehaviour
from sim.answers.lengths import Fixed, Lengths
from sim.engines.fixed import FixedEngine
from sim.engines.protocol import Engine
from sim.estimate import Estimate
from sim.roles import DRAFT, JUDGE, TARGET
from sim.trial import simulate, with_plain
from theory import f_async, f_sync

SEED = 20
CASES = ((0.9, 0.1, BLUE, "o"), (0.7, 0.2, GREEN, "s"), (0.5, 0.4, VERMILION, "^"))  # alpha1, c1
K1 = (1, 2, 3, 4, 5, 6, 8, 10)
N_ANSWERS, N_STEPS = 24, 250
FALSE_ALARM = 1e-3  # of all points together


def simulated(alpha1: float, c1: float, k1: int, mode: str) -> Estimate:
    """The speedup under the closed form's assumptions: fixed step times, free verification, independent acceptance."""
    behaviour = SyntheticBehaviour(
        lengths=Lengths(target=Fixed(1), draft=Fixed(1)),
        acceptance=Acceptance(alpha=alpha1),
        steps=Fixed(N_STEPS),
        seed=SEED,
    )
    engines: dict[str, Engine] = {TARGET: FixedEngine(1.0), DRAFT: FixedEngine(c1), JUDGE: FixedEngine(0.0)}
    algorithm = lookahead_sync if mode == "sync" else lookahead_async
    return simulate(*with_plain(partial(algorithm, k1=k1), behaviour, engines), n=N_ANSWERS).speedup


def main() -> None:
    """Simulate, draw, and check the caption."""
    figure = new_figure(10.0, 5.6)
    axes = figure.subplots(2, 2, sharex=True, sharey="row", gridspec_kw={"height_ratios": [3, 1]})
    residuals: list[float] = []
    for column, (mode, formula) in enumerate((("sync", f_sync), ("async", f_async))):
        top, below = axes[0, column], axes[1, column]
        for alpha1, c1, colour, marker in CASES:
            exact = np.array([float(formula(alpha1, c1, k)) for k in K1])
            found = [simulated(alpha1, c1, k, mode) for k in K1]
            value, error = np.array([e.value for e in found]), np.array([e.stderr for e in found])
            top.plot(K1, exact, color=colour, linewidth=1.5, label=rf"$\alpha_1$ = {alpha1}, $c_1$ = {c1}")
            top.errorbar(K1, value, 1.96 * error, fmt=marker, color=colour, markersize=4.5, capsize=2, linewidth=1)
            noisy = error > 1e-12  # k1 = 1 is exact
            z = (value - exact)[noisy] / error[noisy]
            below.plot(np.array(K1)[noisy], z, marker, color=colour, markersize=4.5)
            residuals += z.tolist()
        top.set_title(f"Lookahead Reasoning, {mode}: $f_{{{mode}}}(k_1)$", fontsize=11, loc="left")
        below.axhspan(-1.96, 1.96, color="#EEEEEE", zorder=0)
        below.axhline(0.0, color="black", linewidth=0.8)
        below.set_xlabel("$k_1$ [target steps in flight]")
        below.set_ylim(-4.5, 4.5)
        below.set_yticks([-4, -2, 0, 2, 4])
        top.grid(color="#EEEEEE")
    axes[0, 0].set_ylabel("speedup over plain decoding [–]")
    axes[1, 0].set_ylabel("residual [std. errors]")
    axes[0, 0].legend(frameon=False, title="lines: closed form; points: simulation", fontsize=9, title_fontsize=9)
    figure.align_ylabels(axes[:, 0])
    worst, limit = max(map(abs, residuals)), float(student.isf(FALSE_ALARM / 2 / len(residuals), N_ANSWERS - 1))
    assert worst < limit, f"a point is {worst:.2f} standard errors off, {limit:.2f} allowed"
    caption = (
        f"Under the paper's assumptions the simulator reproduces f_sync and f_async: {len(residuals)} points, "
        f"the worst {worst:.1f} standard errors off."
    )
    save(figure, "closed_form", seed=SEED, caption=caption)


if __name__ == "__main__":
    main()
