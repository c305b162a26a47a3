"""Thresholds as a reader sees them: a first screen of 80 columns, and all of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from specplan.output import SCREEN, table

if TYPE_CHECKING:
    from calibrate.thresholds.frontier import Cascade, Frontier
    from calibrate.thresholds.labelled_decisions import LabelledDecisions
    from calibrate.thresholds.risk import Bound, TestedThreshold

__all__ = ["as_text", "first_screen"]

_MOST_ROWS: Final = 12
"""Thresholds on the first screen."""
_BEYOND: Final = 3
"""Thresholds on the first screen behind the chosen one."""

_Row = tuple["TestedThreshold", str, str, bool]
"""A threshold, what it brings, the interval of that, and whether it is the chosen one."""

_SAMPLING_NOTES: Final = {
    "independent": "decisions taken as independent of each other (right if each answer gave one)",
    "one-per-answer": "answers independent, one decision of each drawn with the seed; answers weigh the same",
    "per-answer-mean": "answers independent, mean loss of each answer, betting p-values; answers weigh the same",
}


def first_screen(found: Frontier | Cascade, labelled: LabelledDecisions, speedup_from: str) -> str:
    """Return what fits a terminal of 80 columns: what to choose, and the thresholds around it.

    Parameters
    ----------
    found : all thresholds.
    labelled : the decisions.
    speedup_from : what the speedups rest on; empty for a gate.
    """
    rows = _told_apart(_rows(found))
    shown = _around_the_chosen(rows)
    unit = found.bound.unit
    first, value, kept = ("threshold", "speedup", "accepted") if speedup_from else ("gamma", "cost", "kept")
    needed = any(row.units_needed is not None for row, *_ in shown)
    headings = [first, kept, "risk", "at most", value, *(["needed"] if needed else []), "status"]
    below = [
        *([f"{len(rows) - len(shown)} more that decide otherwise are not shown."] if len(rows) > len(shown) else []),
        f"risk: observed; at most: its upper limit, for this {first} alone"
        f"{f'; needed: labelled {unit} to certify it' if needed else ''}. All of them, and what it rests on: -v.",
    ]
    return "\n\n".join(
        [
            textwrap.fill(f"{found.verdict} {found.advice}", SCREEN, break_on_hyphens=False),
            textwrap.fill(f"{_about(labelled)}:", SCREEN),
            table(headings, [_short_cells(row, needed=needed) for row in shown]),
            "\n".join(textwrap.fill(line, SCREEN, subsequent_indent="  ") for line in below),
        ]
    )


def as_text(found: Frontier | Cascade, labelled: LabelledDecisions, speedup_from: str) -> str:
    """Return all of it: every threshold that decides otherwise than its neighbour, and what the guarantee rests on."""
    first, value, kept = ("threshold", "speedup", "accepted") if speedup_from else ("gamma", "cost", "kept")
    headings = [first, kept, "failures", "risk", "one-sided limits", "p-value", value, "95 %"]
    headings += [f"{found.bound.unit} needed", "status"]
    lines = [_about(labelled), "", table(headings, [_cells(row) for row in _told_apart(_rows(found))])]
    return "\n".join([*lines, "", found.verdict, found.advice, "", *_notes(found.bound, speedup_from)])


def _about(labelled: LabelledDecisions) -> str:
    known = f"{labelled.source}: {labelled.decisions.n} labelled decisions"
    if labelled.clustered:
        known += f" of {labelled.decisions.n_answers} answers"
    if labelled.n_unscored or labelled.n_unlabelled:
        known += f"; left out: {labelled.n_unscored} without a score, {labelled.n_unlabelled} without a label"
    return known


def _rows(found: Frontier | Cascade) -> list[_Row]:
    if hasattr(found, "points"):
        return [
            (p.row, f"{p.speedup.value:.2f}", f"{p.speedup.low:.2f} – {p.speedup.high:.2f}", i == found.chosen)
            for i, p in enumerate(found.points)
        ]
    both = zip(found.rows, found.costs, strict=True)
    return [(row, f"{cost:.4g}", "", i == found.chosen) for i, (row, cost) in enumerate(both)]


def _told_apart(rows: Sequence[_Row]) -> list[_Row]:
    """Neighbouring thresholds that decide alike are one line: the lowest of them, or the one chosen."""
    kept: list[_Row] = []
    for item in rows:
        row, *_, chosen = item
        alike = kept and (kept[-1][0].accepted, kept[-1][0].status) == (row.accepted, row.status)
        if alike and not kept[-1][-1]:
            kept[-1] = item
        elif not alike or chosen:
            kept.append(item)
    return kept


def _around_the_chosen(rows: Sequence[_Row]) -> Sequence[_Row]:
    """The chosen one, a few behind it, and those before it; where none is chosen, those that the walks came to."""
    tested = [i for i, (row, *_) in enumerate(rows) if row.status in ("certified", "failed")]
    middle = next((i for i, row in enumerate(rows) if row[-1]), tested[-1] if tested else len(rows) - 1)
    end = min(max(middle + 1 + _BEYOND, _MOST_ROWS), len(rows))
    return rows[max(end - _MOST_ROWS, 0) : end]


def _status(item: _Row) -> str:
    row, *_, chosen = item
    return "CHOSEN" if chosen else row.status


def _needed(row: TestedThreshold) -> str:
    return "–" if row.units_needed is None else f"{row.units_needed:,}"


def _short_cells(item: _Row, *, needed: bool) -> list[str]:
    row, first, second, _ = item
    brings = f"{first} [{second.replace(' – ', ', ')}]" if second else first
    return [
        f"{row.threshold:.5g}",
        f"{100 * row.accepted:.1f} %",
        f"{row.risk:.4f}" if row.trials else "–",
        f"{row.high:.4f}",
        brings,
        *([_needed(row)] if needed else []),
        _status(item),
    ]


def _cells(item: _Row) -> list[str]:
    row, first, second, _ = item
    return [
        f"{row.threshold:.5g}",
        f"{100 * row.accepted:.1f} %",
        f"{row.failures} of {row.trials}",
        f"{row.risk:.4f}" if row.trials else "–",
        f"{row.low:.4f} – {row.high:.4f}",
        f"{row.p_value:.2g}",
        first,
        second,
        _needed(row),
        _status(item),
    ]


def _notes(bound: Bound, speedup_from: str) -> Iterator[str]:
    yield f"- sampling: {_SAMPLING_NOTES[bound.sampling]}"
    yield "- the guarantee is for fresh decisions drawn as these were, by the same models, prompts and temperature"
    if bound.risk == "wrong-given-accepted":
        yield (
            "- two walks, each with half of the failure probability, start where enough is accepted to be certified; "
            "exact if P(wrong | score) does not rise with the score"
        )
    if bound.risk == "accuracy-loss":
        way = (
            f"union bound 1 - (1 - d)^n over n = {bound.decisions_per_answer} decisions of an answer"
            if bound.union
            else "an answer with any false accept counts as lost"
        )
        yield f"- accuracy loss: {way}"
    if speedup_from:
        yield f"- speedup: {speedup_from}"
