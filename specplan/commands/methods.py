"""``specplan methods``: the catalogue, with papers, knobs, what is exact and what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from specplan.show.saving import result_options
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.show.result import Result

__all__ = ["command"]


@click.command()
@click.argument("name", required=False)
@click.option("--gaps", is_flag=True, help="Show by how much closed forms miss the simulation, and why.")
@result_options()
def command(name: str | None, gaps: bool) -> Result:
    """List the methods, or describe the one called NAME: its paper, its knobs, what is exact and what is measured."""
    if gaps and name is not None:
        raise ParameterError(
            "NAME", name, "has no use with --gaps, whose table is of all methods: leave one of them out"
        )
    from specplan.api import methods as catalogue

    return catalogue.gaps() if gaps else catalogue.methods(name)
