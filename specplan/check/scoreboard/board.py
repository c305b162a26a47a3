"""The scoreboard of a folder: each row predicted, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specplan.check.scoreboard.outcomes import Outcome, Refused
from specplan.check.scoreboard.tables import Folder, read_folder

__all__ = ["Board", "hardware_board", "speculation_board"]

Step = Callable[[], None]

_HARDWARE: Final = ("served", "steady", "loaded", "positioned")
_SPECULATION: Final = ("speculated", "driven", "acceptance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """What became of all rows."""

    outcomes: tuple[Outcome, ...]
    refused: tuple[Refused, ...]
    files: tuple[str, ...]
    notes: tuple[str, ...]
    """What was assumed in reading the rows, in words."""

    def quantities(self) -> dict[str, list[Outcome]]:
        """Outcomes by what was measured, in order of appearance."""
        found: dict[str, list[Outcome]] = {}
        for one in self.outcomes:
            found.setdefault(one.quantity, []).append(one)
        return found


def hardware_board(path: Path, progress: Callable[[int], Step]) -> Board:
    """Predict the rows of served iterations and of serving under load.

    Parameters
    ----------
    path : the folder, or one table.
    progress : called with the number of rows; what it returns is called after each.
    """
    from specplan.check.scoreboard.loaded import LoadedRows
    from specplan.check.scoreboard.rows import Loaded, Served, Steady
    from specplan.check.scoreboard.served import served_outcome, steady_outcome

    folder = read_folder(path, _HARDWARE)
    loaded = LoadedRows([row for row in folder.rows if isinstance(row, Loaded)])
    step = progress(len(folder.rows))
    found: list[Outcome | Refused] = []
    for row in folder.rows:
        if isinstance(row, Served):
            found.append(served_outcome(row))
        elif isinstance(row, Steady):
            found.append(steady_outcome(row))
        elif isinstance(row, Loaded):
            found += loaded.outcomes(row)
        step()
    return _board(folder, found, loaded.notes)


def speculation_board(path: Path, progress: Callable[[int], Step]) -> Board:
    """Predict speedups of speculative serving given the acceptance lengths, and the lengths from priors."""
    from specplan.check.scoreboard.driven import DrivenRows
    from specplan.check.scoreboard.rows import Acceptance, Driven, Speculated
    from specplan.check.scoreboard.speculated import SpeculatedRows, accepted_outcome

    folder = read_folder(path, _SPECULATION)
    speculated = SpeculatedRows(row for row in folder.rows if isinstance(row, Speculated))
    driven = DrivenRows(row for row in folder.rows if isinstance(row, Driven))
    step = progress(len(folder.rows))
    speedups: list[Outcome | Refused] = []
    loads: list[Outcome | Refused] = []
    lengths: list[Outcome | Refused] = []
    for row in folder.rows:
        if isinstance(row, Driven):
            loads += driven.outcomes(row)
        elif isinstance(row, Speculated):
            speedups.append(speculated.outcome(row))
        length = accepted_outcome(row) if isinstance(row, Speculated | Acceptance) else None
        if length is not None:
            lengths.append(length)
        step()
    return _board(folder, [*speedups, *loads, *lengths], speculated.notes)


def _board(folder: Folder, found: Iterable[Outcome | Refused], notes: Iterable[str]) -> Board:
    found = list(found)
    return Board(
        outcomes=tuple(one for one in found if isinstance(one, Outcome)),
        refused=(*folder.defects, *(one for one in found if isinstance(one, Refused))),
        files=folder.files,
        notes=(*notes, *_passed_over(folder)),
    )


def _passed_over(folder: Folder) -> list[str]:
    """A line about tables that are not read."""
    names = folder.passed_over
    return [f"{len(names)} tables of operators or others are not read here ({names[0]} and so on)"] if names else []
