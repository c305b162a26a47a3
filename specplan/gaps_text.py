"""The table of gaps as ``specplan methods --gaps`` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from specplan.output import table

if TYPE_CHECKING:
    from sim.gaps.table import Cell

__all__ = ["gaps_text"]

_SHORT: Final = (
    "as assumed",
    "lengths",
    "+ lag 1",
    "+ draft",
    "verdicts",
    "sticky",
    "siblings",
    "parallel",
    "requests",
)


def gaps_text(cells: Sequence[Cell]) -> str:
    """The table for a reader: a row per method, a column per broken assumption."""
    from sim.gaps.worlds import CONDITIONS

    headings = dict(zip(CONDITIONS, (*_SHORT, "ends", "all"), strict=True))
    by_place = {(cell.case, cell.condition): cell for cell in cells}
    rows = []
    for case in dict.fromkeys(cell.case for cell in cells):
        found = [by_place.get((case, condition)) for condition in CONDITIONS]
        assert found[0] is not None
        exact = f"{100.0 * found[0].gap:+.1f} ± {100.0 * found[0].gap_stderr:.1f}"
        rows.append([case, f"{found[0].closed_form:.3f}", exact, *map(_shown, found[1:])])
    worst = max(cell.gap_stderr for cell in cells)
    lines = [
        f"Closed form / simulated speedup - 1, in %, ± at most {100.0 * worst:.1f}; > 0: the form promises too much",
        "",
        table(["method", "closed form", *headings.values()], rows),
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


def _shown(cell: Cell | None) -> str:
    return "–" if cell is None else f"{100.0 * cell.gap:+.1f}"
