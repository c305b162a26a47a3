"""Thresholds with guarantees: the first screen of 80 columns, and the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from click.exceptions import Exit

from specplan.output import percent, screen, table
from specplan.show.drawing import Line, lines
from specplan.show.page import Answer, Interval, Part, Picture, Report, Section, filled, interval
from specplan.show.rendering import as_text
from specplan.show.result import Result, flat

if TYPE_CHECKING:
    from calibrate.thresholds.frontier import Cascade, Frontier
    from calibrate.thresholds.labelled_decisions import LabelledDecisions
    from calibrate.thresholds.risk import Bound, TestedThreshold
    from sim.estimate import Estimate

__all__ = ["Thresholds"]

_MOST_ROWS: Final = 12
"""Most thresholds on the first screen."""
_BEYOND: Final = 3
"""Thresholds after the chosen one on the first screen."""

_Row = tuple["TestedThreshold", "str | Interval", bool]
"""A threshold, its speedup or cost, and whether it is chosen."""

_SAMPLING_NOTES: Final = {
    "independent": "decisions are assumed independent (true if each answer has one decision)",
    "per-answer-mean": "answers are independent; mean loss of each answer, betting p-values; answers have equal weight",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Thresholds(Result):
    """Every threshold of a grid with its risk and what it brings, and the one to choose."""

    search: Frontier | Cascade
    labelled: LabelledDecisions
    speedup_from: str
    """What the speedups rest on, in words; empty for the gate of a cascade, which has costs instead."""

    @property
    def threshold(self) -> float | None:
        """The threshold to choose; None if none is certified."""
        return None if self.search.chosen is None else float(self.tested[self.search.chosen][0].threshold)

    @property
    def tested(self) -> list[tuple[TestedThreshold, Estimate | float]]:
        """Every threshold, the safest first, with its speedup, or of a gate with its cost."""
        if hasattr(self.search, "points"):
            return [(point.row, point.speedup) for point in self.search.points]
        return list(zip(self.search.rows, self.search.costs, strict=True))

    def headline(self) -> str:
        """Return what to do and how sure it is, and what more labels would bring."""
        return f"{self.search.verdict} {self.search.advice}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each threshold, the safest first; the limits of its risk are one-sided."""
        names = ("threshold", "accepted", "failures", "trials", "p_value", "status", "units_needed")
        return [
            flat({name: getattr(row, name) for name in names})
            | {"risk": row.risk, "risk_low": row.low, "risk_high": row.high, "chosen": i == self.search.chosen}
            | flat({"speedup" if self.speedup_from else "cost": brings})
            for i, (row, brings) in enumerate(self.tested)
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan thresholds --json`` prints."""
        known = self.labelled
        return {
            "schema": "specplan.thresholds" if self.speedup_from else "specplan.gate",
            "schema_version": 1,
            "source": known.source,
            "n_decisions": known.decisions.n,
            "n_answers": known.decisions.n_answers if known.clustered else None,
            "n_unlabelled": known.n_unlabelled,
            "n_unscored": known.n_unscored,
            "clustered": known.clustered,
            **dataclasses.asdict(self.search),
        }

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan thresholds`` prints, with ``verbose`` what it prints with ``-v``."""
        if verbose:
            return as_text(self.report())
        search = self.search
        rows = _distinct(self)
        shown = _around_the_chosen(rows)
        unit = search.bound.unit
        first, value, kept = ("threshold", "speedup", "accepted") if self.speedup_from else ("gamma", "cost", "kept")
        some_needed = any(row.units_needed is not None for row, *_ in shown)
        hidden = len(rows) - len(shown)
        below = [
            *([f"{hidden} more with other decisions are not shown."] if hidden else []),
            f"risk: observed; at most: its upper limit for this single {first}"
            f"{f'; needed: labelled {unit} to certify it' if some_needed else ''}. All rows and assumptions: -v.",
        ]
        needed = [("needed", [_needed(row) for row, *_ in shown])] if some_needed else []
        columns = [
            (first, [f"{row.threshold:.5g}" for row, *_ in shown]),
            (kept, [percent(row.accepted) for row, *_ in shown]),
            ("risk", [f"{row.risk:.4f}" if row.trials else "–" for row, *_ in shown]),
            ("at most", [f"{row.high:.4f}" for row, *_ in shown]),
            (value, [str(brings) for _, brings, _ in shown]),
            *needed,
            ("status", [_status(item) for item in shown]),
        ]
        cells = table([heading for heading, _ in columns], list(zip(*(column for _, column in columns), strict=True)))
        return screen(f"{search.verdict} {search.advice}", f"{_about(self.labelled)}:", cells, below)

    def conclude(self) -> None:
        """End the command with 3 where more labels would certify a threshold, with 1 where they would not."""
        if self.threshold is None:
            raise Exit(1 if self.search.labels_needed is None else 3)

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        search, bound, labelled = self.search, self.search.bound, self.labelled.decisions
        name = "threshold" if self.speedup_from else "gamma"
        rows = _distinct(self)
        chosen = next((item for item in rows if item[-1]), None)
        which, accepts = "none is certified", ""
        if chosen is not None:
            which = f"{chosen[0].threshold:g}"
            accepts = f"it accepts {percent(chosen[0].accepted)} of the decisions"
        more = "nothing: more labels would not help"
        if search.labels_needed is not None:
            more = f"{search.labels_needed:,} labelled {bound.unit} in all"
        rests_on = f"risk: {bound.risk}; sampling: {bound.sampling}; on fresh decisions from the same distribution"
        answers = [
            Answer(f"Which {name}?", which, accepts),
            Answer("How sure?", f"{100 * bound.confidence:g} % that the risk is at most {bound.level:g}", rests_on),
        ]
        if chosen is not None and isinstance(chosen[1], Interval):
            answers.append(Answer("What is the gain?", f"speedup {chosen[1]}"))
        answers.append(Answer("What to measure next?", more, search.advice))
        table = filled(
            (name, [f"{row.threshold:.5g}" for row, *_ in rows]),
            ("accepted", [percent(row.accepted) for row, *_ in rows]),
            ("failures", [f"{row.failures} of {row.trials}" for row, *_ in rows]),
            ("risk, one-sided limits", [_risk(row) for row, *_ in rows]),
            ("p-value", [f"{row.p_value:.2g}" for row, *_ in rows]),
            ("speedup, 95 % interval" if self.speedup_from else "cost", [brings for _, brings, _ in rows]),
            (f"{bound.unit} needed", [_needed(row) for row, *_ in rows]),
            ("status", [_status(item) for item in rows]),
            strong=None if chosen is None else rows.index(chosen),
            reference=None if self.speedup_from else bound.level,
        )
        return Report(
            title=f"A {name} with a guarantee",
            about=_about(self.labelled),
            lead=search.verdict,
            answers=answers,
            sections=[Section(f"Every {name}", [*_picture(rows, bound.level, name), table])],
            made=[("answers", str(labelled.n_answers) if self.labelled.clustered else "not stated")],
            notes=list(_notes(bound, self.speedup_from)),
        )


def _about(labelled: LabelledDecisions) -> str:
    """Which decisions there are, and how many are left out."""
    known = f"{labelled.source}: {labelled.decisions.n} labelled decisions"
    if labelled.clustered:
        known += f" of {labelled.decisions.n_answers} answers"
    if labelled.n_unscored or labelled.n_unlabelled:
        known += f"; left out: {labelled.n_unscored} without a score, {labelled.n_unlabelled} without a label"
    return known


def _distinct(result: Thresholds) -> list[_Row]:
    """The thresholds; of neighbours with equal decisions only the last, or the chosen one."""
    kept: list[_Row] = []
    for i, (row, brings) in enumerate(result.tested):
        cell = f"{brings:.4g}" if isinstance(brings, float) else interval(brings)
        item = row, cell, i == result.search.chosen
        alike = kept and (kept[-1][0].accepted, kept[-1][0].status) == (row.accepted, row.status)
        if alike and not kept[-1][-1]:
            kept[-1] = item
        elif not alike or item[-1]:
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
    """The labelled units that would certify a threshold; a dash where none would."""
    return "–" if row.units_needed is None else f"{row.units_needed:,}"


def _notes(bound: Bound, speedup_from: str) -> Iterator[str]:
    """What the guarantee rests on."""
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


def _picture(rows: list[_Row], level: float, name: str) -> list[Part]:
    kept = [row for row, *_ in rows if row.trials and row.risk == row.risk]  # NaN without trials
    if len(kept) < 2:
        return []
    limits = [Interval(row.risk, row.low, row.high, digits=4) for row in kept]
    line = Line("observed risk, one-sided limits", [(row.threshold, row.risk) for row in kept], limits)
    draw = partial(lines, [line], x_name=name, y_name="risk", reference=level)
    return [Picture(draw, f"The dashed line is the largest allowed risk, {level:g}.")]


def _risk(row: TestedThreshold) -> str | Interval:
    if row.trials and row.risk == row.risk:
        return Interval(row.risk, row.low, row.high, digits=4)
    return f"at most {row.high:.4f}"
