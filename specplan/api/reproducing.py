"""Tables of papers and public measurements, predicted beside what was published."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args, overload

from sim.catalogue import choice
from specplan.output import SCREEN, progress
from specplan.show.rendering import as_text
from specplan.show.reproductions import board_report, cells_report, papers_report
from specplan.show.result import Result
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.check.scoreboard.board import Board
    from specplan.check.scoreboard.operators import OperatorErrors
    from specplan.show.page import Report

__all__ = ["Measured", "OperatorsScored", "Paper", "Reproduced", "ReproducedPapers", "Scored", "reproduce"]

Paper: TypeAlias = Literal["lr", "confspec", "specs", "lookahead-decoding"]
Measured: TypeAlias = Literal["hardware", "speculation"]

_MODULES: Final[dict[str, str]] = {
    "lr": "lookahead_reasoning",
    "confspec": "confspec",
    "specs": "specs",
    "lookahead-decoding": "lookahead_decoding",
}
"""Paper to the module of `specplan.check.reproducing` that predicts it."""


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
        return cells_report(self.paper.TITLE, self.headline(), self.records(), self.paper.REASONS)


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
        told = [f"{one.paper.TITLE}:\n{textwrap.fill(one.headline(), SCREEN)}" for one in self.papers.values()]
        return "\n\n".join([*told, "Row by row, and why the worst rows are off: -v."])

    def report(self) -> Report:
        """Return the page that ``--report`` writes."""
        return papers_report([one.report() for one in self.papers.values()])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Scored(Result):
    """Public measurements beside their predictions."""

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
        return board_report(self.board)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OperatorsScored(Result):
    """Operators that were timed alone, beside their predictions."""

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


@overload
def reproduce(which: Paper) -> Reproduced: ...
@overload
def reproduce(which: Literal["all"]) -> ReproducedPapers: ...
@overload
def reproduce(which: Measured, folder: str | Path) -> Scored: ...
@overload
def reproduce(which: Literal["operators"], folder: str | Path) -> OperatorsScored: ...
def reproduce(which: str, folder: str | Path | None = None) -> Reproduced | ReproducedPapers | Scored | OperatorsScored:
    """Predict a paper's tables or public measurements, beside what was published, as ``specplan reproduce`` does.

    >>> import specplan as sp
    >>> found = sp.reproduce("lookahead-decoding")
    >>> [round(row["error"], 3) for row in found.records() if row["error"] is not None]
    [0.009]

    Parameters
    ----------
    which : a paper: lr, confspec, specs or lookahead-decoding; all of them; or tables of a folder: hardware,
        speculation or operators.
    folder : of CSV tables, or one of them; known by their columns.

    Raises
    ------
    ParameterError : no such paper, or a folder that is missing or that a paper has no use for.
    SchemaError : a table that cannot be read.
    """
    chosen = choice("which", which, (*get_args(Paper), "all", *get_args(Measured), "operators"))
    if chosen == "all" or chosen in _MODULES:
        if folder is not None:
            raise ParameterError("folder", str(folder), f"has no use with {chosen}: leave it out")
        if chosen == "all":
            return ReproducedPapers(papers={name: _reproduced(name) for name in _MODULES})
        return _reproduced(chosen)
    if folder is None:
        raise ParameterError("folder", None, "must be given: the folder of the tables, or one of them")
    return _operators(Path(folder)) if chosen == "operators" else _scored(chosen, Path(folder))


def _reproduced(name: str) -> Reproduced:
    paper: Any = import_module(f"specplan.check.reproducing.{_MODULES[name]}")
    with progress(f"simulating {paper.TITLE}", paper.N_STEPS) as step_done:
        return Reproduced(paper=paper, cells=tuple(paper.cells(step_done=step_done)))


def _scored(which: str, folder: Path) -> Scored:
    from specplan.check.scoreboard.board import hardware_board, speculation_board

    board_of = hardware_board if which == "hardware" else speculation_board
    with ExitStack() as stack:

        def start(total: int) -> Callable[[], None]:
            """Show progress once the number of rows is known."""
            return stack.enter_context(progress("predicting rows", total))

        return Scored(board=board_of(folder, start))


def _operators(folder: Path) -> OperatorsScored:
    from specplan.check.scoreboard.operators import operator_errors
    from specplan.check.scoreboard.tables import table_files

    with progress("predicting operators", len(table_files(folder))) as step_done:
        return OperatorsScored(errors=tuple(operator_errors(folder, step_done)))
