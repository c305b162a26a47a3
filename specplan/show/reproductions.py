"""Tables of papers and public measurements as results: screens, rows and reports of what was predicted of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from specplan.check.reproducing.cells import mean_error
from specplan.output import percent, screen
from specplan.show.drawing import scatter
from specplan.show.page import Answer, Bullets, Interval, Part, Picture, Report, Section, Table, filled
from specplan.show.rendering import as_text
from specplan.show.result import Result

__all__ = ["Reproduced", "ReproducedPapers"]

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
        reasons = [self.paper.HEADING, *(f"- {reason}" for reason in self.paper.REASONS)]
        cells = self.paper.short_table(self.cells)
        return screen(self.headline(), f"{self.paper.TITLE}:", cells, reasons, self.paper.BELOW)

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        cells = self.records()
        compared = [cell for cell in cells if cell["predicted"] is not None]
        key, error = ("left_out", "left_out_error") if "left_out" in compared[0] else ("predicted", "error")
        errors = [abs(cell[error]) for cell in compared]
        names = [name for name in cells[0] if name not in _FIGURES]
        points: dict[str, list[tuple[float, float]]] = {}
        for cell in compared:
            points.setdefault(str(cell[names[-1]]), []).append((float(cell[key]), float(cell["published"])))
        draw = partial(scatter, points, x_name="predicted", y_name="published")
        parts: list[Part] = [
            Picture(draw, "On the dashed line predicted equals published."),
            _cells_of(cells, names),
        ]
        if means := list(_means(compared, names)):
            parts.append(Bullets(means))
        n = f"{len(compared)} of {len(cells)} published values are compared"
        answers = [
            Answer("How good are the predictions?", f"{mean_error(errors)} mean absolute error", n),
            Answer("How large is the largest error?", percent(max(errors))),
        ]
        if key == "left_out":
            inside = f"{sum(cell['covered'] for cell in compared)} of {len(compared)} inside their 95 % interval"
            answers.append(Answer("How sure?", inside, "with one constant, fitted to the other rows"))
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
        screens = [f"{one.paper.TITLE}:\n{screen(one.headline())}" for one in self.papers.values()]
        return screen(*screens, "Row by row, and why the worst rows are off: -v.")

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


def _cells_of(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """The cells, predicted with nothing fitted and with one constant of the others, and published."""
    return filled(
        *((name, [str(cell[name]) for cell in cells]) for name in names),
        ("predicted", ["–" if cell["predicted"] is None else f"{cell['predicted']:.3g}" for cell in cells]),
        ("error", [_error(cell["error"]) for cell in cells]),
        ("one left out", [Interval(c["left_out"], c["low"], c["high"]) if "low" in c else "–" for c in cells]),
        ("its error", [_error(cell.get("left_out_error")) for cell in cells]),
        ("published", [f"{cell['published']:g}" for cell in cells]),
    )


def _error(value: float | None) -> str:
    return "–" if value is None else percent(value, signed=True)


def _means(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """The mean errors of each kind of cells: all data sets together."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        kinds.setdefault(", ".join(str(cell[name]) for name in names if name not in _SETS), []).append(cell)
    for kind, own in ((kind, own) for kind, own in kinds.items() if len(own) > 1):
        text = f"{kind}: mean error {mean_error(cell['error'] for cell in own)}"
        if "left_out" in own[0]:
            fitted = mean_error(cell["left_out_error"] for cell in own)
            text += f" with nothing fitted, {fitted} with one constant of the other data sets; "
            text += f"{sum(cell['covered'] for cell in own)} of {len(own)} inside their 95 % interval"
        yield text
