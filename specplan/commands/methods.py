"""``specplan methods``: the catalogue, with papers, knobs, what is exact and what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import check_output, deliver, json_option, output_options, table, to_json
from theory.errors import ParameterError

if TYPE_CHECKING:
    from sim.catalogue import Method

__all__ = ["command"]


@click.command()
@click.argument("name", required=False)
@click.option("--gaps", is_flag=True, help="Show by how much closed forms miss the simulation, and why.")
@json_option
@output_options
def command(name: str | None, gaps: bool, as_json: bool, output: Path | None, force: bool) -> None:
    """List the methods, or describe the one called NAME: its paper, its knobs, what is exact and what is measured."""
    check_output(output, force=force)
    if gaps and name is not None:
        raise ParameterError(
            "NAME", name, "has no use with --gaps, whose table is of all methods: leave one of them out"
        )
    if gaps:
        deliver(_gaps(as_json), output)
        return
    from sim.catalogue import method, methods

    if name is not None:
        one = method(name)
        described = {"schema": "specplan.method", "schema_version": 1, **_plain(one)}
        deliver(to_json(described) if as_json else _describe(one), output)
        return
    every = list(methods().values())
    data = {"schema": "specplan.methods", "schema_version": 1, "methods": [_plain(one) for one in every]}
    deliver(to_json(data) if as_json else _listed(every), output)


def _gaps(as_json: bool) -> str:
    from dataclasses import asdict

    from sim.gaps.table import committed_cells
    from specplan.gaps_text import gaps_text

    cells = committed_cells()
    data = {
        "schema": "specplan.gaps",
        "schema_version": 1,
        "cells": [asdict(cell) | {"gap": cell.gap} for cell in cells],
    }
    return to_json(data) if as_json else gaps_text(cells)


def _listed(every: list[Method]) -> str:
    rows = [[one.name, one.level, ", ".join(k.name for k in one.knobs) or "–", one.paper] for one in every]
    return table(["method", "level", "knobs", "paper"], rows) + "\n\n'specplan methods NAME' tells more about one."


def _describe(one: Method) -> str:
    rows = [
        ["paper", one.paper],
        ["level", one.level],
        ["asks", ", ".join(("target", *one.roles))],
        ["exact", one.exact],
        ["measured", one.measured],
        ["closed form", one.closed_form or "none"],
    ]
    lines = [f"{one.name}: {one.title}", "", *(f"{key:<12} {text}" for key, text in rows)]
    if one.knobs:
        knobs = [[k.name, "–" if k.default is None else str(k.default), k.help, k.rule] for k in one.knobs]
        lines += ["", table(["knob", "default", "meaning", "domain"], knobs)]
    return "\n".join(lines)


def _plain(one: Method) -> dict[str, Any]:
    names = ("name", "title", "paper", "level", "exact", "measured", "closed_form")
    knobs = [
        {key: getattr(k, key) for key in ("name", "kind", "default", "low", "high", "choices", "help")}
        for k in one.knobs
    ]
    return {**{key: getattr(one, key) for key in names}, "roles": ["target", *one.roles], "knobs": knobs}
