"""Plans on several types of GPUs as a reader sees them: what a token costs on each, the cheapest, the break-even."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from specplan.output import SCREEN, screen, table
from specplan.show.loads.plain import plan_as_json
from specplan.show.loads.words import assumed_by_plan, at_load, engine_name, named
from specplan.show.page import brief

if TYPE_CHECKING:
    from specplan.planning.loads.gpu_types import GpuPlans, Priced

__all__ = ["break_evens", "cheapest", "gpus_as_json", "gpus_first_screen", "unit"]


def gpus_first_screen(plans: GpuPlans) -> str:
    """Return what fits a terminal of 80 columns: the cheapest type at each load, the break-even, the table."""
    deployment = plans.loads[0][0].plan.deployment
    sentences = [*(cheapest(plans, rows) for rows in plans.loads), break_evens(plans)]
    title = (
        f"Plans for {deployment.target.name} by type of GPU, {engine_name(deployment)}: "
        f"prompts of {deployment.prompt_tokens} tokens, answers of {deployment.answer_tokens}:"
    )
    return screen(sentences, [title], _table(plans), list(_below(plans)))


def unit(plans: GpuPlans) -> str:
    """Return the unit of costs: dollars, or GPU hours where no prices were given."""
    return "$" if plans.priced else "GPU h"


def _short(gpu: str) -> str:
    return gpu.removeprefix("NVIDIA ")


def cheapest(plans: GpuPlans, rows: Sequence[Priced]) -> str:
    """Return which type is the cheapest at a load, what it costs, how sure that is, and what the next one costs."""
    best, *others = rows
    at = f"At {at_load(best.load)}"
    if not best.row.meets:
        return f"{at}: no type of GPU meets the bounds."
    on = f"{best.gpus} x {_short(best.gpu)} with {named(best.plan, best.row.option)}"
    cost = f"${brief(best.per_million)}" if plans.priced else f"{brief(best.per_million)} GPU h"
    text = f"{at}: cheapest is {on}, {cost} per million tokens"
    text += f", between {brief(best.low)} and {brief(best.high)} with 95 % confidence"
    second = next((one for one in others if one.row.meets), None)
    if second is None:
        return f"{text}; {'no other type meets the bounds' if others else 'no other type was planned'}."
    times = second.per_million / best.per_million
    is_unsure = math.log(times) < math.hypot(best.costs, second.costs)
    sure = ", less than the uncertainty of passes" if is_unsure else ""
    return f"{text}; {_short(second.gpu)} costs {times:.2f} times as much{sure}."


def break_evens(plans: GpuPlans) -> str:
    """Return at which loads the cheapest type changes."""
    if len(plans.loads) < 2:
        return "Break-even: say several loads (--concurrency 1,8,64) to see where another type becomes the cheapest."
    changes = plans.break_evens()
    if not changes:
        best = [rows[0].gpu for rows in plans.loads if rows[0].row.meets]
        only = _short(best[0]) if len(set(best)) == 1 else "no type"
        where = "all these loads" if len(best) == len(plans.loads) else "the loads at which any meets the bounds"
        return f"Break-even: none; {only} is the cheapest at {where}."
    of = "per second" if plans.loads[0][0].load.concurrency is None else "at once"
    turns = []
    for load, before, after in changes:
        n = brief(load, 2)
        answers = f"{n} answer{'s' if n != '1' else ''}"
        turns.append(f"from about {answers} {of} {_short(after.gpu)} is cheaper than {_short(before.gpu)}")
    return f"Break-even: {'; '.join(turns)}."


def _table(plans: GpuPlans) -> str:
    rows = []
    for priced in plans.loads:
        for i, one in enumerate(priced):
            option = named(one.plan, one.row.option)
            cells = [one.load.text if not i else "", f"{one.gpus} x {_short(one.gpu)}", option]
            cells += [f"{one.row.tokens_per_s:.0f}", f"{brief(one.per_million)} [{brief(one.low)}, {brief(one.high)}]"]
            rows.append([*cells, brief(one.dollars.per_answer, 2) if one.row.meets else "misses bounds"])
    headings = ["load", "GPUs", "best", "tokens/s", f"{unit(plans)}/M tokens", f"{unit(plans)}/answer"]
    return table(headings, rows, width=SCREEN)


def _below(plans: GpuPlans) -> Iterator[str]:
    yield from (f"Not planned for {_short(name)}: {why}." for name, why in plans.refused.items())
    for plan in plans.plans:
        on = f"{plan.deployment.gpus} x {_short(plan.deployment.gpu.name)}"
        yield from (f"Not planned on {on}: {why}." for why in plan.beyond)
    assumptions = dict.fromkeys(one.text for plan in plans.plans for one in assumed_by_plan(plan))
    yield from (f"Assumed: {text}." for text in assumptions)
    yield (
        f"{unit(plans)}/M tokens: price of all GPUs per hour / million tokens of answers written in it, [95 % "
        "interval]; GPUs: the fewest that hold the models, more where these miss the bounds or have too little cache, "
        "unless --gpus says how many. Each plan in full, with its commands: -v."
    )


def gpus_as_json(plans: GpuPlans) -> dict[str, Any]:
    """Return the plans as plain data."""
    return {
        "schema": "specplan.gpu-plans",
        "schema_version": 1,
        "unit": "dollars" if plans.priced else "GPU hours",
        "loads": [
            {
                "load": rows[0].load.text,
                "gpus": [
                    {
                        "gpu": one.gpu,
                        "gpus": one.gpus,
                        "best": named(one.plan, one.row.option),
                        "arrangement": one.row.option.arrangement.text,
                        "tokens_per_s": one.row.tokens_per_s,
                        "per_million_tokens": {"value": one.per_million, "low": one.low, "high": one.high},
                        "per_answer": one.dollars.per_answer,
                        "meets": one.row.meets,
                    }
                    for one in rows
                ],
            }
            for rows in plans.loads
        ],
        "break_evens": [
            {"load": load, "below": before.gpu, "above": after.gpu} for load, before, after in plans.break_evens()
        ],
        "refused": dict(plans.refused),
        "plans": [plan_as_json(one) for one in plans.plans],
    }
