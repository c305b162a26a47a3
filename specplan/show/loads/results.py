"""Plans from names as results, with their first screen: at each load, and on each of several types of GPUs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from specplan.output import SCREEN, narrow, screen
from specplan.planning.loads.from_options import settings_for
from specplan.planning.loads.prices import dollars_of
from specplan.planning.loads.statements import Pays, by_prompt, fixed_k, gains_by_load, k_table
from specplan.show.loads import words
from specplan.show.loads.reports import cheapest, gpus_first_screen, gpus_report, load_plan_report
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat
from specplan.worlds.beliefs import MEASURE
from specplan.worlds.drafters.naming import method_name
from theory.hardware.half_widths import around

if TYPE_CHECKING:
    from specplan.planning.loads.gpu_types import GpuPlans
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow, NamesPlan
    from specplan.show.page import Report

__all__ = [
    "GpusPlan",
    "LoadsPlan",
    "by_load",
    "loads_as_json",
    "named_row_as_json",
    "plan_as_json",
    "row_as_json",
    "row_at_once",
]


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
        return {
            "schema": "specplan.gpu-plans",
            "schema_version": 1,
            "unit": "dollars" if self.plans.priced else "GPU hours",
            "loads": [
                {
                    "load": rows[0].load.text,
                    "gpus": [
                        {
                            "gpu": one.gpu,
                            "gpus": one.gpus,
                            "best": words.named(one.plan, one.row.option),
                            "arrangement": one.row.option.arrangement.text,
                            "tokens_per_s": one.row.tokens_per_s,
                            "per_million_tokens": {"value": one.per_million, "low": one.low, "high": one.high},
                            "per_answer": one.dollars.per_answer,
                            "meets": one.row.meets,
                        }
                        for one in rows
                    ],
                }
                for rows in self.plans.loads
            ],
            "break_evens": [
                {"load": load, "below": before.gpu, "above": after.gpu}
                for load, before, after in self.plans.break_evens()
            ],
            "refused": dict(self.plans.refused),
            "plans": [plan_as_json(one) for one in self.plans.plans],
        }

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
        ("gain", [str(words.gain_of(row)) for _, row in best]),
        ("tokens/s", [f"{row.tokens_per_s:.0f}" for _, row in best]),
        ("answer s", [words.median_and_90th(row, "seconds", 1.0) for _, row in best]),
        ("$/M tokens", [words.dollars_each(plan, row)[0] for _, row in best]),
        ("$/answer", [words.dollars_each(plan, row)[1] for _, row in best]),
    ]
    return narrow(columns, long=1)


def _below(plan: NamesPlan) -> Iterator[str]:
    best = [rows[0].option.configuration for _, rows in plan.loads]
    needs = dict.fromkeys(text for _, rows in plan.loads for text in settings_for(plan, rows[0].option).needs)
    yield from (*(f"To run it: {text}." for text in needs), *words.waiting(plan), *words.unused(plan))
    yield from (f"Assumed: {one.text}." for one in words.assumed_by_plan(plan))
    yield from filter(None, [words.one_k(plan), words.policies(plan), *words.by_prompts(plan, ending=True)])
    for name, moves in [*words.widest(plan).items()][:1]:
        how = f" To narrow it: {MEASURE[name]}." if name in MEASURE else ""
        yield f"Most of the interval, {moves}, is {name}.{how}"
    yield from (f"{text[0].upper()}{text[1:]}." for text in words.costs_from(plan))
    if names := [*plan.unknown, *plan.deployment.passed_over]:
        yield f"Not considered (why: -v): {', '.join(names)}."
    if any(configuration.k1 > 1 for configuration in best):
        yield (
            "k1: reasoning steps in flight at once; the draft writes whole steps ahead and the target judges them, so "
            "answers may differ from the target's own."
        )
    k = "k: tokens drafted per round (num_speculative_tokens); " if any(one.k2 > 1 for one in best) else ""
    half = max(math.hypot(*plan.rate_errors(rows[0]).values()) for _, rows in plan.loads)
    rate = f"within a factor of {math.exp(half):.2f} (95 %)" if half else "those that arrive"
    yield (
        f"{k}{words.gain_is(plan)} on as many GPUs, [95 % interval]; tokens/s: {rate}; answer s: median / 90th "
        "percentile. Other methods, GPUs, bottlenecks and the commands to run it: -v."
    )


def plan_as_json(plan: NamesPlan) -> dict[str, Any]:
    """The plan as plain data."""
    deployment, fixed, pays = plan.deployment, fixed_k(plan), Pays.of(gains_by_load(plan))
    others = {"draft": deployment.draft, "judge": deployment.judge, "head": deployment.head}
    others["block_drafter"] = deployment.block
    return {
        "schema": "specplan.load-plan",
        "schema_version": 1,
        "target": deployment.target.name,
        **{role: None if model is None else model.name for role, model in others.items()},
        "gpu": deployment.gpu.name,
        "gpus": deployment.gpus,
        "engine": words.engine_name(deployment),
        "operators": "; ".join(words.costs_from(plan)) or None,
        "prompt_tokens": deployment.prompt_tokens,
        "answer_tokens": deployment.answer_tokens,
        "loads": [
            {
                "load": load.text,
                "rows": [named_row_as_json(plan, row) for row in rows],
                "settings": settings_for(plan, rows[0].option).plain(),
            }
            for load, rows in plan.loads
        ],
        "curve": {"answers": list(plan.curve.answers), "gains": {k: list(v) for k, v in plan.curve.gains.items()}},
        "switch_off_from": pays.off_from,
        "speculation_pays": [list(ends) for ends in pays.ranges()],
        "one_k": None if fixed is None else {"k": fixed.k, "loss": fixed.loss},
        "k_table": _k_table_as_json(plan),
        "by_prompt": [
            {
                "answers": one.answers,
                "method": method_name(deployment, one.option.configuration),
                "prompt_tokens": list(one.gains),
                "gains": list(one.gains.values()),
                "turns": list(one.turns),
            }
            for one in by_prompt(plan)
        ],
        "not_planned": list(plan.beyond),
        "by_mean_values": [load.text for load in plan.rough],
        "unknown": {name: list(lacking) for name, lacking in plan.unknown.items()},
        "not_considered": dict(deployment.passed_over),
    }


def _k_table_as_json(plan: NamesPlan) -> dict[str, Any] | None:
    table = k_table(plan)
    if table is None:
        return None
    rows = [{"k": k, "loss": list(losses)} for k, losses in zip(table.ks, table.losses, strict=True)]
    method = method_name(plan.deployment, table.option.configuration)
    return {"method": method, "arrangement": table.option.arrangement.text, "answers": table.answers, "rows": rows}


def named_row_as_json(plan: NamesPlan, row: LoadRow) -> dict[str, Any]:
    """Return a row of a plan from names as plain data."""
    configuration, arrangement, deployment = row.option.configuration, row.option.arrangement, plan.deployment
    dollars = dollars_of(deployment, row)
    errors = plan.rate_errors(row)
    return {
        **row_as_json(row),
        "tokens_per_s_interval": list(around(row.tokens_per_s, math.hypot(*errors.values()))),
        "method": method_name(deployment, configuration),
        "k": configuration.k2 - 1,
        "adaptive_verification": configuration.least > 0.0,
        "assumed": [one.plain() for one in words.assumed(deployment, configuration)],
        "arrangement": {
            "tp": arrangement.tp // arrangement.dp,
            "dp": arrangement.dp,
            "pp": arrangement.pp,
            "replicas": arrangement.replicas,
            "draft_gpus": arrangement.own_gpus,
            "drafting": arrangement.drafting,
        },
        "prior_share": row.prior_share,
        "gpu_s_per_answer": deployment.gpus / row.answers_per_s,
        "dollars_per_million_tokens": None if dollars is None else dollars.per_million_tokens,
        "dollars_per_answer": None if dollars is None else dollars.per_answer,
        "limit": row.limit,
    }


def loads_as_json(plan: LoadPlan | None) -> dict[str, Any]:
    """Return the loads of a plan from a profile as plain data."""
    loads = () if plan is None else plan.loads
    return {
        "at_once": [row_at_once(load.concurrency, row) for load, rows in loads if load.concurrency for row in rows],
        "arrivals": [
            {"load": load.text, **row_as_json(row)} for load, rows in loads if load.concurrency is None for row in rows
        ],
        "not_planned": [] if plan is None else list(plan.beyond),
    }


def row_at_once(answers: int, row: LoadRow) -> dict[str, Any]:
    """Return a row with so many answers at once on a profile's engines."""
    data = row_as_json(row)
    mean = {"seconds": row.mean_s, "baseline_seconds": row.mean_s * row.gain.value}
    return {**data, "answers": answers, "answer_s": data["seconds"], **mean, "timed": row.timed}


def row_as_json(row: LoadRow) -> dict[str, Any]:
    """Return what a row of any plan says, as plain data."""
    served = row.served
    return {
        "configuration": row.option.configuration.name,
        "gain": asdict(row.gain),
        "errors": dict(row.errors),
        "tokens_per_s": row.tokens_per_s,
        "answers_per_s": row.answers_per_s,
        **{name: served.percentiles(name) for name in ("ttft_s", "tpot_s", "seconds")},
        "mean": {"seconds": row.mean_s, "tokens": row.tokens_per_s / row.answers_per_s},
        "in_flight_per_copy": served.in_flight,
        "busy": served.busy,
        "preempted": served.preempted,
        "cache_share": served.cache_share,
        "in_vain": dict(row.in_vain),
        "meets": row.meets,
        "goodput": row.goodput,
    }
