"""The first screen of a plan under load: what to do at which load, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from calibrate.replay.trials import PLAIN
from specplan.output import SCREEN, table
from specplan.planning.loads.text import median_and_90th, switch_off, title, verdict
from specplan.planning.planner import label
from specplan.worlds.beliefs import MEASURE
from specplan.worlds.world import passes_of

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow

__all__ = ["first_screen"]


def first_screen(plan: LoadPlan) -> str:
    """Return what fits a terminal of 80 columns: what to do at each load, what it brings, what to measure next."""
    sentences = [verdict(*plan.loads[0])]
    if len(plan.loads) > 1:
        sentences.append(verdict(*plan.loads[-1]))
    if plan.curve.gains:
        sentences.append(switch_off(plan.curve))
    below = [*(f"Not planned: {why}." for why in plan.beyond), *_below(plan)]
    return "\n\n".join(
        [
            "\n".join(textwrap.fill(sentence, SCREEN) for sentence in sentences),
            textwrap.fill(title(plan.deployment) + ":", SCREEN),
            _by_load(plan),
            "\n".join(textwrap.fill(line, SCREEN, subsequent_indent="  ") for line in below),
        ]
    )


def _by_load(plan: LoadPlan) -> str:
    """A row for each load; depths only where something has them."""
    found = [(load.text, rows[0]) for load, rows in plan.loads]
    columns = [
        ("k1", [str(row.option.configuration.k1) for _, row in found]),
        ("k2", [str(row.option.configuration.k2) for _, row in found]),
        ("gain", [_gain(row) for _, row in found]),
        ("tokens/s", [f"{row.tokens_per_s:.0f}" for _, row in found]),
        ("answer s", [median_and_90th(row, "seconds", 1.0) for _, row in found]),
    ]
    kept = [(name, cells) for name, cells in columns if set(cells) != {"1"}]
    loads = [load for load, _ in found]
    used = sum(2 + max(len(name), *map(len, cells)) for name, cells in (("load", loads), *kept))
    best = [textwrap.shorten(label(row.option.configuration), SCREEN - used, placeholder=" …") for _, row in found]
    rows = zip(loads, best, *(cells for _, cells in kept), strict=True)
    return table(["load", "best", *(name for name, _ in kept)], [list(row) for row in rows])


def _gain(row: LoadRow) -> str:
    if row.option.configuration == PLAIN:
        return f"{row.gain.value:.2f}"
    return f"{row.gain.value:.2f} [{row.gain.low:.2f}, {row.gain.high:.2f}]"


def _below(plan: LoadPlan) -> Iterator[str]:
    widest = {name: part for _, rows in plan.loads for name, part in rows[0].errors.items() if part > 0.0}
    if widest:
        name = max(widest, key=lambda one: widest[one])
        how = f" To narrow it: {MEASURE[name]}." if name in MEASURE else ""
        yield f"Most of the interval, ±{100 * widest[name]:.0f} %, is {name}.{how}"
    _, whose = passes_of(plan.deployment, plan.deployment.target, 1)
    if whose is not None:
        yield f"{whose[0].upper()}{whose[1:]}."
    if plan.unknown:
        yield f"Not evaluated, for lack of measurements: {', '.join(plan.unknown)}."
    yield (
        "gain: tokens per second over plain decoding on as many GPUs, [95 % interval]; answer s: median / 90th "
        "percentile. Each load's other methods, GPUs, what runs out, assumptions and commands to run it: -v."
    )
