"""A plan under load as plain data: what ``specplan plan --target --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specplan.planning.loads.assumed import assumed
from specplan.planning.loads.prices import dollars_of
from specplan.planning.loads.prompts import by_prompt
from specplan.planning.loads.shown.words import engine_name, method_name
from specplan.planning.loads.statements import Pays, fixed_k, gains_by_load, k_table
from specplan.worlds.world import passes_of

if TYPE_CHECKING:
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow
    from specplan.planning.loads.prompts import ByPrompt
    from specplan.worlds.request import Deployment
    from specplan.worlds.running.settings import Settings

__all__ = ["plan_as_json", "row_as_json"]


def plan_as_json(plan: LoadPlan, settings: Sequence[Settings]) -> dict[str, Any]:
    """The plan as plain data."""
    deployment = plan.deployment
    return {
        "schema": "specplan.load-plan",
        "schema_version": 1,
        "target": deployment.target.name,
        "draft": None if deployment.draft is None else deployment.draft.name,
        "judge": None if deployment.judge is None else deployment.judge.name,
        "head": None if deployment.head is None else deployment.head.name,
        "block_drafter": None if deployment.block is None else deployment.block.name,
        "gpu": deployment.gpu.name,
        "gpus": deployment.gpus,
        "engine": engine_name(deployment),
        "operators": passes_of(deployment, deployment.target, 1)[1],
        "prompt_tokens": deployment.prompt_tokens,
        "answer_tokens": deployment.answer_tokens,
        "loads": [
            {"load": load.text, "rows": [row_as_json(deployment, row) for row in rows], "settings": one.plain()}
            for (load, rows), one in zip(plan.loads, settings, strict=True)
        ],
        "curve": {"answers": list(plan.curve.answers), "gains": {k: list(v) for k, v in plan.curve.gains.items()}},
        "switch_off_from": Pays.of(gains_by_load(plan)).off_from,
        "speculation_pays": [list(ends) for ends in Pays.of(gains_by_load(plan)).ranges()],
        "one_k": _one_k_as_json(plan),
        "k_table": _k_table_as_json(plan),
        "by_prompt": [_by_prompt_as_json(plan, one) for one in by_prompt(plan)],
        "not_planned": list(plan.beyond),
        "unknown": {name: list(lacking) for name, lacking in plan.unknown.items()},
        "not_considered": dict(deployment.passed_over),
    }


def _one_k_as_json(plan: LoadPlan) -> dict[str, Any] | None:
    fixed = fixed_k(plan)
    return None if fixed is None else {"k": fixed.k, "loss": fixed.loss}


def _by_prompt_as_json(plan: LoadPlan, one: ByPrompt) -> dict[str, Any]:
    return {
        "answers": one.answers,
        "method": method_name(plan.deployment, one.option.configuration),
        "prompt_tokens": list(one.gains),
        "gains": list(one.gains.values()),
        "off_beyond": one.off_beyond,
    }


def _k_table_as_json(plan: LoadPlan) -> dict[str, Any] | None:
    found = k_table(plan)
    if found is None:
        return None
    rows = [{"k": k, "loss": list(losses)} for k, losses in zip(found.ks, found.losses, strict=True)]
    method = method_name(plan.deployment, found.option.configuration)
    return {"method": method, "arrangement": found.option.arrangement.text, "answers": found.answers, "rows": rows}


def row_as_json(deployment: Deployment, row: LoadRow) -> dict[str, Any]:
    """Return a row as plain data."""
    served, dollars = row.served, dollars_of(deployment, row)
    return {
        "configuration": row.option.configuration.name,
        "method": method_name(deployment, row.option.configuration),
        "k": row.option.configuration.k2 - 1,
        "adaptive_verification": row.option.configuration.least > 0.0,
        "assumed": [one.plain() for one in assumed(deployment, row.option.configuration)],
        "arrangement": {
            "tp": row.option.arrangement.tp // row.option.arrangement.dp,
            "dp": row.option.arrangement.dp,
            "replicas": row.option.arrangement.replicas,
            "draft_gpus": row.option.arrangement.own_gpus,
            "drafting": row.option.arrangement.drafting,
        },
        "gain": {"value": row.gain.value, "low": row.gain.low, "high": row.gain.high, "estimator": row.gain.estimator},
        "errors": dict(row.errors),
        "prior_share": row.prior_share,
        "tokens_per_s": row.tokens_per_s,
        "answers_per_s": row.answers_per_s,
        "gpu_s_per_answer": deployment.gpus / row.answers_per_s,
        "dollars_per_million_tokens": None if dollars is None else dollars.per_million_tokens,
        "dollars_per_answer": None if dollars is None else dollars.per_answer,
        **{name: served.percentiles(name) for name in ("ttft_s", "tpot_s", "seconds")},
        "mean": {name: served.mean(name) for name in ("seconds", "tokens")},
        "in_flight_per_copy": served.in_flight,
        "busy": served.busy,
        "preempted": served.preempted,
        "cache_share": served.cache_share,
        "in_vain": dict(row.in_vain),
        "limit": row.limit,
        "meets": row.meets,
        "goodput": row.goodput,
    }
