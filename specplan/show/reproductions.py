"""Tables of papers and public measurements as results: screens, rows and reports of what was predicted of them."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from specplan.output import SCREEN
from specplan.show.page import Answer, Bullets, Interval, Part, Picture, Report, Section, Table, filled
from specplan.show.rendering import as_text
from specplan.show.result import Result
from specplan.show.svg import scatter

if TYPE_CHECKING:
    from specplan.check.scoreboard.board import Board
    from specplan.check.scoreboard.operators import OperatorErrors
    from specplan.check.scoreboard.score import Outcome

__all__ = ["OperatorsScored", "Reproduced", "ReproducedPapers", "Scored"]

_MOST_POINTS: Final = 1500
"""Most points of a drawing, so that the file stays below a megabyte."""
_MOST_ROWS: Final = 400
_FIGURES: Final = ("published", "predicted", "error", "left_out", "low", "high", "covered", "left_out_error")
"""Columns of a paper's cells that are figures rather than names."""
_SETS: Final = ("dataset", "benchmark")
"""Names of data sets, over which errors are averaged."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reproduced(Result):
    """The cells of a paper's tables, predicted and published."""

    cells: tuple[Any, ...]
    paper: Any
    """The module that predicted them."""

    def headline(self) -> str:
        """Return how good the predictions are."""
        return str(self.paper.summary(self.cells))

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each cell."""
        return [cell.plain() for cell in self.cells]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan reproduce`` prints with ``--json``."""
        head = {"schema": "specplan.reproduction", "schema_version": 1}
        return {**head, "cells": self.records(), "reasons": list(self.paper.REASONS)}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan reproduce`` prints, with ``verbose`` what it prints with ``-v``."""
        if verbose:
            return as_text(self.report())
        reasons = [
            textwrap.fill(f"- {reason}", SCREEN, subsequent_indent="  ", break_on_hyphens=False)
            for reason in self.paper.REASONS
        ]
        below = textwrap.fill(str(self.paper.BELOW), SCREEN)
        parts = [textwrap.fill(self.headline(), SCREEN), f"{self.paper.TITLE}:", self.paper.short_table(self.cells)]
        return "\n\n".join([*parts, "\n".join([self.paper.HEADING, *reasons]), below])

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        cells = self.records()
        compared = [cell for cell in cells if cell.get("predicted") and cell.get("published")]
        key = "left_out" if compared and "left_out" in compared[0] else "predicted"
        errors = [abs(cell[key] / cell["published"] - 1.0) for cell in compared]
        names = [name for name in (cells[0] if cells else {}) if name not in _FIGURES]
        points: dict[str, list[tuple[float, float, str]]] = {}
        for cell in compared:
            says = " ".join(str(cell[name]) for name in names)
            value, published = cell[key], cell["published"]
            point = (float(value), float(published), f"{says}: {value:.2f}, published {published}")
            points.setdefault(str(cell[names[-1]]) if names else "rows", []).append(point)
        parts: list[Part] = []
        if compared:
            picture = scatter(points, x_name="predicted", y_name="published")
            parts.append(Picture(picture, "On the dashed line predicted equals published."))
        parts.append(_cells_of(cells, names))
        if means := list(_means(compared, names)):
            parts.append(Bullets(means))
        mean = f"{100 * fmean(errors):.1f} %" if errors else "–"
        covered = [bool(cell["covered"]) for cell in compared if "covered" in cell]
        answers = [
            Answer(
                "How good are the predictions?",
                f"{mean} mean absolute error",
                f"{len(compared)} of {len(cells)} published values are compared",
            )
        ]
        if errors:
            answers.append(Answer("How large is the largest error?", f"{100 * max(errors):.1f} %"))
        if covered:
            answers.append(
                Answer(
                    "How sure?",
                    f"{sum(covered)} of {len(covered)} inside their 95 % interval",
                    "with one constant, fitted to the other rows" if key == "left_out" else "",
                )
            )
        return Report(
            title=self.paper.TITLE,
            about="published values and predictions",
            lead=self.headline(),
            answers=answers,
            sections=[Section("Predicted and published", parts)],
            notes=list(self.paper.REASONS),
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReproducedPapers(Result):
    """The tables of all papers."""

    papers: dict[str, Reproduced]
    """By the name that the command has for each."""

    def headline(self) -> str:
        """Return how good the predictions are, paper by paper."""
        return " ".join(one.headline() for one in self.papers.values())

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each cell of each paper."""
        return [{"paper": name, **row} for name, one in self.papers.items() for row in one.records()]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan reproduce all`` prints with ``--json``."""
        head = {"schema": "specplan.reproductions", "schema_version": 1}
        return {**head, "papers": {name: one.plain() for name, one in self.papers.items()}}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan reproduce all`` prints, with ``verbose`` what it prints with ``-v``."""
        if verbose:
            return "\n\n\n".join(one.text(verbose=True) for one in self.papers.values())
        screens = [f"{one.paper.TITLE}:\n{textwrap.fill(one.headline(), SCREEN)}" for one in self.papers.values()]
        return "\n\n".join([*screens, "Row by row, and why the worst rows are off: -v."])

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        papers = [one.report() for one in self.papers.values()]
        return Report(
            title="Tables of papers and predictions",
            about=", ".join(paper.title for paper in papers),
            lead=" ".join(paper.lead for paper in papers),
            answers=[
                replace(answer, question=f"{paper.title}: {answer.question}")
                for paper in papers
                for answer in paper.answers
            ],
            sections=[replace(section, title=paper.title) for paper in papers for section in paper.sections],
            notes=[f"{paper.title}: {note}" for paper in papers for note in paper.notes],
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scored(Result):
    """Public measurements and their predictions."""

    board: Board

    def records(self) -> list[dict[str, Any]]:
        """Return every row that was predicted, with the 95 % interval of what is measured."""
        return [
            {
                **{"row": one.where, "quantity": one.quantity, "model": one.model, **one.labels, "unit": one.unit},
                **{"measured": one.measured, "predicted": one.predicted, "error": one.error},
                **{"predicted_low": one.interval[0], "predicted_high": one.interval[1], "doubt": one.doubt},
            }
            for one in self.board.outcomes
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan reproduce`` prints with ``--json``."""
        from specplan.check.scoreboard.text import as_json

        return as_json(self.board)

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan reproduce`` prints, with ``verbose`` what it prints with ``--rows``."""
        from specplan.check.scoreboard.text import rows_text, summary_text

        return rows_text(self.board) if verbose else summary_text(self.board)

    def csv(self) -> str:
        """Return all rows as CSV, those that are not predicted too."""
        from specplan.check.scoreboard.text import as_csv

        return as_csv(self.board)

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        from specplan.check.scoreboard.score import score

        counted = {name: [one for one in rows if one.counts] for name, rows in self.board.quantities().items()}
        counted = {name: rows for name, rows in counted.items() if rows}
        scores = {name: score(rows) for name, rows in counted.items()}
        answers = [
            Answer(
                f"How good is {name}?",
                f"{100 * one.mean:.1f} % mean absolute error, {100 * one.coverage:.0f} % inside the 95 % interval",
                f"{one.n} rows; median {100 * one.median:.1f} %, nine of ten within {100 * one.p90:.1f} %, "
                f"mean error {100 * one.signed:+.1f} %",
            )
            for name, one in scores.items()
        ]
        n = sum(one.n for one in scores.values())
        sections = [Section(name, list(_quantity(name, rows))) for name, rows in counted.items()]
        if self.board.refused:
            sections.append(Section("Not predicted", [_reasons([one.reason for one in self.board.refused])]))
        return Report(
            title="Public measurements and predictions",
            about=", ".join(self.board.files),
            lead=f"{n} rows are compared; nothing is fitted to them. {len(self.board.refused)} rows are not predicted.",
            answers=answers,
            sections=sections,
            made=[("files", ", ".join(self.board.files)), ("rows", f"{len(self.board.outcomes)} predicted")],
            notes=list(self.board.notes),
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OperatorsScored(Result):
    """Operators that were timed one by one, and their predictions."""

    errors: tuple[OperatorErrors, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return the errors of each operator on each GPU."""
        return [asdict(one) for one in self.errors]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan reproduce operators --json`` prints."""
        return {"schema": "specplan.operators", "schema_version": 1, "operators": self.records()}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan reproduce operators`` prints."""
        from specplan.check.scoreboard.text import operators_text

        return operators_text(self.errors)


def _quantity(name: str, rows: Sequence[Outcome]) -> Iterator[Part]:
    from specplan.check.scoreboard.score import by_label

    thinned = list(islice(rows, 0, None, max(1, -(-len(rows) // _MOST_POINTS))))
    models = dict.fromkeys(one.model for one in thinned)
    points = {
        model: [
            (one.predicted, one.measured, f"{one.where} {model}: predicted {one.predicted:.3g}, measured "
             f"{one.measured:.3g} {one.unit}")
            for one in thinned
            if one.model == model and one.predicted > 0.0 and one.measured > 0.0
        ]
        for model in models
    }  # fmt: skip
    kept = {model: several for model, several in points.items() if several}
    if kept:
        shown = "" if len(thinned) == len(rows) else f" Drawn: {len(thinned)} of {len(rows)} rows."
        picture = scatter(kept, x_name=f"predicted {rows[0].unit}", y_name=f"measured {rows[0].unit}")
        yield Picture(picture, f"{name}: on the dashed line predicted equals measured.{shown}")
    yield Table(
        headings=["model", "rows", "mean |error|", "median", "p90", "mean error", "in 95 % interval"],
        rows=[
            [model, str(s.n), *(f"{100 * x:.1f} %" for x in (s.mean, s.median, s.p90)), f"{100 * s.signed:+.1f} %",
             f"{100 * s.coverage:.0f} %"]
            for model, s in by_label(rows, "model").items()
        ],
    )  # fmt: skip
    worst = sorted(rows, key=lambda one: -abs(one.error))[:_MOST_ROWS]
    yield Table(
        headings=["row", "model", "of", "measured", "predicted", "error"],
        rows=[_cells(one) for one in worst],
        folded=True,
        summary=f"the {len(worst)} rows with the largest errors",
    )


def _cells(one: Outcome) -> list[str]:
    labels = " ".join(f"{key}={value}" for key, value in one.labels.items())
    low, high = one.interval
    predicted = f"{one.predicted:.3g} [{low:.3g}, {high:.3g}]"
    return [one.where, one.model, labels, f"{one.measured:.3g} {one.unit}", predicted, f"{100 * one.error:+.1f} %"]


def _reasons(every: Iterable[str]) -> Bullets:
    return Bullets([f"{count} rows: {reason}" for reason, count in Counter(every).most_common()])


def _cells_of(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """The cells, predicted with nothing fitted and with one constant of the others, and published."""
    return filled(
        *((name, [str(cell[name]) for cell in cells]) for name in names),
        ("predicted", [_predicted(cell, "predicted") for cell in cells]),
        ("error", [_error(cell, "predicted") for cell in cells]),
        ("one left out", [_predicted(cell, "left_out") for cell in cells]),
        ("its error", [_error(cell, "left_out") for cell in cells]),
        ("published", ["–" if cell.get("published") is None else f"{cell['published']:g}" for cell in cells]),
    )


def _predicted(cell: Mapping[str, Any], key: str) -> str | Interval:
    value = cell.get(key)
    if value is None:
        return "–"
    has_interval = cell.get("low") is not None and key == ("left_out" if "left_out" in cell else "predicted")
    return Interval(value, cell["low"], cell["high"]) if has_interval else f"{value:.3g}"


def _error(cell: Mapping[str, Any], key: str) -> str:
    value, published = cell.get(key), cell.get("published")
    return "–" if not value or not published else f"{100 * (value / published - 1.0):+.1f} %"


def _means(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """The mean errors of each kind of cells: all data sets together."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        kinds.setdefault(", ".join(str(cell[name]) for name in names if name not in _SETS), []).append(cell)
    for kind, own in ((kind, own) for kind, own in kinds.items() if len(own) > 1):
        text = f"{kind}: mean error {_mean(own, 'predicted')}"
        if "left_out" in own[0]:
            text += f" with nothing fitted, {_mean(own, 'left_out')} with one constant of the other data sets; "
            text += f"{sum(cell['covered'] for cell in own)} of {len(own)} inside their 95 % interval"
        yield text


def _mean(cells: Sequence[Mapping[str, Any]], key: str) -> str:
    return f"{100 * fmean(abs(cell[key] / cell['published'] - 1.0) for cell in cells):.1f} %"
