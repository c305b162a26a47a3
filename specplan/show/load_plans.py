"""Reports of plans from names: the best configuration at each load, per GPU, and what to measure next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specplan.planning.loads.assumed import assumed_by_plan
from specplan.planning.loads.shown.plain import plan_as_json
from specplan.planning.loads.shown.words import at_load, dollars_each, method_name, named, not_considered, switch_off
from specplan.show.page import Answer, Bullets, Code, Interval, Part, Picture, Report, Section, Table
from specplan.show.svg import Line, lines

if TYPE_CHECKING:
    from sim.estimate import Estimate
    from specplan.planning.loads.gpu_types import GpuPlans, Priced
    from specplan.planning.loads.load_plan import LoadPlan, LoadRow
    from specplan.show.results.plans import GpusPlan, LoadsPlan

__all__ = ["gpus_report", "load_plan_report"]


def load_plan_report(found: LoadsPlan) -> Report:
    """Return the report of a plan from names."""
    data, plan = found.plain(), found.asked.plan
    about = f"{data['target']}" + "".join(f", {role} {data[role]}" for role in ("draft", "judge") if data[role])
    tables = [_table(plan, at_load(load), rows) for load, rows in plan.loads]
    sections = [Section(title="By load", parts=[*_curve(plan), *tables])]
    sections.append(Section(title="To run it", parts=list(_running(data))))
    needs = [f"assumed: {one.text}" for one in assumed_by_plan(plan)]
    needs += [f"not considered: {one}" for one in not_considered(plan)]
    return Report(
        title=f"Plan for {data['target']}",
        about=f"{about}; {data['gpus']} {data['gpu']}, {data['engine']}",
        lead=found.headline(),
        answers=list(_answers(data, plan)),
        sections=sections,
        made=[
            ("models", about),
            ("GPUs", f"{data['gpus']} {data['gpu']}"),
            ("engine", data["engine"]),
            ("prompt", f"{data['prompt_tokens']} tokens"),
            ("answer", f"{data['answer_tokens']} tokens"),
        ],
        notes=[*(f"not planned: {one}" for one in data["not_planned"]), *needs],
    )


def gpus_report(shown: GpusPlan) -> Report:
    """Return the report of plans on several types of GPUs: costs by load, then each plan's tables and commands."""
    from specplan.planning.loads.shown.gpu_types import break_evens, cheapest

    found = shown.found
    deployment = found.loads[0][0].asked.plan.deployment
    answers = [
        Answer(question=f"What is cheapest at {at_load(rows[0].load)}?", answer=cheapest(found, rows))
        for rows in found.loads[:4]
    ]
    sections = [Section(title="Costs by load", parts=[*_costs(found), *(_priced(found, rows) for rows in found.loads)])]
    for one in found.plans:
        plan = one.plan
        tables = [_table(plan, at_load(load), rows) for load, rows in plan.loads]
        title = f"On {plan.deployment.gpus} x {plan.deployment.gpu.name}"
        sections.append(Section(title=title, parts=[*tables, *_running(plan_as_json(plan, one.settings))]))
    assumed = dict.fromkeys(one.text for each in found.plans for one in assumed_by_plan(each.plan))
    return Report(
        title=f"Plans for {deployment.target.name} by type of GPU",
        about=f"{deployment.target.name}; {', '.join(dict.fromkeys(p.plan.deployment.gpu.name for p in found.plans))}",
        lead=shown.headline(),
        answers=[*answers, Answer(question="Where does the cheapest type change?", answer=break_evens(found))],
        sections=sections,
        made=[
            ("prompt", f"{deployment.prompt_tokens} tokens"),
            ("answer", f"{deployment.answer_tokens} tokens"),
            *(
                (one.plan.deployment.gpu.name, f"{one.plan.deployment.gpu_price:g} $/h")
                for one in found.plans
                if found.priced
            ),
        ],
        notes=[
            *(f"not planned for {name}: {why}" for name, why in found.refused.items()),
            *(f"assumed: {text}" for text in assumed),
        ],
    )


