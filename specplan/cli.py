"""The command line: one function per command in `specplan.commands`, imported when it is called.

Exit codes: 0 done, 1 failed, 2 wrong usage or wrong input, 3 measured but too noisy, 124 timed out, 130 interrupted
(Ctrl-C, or ended by SIGTERM or SIGHUP, as `kill`, batch systems and closed terminals do).
An expected failure is one line on stderr and never a traceback (with SPECPLAN_DEBUG set it is the traceback). With
``--json`` the line is one JSON object, also on stderr: stdout holds a result or nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from types import FrameType
from typing import Any, Final, NoReturn

import click

from specplan.ranges import typed
from specplan.version import __version__
from theory.errors import ParameterError, SchemaError, SpecplanError, UnstableMeasurementError, shown

__all__ = ["cli", "exit_code", "main"]

# Before numpy is imported: on arrays as small as ours the threads of its linear algebra wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Nothing here is a plugin of pydantic's, which would read a file of every installed package to find some.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# Commands draw into files only; the backend that somebody's notebook needs may not be there.
os.environ["MPLBACKEND"] = "agg"

_LONGEST_MESSAGE: Final = 1500

COMMANDS: Final = {
    "plan": ("specplan.commands.plan", "Rank methods and their knobs for a set of models."),
    "methods": ("specplan.commands.methods", "List the methods: papers, knobs, what is exact, what measured."),
    "simulate": ("specplan.commands.simulate", "Predict one configuration and draw its timeline."),
    "calibrate": ("specplan.commands.calibration.calibrate", "Measure a set of models and write a profile."),
    "sweep": ("specplan.commands.sweep", "Evaluate a grid of knobs, parameters and loads; draw it."),
    "validate": ("specplan.commands.validate", "Run a configuration for real and compare it with its prediction."),
    "serve": ("specplan.commands.serve", "Serve a plan: an OpenAI gateway in front of model servers."),
    "explain": ("specplan.commands.explain", "Say why a server that speculates is slow, and what to set."),
    "certify": ("specplan.commands.live.certify", "Test whether a server that speculates is lossless."),
    "thresholds": ("specplan.commands.thresholds", "Choose a verifier's threshold with a guarantee."),
    "acceptance": ("specplan.commands.acceptance", "Read, convert and write token acceptance figures."),
    "profile": ("specplan.commands.profile", "List, show, check and compare profiles."),
    "theorems": ("specplan.commands.theorems", "Check the papers' theorems by machine."),
    "reproduce": ("specplan.commands.reproduce", "Predict public measurements, and score the predictions."),
    "pair": ("specplan.commands.calibration.pair", "Make the bundled models as costly as published ones."),
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


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(__version__, prog_name="specplan", message="%(prog)s %(version)s")
def cli() -> None:
    """Plan speculative reasoning: which method, which depth, what speedup, and how sure.

    \b
    Start with one of these:
      specplan plan --target Qwen/Qwen3-32B --gpu H100
      specplan plan --profile lr-deepseek-gsm8k
      specplan demo
    """  # noqa: D301 - \b is click's mark of lines that stay as they are


def exit_code(error: BaseException) -> int:
    """Return the exit code of a failure (see the module's list)."""
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
    _reopen_closed()
    _end_by_signals_as_by_ctrl_c()
    try:
        status: Any = cli.main(args=None if argv is None else list(argv), prog_name="specplan", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (`specplan plan | head`), or stdout was closed from the start (`>&-`).
        _silence_stdout()
        sys.exit(1)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message(), err=True)
        sys.exit(2)
    except (Exception, KeyboardInterrupt) as error:  # the outermost frame: whatever comes here is said in one line
        if os.environ.get("SPECPLAN_DEBUG"):
            raise
        words = sys.argv[1:] if argv is None else argv
        options = words[: words.index("--") if "--" in words else None]
        text = _as_json(error, words) if "--json" in options else f"specplan: error: {_one_line(error, words)}"
        click.echo(text, err=True)
        if isinstance(error, OSError):
            _silence_stdout()
        sys.exit(exit_code(error))
    # click returns the code of ctx.exit() and --help as an integer, a command's own result otherwise
    sys.exit(status if isinstance(status, int) else 0)


def _end_by_signals_as_by_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP do what Ctrl-C does: engines end and what is measured is kept, where else neither is."""
    if threading.current_thread() is not threading.main_thread():
        return  # only there may handlers be set
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """What Ctrl-C does now: asyncio, while it runs, has a handler of its own; in the background none may be set."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


def _reopen_closed() -> None:
    """Give a closed stdin or stderr (`2>&-`) to nothing, so that no file that is opened later gets its number.

    A closed stdout stays None: that a result cannot be printed is a failure (`specplan.output.deliver`).
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = getattr(sys, name)
        if stream is not None:
            if mode == "w" and hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is no failure
            continue
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        if name != "stdout":
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115 (as long as the process)


def _silence_stdout() -> None:
    """Keep Python from complaining when it flushes at exit what could not be written."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_KNOWN_AS: Final = {
    "level": "risk",
    "n_answers": "answers",
    "n_rounds": "rounds",
    "batches": "concurrency",
    "draft_cost": "gate_cost",
    "speculative": "speculative-config",
    "path": "timeline",
}
"""Names of parameters within, and the options that set them, where a command has such an option."""
_OF_TORCH: Final = ("torch", "transformers", "tokenizers", "psutil")
"""Modules that a plain installation lacks, and the extra `torch` brings."""


