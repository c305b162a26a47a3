"""The scoreboard of a folder of public measurements: every table in it that is known, each row predicted or refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, TextIO

from pydantic import ValidationError

from calibrate.record.files import opened, read_text
from specplan.check.scoreboard.rows import MODEL_COLUMNS, TABLES, Measured
from specplan.check.scoreboard.score import Outcome, Refused
from theory.errors import ParameterError, SchemaError, SpecplanError

__all__ = ["Board", "Folder", "hardware_board", "read_folder", "rows_of", "speculation_board", "table_files"]

Step = Callable[[], None]

Predict = Callable[[Any], Iterable[Outcome]]
"""Takes a row; raises a `SpecplanError` where it cannot be predicted."""

_ENDINGS: Final = (".csv", ".csv.gz")
_LONGEST_HEADER: Final = 100_000  # bytes


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What was read."""

    rows: tuple[Measured, ...]
    defects: tuple[Refused, ...]
    """Lines that are no rows of their table, with the reason; the others of the table count."""
    files: tuple[str, ...]
    """Files that hold the rows."""
    passed_over: tuple[str, ...]
    """Files of other tables (of single operators, say), unread."""


def read_folder(path: Path, kinds: Sequence[str]) -> Folder:
    """Read all tables of ``kinds`` in a folder and the folders directly in it, or in one file.

    Raises
    ------
    ParameterError : there is no such folder, or no such table in it.
    SchemaError : no row of any table can be read; the text says what is wrong with the first.
    """
    files = table_files(path)
    rows: list[Measured] = []
    defects: list[Refused] = []
    read, passed_over = [], []
    for file in files:
        kind = _kind(file)
        if kind is None:
            passed_over.append(file.name)
        elif kind in kinds:
            read.append(file.name)
            try:
                for row in _rows(file, kind):
                    if isinstance(row, Refused):
                        defects.append(row)
                    else:
                        rows.append(row)
            except SchemaError as error:
                skipped = f"{error}; the rest of the table is skipped"
                defects.append(Refused(where=file.name, model="?", reason=skipped))
    if not rows and defects:
        raise SchemaError(defects[0].reason)
    if not rows:
        wanted = " or ".join(f"{kind} ({', '.join(sorted(TABLES[kind][1]))})" for kind in kinds)
        raise ParameterError("FOLDER", str(path), f"holds no CSV table with rows of the kind {wanted}")
    return Folder(rows=tuple(rows), defects=tuple(defects), files=tuple(read), passed_over=tuple(passed_over))


def table_files(path: Path) -> list[Path]:
    """Return the tables in a folder and the folders directly in it, in order; or the one file.

    Raises
    ------
    ParameterError : there is no such folder.
    """
    if not path.exists():
        raise ParameterError("FOLDER", str(path), "does not exist; give the folder that holds the tables")
    if path.is_file():
        return [path]
    files = (file for pattern in ("*", "*/*") for file in path.glob(pattern) if file.is_file())
    return sorted(file for file in files if file.name.endswith(_ENDINGS))


def rows_of(file: TextIO, path: Path) -> tuple[set[str], Iterator[tuple[int, dict[Any, Any]]]]:
    """Columns of a table, and its rows with the numbers of their lines.

    Raises
    ------
    SchemaError : a line or a cell is too long to be of a table; also while rows are taken.
    """

    def lines() -> Iterator[str]:
        number = 0
        while line := file.readline(_LONGEST_HEADER + 1):
            number += 1
            if len(line) > _LONGEST_HEADER:
                raise SchemaError(f"{path.name}:{number}: longer than {_LONGEST_HEADER} characters")
            yield line

    def rows() -> Iterator[tuple[int, dict[Any, Any]]]:
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:  # a quoted cell that goes on and on
            raise SchemaError(f"{path.name}:{reader.line_num}: {error}") from None

    reader = csv.DictReader(lines())
    try:
        return set(reader.fieldnames or ()), rows()
    except csv.Error as error:
        raise SchemaError(f"{path.name}:{reader.line_num}: {error}") from None


def _kind(path: Path) -> str | None:
    """Which table a file holds, None for others; the first line is enough, tables of operators are large."""
    try:
        with opened(path, "a table", packed=True) as file:
            line = file.readline(_LONGEST_HEADER).decode("utf-8-sig")
        columns = {name.strip() for name in next(csv.reader([line]), [])}
    except (SchemaError, csv.Error):
        return None
    return next((kind for kind, (_, known_by) in TABLES.items() if known_by <= columns), None)


def _rows(path: Path, kind: str) -> Iterator[Measured | Refused]:
    form = TABLES[kind][0]
    heads, rows = rows_of(io.StringIO(read_text(path, "a table", packed=True), newline=""), path)
    columns = [name.strip() for name in heads]
    for name, field in form.model_fields.items():
        if field.is_required() and name not in (*columns, "where"):
            raise SchemaError(f"{path.name}: lacks the column {name!r} of a table of {kind} rows")
    for line, cells in rows:
        where = f"{path.name}:{line}"
        if None in cells or None in cells.values():
            yield _defect(where, cells, f"has another number of cells than the {len(columns)} columns")
            continue
        try:
            yield form.model_validate({**{name.strip(): cell for name, cell in cells.items()}, "where": where}).read()
        except ValidationError as error:
            first = error.errors()[0]
            column = str(first["loc"][0]) if first["loc"] else "?"
            yield _defect(where, cells, f"{column}={cells.get(column)!r}: {first['msg'].lower()}")


def _defect(where: str, cells: Mapping[Any, Any], what: str) -> Refused:
    model = next((str(cells[name]) for name in MODEL_COLUMNS if cells.get(name)), "?")
    return Refused(where=where, model=model, reason=f"{where}: {what}; the row is skipped")
