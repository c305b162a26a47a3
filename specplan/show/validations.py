"""Reports of validations: predictions and measurements at concurrency 1 and under load."""

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


def validation_report(validation: Validation, advice: Advice) -> Report:
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
        for row in validation.rows
    }
    sections = [
        Section(title="Predicted and measured", parts=list(_rows(validation, points))),
        Section(title="To run the fastest", parts=list(_running(advice))),
    ]
    if validation.effective:
        sections.append(Section(title="Run with", parts=[Code(text="\n".join(as_lines(validation.effective)))]))
    best = max(validation.rows, key=lambda row: row.measured.speedup.value)
    return Report(
        title=f"Validation of {validation.profile}",
        about=f"{validation.baseline.n} fresh questions, each answered by all configurations and plain decoding",
        lead=f"{best.name} was measured fastest: {best.measured.speedup.value:.2f} times plain decoding "
        f"[{best.measured.speedup.low:.2f}, {best.measured.speedup.high:.2f}], predicted "
        f"{best.prediction.speedup.value:.2f}.",
        answers=list(_answers(validation)),
        sections=sections,
        made=[("profile", validation.profile), ("questions", str(validation.baseline.n))],
        notes=list(_notes(validation)),
    )


def _answers(validation: Validation) -> Iterator[Answer]:
    measured = max(validation.rows, key=lambda row: row.measured.speedup.value)
    chosen = max(validation.rows, key=lambda row: row.prediction.speedup.value)
    c = measured.prediction.configuration
    yield Answer(question="Which method is fastest?", answer=measured.name, detail=f"k1 = {c.k1}, k2 = {c.k2}")
    lost = measured.measured.speedup.value / chosen.measured.speedup.value - 1.0
    comparison = (
        "it is also the measured best" if chosen is measured else f"the measured best is {100 * lost:.1f} % faster"
    )
    yield Answer(
        question="Was the choice right?", answer=chosen.name, detail=f"predicted to be the fastest; {comparison}"
    )
    good = sum(row.good for row in validation.rows)
    errors = [abs(row.error) for row in validation.rows]
    yield Answer(
        question="How good are the predictions?",
        answer=f"{good} of {len(validation.rows)} are good",
        detail=f"mean absolute error {100 * sum(errors) / len(errors):.1f} %, largest {100 * max(errors):.1f} %; good: "
        "error within 10 %, or the measurement inside its predicted interval",
    )
    yield Answer(
        question="At which load?", answer="One answer at a time", detail="under load: specplan validate --concurrency"
    )
    worst = max(validation.rows, key=lambda row: abs(row.error))
    yield Answer(
        question="What to measure next?",
        answer=f"More of {worst.name}",
        detail=f"it has the largest error, {100 * worst.error:+.1f} %",
    )


def _rows(validation: Validation, points: Mapping[str, Sequence[tuple[float, float, str]]]) -> Iterator[Part]:
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
            for row in validation.rows
        ],
        reference=1.0,
    )
    yield Text(
        text="Speedup over plain decoding of the same questions, ratio of totals, 95 % intervals. Next measurement: "
        "the predicted interval of a speedup measured on as many fresh questions."
    )
    if len(validation.rows) > 1:
        bars = {row.name: (interval(row.prediction.speedup), interval(row.measured.speedup)) for row in validation.rows}
        picture = scatter(points, x_name="predicted speedup", y_name="measured speedup", intervals=bars)
        yield Picture(
            svg=picture, caption="On the dashed line predicted equals measured. Bars: 95 % intervals of both."
        )


def _running(advice: Advice) -> Iterator[Part]:
    import json

    yield from (Code(text=server.command) for server in advice.servers)
    if advice.client is not None:
        yield Code(text=json.dumps(advice.client, indent=2, sort_keys=True))
    if advice.notes:
        yield Bullets(items=advice.notes)


def _notes(validation: Validation) -> Iterator[str]:
    if validation.slowdown:
        ratios = ", ".join(f"{name} {value:.2f}" for name, value in validation.slowdown.items())
        yield f"time of the engines over the time that the profile gives for the same work: {ratios}"
    for row in validation.rows:
        yield from (f"{row.name}: {note}" for note in row.prediction.notes)


def load_validation_report(validation: LoadValidation) -> Report:
    """Return the report of a validation under load."""
    from calibrate.running.interleaved import BASELINE
    from specplan.check.validating.run_record import as_lines

    rows = [row for row in validation.rows if row.name != BASELINE]
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
        parts.append(
            Picture(svg=picture, caption="Gain over plain decoding with the same number of clients, 95 % intervals.")
        )
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
            detail=f"measured; predicted: {one.chosen}, which is {100 * one.regret.value:.1f} % slower",
        )
        for one in validation.verdicts
    ]
    sure = Answer(question="How sure?", answer=f"{inside} of {len(rows)} gains are inside their 95 % interval")
    shown = [Section(title="Predicted and measured", parts=parts)]
    if validation.effective:
        shown.append(Section(title="Run with", parts=[Code(text="\n".join(as_lines(validation.effective)))]))
    off = ["at none of these loads" if load is None else f"from {load} clients on" for load in validation.off_from]
    return Report(
        title=f"Validation of {validation.profile} under load",
        about=f"{validation.n_questions} fresh questions in {validation.n_rounds} rounds",
        lead=f"Speculation should be switched off {off[0]} (predicted), {off[1]} (measured).",
        answers=[*answers, sure],
        sections=shown,
        made=[
            ("profile", validation.profile),
            ("questions", str(validation.n_questions)),
            ("rounds", str(validation.n_rounds)),
        ],
    )


def _load_cells(row: LoadRow) -> list[str | Interval]:
    gains = [interval(side["gain"]) for side in (row.predicted, row.measured)]
    return [str(row.clients), row.name, *gains, f"{100 * row.error:+.1f} %"]