def _costs(found: GpuPlans) -> Iterator[Part]:
    """Costs by load, a line for each type."""
    from specplan.planning.loads.shown.gpu_types import unit

    points: dict[str, list[tuple[float, float]]] = {}
    for one in (one for rows in found.loads for one in rows if one.size):
        points.setdefault(one.gpu, []).append((float(one.size or 0.0), one.per_million))
    if len(found.loads) > 1:
        x_name = "answers at once" if found.loads[0][0].load.concurrency else "answers per second"
        drawn = [Line(name=name, points=each) for name, each in points.items()]
        svg = lines(drawn, x_name=x_name, y_name=f"{unit(found)} per million tokens", log=True)
        yield Picture(svg=svg, caption=f"{unit(found)} per million tokens by load, of the best option on each type.")


def _priced(found: GpuPlans, rows: Sequence[Priced]) -> Table:
    from specplan.planning.loads.shown.gpu_types import unit

    return Table(
        headings=[
            at_load(rows[0].load),
            "best",
            f"{unit(found)}/M tokens, 95 % interval",
            f"{unit(found)}/answer",
            "bounds",
        ],
        rows=[
            [
                f"{one.gpus} x {one.gpu}",
                named(one.asked.plan.deployment, one.row.option),
                Interval(value=one.per_million, low=one.low, high=one.high),
                f"{one.per_answer:.2g}",
                "met" if one.row.meets else "missed",
            ]
            for one in rows
        ],
        strong=0,
    )


def _interval(gain: Estimate) -> Interval:
    return Interval(value=gain.value, low=gain.low, high=gain.high)


def _answers(data: Mapping[str, Any], plan: LoadPlan) -> Iterator[Answer]:
    for load, rows in plan.loads[:4]:
        best = rows[0]
        yield Answer(
            question=f"Which method, which k, at {at_load(load)}?",
            answer=named(plan.deployment, best.option),
            detail=f"gain {_interval(best.gain)}; {best.option.arrangement.text}; runs out first: {best.limit}",
        )
    load, (best, *_) = plan.loads[0]
    row = data["loads"][0]["rows"][0]
    yield Answer(
        question="Per GPU?",
        answer=f"{best.tokens_per_s / data['gpus']:.0f} tokens/s for each GPU",
        detail=f"{data['gpus'] / best.answers_per_s:.3g} GPU seconds for an answer, at {at_load(load)}",
    )
    yield Answer(question="At which loads does it pay?", answer=switch_off(plan) or "no load was compared")
    largest = max(row["errors"], key=row["errors"].__getitem__) if row["errors"] else ""
    if largest:
        yield Answer(
            question="What to measure next?",
            answer=largest,
            detail=f"it leaves ±{100 * row['errors'][largest]:.0f} % of the gain open, the largest part",
        )


def _curve(plan: LoadPlan) -> Iterator[Part]:
    drawn = []
    for kind, gains in plan.curve.gains.items():
        points = [(float(n), gain) for n, gain in zip(plan.curve.answers, gains, strict=True) if gain is not None]
        first = next((option for option in plan.curve.options[kind] if option is not None), None)
        name = kind if first is None else method_name(plan.deployment, first.configuration)
        drawn.append(Line(name=name, points=points))
    kept = [line for line in drawn if line.points]
    if kept:
        picture = lines(kept, x_name="answers at once", y_name="gain", log=True, reference=1.0)
        yield Picture(
            svg=picture, caption="Gain over plain decoding on as many GPUs; the dashed line is plain decoding."
        )


def _table(plan: LoadPlan, load: str, rows: Sequence[LoadRow]) -> Table:
    deployment = plan.deployment
    priced = deployment.gpu_price is not None
    headings = [load, "GPUs", "gain, 95 % interval", "tokens/s", "GPU s per answer", "runs out first"]
    return Table(
        headings=[*headings, *(["$/M tokens", "$/answer"] if priced else [])],
        rows=[
            [
                named(deployment, row.option),
                row.option.arrangement.text,
                _interval(row.gain),
                f"{row.tokens_per_s:.0f}",
                f"{deployment.gpus / row.answers_per_s:.3g}",
                row.limit,
                *(dollars_each(deployment, row) if priced else ()),
            ]
            for row in rows
        ],
        reference=1.0,
        strong=0,
    )


def _running(data: Mapping[str, Any]) -> Iterator[Part]:
    """Commands of each load, each set of them once."""
    told: dict[str, list[str]] = {}
    for load in data["loads"]:
        told.setdefault("\n".join(load["settings"]["commands"]), []).append(load["load"])
    for commands, loads in told.items():
        if commands:
            yield Bullets(items=["; ".join(loads)])
            yield Code(text=commands)
