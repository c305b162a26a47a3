"""Reports of thresholds with guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specplan.show.page import Answer, Interval, Part, Picture, Report, Section, Table
from specplan.show.plans import interval
from specplan.show.svg import Line, lines

if TYPE_CHECKING:
    from calibrate.thresholds.frontier import Cascade, Frontier
    from calibrate.thresholds.labelled_decisions import LabelledDecisions
    from calibrate.thresholds.risk import TestedThreshold

__all__ = ["thresholds_report"]


def thresholds_report(search: Frontier | Cascade, labelled: LabelledDecisions) -> Report:
    """Return the report of the search for a threshold, or for the gate of a cascade."""
    bound = search.bound
    name = "threshold" if hasattr(search, "points") else "gamma"
    rows = _rows(search)
    chosen = None if search.chosen is None else rows[search.chosen]
    unit = f"{labelled.decisions.n} labelled decisions"
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
    value = "speedup, 95 % interval" if hasattr(search, "points") else "cost"
    shown = _distinct(rows, search.chosen)
    table = Table(
        headings=[name, "accepted", "failures", "risk, one-sided limits", "p-value", value, "status"],
        rows=[_cells(*rows[i]) for i in shown],
        strong=None if search.chosen is None else shown.index(search.chosen),
        reference=bound.level if not hasattr(search, "points") else None,
    )
    return Report(
        title=f"A {name} with a guarantee",
        about=f"{labelled.source}: {unit}",
        lead=search.verdict,
        answers=answers,
        sections=[Section(title=f"Every {name}", parts=[*_picture(rows, bound.level, name), table])],
        made=[
            ("decisions", unit),
            ("answers", str(labelled.decisions.n_answers) if labelled.clustered else "not stated"),
            ("left out", f"{labelled.n_unscored} without a score, {labelled.n_unlabelled} without a label"),
            ("seed", str(bound.seed)),
        ],
        notes=["the guarantee holds for fresh decisions of the same models, prompts and temperature"],
    )


def _rows(search: Frontier | Cascade) -> list[tuple[TestedThreshold, str | Interval]]:
    if hasattr(search, "points"):
        return [(point.row, interval(point.speedup)) for point in search.points]
    return [(row, f"{cost:.4g}") for row, cost in zip(search.rows, search.costs, strict=True)]


def _distinct(rows: list[tuple[TestedThreshold, str | Interval]], chosen: int | None) -> list[int]:
    """Indices of rows; of neighbours with equal decisions only the last, or the chosen one."""
    kept: list[int] = []
    for i, (row, _) in enumerate(rows):
        alike = kept and (rows[kept[-1]][0].accepted, rows[kept[-1]][0].status) == (row.accepted, row.status)
        if alike and kept[-1] != chosen:
            kept[-1] = i
        elif not alike or i == chosen:
            kept.append(i)
    return kept


def _picture(rows: list[tuple[TestedThreshold, str | Interval]], level: float, name: str) -> list[Part]:
    kept = [row for row, _ in rows if row.trials and row.risk == row.risk]  # NaN without trials
    if len(kept) < 2:
        return []
    line = Line(
        name="observed risk, one-sided limits",
        points=[(row.threshold, row.risk) for row in kept],
        intervals=[Interval(value=row.risk, low=row.low, high=row.high, digits=4) for row in kept],
    )
    picture = lines([line], x_name=name, y_name="risk", reference=level)
    return [Picture(svg=picture, caption=f"The dashed line is the largest allowed risk, {level:g}.")]


def _cells(row: TestedThreshold, worth: str | Interval) -> list[str | Interval]:
    risk: str | Interval = "–"
    if row.trials and row.risk == row.risk:
        risk = Interval(value=row.risk, low=row.low, high=row.high, digits=4)
    accepted = f"{100 * row.accepted:.1f} %"
    failures = f"{row.failures} of {row.trials}"
    return [f"{row.threshold:.5g}", accepted, failures, risk, f"{row.p_value:.2g}", worth, row.status]
