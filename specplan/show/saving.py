"""What commands do with a result: its options, and its report's file, which states the command and the versions."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from specplan.output import (
    all_of,
    check_output,
    deliver,
    journal_of,
    json_option,
    output_options,
    several,
    to_json,
    verbose_option,
)
from specplan.ranges import OutputFile

if TYPE_CHECKING:
    from specplan.show.page import Report
    from specplan.show.result import Result

__all__ = ["Printed", "command_line", "report_option", "result_options", "save", "versions", "words_given"]

F = TypeVar("F", bound=Callable[..., Any])
Printed = tuple[str, dict[str, Any], int]
"""A text, the same as plain data, and the exit code."""

_PLACE: Final = re.compile(r"(\w+://)[^@/\s]*@")
"""The user and the password of an address."""
_QUESTION: Final = re.compile(r"(\w+://[^?\s]*)\?[^#\s]*")
"""An address with the query after it, which may hold keys; what follows ``#`` is the name of a model."""

report_option: Callable[[F], F] = click.option(
    "--report",
    type=OutputFile(".html", ".md"),
    help="Also write a report: a self-contained HTML file, or Markdown, by the file's ending.",
)


def result_options(
    *,
    verbose: bool = True,
    json: bool = True,
    report: bool = False,
    output: bool = True,
    journal: bool = False,
    instead: Callable[[Mapping[str, Any]], bool] = lambda options: False,
) -> Callable[[Callable[..., Result | Iterator[Result] | Printed | str]], Callable[..., None]]:
    """Return what gives a command the options of a result, where wanted: -v, --report, --json, and -o with --force.

    The command returns the result, results of which each is better known than the one before (a terminal shows them in
    one place), what it prints without a result, or a text that is printed as it is. Its outputs are checked before it
    runs; then the (last) result is printed, its report saved, and the command ends as the result says
    (`specplan.show.result.Result.conclude`). Of a command with a ``journal`` next to its output a file gets the text of
    -v, and the journal is removed. ``instead`` writes something else where options say so, and returns whether it has.
    """

    def with_options(command: Callable[..., Result | Iterator[Result] | Printed | str]) -> Callable[..., None]:
        @wraps(command)
        def printed(*arguments: Any, output: Path | None = None, force: bool = False, **options: Any) -> None:
            if instead(click.get_current_context().params):
                return
            own = {name: options.pop(name) for name in ("verbose", "as_json", "report") if name in options}
            check_output(output, force=force)
            result = command(*arguments, **options)
            if isinstance(result, str):
                deliver(result, output)
                return
            if isinstance(result, tuple):
                text, data, code = result
                deliver(to_json(data) if own["as_json"] else text, output)
                click.get_current_context().exit(code)
            if isinstance(result, Iterator):
                terminal = sys.stdout is not None and sys.stdout.isatty()
                result = _last(result, shown=terminal and output is None and not own.get("as_json"))
            kept = None if output is None or not journal else journal_of(output)
            parts = result.parts(verbose=own.get("verbose", False) or kept is not None)
            deliver(to_json(result.plain()) if own.get("as_json") else parts, output)
            if own.get("report") is not None:
                save(own["report"], result.report())
            if kept is not None:
                kept.unlink(missing_ok=True)
            result.conclude()

        every = ((verbose, verbose_option), (report, report_option), (json, json_option), (output, output_options))
        return all_of(*(option for wanted, option in every if wanted))(printed)

    return with_options


def _last(results: Iterator[Result], *, shown: bool) -> Result:
    """The last of some results; a terminal shows the first part of each in the place of the one before."""
    back = ""
    for result in results:
        if shown:
            width, height = shutil.get_terminal_size()
            lines = next(result.parts()).splitlines()[: height - 1]
            click.echo(back, nl=False)
            deliver("\n".join(lines), None)
            rows = sum(max(-(-len(line) // width), 1) for line in lines)
            back = f"\x1b[{rows}F\x1b[J"  # up to the first of them, and clear what follows
    click.echo(back, nl=False)
    return result


def save(path: Path, report: Report) -> None:
    """Write a report atomically, as Markdown if its name ends in .md, else as HTML."""
    from calibrate.record.files import write_atomically
    from specplan.show.rendering import as_html, as_markdown

    made = [*report.made, *versions()]
    write = as_markdown if path.suffix.lower() == ".md" else as_html
    write_atomically(path, write(report, made, command_line(click.get_current_context(silent=True))))


def versions() -> list[tuple[str, str]]:
    """Return the versions of the software behind the numbers."""
    from importlib.metadata import version

    from specplan.version import __version__

    needed = [(name, version(name)) for name in ("numpy", "scipy", "simpy")]
    return [("specplan", __version__), ("Python", platform.python_version()), *needed]


def command_line(context: click.Context | None) -> str:
    """Return the command as it was given, without users, passwords and queries in addresses."""
    return "" if context is None else shlex.join([*context.command_path.split(), *words_given(context)])


def words_given(context: click.Context, without: Container[str] = ()) -> list[str]:
    """Return the options of a command as they were given, then its arguments, but for some parameters."""
    options: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in without or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params.get(name)
        if isinstance(parameter, click.Argument):
            arguments += map(_shown, several(value))
        elif not (isinstance(parameter, click.Option) and parameter.is_flag):
            options += [word for one in several(value) for word in (max(parameter.opts, key=len), _shown(one))]
        elif value is True or value == parameter.flag_value:
            options.append(max(parameter.opts, key=len))
        elif value is False:
            options += parameter.secondary_opts[:1]
    return options + arguments


def _shown(value: Any) -> str:
    return _QUESTION.sub(r"\1", _PLACE.sub(r"\1", str(value)))
