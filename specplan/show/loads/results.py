"""Plans from names as results, with their first screen: at each load, and on each of several types of GPUs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.configuration import PLAIN
from specplan.output import SCREEN, between, narrow, screen
from specplan.show.loads import words
from specplan.show.loads.gpu_types import cheapest, gpus_as_json, gpus_first_screen
from specplan.show.loads.plain import plan_as_json
from specplan.show.loads.reports import gpus_report, load_plan_report
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat
from specplan.worlds.beliefs import MEASURE

if TYPE_CHECKING:
    from specplan.planning.loads.gpu_types import GpuPlans
    from specplan.planning.loads.load_plan import LoadPlan, NamesPlan
    from specplan.show.page import Report

__all__ = ["GpusPlan", "LoadsPlan", "by_load"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadsPlan(Result):
    """The best configuration at each load, for models by name on GPUs."""

    plan: NamesPlan

    def conclude(self) -> None:
        """End as interrupted where an interruption left loads out."""
        if self.plan.interrupted:
            raise KeyboardInterrupt

    def report(self) -> Report:
        """Return the plan as a report."""
        return load_plan_report(self.plan)

    def headline(self) -> str:
        """Return what to do at the first of the loads."""
        return words.verdict(self.plan, *self.plan.loads[0])

    def parts(self, *, verbose: bool = False) -> Iterator[str]:
        """Yield what ``specplan plan --target`` prints, with ``verbose`` what it prints with ``-v``."""
        if verbose:
            yield as_text(self.report())
            return
        plan = self.plan
        lead = "\n".join(
            textwrap.fill(words.verdict(plan, *plan.loads[i]), SCREEN) for i in sorted({0, len(plan.loads) - 1})
        )
        means = []
        if plan.rough:
            at = f"load{'s' if len(plan.rough) > 1 else ''} {', '.join(load.text for load in plan.rough)}"
            means = [f"By mean values, without methods that write steps ahead: {at}. A larger --budget simulates them."]
        yield screen(lead, words.title(plan.deployment) + ":", by_load(plan), *means)
        pays = [words.switch_off(plan)] if plan.curve.gains else []  # for which other loads are simulated
        yield screen([*pays, *(f"Not planned: {why}." for why in plan.beyond), *_below(plan)])

    def text(self, *, verbose: bool = False) -> str:
        """Return the parts as one text."""
        return "\n\n".join(self.parts(verbose=verbose))

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan plan --target --json`` prints."""
        return plan_as_json(self.plan)

    def records(self) -> list[dict[str, Any]]:
        """Return the configurations of each load, best first."""
        kept = ("configuration", "method", "k", "gain", "tokens_per_s", "answers_per_s", "gpu_s_per_answer", "limit")
        return [
            {"load": load["load"], **flat({name: row[name] for name in kept})}
            for load in self.plain()["loads"]
            for row in load["rows"]
        ]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GpusPlan(Result):
    """The best configuration at each load on each of several types of GPUs, and what it costs."""

    plans: GpuPlans

    def report(self) -> Report:
        """Return the plans as a report."""
        return gpus_report(self.plans)

    def headline(self) -> str:
        """Return the cheapest type at the first of the loads."""
        return cheapest(self.plans, self.plans.loads[0])

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan plan --target --gpu A,B`` prints, with ``verbose`` what it prints with ``-v``."""
        return as_text(self.report()) if verbose else gpus_first_screen(self.plans)

    def plain(self) -> dict[str, Any]:
        """Return what it prints with ``--json``."""
        return gpus_as_json(self.plans)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each load and type, the cheapest of a load first."""
        return [{"load": load["load"], **flat(row)} for load in self.plain()["loads"] for row in load["gpus"]]


def by_load(plan: LoadPlan) -> str:
    """Return a table with a row for each load, without columns that say nothing."""
    best = [(load.text, rows[0]) for load, rows in plan.loads]
    known = [words.depths(plan, row.option.configuration) for _, row in best]
    columns = [
        ("load", [load for load, _ in best]),
        ("best", [plan.simulator.name_of(row.option.configuration) for _, row in best]),
        *((name, [str(one.get(name, "–")) for one in known]) for name in ("k1", "k", "k2")),
        ("gain", [f"{r.gain.value:.2f}" if r.option.configuration == PLAIN else between(r.gain) for _, r in best]),
        ("tokens/s", [f"{row.tokens_per_s:.0f}" for _, row in best]),
        ("answer s", [words.median_and_90th(row, "seconds", 1.0) for _, row in best]),
        ("$/M tokens", [words.dollars_each(plan, row)[0] for _, row in best]),
        ("$/answer", [words.dollars_each(plan, row)[1] for _, row in best]),
    ]
    return narrow(columns, long=1)


def _below(plan: NamesPlan) -> Iterator[str]:
    yield from (f"Assumed: {one.text}." for one in words.assumed_by_plan(plan))
    yield from filter(None, [words.one_k(plan), words.policies(plan), *words.by_prompts(plan, ending=True)])
    widest = {name: part for _, rows in plan.loads for name, part in rows[0].errors.items() if part > 0.0}
    if widest:
        name = max(widest, key=lambda one: widest[one])
        how = f" To narrow it: {MEASURE[name]}." if name in MEASURE else ""
        yield f"Most of the interval, ±{100 * widest[name]:.0f} %, is {name}.{how}"
    yield from (f"{text[0].upper()}{text[1:]}." for text in words.costs_from(plan))
    if names := [*plan.unknown, *plan.deployment.passed_over]:
        yield f"Not considered (why: -v): {', '.join(names)}."
    best = [rows[0].option.configuration for _, rows in plan.loads]
    if any(configuration.k1 > 1 for configuration in best):
        yield (
            "k1: reasoning steps in flight at once; the draft writes whole steps ahead and the target judges them, so "
            "answers may differ from the target's own."
        )
    k = "k: tokens drafted per round (num_speculative_tokens); " if any(one.k2 > 1 for one in best) else ""
    errors = [plan.simulator.rate_errors(rows[0].option, rows[0].errors) for _, rows in plan.loads]
    half = max(math.hypot(*each.values()) for each in errors)
    rate = f"tokens/s: within a factor of {math.exp(half):.2f} (95 %)"
    yield (
        f"{k}gain: tokens per second over plain decoding on as many GPUs, [95 % interval]; {rate}; answer s: median / "
        "90th percentile. Other methods, GPUs, bottlenecks and the commands to run it: -v."
    )
