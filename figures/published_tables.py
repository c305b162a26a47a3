"""What the papers print beside what is predicted from their other numbers, with nothing fitted."""

from __future__ import annotations

from statistics import fmean

from _common import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, new_figure, save
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from specplan.check.reproducing import confspec, specs
from specplan.check.reproducing.lookahead_reasoning import trees
from specplan.planning.model_error import PUBLISHED_RULES, compared, rows

Pairs = list[tuple[float, float]]


def draw(axes: Axes, groups: dict[str, tuple[str, Pairs]], unit: str, ticks: tuple[float, ...]) -> None:
    """Print over prediction; on the grey line they agree, within the band to 10 %."""
    for name, (colour, pairs) in groups.items():
        axes.loglog(
            *zip(*pairs, strict=True), "o", color=colour, markersize=4, label=f"{name}: {100 * error(pairs):.1f} %"
        )
    every = [x for _, pairs in groups.values() for pair in pairs for x in pair]
    ends = [min(every) * 0.95, max(every) * 1.05]
    axes.plot(ends, ends, color=GREY, linewidth=1)
    axes.fill_between(ends, [0.9 * x for x in ends], [1.1 * x for x in ends], color=GREY, alpha=0.15, linewidth=0)
    axes.set(xlabel=f"predicted {unit}", ylabel=f"printed {unit}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_locator(NullLocator())
    axes.legend(loc="upper left", fontsize="small")


def error(pairs: Pairs) -> float:
    """Mean absolute error of the predictions."""
    return fmean(abs(predicted / printed - 1.0) for predicted, printed in pairs)


def main() -> None:
    """Predict, check the claims and draw."""
    table_1 = [row for row in rows() if row.rules == PUBLISHED_RULES]
    cascades = [(cell.predicted, cell.published) for cell in confspec.cells()]
    seconds = [cell for cell in specs.cells() if cell.method == "SPECS" and cell.quantity == "s/step"]
    speedups = {
        "LR, Table 1": (BLUE, [compared(row, False) for row in table_1]),
        "LR + SD, Table 1": (VERMILION, [compared(row, True) for row in table_1]),
        "trees, Table 3": (GREEN, list(trees().values())),
        "ConfSpec, Tables 2 and 3": (PURPLE, cascades),
    }
    steps = {
        family: (colour, [(cell.predicted, cell.published) for cell in seconds if cell.family == family])
        for family, colour in (("Qwen2.5", BLUE), ("Llama3", ORANGE))
    }
    for name, (_, pairs) in speedups.items():
        assert error(pairs) < 0.06, f"{name}: {error(pairs):.3f}"
    assert error([pair for _, pairs in steps.values() for pair in pairs]) < 0.12

    figure = new_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    draw(left, speedups, "speedup [–]", (1.0, 1.25, 1.5, 2.0, 2.5))
    draw(right, steps, "seconds per step of SPECS", (0.4, 0.6, 1.0, 1.5, 2.0, 3.0))
    caption = (
        "Published speedups and seconds per step beside predictions with nothing fitted to them: mean errors below 6 % "
        "for Lookahead Reasoning and ConfSpec, below 12 % for SPECS; band: 10 %."
    )
    save(figure, "published_tables", seed=0, caption=caption)


if __name__ == "__main__":
    main()
