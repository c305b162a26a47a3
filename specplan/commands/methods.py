"""``specplan methods``: the catalogue, with papers, knobs, what is exact and what is measured."""

from __future__ import annotations

from pathlib import Path

import click

from specplan.output import check_output, deliver, json_option, output_options, to_json, verbose_option
from theory.errors import ParameterError

__all__ = ["command"]


@click.command()
@click.argument("name", required=False)
@click.option("--gaps", is_flag=True, help="Show by how much closed forms miss the simulation, and why.")
@verbose_option
@json_option
@output_options
def command(name: str | None, gaps: bool, verbose: bool, as_json: bool, output: Path | None, force: bool) -> None:
    """List the methods, or describe the one called NAME: its paper, its knobs, what is exact and what is measured."""
    check_output(output, force=force)
    if gaps and name is not None:
        raise ParameterError(
            "NAME", name, "has no use with --gaps, whose table is of all methods: leave one of them out"
        )
    from specplan.api import methods as catalogue

    found = catalogue.gaps() if gaps else catalogue.methods(name)
    deliver(to_json(found.plain()) if as_json else found.text(verbose=verbose), output)
