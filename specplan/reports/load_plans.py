"""Reports of plans from names: the best configuration at each load, per GPU, and what to measure next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specplan.output import by_need
from specplan.reports.page import Answer, Bullets, Code, Interval, Part, Picture, Report, Section, Table
from specplan.reports.svg import Line, lines

__all__ = ["load_plan_report"]


def load_plan_report(data: Mapping[str, Any]) -> Report:
    """Return the report of a plan from names, of the data that ``specplan plan --target --json`` prints."""
    loads = data["loads"]
    first = loads[0]["rows"][0]
    gain = _interval(first)
    about = f"{data['target']}" + "".join(f", {role} {data[role]}" for role in ("draft", "judge") if data[role])
    curve = _curve(data)
    sections = [Section(title="By load", parts=[*curve, *(_table(load) for load in loads)])]
    sections.append(Section(title="To run it", parts=list(_running(data))))
    needs = [f"not planned: {', '.join(names)}: needs {what}" for what, names in by_need(data["unknown"]).items()]
    return Report(
        title=f"Plan for {data['target']}",
        about=f"{about}; {data['gpus']} {data['gpu']}, {data['engine']}",
        lead=f"{loads[0]['load']}: use {first['configuration']}, {gain.value:.2f} times plain decoding on as many GPUs "
        f"(95 % interval {gain.low:.2f} to {gain.high:.2f}).",
        answers=list(_answers(data)),
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


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(**{name: row["gain"][name] for name in ("value", "low", "high")})


def _answers(data: Mapping[str, Any]) -> Iterator[Answer]:
    for load in data["loads"][:4]:
        row = load["rows"][0]
        where = row["arrangement"]
        yield Answer(
            question=f"Which method, which k: {load['load']}?",
            answer=row["configuration"],
            detail=f"gain {_interval(row)}; {where['replicas']} x TP {where['tp']}; runs out first: {row['limit']}",
        )
    row = data["loads"][0]["rows"][0]
    yield Answer(
        question="Per GPU?",
        answer=f"{row['tokens_per_s'] / data['gpus']:.0f} tokens/s for each GPU",
        detail=f"{row['gpu_s_per_answer']:.3g} GPU seconds for an answer, at {data['loads'][0]['load']}",
    )
    off = data["switch_off_from"]
    yield Answer(
        question="At which load to switch it off?",
        answer="at none that was tried" if off is None else f"from {off} answers at once on",
    )
    largest = max(row["errors"], key=row["errors"].__getitem__) if row["errors"] else ""
    if largest:
        yield Answer(
            question="What to measure next?",
            answer=largest,
            detail=f"it leaves ±{100 * row['errors'][largest]:.0f} % of the gain open, the largest part",
        )


def _curve(data: Mapping[str, Any]) -> Iterator[Part]:
    answers = data["curve"]["answers"]
    drawn = [
        Line(name=name, points=[(float(n), gain) for n, gain in zip(answers, gains, strict=True) if gain is not None])
        for name, gains in data["curve"]["gains"].items()
    ]
    kept = [line for line in drawn if line.points]
    if kept:
        picture = lines(kept, x_name="answers at once", y_name="gain", log=True, reference=1.0)
        yield Picture(
            svg=picture, caption="Gain over plain decoding on as many GPUs; the dashed line is plain decoding."
        )


def _table(load: Mapping[str, Any]) -> Table:
    return Table(
        headings=[load["load"], "GPUs", "gain, 95 % interval", "tokens/s", "GPU s per answer", "runs out first"],
        rows=[
            [
                row["configuration"],
                f"{row['arrangement']['replicas']} x TP {row['arrangement']['tp']}",
                _interval(row),
                f"{row['tokens_per_s']:.0f}",
                f"{row['gpu_s_per_answer']:.3g}",
                row["limit"],
            ]
            for row in load["rows"]
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
