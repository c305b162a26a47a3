"""``specplan sweep``: many points of knobs, parameters and loads; and pictures of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from specplan.output import InputName, OutputFile, check_output, deliver, table
from specplan.ranges import WholeNumber
from theory.errors import ParameterError

__all__ = ["command"]

_PICTURES = (".png", ".svg", ".pdf")


class _RunOrPlot(click.Group):
    """A group whose first word may be left out: ``sweep grid.toml`` is ``sweep run grid.toml``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the word in."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunOrPlot)
def command() -> None:
    """Evaluate a grid of points: specplan sweep GRID.toml -o RESULTS.parquet; then plot it."""


@command.command("run")
@click.argument("grid", type=InputName())
@click.option("-o", "--output", type=OutputFile(".parquet", ".csv"), required=True, help="The table: .parquet or .csv.")
@click.option("--force", is_flag=True, help="Overwrite the output file if there is one.")
@click.option("--backend", default="joblib", show_default=True, help="joblib, dask or ray.")
@click.option("--cluster", help="Address of a running Dask or Ray cluster. Default processes of this machine.")
@click.option("--workers", type=WholeNumber(1, 256), default=1, show_default=True, help="Processes on this machine.")
def run(grid: str, output: Path, force: bool, backend: str, cluster: str | None, workers: int) -> None:
    """Evaluate every point of a TOML file; what is finished is kept, and the same command goes on after a break."""
    check_output(output, force=force)
    from sim.catalogue import choice
    from specplan.sweeping.backends import BACKENDS
    from specplan.sweeping.grid import read_grid
    from specplan.sweeping.sweep import run_sweep

    where: Any = choice("backend", backend, BACKENDS)
    with _Bar() as bar:
        rows = run_sweep(
            read_grid(grid),
            output,
            backend=where,
            cluster=cluster,
            workers=workers,
            on_start=bar.start,
            on_points=bar.advance,
        )
    deliver(_summary(rows, output), None)


@command.command("plot")
@click.argument("results", type=InputName())
@click.option("-x", required=True, help="Column along the horizontal axis.")
@click.option("-y", required=True, help="Column along the vertical axis.")
@click.option("--method", default="", help="Only this method. Default the fastest of all.")
@click.option("--regions", is_flag=True, help="Which method is fastest where, instead of the speedup.")
@click.option("-o", "--output", type=OutputFile(*_PICTURES), required=True, help="The picture: .png, .svg or .pdf.")
@click.option("--force", is_flag=True, help="Overwrite the output file if there is one.")
def plot(results: str, x: str, y: str, method: str, regions: bool, output: Path, force: bool) -> None:
    """Draw a heat map of the speedup, or the regions in which each method is fastest."""
    check_output(output, force=force)
    if regions and method:
        raise ParameterError("method", method, "has no use beside --regions, which compares all of them")
    from specplan.sweeping.picture import draw_heat, draw_regions
    from specplan.sweeping.sweep import read_rows

    rows = read_rows(Path(results))
    if regions:
        draw_regions(rows, output, x, y)
    else:
        draw_heat(rows, output, x, y, method)


def _summary(rows: list[dict[str, Any]], output: Path) -> str:
    """The best point of each method, and how well it is known."""
    good = [row for row in rows if row["speedup"] is not None]
    failed = [row for row in rows if row["error"]]
    best: dict[str, dict[str, Any]] = {}
    for row in good:
        if row["method"] not in best or row["speedup"] > best[row["method"]]["speedup"]:
            best[row["method"]] = row
    shown = [
        [
            name,
            f"{sum(row['method'] == name for row in good)}",
            f"{sum(row['method'] == name and row['speedup'] > 1.0 for row in good)}",
            f"{row['speedup']:.3f}",
            f"{row['stderr']:.4f}",
        ]
        for name, row in best.items()
    ]
    text = table(["method", "points", "faster than plain", "greatest speedup", "±"], shown) + "\n" if shown else ""
    ratios = [row["variance_ratio"] for row in good if (row["variance_ratio"] or 0.0) > 1.0]
    if ratios:
        middle = sorted(ratios)[len(ratios) // 2]
        text += f"\nControl variates divided the variance by {middle:.1f} (median of {len(ratios)} points).\n"
    if failed:
        text += f"\n{len(failed)} of {len(rows)} points have no speedup; the first: {failed[0]['error']}\n"
    return text + f"\n{len(rows)} points in {output}"


class _Bar:
    """Progress with the time left on stderr; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> _Bar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("points"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def start(self, total: int, done: int) -> None:
        """Say how many points there are, and how many were finished before."""
        if self._bar is not None:
            self._task = self._bar.add_task("points", total=total, completed=done)

    def advance(self, n: int) -> None:
        """Say that some more are finished."""
        if self._bar is not None:
            self._bar.advance(self._task, n)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
