"""A whole sweep: its points, a journal of those that are finished, and the table in the end."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calibrate.record.files import opened, replacing
from calibrate.record.journal import Journal, digest
from calibrate.record.library import load
from specplan.output import journal_of
from specplan.planning.sweeping.backends import Backend, results
from specplan.planning.sweeping.evaluate import RESULTS
from specplan.planning.sweeping.grid import Grid
from specplan.version import __version__
from theory.errors import SchemaError, SpecplanError, shown

__all__ = ["Row", "SweepError", "read_rows", "run_sweep", "write_rows"]

Row = dict[str, Any]


class SweepError(SpecplanError):
    """Every point of a sweep failed."""


def run_sweep(
    grid: Grid,
    output: Path,
    *,
    backend: Backend = "joblib",
    cluster: str | None = None,
    workers: int = 1,
    on_start: Callable[[int, int], None] = lambda total, done: None,
    on_points: Callable[[int], None] = lambda n: None,
) -> list[Row]:
    """Evaluate all points of a grid, write the table, and return its rows in the order of the grid.

    A sweep that was cut goes on where it was; nothing is evaluated twice.

    Parameters
    ----------
    output : the table, .parquet or .csv; finished points are kept in a journal next to it until it is written.
    backend, cluster, workers : as of `specplan.planning.sweeping.backends.results`.
    on_start : called with the number of points, and how many were finished before.
    on_points : called with the number of points just finished.

    Raises
    ------
    SweepError : no point has a speedup; nothing is written, and nothing kept.
    """
    points, profile = grid.points(), None if grid.profile is None else load(grid.profile)
    known = None if profile is None else digest(profile.model_dump_json())
    settings = {"grid": grid.model_dump(mode="json"), "profile": known, "specplan": __version__}
    journal = Journal(journal_of(output), settings)
    finished = False
    try:
        left = [point for point in points if point.key not in journal]
        on_start(len(points), len(points) - len(left))
        if left:
            for batch in results(left, grid, profile, backend=backend, cluster=cluster, workers=workers):
                for key, row in batch:
                    journal.add(key, row)
                on_points(len(batch))
        rows = [journal[point.key] for point in points]
        if all(row["speedup"] is None for row in rows):
            finished = True  # points fail the same way again: a corrected grid must not find them
            raise SweepError(f"none of {len(rows)} points has a speedup; the first: {rows[0]['error']}")
        write_rows(rows, output)
        finished = True
    finally:
        journal.close(remove=finished)
    return rows


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write a table, columns that define points first, then those of results; all at once or not at all.

    Raises
    ------
    SpecplanError : pyarrow is not installed, and the file is to be parquet.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [name for name in names if name not in RESULTS] + [name for name in RESULTS if name in names]
    if path.suffix.lower() == ".csv":
        with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, columns, lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
        return
    pa, parquet = _arrow()
    made = pa.table({name: _alike([row.get(name) for row in rows]) for name in columns})
    with replacing(path) as temporary:
        parquet.write_table(made, temporary)


def _alike(values: list[Any]) -> list[Any]:
    """Values of one type, as a column of parquet has: numbers of both kinds as floats, else text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]


def read_rows(path: Path) -> list[Row]:
    """Read a table that `write_rows` wrote.

    Raises
    ------
    SchemaError : it is none.
    """
    with opened(path, "a sweep") as file:
        if path.suffix.lower() == ".csv":
            try:
                text = file.read().decode("utf-8").splitlines()
                rows: list[Row] = [{key: _value(cell) for key, cell in row.items()} for row in csv.DictReader(text)]
            except (csv.Error, UnicodeDecodeError) as error:
                raise SchemaError(f"{path}: cannot be read as a sweep: {error}") from None
        else:
            pa, parquet = _arrow()
            try:
                rows = parquet.read_table(file).to_pylist()
            except pa.ArrowException as error:
                raise SchemaError(f"{path}: cannot be read as a sweep: {str(error).splitlines()[0]}") from None
    if not rows or "speedup" not in rows[0]:
        raise SchemaError(f"{path}: is no sweep: it has no column 'speedup', or no rows")
    for number, row in enumerate(rows, 1):
        for name in ("speedup", "stderr"):
            value = row.get(name)
            if value is not None and not (isinstance(value, (int, float)) and math.isfinite(value)):
                rule = f"must be a finite number, or empty, got {shown(repr(value))}"
                raise SchemaError(f"{path}: is no sweep: row {number}: {name} {rule}")
    return rows


def _value(cell: str | list[str] | None) -> Any:
    if not cell or isinstance(cell, list):  # a list: cells beyond the last column
        return None
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if cell.lstrip("-").isdigit() else number


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise SpecplanError("pyarrow is not installed: pip install 'specplan[sweep]', or write a .csv") from None
    return pa, parquet
