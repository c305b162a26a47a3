"""Reports of validations: what was predicted beside what was measured, one answer at a time and under load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from specplan.show.page import Answer, Bullets, Code, Interval, Part, Picture, Report, Section, Table, Text
from specplan.show.plans import interval
from specplan.show.svg import Line, lines, scatter

if TYPE_CHECKING:
    from specplan.check.validating.load_rows import LoadRow
    from specplan.check.validating.under_load import LoadValidation
    from specplan.check.validating.validation import Validation
    from specplan.planning.advice import Advice

__all__ = ["load_validation_report", "validation_report"]


def validation_report(found: Validation, advice: Advice) -> Report:
    """Return the report of a validation."""
    from specplan.check.validating.run_record import as_lines

    points = {
        row.name: [
            (
                row.prediction.speedup.value,
                row.measured.speedup.value,
                f"{row.name}: predicted {interval(row.prediction.speedup)}, measured {interval(row.measured.speedup)}",
            )
        ]
        for row in found.rows
    }
    sections = [
        Section(title="Predicted beside measured", parts=list(_rows(found, points))),
        Section(title="To run the fastest", parts=list(_running(advice))),
    ]
    if found.effective:
        sections.append(Section(title="Run with", parts=[Code(text="\n".join(as_lines(found.effective)))]))
    best = max(found.rows, key=lambda row: row.measured.speedup.value)
    return Report(
        title=f"Validation of {found.profile}",
        about=f"{found.baseline.n} fresh questions, each answered every way, interleaved with plain decoding",
        lead=f"{best.name} was measured fastest: {best.measured.speedup.value:.2f} times plain decoding "
        f"[{best.measured.speedup.low:.2f}, {best.measured.speedup.high:.2f}], predicted "
        f"{best.prediction.speedup.value:.2f}.",
        answers=list(_answers(found)),
        sections=sections,
        made=[("profile", found.profile), ("questions", str(found.baseline.n))],
        notes=list(_notes(found)),
    )


def _answers(found: Validation) -> Iterator[Answer]:
    measured = max(found.rows, key=lambda row: row.measured.speedup.value)
    chosen = max(found.rows, key=lambda row: row.prediction.speedup.value)
    c = measured.prediction.configuration
    yield Answer(question="Which method is fastest?", answer=measured.name, detail=f"k1 = {c.k1}, k2 = {c.k2}")
    lost = measured.measured.speedup.value / chosen.measured.speedup.value - 1.0
    told = "it is the measured best" if chosen is measured else f"the measured best is {100 * lost:.1f} % faster"
    yield Answer(question="Was it chosen rightly?", answer=chosen.name, detail=f"predicted to be the fastest; {told}")
    good = sum(row.good for row in found.rows)
    errors = [abs(row.error) for row in found.rows]
    yield Answer(
        question="How good are the predictions?",
        answer=f"{good} of {len(found.rows)} are good",
        detail=f"mean absolute error {100 * sum(errors) / len(errors):.1f} %, largest {100 * max(errors):.1f} %; good: "
        "within 10 %, or the measurement inside the interval for it",
    )
    yield Answer(
        question="At which load?", answer="One answer at a time", detail="under load: specplan validate --concurrency"
    )
    worst = max(found.rows, key=lambda row: abs(row.error))
    yield Answer(
        question="What to measure next?",
        answer=f"More of {worst.name}",
        detail=f"it is off the most, by {100 * worst.error:+.1f} %",
    )


def _rows(found: Validation, points: Mapping[str, Sequence[tuple[float, float, str]]]) -> Iterator[Part]:
    yield Table(
        headings=["method", "predicted", "next measurement", "measured", "error", "closed form", "verdict"],
        rows=[
            [
                row.name,
                interval(row.prediction.speedup),
                f"{row.expected.low:.2f} – {row.expected.high:.2f}",
                interval(row.measured.speedup),
                f"{100 * row.error:+.1f} %",
                "–" if row.closed_form is None else f"{row.closed_form:.2f}",
                "good" if row.good else "off",
            ]
            for row in found.rows
        ],
        reference=1.0,
    )
    yield Text(
        text="Speedup over plain decoding of the same questions, ratio of totals, 95 % intervals. Next measurement: "
        "where a speedup measured on so many fresh questions was to be."
    )
    if len(found.rows) > 1:
        bars = {row.name: (interval(row.prediction.speedup), interval(row.measured.speedup)) for row in found.rows}
        picture = scatter(points, x_name="predicted speedup", y_name="measured speedup", intervals=bars)
        yield Picture(svg=picture, caption="On the dashed line a prediction is right. Bars: 95 % intervals of both.")


def _running(advice: Advice) -> Iterator[Part]:
    import json

    yield from (Code(text=server.command) for server in advice.servers)
    if advice.client is not None:
        yield Code(text=json.dumps(advice.client, indent=2, sort_keys=True))
    if advice.notes:
        yield Bullets(items=advice.notes)


def _notes(found: Validation) -> Iterator[str]:
    if found.pace:
        told = ", ".join(f"{name} {value:.2f}" for name, value in found.pace.items())
        yield f"for their work the engines took, as a multiple of what the profile says: {told}"
    for row in found.rows:
        yield from (f"{row.name}: {note}" for note in row.prediction.notes)


def load_validation_report(found: LoadValidation) -> Report:
    """Return the report of a validation under load."""
    from calibrate.running.interleaved import BASELINE
    from specplan.check.validating.run_record import as_lines

    rows = [row for row in found.rows if row.name != BASELINE]
    kinds = dict.fromkeys(row.name for row in rows)
    parts: list[Part] = []
    if len({row.clients for row in rows}) > 1:
        drawn = [
            Line(
                name=f"{name}, {side}",
                points=[(float(row.clients), getattr(row, side)["gain"].value) for row in rows if row.name == name],
                intervals=[interval(getattr(row, side)["gain"]) for row in rows if row.name == name],
            )
            for name in kinds
            for side in ("predicted", "measured")
        ]
        picture = lines(drawn, x_name="clients", y_name="gain", log=True, reference=1.0)
        parts.append(Picture(svg=picture, caption="Gain over plain decoding with as many clients, 95 % intervals."))
    parts.append(
        Table(
            headings=["clients", "method", "predicted", "measured", "error"],
            rows=[_load_cells(row) for row in rows],
            reference=1.0,
        )
    )
    inside = sum(row.inside for row in rows)
    answers = [
        Answer(
            question=f"Which method at {one.clients} clients?",
            answer=one.best,
            detail=f"measured; predicted: {one.chosen}; choosing that costs {100 * one.regret.value:.1f} %",
        )
        for one in found.verdicts
    ]
    sure = Answer(
        question="How sure?", answer=f"{inside} of {len(rows)} gains are inside their interval", detail="of 95 %"
    )
    shown = [Section(title="Predicted beside measured", parts=parts)]
    if found.effective:
        shown.append(Section(title="Run with", parts=[Code(text="\n".join(as_lines(found.effective)))]))
    off = ["at none of these loads" if load is None else f"from {load} clients on" for load in found.off_from]
    return Report(
        title=f"Validation of {found.profile} under load",
        about=f"{found.n_questions} fresh questions in {found.n_rounds} rounds",
        lead=f"Speculation is to be switched off {off[0]} as predicted, {off[1]} as measured.",
        answers=[*answers, sure],
        sections=shown,
        made=[("profile", found.profile), ("questions", str(found.n_questions)), ("rounds", str(found.n_rounds))],
    )


def _load_cells(row: LoadRow) -> list[str | Interval]:
    gains = [interval(side["gain"]) for side in (row.predicted, row.measured)]
    return [str(row.clients), row.name, *gains, f"{100 * row.error:+.1f} %"]
