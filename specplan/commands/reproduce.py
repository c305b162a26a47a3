"""``specplan reproduce``: public measurements and their predictions, with errors, coverage and regret."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specplan.show.saving import result_options, save

if TYPE_CHECKING:
    from specplan.api.reproducing import Scored
    from specplan.show.result import Result

__all__ = ["command", "reproduce"]

_BOARDS: Final = {
    "hardware": "Times of served iterations, and per output token and to first token under load.",
    "speculation": "Speedups of speculative decoding, given how many tokens a round commits.",
}
"""Kind of measurements to what is predicted of them."""
_PAPERS: Final = {
    "lr": "Lookahead Reasoning, Tables 1 and 3: speedups predicted with nothing fitted, and with their data set left "
    "out.",
    "confspec": "ConfSpec, Tables 2 and 3: speedups from acceptances, latencies and confidences published elsewhere.",
    "specs": "SPECS, Tables 1 and 4: seconds per step and problem, from those of beam search and the large model's "
    "share.",
    "all": "The tables of all papers: how good the predictions are, in a paragraph each.",
    "lookahead-decoding": "Lookahead Decoding, Table 3: compression by the paper's equations and constants.",
}
"""Paper to what is predicted of it."""


@click.group()
def reproduce() -> None:
    """Predict public measurements and tables of papers, and print them next to what was measured.

    A paper's tables come with specplan: lr (or lookahead-reasoning), confspec, specs, lookahead-decoding, or all.

    For hardware, speculation and operators FOLDER holds the tables as CSV files (docs/scoreboard.md names their
    sources), which are known by their columns; it may also be one such file. Nothing is fitted to them: the constants
    are those that plans use.
    """


command = reproduce


def _board(which: Any, about: str) -> click.Command:
    @click.command(which, help=f"{about}\n\nWith -o NAME.csv the rows are written as CSV.")
    @click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
    @click.option("--rows", "verbose", is_flag=True, help="Print every row, measured and predicted.")
    @result_options(verbose=False, report=True)
    def predict(folder: Path) -> Result | str:
        from specplan.api.reproducing import reproduce as reproduced

        given = click.get_current_context().params
        result: Scored = reproduced(which, folder)
        if given["as_json"] or given["output"] is None or given["output"].suffix != ".csv":
            return result
        if given["report"] is not None:
            save(given["report"], result.report())
        return result.csv()

    return predict


def _paper(which: Any, about: str) -> click.Command:
    @click.command(which, help=about)
    @result_options(report=True)
    def predict() -> Result:
        from specplan.api.reproducing import reproduce as reproduced

        result: Result = reproduced(which)
        return result

    return predict


@reproduce.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@result_options(verbose=False)
def operators(folder: Path) -> Result:
    """Operators timed one by one, which most constants of GPUs are fitted to: errors by operator, GPU and format."""
    from specplan.api.reproducing import reproduce as reproduced

    return reproduced("operators", folder)


for _name, _about in _BOARDS.items():
    reproduce.add_command(_board(_name, _about))
for _name, _about in _PAPERS.items():
    reproduce.add_command(_paper(_name, _about))

_by_its_title = copy(reproduce.commands["lr"])
_by_its_title.hidden = True
reproduce.add_command(_by_its_title, "lookahead-reasoning")
