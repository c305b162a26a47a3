"""What all commands share at their edges: options, JSON, tables, files that are not overwritten, and progress."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from theory.errors import ParameterError

__all__ = [
    "by_need",
    "check_output",
    "deliver",
    "journal_of",
    "json_option",
    "output_options",
    "progress",
    "table",
    "to_json",
]

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON with sorted keys instead of a table.")


def output_options(command: F) -> F:
    """Give a command ``-o/--output`` and ``--force``; call `check_output` before the work and `deliver` after it."""
    command = click.option("--force", is_flag=True, help="Overwrite the output file if there is one.")(command)
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), help="Write the result to this file instead of stdout."
    )(command)


def check_output(path: Path | None, *, force: bool) -> None:
    """Refuse an output file that exists or cannot be written; to be called before the work, not after it.

    Raises
    ------
    ParameterError : the file exists and ``force`` is not set, is a folder, or its folder is missing or not writable.
    """
    if path is None:
        return
    if path.is_dir():
        raise ParameterError("output", str(path), "is a folder; give the name of a file")
    if path.exists() and not force:
        raise ParameterError("output", str(path), "exists; use --force to overwrite it, or another name")
    folder = path.parent
    if not folder.is_dir():
        raise ParameterError("output", str(path), f"cannot be written: there is no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ParameterError("output", str(path), f"cannot be written: the folder {str(folder)!r} is not writable")


def journal_of(output: Path) -> Path:
    """The file beside an output in which a long measurement keeps what is finished, until the output is written."""
    return output.with_name(output.name + ".part")


def deliver(text: str, path: Path | None) -> None:
    """Print a result, or write it to a file all at once."""
    if path is None:
        click.echo(text)
        return
    from calibrate.record.files import write_atomically

    write_atomically(path, text + "\n")


def to_json(data: Any) -> str:
    """JSON text with sorted keys; what is not finite becomes null, because JSON has no word for it."""
    return json.dumps(_plain(data), sort_keys=True, indent=2, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Plain text columns; those whose cells all start with a digit, a sign or a dash are set to the right."""
    columns = [list(column) for column in zip(headings, *rows, strict=True)]
    numeric = [all(cell[:1] in "0123456789+-–" for cell in column[1:]) for column in columns]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in [headings, *rows]:
        cells = zip(row, widths, numeric, strict=True)
        lines.append("  ".join(f"{c:>{w}}" if right else f"{c:<{w}}" for c, w, right in cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def by_need(unknown: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Names of methods that cannot be evaluated, by what they need."""
    names: dict[str, list[str]] = {}
    for name, lacking in unknown.items():
        names.setdefault("; ".join(lacking), []).append(name)
    return names


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[], None]]:
    """Show progress on stderr while something long runs; nothing when stderr is no terminal.

    Yields
    ------
    A function to call after each of the ``total`` parts.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task)
