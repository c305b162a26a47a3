"""The catalogue of methods, and by how much closed forms miss the simulation."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from specplan.output import SCREEN, table
from specplan.show.result import Result

if TYPE_CHECKING:
    from sim.catalogue import Method
    from sim.gaps.table import Cell

__all__ = ["Gaps", "Methods", "gaps", "gaps_text", "methods"]

_SHORT: Final = (
    *("as assumed", "lengths", "+ lag 1", "+ draft", "verdicts", "sticky", "siblings", "parallel", "requests"),
    *("ends", "all"),
)
"""Headings of `sim.gaps.worlds.CONDITIONS`."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Methods(Result):
    """Methods that can be planned, or one of them in full."""

    methods: tuple[Method, ...]
    in_full: bool
    """Whether one method was named."""

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each method."""
        return [
            {
                **{"name": one.name, "level": one.level, "title": one.title, "paper": one.paper},
                **{"knobs": ", ".join(knob.name for knob in one.knobs), "asks": ", ".join(("target", *one.roles))},
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
        headings = ["method", "level", "needs, besides the target"]
        if verbose:
            headings += ["knobs", "paper"]
            more = ((", ".join(knob.name for knob in one.knobs) or "–", one.paper) for one in self.methods)
            rows = [[*row, *cells] for row, cells in zip(rows, more, strict=True)]
        about = "'specplan methods NAME' shows the knobs and the paper of one, -v of all."
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


def _describe(one: Method) -> str:
    rows = [
        ["paper", one.paper],
        ["level", one.level],
        ["needs", ", ".join(("target", *one.roles))],
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


def gaps_text(cells: Sequence[Cell]) -> str:
    """Return the table for a reader: a row per method, a column per broken assumption."""
    from sim.gaps.worlds import CONDITIONS

    by_place = {(cell.case, cell.condition): cell for cell in cells}
    rows = []
    for case in dict.fromkeys(cell.case for cell in cells):
        first, *others = (by_place.get((case, condition)) for condition in CONDITIONS)
        assert first is not None
        shown = ("–" if cell is None else f"{100.0 * cell.gap:+.1f}" for cell in others)
        exact = f"{100.0 * first.gap:+.1f} ± {100.0 * first.gap_stderr:.1f}"
        rows.append([case, f"{first.closed_form:.3f}", exact, *shown])
    worst = max(cell.gap_stderr for cell in cells)
    lines = [
        f"Closed form / simulated speedup - 1, in %, ± at most {100.0 * worst:.1f}; > 0: the form promises too much",
        "",
        table(["method", "closed form", *_SHORT], rows),
        "",
        *_legend(),
    ]
    return "\n".join(lines)


def _legend() -> list[str]:
    from sim.gaps.table import END_STEPS, without_closed_form
    from sim.gaps.worlds import IDEAL, LIMIT, MEASURED

    world = MEASURED
    lines = [
        f"At alpha1 = {IDEAL.alpha1:g}, c1 = {IDEAL.c1:.3f}, escalation {IDEAL.escalation:g}. Broken, one at a time:",
        f"lengths: of steps have CV {world.cv:g}, cut at {LIMIT} tokens; + lag 1: and correlation {world.lag1:g} along",
        f"an answer; + draft: and correlation {world.correlation:g} between draft and target",
        f"verdicts: {world.judge:.3f} target steps by the target, {world.gate:.3f} by the draft (forms with a term for",
        "it are given it)",
        "sticky: P(accept | accepted) = .9, P(accept | rejected) = .3",
        f"siblings: verdicts on drafts of one position correlated {world.siblings:g}",
        f"parallel: 8 target steps side by side take {1.0 + 7 * world.sequence:.2f} times as long as one",
        f"requests: each costs {world.request:.3f} target steps besides its tokens",
        f"ends: answers have {world.steps} steps; elsewhere they are endless (of SPECS: {END_STEPS} everywhere)",
        "Token-level methods decode one endless text; in lengths, requests and all, each step is a request of its own.",
        "Beams: the form is given mean lengths, where it is the longest candidate that counts (theory.specs.beams).",
    ]
    others = without_closed_form()
    return [*lines, *([f"Not tabulated: {', '.join(others)}."] if others else [])]
