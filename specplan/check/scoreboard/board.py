"""The scoreboard of a folder: each row predicted, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from specplan.check.scoreboard.score import Outcome, Refused
from specplan.check.scoreboard.tables import Folder, read_folder
from theory.errors import SpecplanError

__all__ = ["Board", "hardware_board", "speculation_board"]

Step = Callable[[], None]

Predict = Callable[[Any], Iterable[Outcome]]
"""Takes a row; raises a `SpecplanError` where it cannot be predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Outcomes of all rows."""

    outcomes: tuple[Outcome, ...]
    refused: tuple[Refused, ...]
    files: tuple[str, ...]
    notes: tuple[str, ...]
    """What was assumed in reading the rows, in words."""

    def quantities(self) -> dict[str, list[Outcome]]:
        """Outcomes by what was measured, in order of appearance."""
        by_quantity: dict[str, list[Outcome]] = {}
        for one in self.outcomes:
            by_quantity.setdefault(one.quantity, []).append(one)
        return by_quantity


def hardware_board(path: Path, progress: Callable[[int], Step]) -> Board:
    """Predict the rows of served iterations and of serving under load, in a folder or one table.

    ``progress`` is called with the number of rows; what it returns is called after each.
    """
    from specplan.check.scoreboard.rows import Loaded, Served, Steady
    from specplan.check.scoreboard.served import engine_notes, loaded_outcomes, served_outcome, steady_outcome

    folder = read_folder(path, ("served", "steady", "loaded", "positioned"))
    loaded = [row for row in folder.rows if isinstance(row, Loaded)]
    by_kind: dict[type, Predict] = {Served: served_outcome, Steady: steady_outcome, Loaded: loaded_outcomes(loaded)}
    return _board(folder, progress, engine_notes(loaded), [(tuple(by_kind), lambda row: by_kind[type(row)](row))])


def speculation_board(path: Path, progress: Callable[[int], Step]) -> Board:
    """Predict speedups of speculative serving given the acceptance lengths, and the lengths from priors."""
    from specplan.check.scoreboard.doubts import doubts_of_speculated
    from specplan.check.scoreboard.driven import driven_outcomes, plain_rows
    from specplan.check.scoreboard.rows import Acceptance, Driven, Speculated
    from specplan.check.scoreboard.speculated import GPUS_TAKEN, accepted_outcome, speculated_outcome

    folder = read_folder(path, ("speculated", "driven", "acceptance"))
    doubts = doubts_of_speculated(row for row in folder.rows if isinstance(row, Speculated))
    plain = plain_rows(row for row in folder.rows if isinstance(row, Driven))
    by_kind: list[tuple[tuple[type, ...], Predict]] = [
        ((Speculated,), lambda row: speculated_outcome(row, doubts.get(row.where))),
        ((Driven,), lambda row: driven_outcomes(row, plain.get(row.where))),
        ((Speculated, Acceptance), accepted_outcome),
    ]
    return _board(folder, progress, [GPUS_TAKEN], by_kind)


def _board(
    folder: Folder,
    progress: Callable[[int], Step],
    notes: Iterable[str],
    by_kind: Sequence[tuple[tuple[type, ...], Predict]],
) -> Board:
    """Predict each row by the functions for its kind; what cannot be predicted is refused with the reason."""
    by_predictor: list[list[Outcome]] = [[] for _ in by_kind]
    refused: list[list[Refused]] = [[] for _ in by_kind]
    step = progress(len(folder.rows))
    for row in folder.rows:
        for i, (kinds, predict) in enumerate(by_kind):
            if isinstance(row, kinds):
                try:
                    by_predictor[i] += predict(row)
                except SpecplanError as error:
                    refused[i].append(Refused(where=row.where, model=row.about, reason=str(error)))
        step()
    names = folder.passed_over
    unread = [f"{len(names)} tables of operators or others are not read here ({names[0]} and so on)"] if names else []
    return Board(
        outcomes=tuple(chain(*by_predictor)),
        refused=(*folder.defects, *chain(*refused)),
        files=folder.files,
        notes=(*notes, *unread),
    )
