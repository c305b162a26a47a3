"""Plans under load as plain data: what ``specplan plan --json`` prints of loads."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specplan.planning.loads.from_options import settings_for
from specplan.planning.loads.prices import dollars_of
from specplan.planning.loads.statements import Pays, by_prompt, fixed_k, gains_by_load, k_table
from specplan.show.loads.words import assumed, costs_from, engine_name
from specplan.worlds.drafters.naming import method_name
from theory.hardware.half_widths import around

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow, NamesPlan

__all__ = ["loads_as_json", "plan_as_json", "row_as_json", "row_at_once"]


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
        "engine": engine_name(deployment),
        "operators": "; ".join(costs_from(plan)) or None,
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
    dollars, errors = dollars_of(deployment, row), plan.simulator.rate_errors(row.option, row.errors)
    return {
        **row_as_json(row),
        "tokens_per_s_interval": list(around(row.tokens_per_s, math.hypot(*errors.values()))),
        "method": method_name(deployment, configuration),
        "k": configuration.k2 - 1,
        "adaptive_verification": configuration.least > 0.0,
        "assumed": [one.plain() for one in assumed(deployment, configuration)],
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
