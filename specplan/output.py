"""What all commands share at their edges: options, JSON, tables, files that are not overwritten, and progress."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from specplan.log_lines import lines_on_log
from specplan.ranges import InputName, OutputFile, typed
from theory.errors import ParameterError

if TYPE_CHECKING:
    from sim.estimate import Estimate

__all__ = [
    "SCREEN",
    "Progress",
    "all_of",
    "between",
    "by_need",
    "check_folder",
    "check_output",
    "deliver",
    "is_typed",
    "journal_of",
    "json_option",
    "narrow",
    "output_options",
    "percent",
    "progress",
    "refuse_unused",
    "screen",
    "several",
    "silent",
    "table",
    "to_json",
    "verbose_option",
]

_STEERING: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that steer a terminal or turn the direction of text, and half characters, which cannot be written."""
SCREEN: Final = 80
"""Columns of a terminal: what is printed without -v fits them, piped too."""
_NARROWEST: Final = 12
"""Columns that text is wrapped to at least."""

verbose_option = click.option("-v", "--verbose", is_flag=True, help="Print all rows, columns and assumptions too.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON with sorted keys instead of a table.")


def all_of(*options: Callable[[Any], Any]) -> Callable[[Any], Callable[..., Any]]:
    """Return what gives a command several options, which help lists in this order."""

    def with_options(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


output_options = all_of(
    click.option("-o", "--output", type=OutputFile(), help="Write the result to this file instead of stdout."),
    click.option("--force", is_flag=True, help="Overwrite the output file if there is one."),
)
"""Options ``-o/--output`` and ``--force``; see `check_output` and `deliver`."""


def is_typed(name: str) -> bool:
    """Return whether a parameter of the running command is on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_unused(names: Sequence[str], why: str) -> None:
    """Refuse options of the running command that would change nothing: whoever typed them expects otherwise.

    Parameters
    ----------
    names : of parameters of the command.
    why : they have no use, e.g. ``"without --timeline"``.

    Raises
    ------
    ParameterError : one of them was typed.
    """
    for name in filter(is_typed, names):
        value = click.get_current_context().params[name]
        text = ", ".join(map(str, several(value)))
        raise ParameterError(name, text, f"has no use {why}: leave it out")


def check_output(path: Path | None, *, force: bool) -> None:
    """Refuse outputs that cannot be written, or that would destroy something; to be called before the work.

    Checked are ``path`` and, where a command runs, all its options of the type `OutputFile`: against each other, and
    against all that it reads.

    Raises
    ------
    ParameterError : a file exists and ``force`` is not set; it is a folder, a device or a pipe, or what the command
        reads; two outputs are one file; or a folder is missing or not writable.
    """
    outputs, inputs = _files_of(click.get_current_context(silent=True))
    if path is not None and path not in outputs.values():
        outputs["output"] = path
    claimed: dict[str, str] = {}
    for name, output in outputs.items():
        with _naming(name, output):
            _check_place(name, output, force=force)
            _check_not_read(name, output, inputs)
        for one in (output, journal_of(output)):
            other = claimed.setdefault(os.path.realpath(one), name)
            if other != name:
                raise ParameterError(name, str(output), f"is written by {other} too: give them different names")


def check_folder(folder: Path, files: Sequence[Path], *, force: bool) -> None:
    """Make a folder for several outputs, and refuse what `check_output` refuses of each.

    Raises
    ------
    ParameterError : it is a file, or cannot be made; a file exists and ``force`` is not set; or it is not writable.
    """
    with _naming("-o", folder):
        folder.mkdir(exist_ok=True)
        for path in files:
            _check_place("-o", path, force=force)


@contextmanager
def _naming(name: str, path: Path) -> Iterator[None]:
    """Name the output that a failure of the system is about."""
    try:
        yield
    except ParameterError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "a name cannot hold a zero byte"
        raise ParameterError(name, str(path), f"cannot be written: {reason}") from None


def _files_of(context: click.Context | None) -> tuple[dict[str, Path], dict[str, list[Path]]]:
    """What a command writes, and what it reads, by option."""
    outputs: dict[str, Path] = {}
    inputs: dict[str, list[Path]] = {}
    for option in () if context is None else context.command.params:
        value = context.params.get(option.name or "") if context is not None else None
        if not value:
            continue
        name = typed(option)
        if isinstance(option.type, OutputFile):
            outputs[name] = value
        elif isinstance(option.type, (InputName, click.Path)):
            lists = isinstance(option.type, InputName) and option.type.lists
            parts = [part for word in several(value) if lists for part in str(word).split(",") if part]
            inputs[name] = [Path(one) for one in (*several(value), *parts)]
    return outputs, inputs


def several(value: Any) -> tuple[Any, ...]:
    """Return the values of an option that may be repeated, the one value of another."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _check_place(name: str, path: Path, *, force: bool) -> None:
    """Refuse what is no regular file, what may not be overwritten, and a folder that takes no files."""
    if str(path) == "-":
        raise ParameterError(name, "-", "is not for standard output: leave the option out to print the result")
    final = Path(os.path.realpath(path))
    if final.is_dir():
        raise ParameterError(name, str(path), "is a folder; give the name of a file")
    if final.exists():
        if not stat.S_ISREG(final.stat().st_mode):
            raise ParameterError(name, str(path), "is a device, a pipe or a socket; give the name of a file")
        if not force:
            raise ParameterError(name, str(path), "exists; use --force to overwrite it, or another name")
        if not os.access(final, os.W_OK):
            raise ParameterError(name, str(path), "cannot be written: the file is write-protected")
    journal_of(path).exists()  # raises where the name is too long for either
    folder = final.parent
    if not folder.is_dir():
        missing = str(folder if path.is_symlink() else path.parent)
        raise ParameterError(name, str(path), f"cannot be written: there is no folder {missing!r}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ParameterError(name, str(path), f"cannot be written: the folder {str(folder)!r} is not writable")


def _check_not_read(name: str, path: Path, inputs: Mapping[str, Sequence[Path]]) -> None:
    """Refuse to overwrite what a command reads: a file, or one in a folder that it reads."""
    if not path.exists():
        return
    for reader, read in ((reader, one) for reader, several in inputs.items() for one in several):
        try:
            inside = read.is_dir() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(read))
            same = read.exists() and read.samefile(path)
        except (OSError, ValueError):  # a name that no file can have
            continue
        if inside or same:
            raise ParameterError(name, str(path), f"is what {reader} reads; give another name")


def journal_of(output: Path) -> Path:
    """The file next to an output in which a long measurement keeps what is finished, until the output is written."""
    return output.with_name(output.name + ".part")


def deliver(text: str | Iterable[str], path: Path | None) -> None:
    """Print a result, or write it to a file all at once; what would steer a terminal is escaped.

    Parts of a text are printed as they come, with a line between them.

    Raises
    ------
    BrokenPipeError : it is to be printed, and stdout is closed.
    """
    parts = [text] if isinstance(text, str) else text
    if path is None:
        if sys.stdout is None:
            raise BrokenPipeError
        for i, part in enumerate(parts):
            shown = _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", part)  # as JSON escapes it: JSON stays JSON
            click.echo(("\n" if i else "") + shown)
        return
    from calibrate.record.files import write_atomically

    write_atomically(path, "\n\n".join(parts) + "\n")


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


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """Plain text columns; those whose cells all start with a digit, a sign or a dash are set to the right.

    Within a ``width`` the widest columns of text are wrapped, as far as there are any to wrap.
    """
    columns = [list(column) for column in zip(headings, *rows, strict=True)]
    numeric = [all(cell[:1] in "0123456789+-–" for cell in column[1:]) for column in columns]
    widths = [max(map(len, column)) for column in columns]
    texts = [i for i, right in enumerate(numeric) if not right]
    while width is not None and sum(widths) + 2 * (len(widths) - 1) > width and texts:
        widest = max(texts, key=lambda i: widths[i])
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    lines: list[str] = []
    for row in [headings, ["-" * width for width in widths], *rows]:
        wrapped = [textwrap.wrap(c, w) if len(c) > w else [c] for c, w in zip(row, widths, strict=True)]
        for cells in zip_longest(*wrapped, fillvalue=""):
            placed = zip(cells, widths, numeric, strict=True)
            lines.append("  ".join(f"{c:>{w}}" if right else f"{c:<{w}}" for c, w, right in placed).rstrip())
    return "\n".join(lines)


def narrow(columns: Sequence[tuple[str, Sequence[str]]], *, long: int = 0) -> str:
    """Return a table within a screen: columns of dashes are left out, cells of the ``long`` column are shortened.

    Parameters
    ----------
    columns : heading and cells of each.
    long : place of the column of texts; it and those before it stay.
    """
    kept = [one for i, one in enumerate(columns) if i <= long or set(one[1]) != {"–"}]
    used = sum(2 + max(len(name), *map(len, cells)) for i, (name, cells) in enumerate(kept) if i != long)
    room = max(SCREEN - used, _NARROWEST)
    name, cells = kept[long]
    kept[long] = name, [textwrap.shorten(cell, room, placeholder=" …") for cell in cells]
    return table([name for name, _ in kept], list(zip(*(cells for _, cells in kept), strict=True)))


def screen(*blocks: str | Sequence[str]) -> str:
    """Return blocks with a line between them: texts wrapped, tables as they are, lists of notes a line each."""
    return "\n\n".join(
        "\n".join(textwrap.fill(line, SCREEN, subsequent_indent="  ", break_on_hyphens=False) for line in block)
        if not isinstance(block, str)
        else block
        if "\n" in block
        else textwrap.fill(block, SCREEN, break_on_hyphens=False)
        for block in blocks
    )


def between(estimate: Estimate, digits: int = 2) -> str:
    """Return an estimate with its interval."""
    value, low, high = (f"{one:.{digits}f}" for one in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def percent(share: float, digits: int = 1, *, signed: bool = False) -> str:
    """Return a share in per cent, as every screen and report prints it.

    >>> percent(0.125), percent(0.5, 0), percent(0.02, signed=True)
    ('12.5 %', '50 %', '+2.0 %')
    """
    return f"{100 * share:{'+' if signed else ''}.{digits}f} %"


def by_need(unknown: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Names of methods that cannot be evaluated, by what they need."""
    names: dict[str, list[str]] = {}
    for name, lacking in unknown.items():
        names.setdefault("; ".join(lacking), []).append(name)
    return names


Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
"""Takes what is done and in how many steps; what it yields is called after each step."""


def silent(what: str, n_steps: int) -> AbstractContextManager[Callable[[], None]]:
    """Show no progress."""
    return nullcontext(lambda: None)


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[], None]]:
    """Show progress and the time left on stderr while something long runs; on a log by lines from time to time.

    Rich leaves colours out where NO_COLOR is set. The time left is estimated from the parts that are done.

    Yields
    ------
    A function to call after each of the ``total`` parts.
    """
    if not sys.stderr.isatty():
        done = count(1)
        with lines_on_log(description) as say:
            yield lambda: say(f"{next(done)} of {total}")
        return
    from rich import progress as parts
    from rich.console import Console

    columns = (
        parts.TextColumn("{task.description}"),
        parts.BarColumn(bar_width=16),  # with the longest description and all counts, 80 columns hold the line
        parts.MofNCompleteColumn(),
        parts.TimeElapsedColumn(),
        parts.TextColumn("left"),
        parts.TimeRemainingColumn(),
    )
    with parts.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task)
