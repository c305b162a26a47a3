"""Thresholds: the rows that are shown, their notes, and a first screen of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from specplan.output import screen, table
from specplan.show.page import Interval, interval

if TYPE_CHECKING:
    from calibrate.thresholds.frontier import Cascade, Frontier
    from calibrate.thresholds.labelled_decisions import LabelledDecisions
    from calibrate.thresholds.risk import Bound, TestedThreshold

__all__ = ["ThresholdRow", "about", "distinct", "first_screen", "needed", "notes", "status"]

_MOST_ROWS: Final = 12
"""Most thresholds on the first screen."""
_BEYOND: Final = 3
"""Thresholds after the chosen one on the first screen."""

ThresholdRow = tuple["TestedThreshold", "str | Interval", bool]
"""A threshold, its speedup or cost, and whether it is chosen."""

_SAMPLING_NOTES: Final = {
    "independent": "decisions are assumed independent (true if each answer has one decision)",
    "per-answer-mean": "answers are independent; mean loss of each answer, betting p-values; answers have equal weight",
}


def first_screen(search: Frontier | Cascade, labelled: LabelledDecisions, speedup_from: str) -> str:
    """Return the choice and the thresholds around it in 80 columns.

    Parameters
    ----------
    search : all tested thresholds.
    labelled : the labelled decisions.
    speedup_from : source of the speedups; empty for a gate.
    """
    rows = distinct(search)
    shown = _around_the_chosen(rows)
    unit = search.bound.unit
    first, value, kept = ("threshold", "speedup", "accepted") if speedup_from else ("gamma", "cost", "kept")
    some_needed = any(row.units_needed is not None for row, *_ in shown)
    headings = [first, kept, "risk", "at most", value, *(["needed"] if some_needed else []), "status"]
    below = [
        *([f"{len(rows) - len(shown)} more with other decisions are not shown."] if len(rows) > len(shown) else []),
        f"risk: observed; at most: its upper limit for this single {first}"
        f"{f'; needed: labelled {unit} to certify it' if some_needed else ''}. All rows and assumptions: -v.",
    ]
    cells = table(headings, [_short_cells(row, with_needed=some_needed) for row in shown])
    return screen(f"{search.verdict} {search.advice}", f"{about(labelled)}:", cells, below)


def about(labelled: LabelledDecisions) -> str:
    """Return which decisions there are, and how many are left out."""
    known = f"{labelled.source}: {labelled.decisions.n} labelled decisions"
    if labelled.clustered:
        known += f" of {labelled.decisions.n_answers} answers"
    if labelled.n_unscored or labelled.n_unlabelled:
        known += f"; left out: {labelled.n_unscored} without a score, {labelled.n_unlabelled} without a label"
    return known


def distinct(search: Frontier | Cascade) -> list[ThresholdRow]:
    """Return the thresholds; of neighbours with equal decisions only the last, or the chosen one."""
    if hasattr(search, "points"):
        known: list[tuple[TestedThreshold, str | Interval]] = [(p.row, interval(p.speedup)) for p in search.points]
    else:
        known = [(row, f"{cost:.4g}") for row, cost in zip(search.rows, search.costs, strict=True)]
    kept: list[ThresholdRow] = []
    for i, (row, brings) in enumerate(known):
        item = row, brings, i == search.chosen
        alike = kept and (kept[-1][0].accepted, kept[-1][0].status) == (row.accepted, row.status)
        if alike and not kept[-1][-1]:
            kept[-1] = item
        elif not alike or i == search.chosen:
            kept.append(item)
    return kept


def _around_the_chosen(rows: Sequence[ThresholdRow]) -> Sequence[ThresholdRow]:
    """Rows around the chosen threshold; without a choice, those that were tested last."""
    tested = [i for i, (row, *_) in enumerate(rows) if row.status in ("certified", "failed")]
    middle = next((i for i, row in enumerate(rows) if row[-1]), tested[-1] if tested else len(rows) - 1)
    end = min(max(middle + 1 + _BEYOND, _MOST_ROWS), len(rows))
    return rows[max(end - _MOST_ROWS, 0) : end]


def status(item: ThresholdRow) -> str:
    """Return what became of a threshold."""
    row, *_, chosen = item
    return "CHOSEN" if chosen else row.status


def needed(row: TestedThreshold) -> str:
    """Return the labelled units that would certify a threshold; a dash where none would."""
    return "–" if row.units_needed is None else f"{row.units_needed:,}"


def _short_cells(item: ThresholdRow, *, with_needed: bool) -> list[str]:
    row, brings, _ = item
    return [
        f"{row.threshold:.5g}",
        f"{100 * row.accepted:.1f} %",
        f"{row.risk:.4f}" if row.trials else "–",
        f"{row.high:.4f}",
        str(brings),
        *([needed(row)] if with_needed else []),
        status(item),
    ]


def notes(bound: Bound, speedup_from: str) -> Iterator[str]:
    """Yield what the guarantee rests on."""
    yield f"sampling: {_SAMPLING_NOTES[bound.sampling]}"
    yield "the guarantee holds for fresh decisions of the same models, prompts and temperature"
    if bound.risk == "wrong-given-accepted":
        yield (
            "two searches, each with half of the failure probability, start where enough decisions are accepted; "
            "exact if P(wrong | score) does not increase with the score"
        )
    if bound.risk == "accuracy-loss":
        way = (
            f"union bound 1 - (1 - d)^n over n = {bound.decisions_per_answer} decisions of an answer"
            if bound.union
            else "an answer with any false accept counts as lost"
        )
        yield f"accuracy loss: {way}"
    if speedup_from:
        yield f"speedup: {speedup_from}"
