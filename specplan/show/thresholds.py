"""Reports of thresholds with guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specplan.show.page import Answer, Interval, Part, Picture, Report, Section, filled
from specplan.show.svg import Line, lines
from specplan.show.texts.thresholds import ThresholdRow, about, distinct, needed, notes, status

if TYPE_CHECKING:
    from calibrate.thresholds.frontier import Cascade, Frontier
    from calibrate.thresholds.labelled_decisions import LabelledDecisions
    from calibrate.thresholds.risk import TestedThreshold

__all__ = ["thresholds_report"]


def thresholds_report(search: Frontier | Cascade, labelled: LabelledDecisions, speedup_from: str) -> Report:
    """Return the report of the search for a threshold, or for the gate of a cascade."""
    bound = search.bound
    name = "threshold" if hasattr(search, "points") else "gamma"
    rows = distinct(search)
    chosen = next((item for item in rows if item[-1]), None)
    answers = [
        Answer(
            question=f"Which {name}?",
            answer="none is certified" if chosen is None else f"{chosen[0].threshold:g}",
            detail="" if chosen is None else f"it accepts {100 * chosen[0].accepted:.1f} % of the decisions",
        ),
        Answer(
            question="How sure?",
            answer=f"{100 * bound.confidence:g} % that the risk is at most {bound.level:g}",
            detail=f"risk: {bound.risk}; sampling: {bound.sampling}; on fresh decisions from the same distribution",
        ),
    ]
    if chosen is not None and isinstance(chosen[1], Interval):
        answers.append(Answer(question="What is the gain?", answer=f"speedup {chosen[1]}"))
    answers.append(
        Answer(
            question="What to measure next?",
            answer="nothing: more labels would not help"
            if search.labels_needed is None
            else f"{search.labels_needed:,} labelled {bound.unit} in all",
            detail=search.advice,
        )
    )
    table = filled(
        (name, [f"{row.threshold:.5g}" for row, *_ in rows]),
        ("accepted", [f"{100 * row.accepted:.1f} %" for row, *_ in rows]),
        ("failures", [f"{row.failures} of {row.trials}" for row, *_ in rows]),
        ("risk, one-sided limits", [_risk(row) for row, *_ in rows]),
        ("p-value", [f"{row.p_value:.2g}" for row, *_ in rows]),
        ("speedup, 95 % interval" if speedup_from else "cost", [brings for _, brings, _ in rows]),
        (f"{bound.unit} needed", [needed(row) for row, *_ in rows]),
        ("status", [status(item) for item in rows]),
        strong=None if chosen is None else rows.index(chosen),
        reference=None if speedup_from else bound.level,
    )
    return Report(
        title=f"A {name} with a guarantee",
        about=about(labelled),
        lead=search.verdict,
        answers=answers,
        sections=[Section(title=f"Every {name}", parts=[*_picture(rows, bound.level, name), table])],
        made=[("answers", str(labelled.decisions.n_answers) if labelled.clustered else "not stated")],
        notes=list(notes(bound, speedup_from)),
    )


def _picture(rows: list[ThresholdRow], level: float, name: str) -> list[Part]:
    kept = [row for row, *_ in rows if row.trials and row.risk == row.risk]  # NaN without trials
    if len(kept) < 2:
        return []
    line = Line(
        name="observed risk, one-sided limits",
        points=[(row.threshold, row.risk) for row in kept],
        intervals=[Interval(value=row.risk, low=row.low, high=row.high, digits=4) for row in kept],
    )
    picture = lines([line], x_name=name, y_name="risk", reference=level)
    return [Picture(svg=picture, caption=f"The dashed line is the largest allowed risk, {level:g}.")]


def _risk(row: TestedThreshold) -> str | Interval:
    if row.trials and row.risk == row.risk:
        return Interval(value=row.risk, low=row.low, high=row.high, digits=4)
    return f"at most {row.high:.4f}"
