"""Lookahead Reasoning's Figure 3 from the published profile: each level alone levels off, both together go on."""

from __future__ import annotations

from _common import BLUE, GREY, VERMILION, new_figure, save
from matplotlib.axes import Axes

from calibrate.record.library import bundled
from sim.configuration import Configuration
from specplan.planning.predict import Predictor

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10)
TOKENS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Tokens of a pass: one more than are drafted."""
N_ANSWERS = 20
RULES = "released-code"
PRINTED = {"steps alone": 1.4, "tokens alone": 1.55, "both": 1.9}
"""What section 4.2 reads off the two plots on AIME."""


def draw(axes: Axes, x: tuple[int, ...], alone: list[float], both: list[float], what: str) -> None:
    """One of the two plots, with the levels that the paper names."""
    axes.plot(x, alone, "o-", color=BLUE, label=f"{what} alone")
    axes.plot(x, both, "s-", color=VERMILION, label="both levels")
    for level in (PRINTED[f"{what} alone"], PRINTED["both"]):
        axes.axhline(level, color=GREY, linestyle="--", linewidth=1)
    axes.set(ylabel="speedup [–]", ylim=(0.9, 2.1))
    axes.legend(loc="lower right")


def main() -> None:
    """Simulate, check the claims and draw."""
    predictor = Predictor(bundled("lr-deepseek-aime24"), n_answers=N_ANSWERS, uncertainty=False)

    def speedup(k1: int, k2: int) -> float:
        if k1 == 0:
            return predictor.speedup(Configuration(method="prompt-lookup", k2=k2)) if k2 > 1 else 1.0
        one = Configuration(method="lr-async", k1=k1, k2=k2, rules=RULES)
        return predictor.speedup(one)

    steps, steps_too = ([speedup(k1, k2) for k1 in DEPTHS] for k2 in (1, 9))
    tokens, tokens_too = ([speedup(k1, k2) for k2 in TOKENS] for k1 in (0, 6))
    found = {"steps alone": max(steps), "tokens alone": max(tokens), "both": max(*steps_too, *tokens_too)}
    for name, level in PRINTED.items():
        assert abs(found[name] / level - 1.0) < 0.08, f"{name}: {found[name]:.2f} against {level} printed"
    assert max(steps) - steps[DEPTHS.index(4)] < 0.05, "steps alone do not level off"
    assert min(both / alone for both, alone in zip(steps_too, steps, strict=True)) > 1.2, "tokens add little"

    figure = new_figure(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    draw(left, DEPTHS, steps, steps_too, "steps")
    left.set(xlabel="drafted steps (k1), 8 drafted tokens")
    draw(right, TOKENS, tokens, tokens_too, "tokens")
    right.set(xlabel="tokens of a pass (k2), 6 drafted steps")
    shown = ", ".join(f"{name} {found[name]:.2f} (the paper: about {level})" for name, level in PRINTED.items())
    caption = (
        "Lookahead Reasoning's Figure 3 (AIME, DeepSeek), simulated with nothing fitted to it: each level alone levels "
        f"off, both together reach more: {shown}; dashed: as the paper says."
    )
    save(figure, "orthogonality", seed=0, caption=caption)


if __name__ == "__main__":
    main()
