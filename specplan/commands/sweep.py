"""``specplan sweep``: many points of knobs, parameters and loads; and pictures of them."""

from __future__ import annotations

from pathlib import Path

import click

from specplan.output import check_output, deliver
from specplan.ranges import InputName, OutputFile, WholeNumber
from theory.errors import ParameterError

__all__ = ["command"]

_PICTURES = (".png", ".svg", ".pdf")


class _RunOrPlot(click.Group):
    """A group whose first word may be left out: ``sweep grid.toml`` is ``sweep run grid.toml``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``run`` if no subcommand was typed."""
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
@click.option("--backend", default="joblib", help="joblib, dask or ray.")
@click.option("--cluster", help="Address of a running Dask or Ray cluster. Default processes of this machine.")
@click.option("--workers", type=WholeNumber(1, 256), default=1, help="Processes on this machine.")
def run(grid: str, output: Path, force: bool, backend: str, cluster: str | None, workers: int) -> None:
    """Evaluate every point of a TOML file; what is finished is kept, and the same command goes on after a break."""
    check_output(output, force=force)
    from specplan.api.sweeping import sweep

    deliver(sweep(grid, output=output, backend=backend, cluster=cluster, workers=workers).text(), None)


@command.command("plot")
@click.argument("results", type=InputName())
@click.option("-x", required=True, help="Column along the horizontal axis.")
@click.option("-y", required=True, help="Column along the vertical axis.")
@click.option("--method", default="", show_default=False, help="Only this method. Default the fastest of all.")
@click.option("--regions", is_flag=True, help="Which method is fastest where, instead of the speedup.")
@click.option("-o", "--output", type=OutputFile(*_PICTURES), required=True, help="The picture: .png, .svg or .pdf.")
@click.option("--force", is_flag=True, help="Overwrite the output file if there is one.")
def plot(results: str, x: str, y: str, method: str, regions: bool, output: Path, force: bool) -> None:
    """Draw a heat map of the speedup, or the regions in which each method is fastest."""
    check_output(output, force=force)
    if regions and method:
        raise ParameterError("method", method, "has no use with --regions, which compares all of them")
    if x == y:
        raise ParameterError("y", y, "must be another column than -x")
    from specplan.planning.sweeping.picture import draw_heat, draw_regions
    from specplan.planning.sweeping.sweep import read_rows

    rows = read_rows(Path(results))
    if regions:
        draw_regions(rows, output, x, y)
    else:
        draw_heat(rows, output, x, y, method)
