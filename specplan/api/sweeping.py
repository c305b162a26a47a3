"""Many points of knobs, parameters and loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sim.catalogue import choice
from specplan.output import progress, table
from specplan.planning.sweeping.backends import BACKENDS
from specplan.planning.sweeping.grid import grid_of, read_grid
from specplan.planning.sweeping.sweep import Row, run_sweep
from specplan.show.result import Result

__all__ = ["Swept", "sweep"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Swept(Result):
    """Every point of a grid, with its speedup and how well it is known."""

    rows: tuple[Row, ...]
    output: Path | None
    """The table, if one was written."""

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each point: what it is, its speedup, the standard error, and an error if it has none."""
        return list(self.rows)

    def plain(self) -> dict[str, Any]:
        """Return the points as plain data."""
        return {"points": self.records()}

    def text(self, *, verbose: bool = False) -> str:
        """Return what ``specplan sweep`` prints: the best point of each method."""
        good = [row for row in self.rows if row["speedup"] is not None]
        failed = [row for row in self.rows if row["error"]]
        heads = ["method", "points", "faster than plain", "greatest speedup", "±"]
        text = table(heads, _best(good)) + "\n" if good else ""
        ratios = [row["variance_ratio"] for row in good if (row["variance_ratio"] or 0.0) > 1.0]
        if ratios:
            middle = sorted(ratios)[len(ratios) // 2]
            text += f"\nControl variates divided the variance by {middle:.1f} (median of {len(ratios)} points).\n"
        if failed:
            text += f"\n{len(failed)} of {len(self.rows)} points have no speedup; the first: {failed[0]['error']}\n"
        return text + f"\n{len(self.rows)} points" + ("" if self.output is None else f" in {self.output}")


def _best(good: list[Row]) -> list[list[str]]:
    """The best point of each method."""
    best: dict[str, Row] = {}
    for row in good:
        if row["method"] not in best or row["speedup"] > best[row["method"]]["speedup"]:
            best[row["method"]] = row
    return [
        [
            name,
            f"{sum(row['method'] == name for row in good)}",
            f"{sum(row['method'] == name and row['speedup'] > 1.0 for row in good)}",
            f"{row['speedup']:.3f}",
            f"{row['stderr']:.4f}",
        ]
        for name, row in best.items()
    ]


def sweep(
    grid: str | Path | Mapping[str, Any],
    *,
    output: str | Path | None = None,
    backend: str = "joblib",
    cluster: str | None = None,
    workers: int = 1,
) -> Swept:
    """Evaluate every point of a grid, as ``specplan sweep`` does.

    >>> import specplan as sp
    >>> table = sp.sweep({"precision": 0.1, "most_answers": 32, "fixed": {"method": "lr-async", "steps": 10},
    ...                   "vary": {"alpha1": [0.3, 0.9]}})
    >>> slow, fast = (row["speedup"] for row in table.records())
    >>> slow < fast
    True

    Parameters
    ----------
    grid : TOML file, or what it holds.
    output : table to write, .parquet or .csv; what is finished is kept in a journal next to it, and the same call goes
        on from there. Default none.
    backend, cluster, workers : joblib, dask or ray; the address of a cluster; processes of this machine.

    Raises
    ------
    SchemaError, ParameterError : a grid that cannot be read, or holds no points.
    SweepError : no point has a speedup.
    """
    points = read_grid(grid) if isinstance(grid, (str, Path)) else grid_of(grid)
    where: Any = choice("backend", backend, BACKENDS)
    place = None if output is None else Path(output)
    with ExitStack() as stack:
        steps: list[Callable[[], None]] = []

        def start(total: int, done: int) -> None:
            """Show progress once the number of points is known, with those that were finished before."""
            steps.append(stack.enter_context(progress("evaluating points", total)))
            advance(done)

        def advance(n: int) -> None:
            for _ in range(n):
                steps[0]()

        file = Path(stack.enter_context(TemporaryDirectory())) / "points.csv" if place is None else place
        rows = run_sweep(
            points, file, backend=where, cluster=cluster, workers=workers, on_start=start, on_points=advance
        )
    return Swept(rows=tuple(rows), output=place)
