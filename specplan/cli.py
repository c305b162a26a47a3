"""The command line: one function per command in `specplan.commands`, imported when it is called.

Exit codes: 0 done, 1 failed, 2 wrong usage or wrong input, 3 measured but too noisy, 124 timed out, 130 interrupted.
An expected failure is one line on stderr and never a traceback (with SPECPLAN_DEBUG set it is the traceback).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from specplan import __version__
from theory.errors import ParameterError, SchemaError, SpecplanError, UnstableMeasurementError

__all__ = ["cli", "exit_code", "main"]

# Before numpy is imported: on arrays as small as ours the threads of its linear algebra wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS: Final = {
    "plan": ("specplan.commands.plan", "Rank methods and their knobs for a set of models."),
    "methods": ("specplan.commands.methods", "List the methods: papers, knobs, what is exact, what measured."),
    "simulate": ("specplan.commands.simulate", "Predict one configuration and draw its timeline."),
    "calibrate": ("specplan.commands.calibrate", "Measure a set of models and write a profile."),
    "validate": ("specplan.commands.validate", "Run a configuration for real beside its prediction."),
    "explain": ("specplan.commands.explain", "Say why a server that speculates is slow, and what to set."),
    "thresholds": ("specplan.commands.thresholds", "Choose a verifier's threshold with a guarantee."),
    "acceptance": ("specplan.commands.acceptance", "Read, convert and write token acceptance figures."),
    "profile": ("specplan.commands.profile", "List, show, check and compare profiles."),
    "theorems": ("specplan.commands.theorems", "Check the papers' theorems by machine."),
    "reproduce": ("specplan.commands.reproduce", "Predict public measurements, and score the predictions."),
    "demo": ("specplan.commands.demo", "Measure, plan, simulate and validate the bundled pair of models."),
}
"""Command -> (module with a click command named ``command``, one line of help). The help is here so that
``specplan --help`` imports none of the modules."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in the order of a user's work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; ``None`` if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest names near to what was typed."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="specplan", message="%(prog)s %(version)s")
def cli() -> None:
    """Plan speculative reasoning: which method, which depth, what speedup, and how sure.

    Start with `specplan profile list`, then `specplan plan --profile lr-deepseek-gsm8k`.
    """


def exit_code(error: BaseException) -> int:
    """Exit code of a failure (see the module's list)."""
    if isinstance(error, UnstableMeasurementError):
        return 3
    if isinstance(error, (ParameterError, SchemaError, click.UsageError)):
        return 2
    if isinstance(error, TimeoutError):
        return 124
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return 130
    return 1


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    try:
        status: Any = cli.main(args=None if argv is None else list(argv), prog_name="specplan", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (`specplan plan | head`). Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message(), err=True)
        sys.exit(2)
    except (Exception, KeyboardInterrupt) as error:  # the outermost frame: whatever comes here is told in one line
        if os.environ.get("SPECPLAN_DEBUG"):
            raise
        click.echo(f"specplan: error: {_one_line(error)}", err=True)
        sys.exit(exit_code(error))
    # click returns the code of ctx.exit() and --help as an integer, a command's own result otherwise
    sys.exit(status if isinstance(status, int) else 0)


def _one_line(error: BaseException) -> str:
    """The error in one line."""
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return "interrupted"
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        where = "specplan" if context is None else context.command_path
        hint = f" (see '{where} --help')" if isinstance(error, click.UsageError) else ""
        text = error.format_message().rstrip(".") + hint
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, SpecplanError):
        text = str(error)
    else:
        text = f"internal error, {type(error).__name__}: {error} (SPECPLAN_DEBUG=1 shows where)"
    return " ".join(text.split())
