"""Thresholds as text: a first screen of 80 columns, and the full table."""

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
"""Most thresholds on the first screen."""
_BEYOND: Final = 3
"""Thresholds after the chosen one on the first screen."""

_Row = tuple["TestedThreshold", str, str, bool]
"""A threshold, its speedup or cost, the interval of that, and whether it is chosen."""

_SAMPLING_NOTES: Final = {
    "independent": "decisions are assumed independent (true if each answer has one decision)",
    "one-per-answer": "answers are independent; one decision of each is drawn with the seed; answers have equal weight",
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
    rows = _distinct(_rows(search))
    shown = _around_the_chosen(rows)
    unit = search.bound.unit
    first, value, kept = ("threshold", "speedup", "accepted") if speedup_from else ("gamma", "cost", "kept")
    needed = any(row.units_needed is not None for row, *_ in shown)
    headings = [first, kept, "risk", "at most", value, *(["needed"] if needed else []), "status"]
    below = [
        *([f"{len(rows) - len(shown)} more with other decisions are not shown."] if len(rows) > len(shown) else []),
        f"risk: observed; at most: its upper limit for this single {first}"
        f"{f'; needed: labelled {unit} to certify it' if needed else ''}. All rows and assumptions: -v.",
    ]
    return "\n\n".join(
        [
            textwrap.fill(f"{search.verdict} {search.advice}", SCREEN, break_on_hyphens=False),
            textwrap.fill(f"{_about(labelled)}:", SCREEN),
            table(headings, [_short_cells(row, needed=needed) for row in shown]),
            "\n".join(textwrap.fill(line, SCREEN, subsequent_indent="  ") for line in below),
        ]
    )


def as_text(search: Frontier | Cascade, labelled: LabelledDecisions, speedup_from: str) -> str:
    """Return every threshold whose decisions differ from its neighbour's, and the assumptions of the guarantee."""
    first, value, kept = ("threshold", "speedup", "accepted") if speedup_from else ("gamma", "cost", "kept")
    headings = [first, kept, "failures", "risk", "one-sided limits", "p-value", value, "95 %"]
    headings += [f"{search.bound.unit} needed", "status"]
    lines = [_about(labelled), "", table(headings, [_cells(row) for row in _distinct(_rows(search))])]
    return "\n".join([*lines, "", search.verdict, search.advice, "", *_notes(search.bound, speedup_from)])


def _about(labelled: LabelledDecisions) -> str:
    known = f"{labelled.source}: {labelled.decisions.n} labelled decisions"
    if labelled.clustered:
        known += f" of {labelled.decisions.n_answers} answers"
    if labelled.n_unscored or labelled.n_unlabelled:
        known += f"; left out: {labelled.n_unscored} without a score, {labelled.n_unlabelled} without a label"
    return known


def _rows(search: Frontier | Cascade) -> list[_Row]:
    if hasattr(search, "points"):
        return [
            (p.row, f"{p.speedup.value:.2f}", f"{p.speedup.low:.2f} – {p.speedup.high:.2f}", i == search.chosen)
            for i, p in enumerate(search.points)
        ]
    both = zip(search.rows, search.costs, strict=True)
    return [(row, f"{cost:.4g}", "", i == search.chosen) for i, (row, cost) in enumerate(both)]


def _distinct(rows: Sequence[_Row]) -> list[_Row]:
    """Merge neighbouring thresholds with equal decisions: keep the last of them, or the chosen one."""
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
    """Rows around the chosen threshold; without a choice, those that were tested last."""
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
    yield "- the guarantee holds for fresh decisions of the same models, prompts and temperature"
    if bound.risk == "wrong-given-accepted":
        yield (
            "- two searches, each with half of the failure probability, start where enough decisions are accepted; "
            "exact if P(wrong | score) does not increase with the score"
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
