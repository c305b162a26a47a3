"""The first screen of a plan under load: what to do at which load, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sim.configuration import PLAIN
from specplan.output import SCREEN, between, narrow, screen
from specplan.show.loads.assumed import assumed_by_plan
from specplan.show.loads.words import (
    by_prompts,
    depths,
    dollars_each,
    median_and_90th,
    one_k,
    policies,
    switch_off,
    title,
    verdict,
)
from specplan.worlds.beliefs import MEASURE
from specplan.worlds.world import passes_of

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow, NamesPlan

__all__ = ["by_load", "first_screen"]

_NONE: Final = "–"


def first_screen(plan: NamesPlan) -> Iterator[str]:
    """Yield what fits a terminal of 80 columns: what to do at each load and what it brings; what to measure next.

    The second part begins with the loads at which speculation pays, for which other loads are simulated.
    """
    sentences = [verdict(plan, *plan.loads[0])]
    if len(plan.loads) > 1:
        sentences.append(verdict(plan, *plan.loads[-1]))
    lead = "\n".join(textwrap.fill(sentence, SCREEN) for sentence in sentences)
    yield screen(lead, title(plan.deployment) + ":", by_load(plan), *_by_means(plan))
    pays = [switch_off(plan)] if plan.curve.gains else []
    yield screen([*pays, *(f"Not planned: {why}." for why in plan.beyond), *_below(plan)])


def _by_means(plan: NamesPlan) -> Iterator[str]:
    if plan.rough:
        at = f"load{'s' if len(plan.rough) > 1 else ''} {', '.join(load.text for load in plan.rough)}"
        yield f"By mean values, without methods that write steps ahead: {at}. A larger --budget simulates them."


def by_load(plan: LoadPlan) -> str:
    """Return a table with a row for each load, without columns that say nothing."""
    found = [(load.text, rows[0]) for load, rows in plan.loads]
    known = [depths(plan, row.option.configuration) for _, row in found]
    columns = [
        ("load", [load for load, _ in found]),
        ("best", [plan.simulator.name_of(row.option.configuration) for _, row in found]),
        *((name, [str(one.get(name, _NONE)) for one in known]) for name in ("k1", "k", "k2")),
        ("gain", [_gain(row) for _, row in found]),
        ("tokens/s", [f"{row.tokens_per_s:.0f}" for _, row in found]),
        ("answer s", [median_and_90th(row, "seconds", 1.0) for _, row in found]),
        *zip(("$/M tokens", "$/answer"), zip(*(dollars_each(plan, row) for _, row in found), strict=True), strict=True),
    ]
    return narrow(columns, long=1)


def _gain(row: LoadRow) -> str:
    return f"{row.gain.value:.2f}" if row.option.configuration == PLAIN else between(row.gain)


def _below(plan: NamesPlan) -> Iterator[str]:
    yield from (f"Assumed: {one.text}." for one in assumed_by_plan(plan))
    yield from filter(None, [one_k(plan), policies(plan), *by_prompts(plan, ending=True)])
    widest = {name: part for _, rows in plan.loads for name, part in rows[0].errors.items() if part > 0.0}
    if widest:
        name = max(widest, key=lambda one: widest[one])
        how = f" To narrow it: {MEASURE[name]}." if name in MEASURE else ""
        yield f"Most of the interval, ±{100 * widest[name]:.0f} %, is {name}.{how}"
    _, whose = passes_of(plan.deployment, plan.deployment.target, 1)
    if whose is not None:
        yield f"{whose[0].upper()}{whose[1:]}."
    names = [*plan.unknown, *plan.deployment.passed_over]
    if names:
        yield f"Not considered (why: -v): {', '.join(names)}."
    yield from _legend(plan)


def _legend(plan: NamesPlan) -> Iterator[str]:
    """What the columns mean, as far as they are there."""
    best = [rows[0].option.configuration for _, rows in plan.loads]
    if any(configuration.k1 > 1 for configuration in best):
        yield (
            "k1: reasoning steps in flight at once; the draft writes whole steps ahead and the target judges them, so "
            "answers may differ from the target's own."
        )
    k = "k: tokens drafted per round (num_speculative_tokens); " if any(one.k2 > 1 for one in best) else ""
    yield (
        f"{k}gain: tokens per second over plain decoding on as many GPUs, [95 % interval]; answer s: median / 90th "
        "percentile. Other methods, GPUs, what runs out and the commands to run it: -v."
    )