def _as_typed(error: ParameterError, argv: Sequence[str]) -> str:
    """The error with the name of the option that the user typed, where it is about one."""
    command: click.Command = cli
    for word in argv:  # the command that was typed, as far as its name goes
        inner = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if inner is None:
            break
        command = inner
    named = _named(error.name, command) or _named(_KNOWN_AS.get(error.name, ""), command)
    if named is None or not any(name in argv for name in named.opts) or not _is_value_of(named, error.value, argv):
        named = _typed_for(error.value, command, argv) or named
    if named is None:
        return str(error)
    if error.value is None:  # nobody typed that
        return f"{typed(named)} {error.rule}"
    return typed(named) + str(error)[len(error.name) :]


def _named(name: str, command: click.Command) -> click.Parameter | None:
    """The option or argument of a command that sets a parameter of that name."""
    dashed = name.lstrip("-").replace("_", "-")
    as_typed = (one for one in command.params if dashed in [opt.lstrip("-") for opt in one.opts])
    return next(as_typed, next((one for one in command.params if one.name == name), None))


def _is_value_of(option: click.Parameter, value: object, argv: Sequence[str]) -> bool:
    """Whether a text, where it was typed at all, is what an option was given."""
    return value not in argv or any(pair[0] in option.opts and pair[1] == value for pair in pairwise(argv))


def _typed_for(value: object, command: click.Command, argv: Sequence[str]) -> click.Parameter | None:
    """The option or argument that a text was typed for; None: it was not typed."""
    if not isinstance(value, str) or not value or value not in argv:
        return None
    options = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag]
    option = next((one for one in options if _is_value_of(one, value, argv)), None)
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    if option is not None or not arguments:
        return option
    valued = {name for one in options for name in one.opts}
    words = [two for one, two in pairwise(["", *argv]) if one not in valued and (two == "-" or two[:1] != "-")]
    return arguments[max(words.index(value) - len(words), -len(arguments))]  # the last words are the arguments


def _one_line(error: BaseException, argv: Sequence[str]) -> str:
    """The error in one line that can be shown: no control characters, and not the whole of a long name."""
    return shown(" ".join(_message(error, argv).split()), _LONGEST_MESSAGE)


def _as_json(error: BaseException, argv: Sequence[str]) -> str:
    """The error as one JSON object in one line: exit code, kind, message, and the parameter and its rule if known."""
    known = error if isinstance(error, ParameterError) else None
    record = {
        "schema": "specplan.error",
        "schema_version": 1,
        "code": exit_code(error),
        "kind": type(error).__name__,
        "message": _one_line(error, argv),
        "parameter": None if known is None else known.name,
        "rule": None if known is None else shown(known.rule, _LONGEST_MESSAGE),
    }
    return json.dumps(record, sort_keys=True)


def _message(error: BaseException, argv: Sequence[str]) -> str:
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return "interrupted"
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        where = "specplan" if context is None else context.command_path
        hint = f" (see '{where} --help')" if isinstance(error, click.UsageError) else ""
        return shown(error.format_message().rstrip("."), 600) + hint
    if isinstance(error, SpecplanError):
        return _as_typed(error, argv) if isinstance(error, ParameterError) else str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{shown(str(error.filename))}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ModuleNotFoundError) and error.name in _OF_TORCH:
        return f"this needs {error.name}: pip install 'specplan[torch]'"
    return f"internal error, {type(error).__name__}: {error} (SPECPLAN_DEBUG=1 shows where)"
