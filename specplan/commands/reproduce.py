"""``specplan reproduce``: public measurements beside their predictions, with errors, coverage and regret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from specplan.output import check_output, deliver, json_option, output_options, progress, to_json
from specplan.reports.saving import report_option, save

if TYPE_CHECKING:
    from specplan.scoreboard.board import Board

__all__ = ["command", "reproduce"]

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def reproduce() -> None:
    """Predict public measurements and tables of papers, and print what was measured beside it.

    FOLDER holds the tables as CSV files (docs/scoreboard.md names their sources), which are known by their columns;
    it may also be one such file. Nothing is fitted to them: the constants are those that plans use.
    """


command = reproduce


def _options(function: F) -> F:
    function = output_options(function)
    function = report_option(json_option(function))
    function = click.option("--rows", is_flag=True, help="Print every row: predicted beside measured.")(function)
    return click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))(function)


@reproduce.command()
@_options
def hardware(folder: Path, rows: bool, report: Path | None, as_json: bool, output: Path | None, force: bool) -> None:
    """Times of served iterations, and per output token and to first token under load.

    With -o NAME.csv the rows are written as CSV.
    """
    from specplan.scoreboard.board import hardware_board

    check_output(output, force=force)
    with _Bar() as bar:
        board = hardware_board(folder, bar.start)
    if report is not None:
        from specplan.reports.reproductions import board_report

        save(report, board_report(board))
    deliver(_text(board, rows, as_json, output), output)


@reproduce.command()
@_options
def speculation(folder: Path, rows: bool, report: Path | None, as_json: bool, output: Path | None, force: bool) -> None:
    """Speedups of speculative decoding, given how many tokens a round commits.

    With -o NAME.csv the rows are written as CSV.
    """
    from specplan.scoreboard.board import speculation_board

    check_output(output, force=force)
    with _Bar() as bar:
        board = speculation_board(folder, bar.start)
    if report is not None:
        from specplan.reports.reproductions import board_report

        save(report, board_report(board))
    deliver(_text(board, rows, as_json, output), output)


@reproduce.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@json_option
@output_options
def operators(folder: Path, as_json: bool, output: Path | None, force: bool) -> None:
    """Operators timed alone, which most constants of GPUs are fitted to: errors by operator, GPU and format."""
    from dataclasses import asdict

    from specplan.scoreboard.operators import operator_errors
    from specplan.scoreboard.tables import table_files
    from specplan.scoreboard.text import operators_text

    check_output(output, force=force)
    with progress("predicting operators", len(table_files(folder))) as step_done:
        found = operator_errors(folder, step_done)
    data = {"schema": "specplan.operators", "schema_version": 1, "operators": [asdict(one) for one in found]}
    deliver(to_json(data) if as_json else operators_text(found), output)


@reproduce.command()
@report_option
@json_option
@output_options
def lr(report: Path | None, as_json: bool, output: Path | None, force: bool) -> None:
    """Lookahead Reasoning, Table 1: each speedup predicted with nothing fitted, and with its data set left out."""
    from specplan.reproducing import lookahead_reasoning as paper

    check_output(output, force=force)
    with progress("simulating rows of Table 1", len(paper.PAIRS) * len(paper.DATASETS)) as step_done:
        found = paper.cells(step_done=step_done)
    _report(report, "Lookahead Reasoning, Table 1", paper.as_json(found), paper.REASONS)
    deliver(_paper(paper.as_json(found), paper.REASONS) if as_json else paper.report(found), output)


@reproduce.command()
@report_option
@json_option
@output_options
def confspec(report: Path | None, as_json: bool, output: Path | None, force: bool) -> None:
    """ConfSpec, Tables 2 and 3: speedups from acceptances, latencies and confidences published elsewhere."""
    from specplan.reproducing import confspec as paper

    check_output(output, force=force)
    with progress("simulating Tables 2 and 3", paper.N_STEPS) as step_done:
        found = paper.cells(step_done=step_done)
    _report(report, "ConfSpec, Tables 2 and 3", paper.as_json(found), paper.MISSING)
    deliver(_paper(paper.as_json(found), paper.MISSING) if as_json else paper.report(found), output)


@reproduce.command("lookahead-decoding")
@report_option
@json_option
@output_options
def lookahead_decoding(report: Path | None, as_json: bool, output: Path | None, force: bool) -> None:
    """Lookahead Decoding, Table 3: compression by the paper's equations and constants."""
    from specplan.reproducing import lookahead_decoding as paper

    check_output(output, force=force)
    found = paper.cells()
    _report(report, "Lookahead Decoding, Table 3", paper.as_json(found), paper.REASONS)
    deliver(_paper(paper.as_json(found), paper.REASONS) if as_json else paper.report(found), output)


def _report(path: Path | None, title: str, cells: list[dict[str, object]], reasons: Sequence[str]) -> None:
    if path is not None:
        from specplan.reports.reproductions import cells_report

        save(path, cells_report(title, cells, reasons))


def _paper(cells: list[dict[str, object]], reasons: Sequence[str]) -> str:
    """Cells of a paper's tables, and what is missing or why rows are off, as JSON."""
    return to_json({"schema": "specplan.reproduction", "schema_version": 1, "cells": cells, "reasons": list(reasons)})


class _Bar:
    """Progress on stderr that starts when the number of rows is known."""

    def __enter__(self) -> _Bar:
        from contextlib import ExitStack

        self._stack = ExitStack()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, total: int) -> Callable[[], None]:
        return self._stack.enter_context(progress("predicting rows", total))


def _text(board: Board, rows: bool, as_json: bool, output: Path | None) -> str:
    from specplan.scoreboard import text

    if as_json:
        return to_json(text.as_json(board))
    if output is not None and output.suffix == ".csv":
        return text.as_csv(board)
    return text.rows_text(board) if rows else text.summary_text(board)
