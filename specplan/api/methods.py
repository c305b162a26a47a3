"""The catalogue of methods, and by how much closed forms miss the simulation."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from specplan.output import SCREEN, table
from specplan.show.result import Result

if TYPE_CHECKING:
    from sim.catalogue import Method
    from sim.gaps.table import Cell

__all__ = ["Gaps", "Methods", "gaps", "methods"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Methods(Result):
    """Methods that can be planned, or one of them in full."""

    methods: tuple[Method, ...]
    in_full: bool
    """One was asked for."""

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each method."""
        return [
            {
                **{"name": one.name, "level": one.level, "title": one.title, "paper": one.paper},
                **{"knobs": ", ".join(knob.name for knob in one.knobs), "asks": _asks(one)},
                **{"exact": one.exact, "measured": one.measured, "closed_form": one.closed_form},
            }
            for one in self.methods
        ]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan methods --json`` prints."""
        if self.in_full:
            return {"schema": "specplan.method", "schema_version": 1, **_plain(self.methods[0])}
        return {"schema": "specplan.methods", "schema_version": 1, "methods": [_plain(one) for one in self.methods]}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan methods`` prints, with ``verbose`` the knobs and papers too."""
        if self.in_full:
            return _describe(self.methods[0])
        rows = [[one.name, one.level, ", ".join(one.roles) or "–"] for one in self.methods]
        headings = ["method", "level", "asks, besides the target"]
        if verbose:
            headings += ["knobs", "paper"]
            more = ((", ".join(knob.name for knob in one.knobs) or "–", one.paper) for one in self.methods)
            rows = [[*row, *cells] for row, cells in zip(rows, more, strict=True)]
        about = "'specplan methods NAME' tells the knobs and the paper of one, -v of all."
        return f"{table(headings, rows)}\n\n{about}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Gaps(Result):
    """By how much closed forms miss the simulation, an assumption broken at a time."""

    cells: tuple[Cell, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each method and broken assumption."""
        return [asdict(cell) | {"gap": cell.gap} for cell in self.cells]

    def plain(self) -> dict[str, Any]:
        """Return what ``specplan methods --gaps --json`` prints."""
        return {"schema": "specplan.gaps", "schema_version": 1, "cells": self.records()}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan methods --gaps`` prints."""
        from specplan.gaps_text import gaps_text

        return gaps_text(self.cells)


def methods(name: str | None = None) -> Methods:
    """Return the methods that can be planned, or the one of a name, as ``specplan methods`` does.

    >>> import specplan as sp
    >>> "lr-async" in [row["name"] for row in sp.methods().records()]
    True
    >>> [knob.name for knob in sp.methods("spec-cot").methods[0].knobs][:2]
    ['width', 'threshold']

    Raises
    ------
    ParameterError : no method of that name.
    """
    from sim import catalogue

    chosen = catalogue.methods().values() if name is None else [catalogue.method(name)]
    return Methods(methods=tuple(chosen), in_full=name is not None)


def gaps() -> Gaps:
    """Return by how much closed forms miss the simulation, as ``specplan methods --gaps`` does.

    >>> import specplan as sp
    >>> max(row["gap"] for row in sp.gaps().records()) > 0.0
    True
    """
    from sim.gaps.table import committed_cells

    return Gaps(cells=tuple(committed_cells()))


def _asks(one: Method) -> str:
    """The models that it needs."""
    return ", ".join(("target", *one.roles))


def _describe(one: Method) -> str:
    rows = [
        ["paper", one.paper],
        ["level", one.level],
        ["asks", _asks(one)],
        ["exact", one.exact],
        ["measured", one.measured],
        ["closed form", one.closed_form or "none"],
    ]
    lines = [
        f"{one.name}: {one.title}",
        "",
        *(textwrap.fill(f"{key:<12} {text}", SCREEN, subsequent_indent=" " * 13) for key, text in rows),
    ]
    if one.knobs:
        knobs = [
            [k.name, "–" if k.default is None else str(k.default), k.help, k.rule.removeprefix("must be ")]
            for k in one.knobs
        ]
        lines += ["", table(["knob", "default", "meaning", "domain"], knobs, width=SCREEN)]
    return "\n".join(lines)


def _plain(one: Method) -> dict[str, Any]:
    names = ("name", "title", "paper", "level", "exact", "measured", "closed_form")
    knobs = [
        {key: getattr(k, key) for key in ("name", "kind", "default", "low", "high", "choices", "help")}
        for k in one.knobs
    ]
    return {**{key: getattr(one, key) for key in names}, "roles": ["target", *one.roles], "knobs": knobs}
