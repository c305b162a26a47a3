"""``specplan demo``: the whole way on the bundled pair of models, by the same commands that a user would type."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from specplan.log_lines import lines_on_log
from specplan.ranges import WINDOW
from theory.errors import ParameterError

__all__ = ["command", "sequence"]


@click.command()
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/demo"),
    help="Where to leave the profile and the timeline.",
)
@click.option("--k1", multiple=True, type=WINDOW, help="Values of k1 to validate. Default 1, 2, 4 and 8.")
def command(keep: Path, k1: tuple[int, ...]) -> None:
    """Measure the bundled pair of models, plan, simulate and validate: predicted and measured speedup.

    Takes two to ten minutes on two cores; needs the extra `torch`. Where stderr is no terminal, a line each 15 s
    says how far it is.
    """
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError("keep", str(keep), f"must be a folder, or a place for one: {error.strerror}") from None
    from specplan.cli import cli

    for arguments in sequence(keep, k1 or (1, 2, 4, 8)):
        click.echo(f"\n$ specplan {' '.join(arguments)}\n")
        with lines_on_log(arguments[0]):
            status = cli.main(args=arguments, prog_name="specplan", standalone_mode=False)
        if isinstance(status, int) and status:
            raise click.exceptions.Exit(status)


def sequence(folder: Path, k1: Sequence[int]) -> list[list[str]]:
    """The commands of the demonstration, in order."""
    profile = str(folder / "bundled-pair.json")
    timeline = str(folder / "timeline.png")
    windows = ",".join(map(str, k1))
    short = "-n 10 --plain-answers 1"
    calibration = "calibrate torch -n 10 --candidates 0 --token-answers 2 --timings-share 0.33"
    return [
        [*calibration.split(), "--force", "--allow-noise", "-o", profile],
        ["plan", "--profile", profile],
        ["simulate", "--profile", profile, "--k1", str(max(k1))],
        ["validate", "--profile", profile, *short.split(), "--k1", windows, "--timeline", timeline, "--force"],
    ]
