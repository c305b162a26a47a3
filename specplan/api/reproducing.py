"""Tables of papers and public measurements, predicted, next to what was published."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args, overload

from sim.catalogue import choice
from specplan.output import progress
from specplan.show.reproductions import Reproduced, ReproducedPapers
from specplan.show.scoreboards import OperatorsScored, Scored
from theory.errors import ParameterError

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


@overload
def reproduce(which: Paper) -> Reproduced: ...
@overload
def reproduce(which: Literal["all"]) -> ReproducedPapers: ...
@overload
def reproduce(which: Measured, folder: str | Path) -> Scored: ...
@overload
def reproduce(which: Literal["operators"], folder: str | Path) -> OperatorsScored: ...
def reproduce(which: str, folder: str | Path | None = None) -> Reproduced | ReproducedPapers | Scored | OperatorsScored:
    """Predict a paper's tables or public measurements, next to what was published, as ``specplan reproduce`` does.

    >>> import specplan as sp
    >>> table = sp.reproduce("lookahead-decoding")
    >>> [round(row["error"], 3) for row in table.records() if row["error"] is not None]
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
    if chosen != "operators":
        return _scored(chosen, Path(folder))
    from specplan.check.scoreboard.board import table_files
    from specplan.check.scoreboard.operators import operator_errors

    with progress("predicting operators", len(table_files(Path(folder)))) as step_done:
        return OperatorsScored(errors=tuple(operator_errors(Path(folder), step_done)))


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
