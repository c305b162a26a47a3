"""``specplan reproduce``: public measurements beside their predictions, with errors, coverage and regret."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from specplan.output import check_output, deliver, json_option, output_options, to_json, verbose_option
from specplan.show.saving import report_option, save

if TYPE_CHECKING:
    from specplan.api.reproducing import Measured, Paper

__all__ = ["command", "reproduce"]

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def reproduce() -> None:
    """Predict public measurements and tables of papers, and print what was measured beside it.

    A paper's tables come with specplan: lr (or lookahead-reasoning), confspec, specs, lookahead-decoding, or all.

    For hardware and speculation FOLDER holds the tables as CSV files (docs/scoreboard.md names their
    sources), which are known by their columns; it may also be one such file. Nothing is fitted to them: the constants
    are those that plans use.
    """


command = reproduce


def _options(function: F) -> F:
    function = output_options(function)
    function = report_option(json_option(function))
    function = click.option("--rows", is_flag=True, help="Print every row: predicted beside measured.")(function)
    return click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))(function)


@reproduce.command()
@_options
def hardware(folder: Path, **asked: Any) -> None:
    """Times of served iterations, and per output token and to first token under load.

    With -o NAME.csv the rows are written as CSV.
    """
    _board("hardware", folder, **asked)


@reproduce.command()
@_options
def speculation(folder: Path, **asked: Any) -> None:
    """Speedups of speculative decoding, given how many tokens a round commits.

    With -o NAME.csv the rows are written as CSV.
    """
    _board("speculation", folder, **asked)


def _paper_options(function: F) -> F:
    return verbose_option(report_option(json_option(output_options(function))))


@reproduce.command()
@_paper_options
def lr(**asked: Any) -> None:
    """Lookahead Reasoning, Tables 1 and 3: speedups predicted with nothing fitted, and with their data set left out."""
    _paper("lr", **asked)


_by_its_title = copy(lr)
_by_its_title.hidden = True
reproduce.add_command(_by_its_title, "lookahead-reasoning")


@reproduce.command()
@_paper_options
def confspec(**asked: Any) -> None:
    """ConfSpec, Tables 2 and 3: speedups from acceptances, latencies and confidences published elsewhere."""
    _paper("confspec", **asked)


@reproduce.command()
@_paper_options
def specs(**asked: Any) -> None:
    """SPECS, Tables 1 and 4: seconds per step and problem, from those of beam search and the large model's share."""
    _paper("specs", **asked)


@reproduce.command("all")
@_paper_options
def every_paper(**asked: Any) -> None:
    """The tables of all papers: how good the predictions are, in a paragraph each."""
    _paper("all", **asked)


@reproduce.command("lookahead-decoding")
@_paper_options
def lookahead_decoding(**asked: Any) -> None:
    """Lookahead Decoding, Table 3: compression by the paper's equations and constants."""
    _paper("lookahead-decoding", **asked)


def _board(
    which: Measured, folder: Path, *, rows: bool, report: Path | None, as_json: bool, output: Path | None, force: bool
) -> None:
    """Predict a folder's tables, and deliver what became of them."""
    check_output(output, force=force)
    from specplan.api.reproducing import reproduce as reproduced

    found = reproduced(which, folder)
    if report is not None:
        save(report, found.report())
    if output is not None and output.suffix == ".csv" and not as_json:
        deliver(found.csv(), output)
    else:
        deliver(to_json(found.plain()) if as_json else found.text(verbose=rows), output)


def _paper(
    which: Paper | Literal["all"],
    *,
    verbose: bool,
    report: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Predict a paper's tables, and deliver the cells."""
    check_output(output, force=force)
    from specplan.api.reproducing import reproduce as reproduced

    found = reproduced(which)
    if report is not None:
        save(report, found.report())
    deliver(to_json(found.plain()) if as_json else found.text(verbose=verbose), output)
