"""What ``specplan calibrate`` does whatever the engine: how much effort, how precise, live progress, and the end."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from specplan.log_lines import lines_on_log
from specplan.output import all_of, deliver, journal_of
from specplan.ranges import ANSWERS, SHARE, WholeNumber
from theory.errors import CalibrationError, ParameterError, UnstableMeasurementError

if TYPE_CHECKING:
    from calibrate.measuring.plan import CalibrationPlan, MeasurableModels
    from calibrate.measuring.stopping import Status, Stopping
    from calibrate.record.profile import Profile

__all__ = [
    "EFFORTS",
    "Effort",
    "calibrate",
    "conclude",
    "effort_options",
    "finished",
    "measured",
    "plan_of",
    "resumable",
    "warn_of_clear_key",
]

T = TypeVar("T")

EFFORTS: Final = {"quick": (0.10, 8, 16), "normal": (0.05, 24, 60), "precise": (0.02, 60, 240)}
"""Precision to reach, answers at least and at most."""
_TEXTS: Final = {"quick": (48, 30.0), "normal": (192, 120.0), "precise": (768, 600.0)}
"""Answers that a server writes first, many at once and without timing, at most, and no more after so many seconds."""
_FEWER: Final = 0.5
"""Answers to time at least / those without such texts: timings differ less from answer to answer than texts, [-]."""
_MOST_ANSWERS: Final = 600
"""Answers at most where a precision was named, but no number."""


def effort_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say how much to measure, as its ``effort``, and when to complain."""

    @wraps(command)
    def with_effort(
        *, answers: int | None, precision: float | None, effort: str | None, texts: int | None, **others: Any
    ) -> Any:
        return command(effort=Effort(named=effort, answers=answers, precision=precision, texts=texts), **others)

    return all_of(
        click.option(
            "-n", "--answers", type=ANSWERS, help="Questions to answer; at most so many if a precision is given."
        ),
        click.option(
            "--texts",
            type=WholeNumber(0, 10_000),
            help="Further questions, answered many at a time and not timed: for step lengths and acceptance. Default: "
            "0; on servers without -n 192, for two minutes at most (--quick 48, --precise 768).",
        ),
        click.option("--precision", type=SHARE, help="Stop at this half-width of the planned speedup, e.g. 0.05."),
        click.option("--quick", "effort", flag_value="quick", default=None, help="±10 % or 16 answers: a first look."),
        click.option(
            "--precise", "effort", flag_value="precise", default=None, help="±2 % or 240 answers. Default: ±5 % or 60."
        ),
        click.option("--allow-noise", is_flag=True, help="Exit 0 even if the machine was not steady."),
    )(with_effort)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to measure: as much as a name stands for, unless a number of answers or a precision is given."""

    named: str | None = None
    """``quick``, ``normal`` (also None) or ``precise``."""
    answers: int | None = None
    """Questions to answer, at least 2; with a precision at most so many."""
    precision: float | None = None
    """Half-width of the planned speedup at which to stop, a share of it in (0, 1)."""
    texts: int | None = None
    """Further questions to answer without timing, >= 0; as many as there are, where questions are few. None: where no
    number of answers is given and a server writes them, as many as the effort says."""

    def __post_init__(self) -> None:
        if self.answers is not None and self.answers < 2:
            raise ParameterError("answers", self.answers, "must be an integer >= 2")
        if self.texts is not None and self.texts < 0:
            raise ParameterError("texts", self.texts, "must be an integer >= 0")
        if self.precision is not None and not 0.0 < self.precision < 1.0:
            raise ParameterError("precision", self.precision, "must be a share in (0, 1), e.g. 0.05")

    @property
    def most_answers(self) -> int:
        """Questions that are needed at most."""
        if self.answers is not None:
            return self.answers
        return EFFORTS[self.named or "normal"][2] if self.precision is None else _MOST_ANSWERS

    def texts_of(self, models: MeasurableModels) -> tuple[int, float]:
        """Return how many answers to write first without timing, and after how many seconds to ask for no more."""
        if self.texts is None and self.answers is None and models.by_load:
            return _TEXTS[self.named or "normal"]
        return self.texts or 0, math.inf

    def stopping_rule(self, n: int, n_texts: int = 0) -> Stopping | None:
        """Return when to stop, of n questions at hand and after so many texts; None: when all are answered."""
        from calibrate.measuring.stopping import Stopping

        if self.answers is not None and self.precision is None:
            return None
        precision, least, _ = EFFORTS[self.named or "normal"]
        if n_texts >= least:
            least = round(_FEWER * least)
        return Stopping(precision=self.precision or precision, min_answers=min(least, n), max_answers=n, growth=1.4)


def calibrate(
    kind: Callable[..., MeasurableModels],
    *,
    effort: Effort,
    prompts: Path | None,
    name: str,
    output: Path,
    allow_noise: bool,
    **options: Any,
) -> None:
    """Measure models, write the profile to ``output``, and print what was measured; see `plan_of`, `conclude`.

    Parameters
    ----------
    kind : of models, made of those options that are no fields of `calibrate.measuring.plan.CalibrationPlan`.

    Raises
    ------
    SpecplanError : as `measured` and `conclude`, or no questions for models that are not the bundled pair.
    click.exceptions.Exit : with code 130, after Ctrl-C and a line that says how to go on.
    """
    from calibrate.measuring.plan import CalibrationPlan
    from specplan.show.saving import command_line

    given = command_line(click.get_current_context(silent=True))
    known = {one.name for one in fields(CalibrationPlan)}
    models = kind(**{option: value for option, value in options.items() if option not in known})
    of_plan = {option: value for option, value in options.items() if option in known}
    plan = plan_of(models, effort, prompts, name=name or output.stem, command=given, **of_plan)
    with resumable(journal_of(output)):
        profile = measured(plan, output)
    conclude(profile, output, allow_noise=allow_noise)


def plan_of(
    models: MeasurableModels, effort: Effort, prompts: Path | None, *, name: str, command: str, **options: Any
) -> CalibrationPlan:
    """Return what to measure; warn of an API key sent in clear.

    Parameters
    ----------
    prompts : JSONL file of questions; None: those of the bundled task, for the bundled pair.
    options : further fields of `calibrate.measuring.plan.CalibrationPlan`.

    Raises
    ------
    SpecplanError : no questions for models that are not the bundled pair, or questions that cannot be read.
    """
    from calibrate.measuring.plan import CalibrationPlan
    from calibrate.models.asking import bundled_problems, bundled_truth
    from calibrate.running.problem import read_prompts

    warn_of_clear_key(models)
    n = effort.most_answers
    if prompts is None and not models.is_bundled:
        raise ParameterError(
            "prompts", None, "must name a JSONL file of questions, unless the bundled pair is measured"
        )
    n_texts, texts_s = effort.texts_of(models)
    most = n + n_texts
    problems = bundled_problems(most, models.seed, "calibration") if prompts is None else read_prompts(prompts, most)
    return CalibrationPlan(
        models=models,
        problems=tuple(problems[:n]),
        texts=tuple(problems[n:]),
        texts_s=texts_s,
        truth=bundled_truth() if prompts is None else None,
        token=models.token_settings(),
        stopping=effort.stopping_rule(min(n, len(problems)), len(problems[n:])),
        name=name,
        command=command,
        **options,
    )


def warn_of_clear_key(models: object) -> None:
    """Say on stderr where an API key goes over plain http to another machine."""
    for host in getattr(models, "key_in_clear", ()):
        text = f"specplan: warning: the API key goes to {host} over plain http, where others can read it: use https"
        click.echo(text, err=True)


def measured(plan: CalibrationPlan, output: Path) -> Profile:
    """Carry out a calibration, write the profile to ``output``, and remove its journal.

    Raises
    ------
    SpecplanError : as `calibrate.measuring.calibration.calibrate_models`; what was finished stays in the journal.
    """
    from calibrate.measuring.calibration import calibrate_models
    from calibrate.models.servers import timeouts_as_such
    from specplan.planning.planned_speedup import PlannedSpeedup

    journal = journal_of(output)
    decides = plan.stopping is not None or plan.timings_share is not None
    precision = PlannedSpeedup() if decides else None
    with _live(plan) as watch, timeouts_as_such():
        profile = finished(calibrate_models(plan, journal, precision=precision, watch=watch))
    try:
        profile.write(output)
    except OSError as error:
        raise CalibrationError(
            f"{output}: cannot be written: {error.strerror}; all measurements are kept in {journal}, "
            "the same command writes the profile"
        ) from None
    journal.unlink(missing_ok=True)  # another process may have begun and ended in between
    return profile


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns; where a loop runs already, as in a notebook, from a thread of its own.

    >>> async def two():
    ...     return 2
    >>> finished(two())
    2
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


@contextmanager
def resumable(journal: Path | None) -> Iterator[None]:
    """Say how to go on where something is kept in a journal: on Ctrl-C, with code 130, and where an engine failed."""
    kept = f"; what is finished is kept in {journal}: the same command goes on from there"
    try:
        yield
    except KeyboardInterrupt:
        if journal is None:
            raise
        click.echo(f"specplan: interrupted{kept if journal.exists() else ' before anything was measured'}", err=True)
        raise click.exceptions.Exit(130) from None
    except CalibrationError as error:
        if journal is not None and journal.exists() and str(journal) not in str(error):
            error.args = (f"{error}{kept}",)
        raise


@contextmanager
def _live(plan: CalibrationPlan) -> Iterator[Callable[[Status], None]]:
    """Show parts done, time left and precision on stderr, on a log by lines from time to time."""
    if not sys.stderr.isatty():
        with lines_on_log(f"calibrating {plan.name}") as say:
            yield lambda status: say(_on_log(status, plan.stopping))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"calibrating {plan.name}", total=plan.n_parts, left="")
        yield lambda status: bar.update(
            task, completed=status.done, total=status.n_parts, left=progress_in_words(status, plan.stopping)
        )


def _on_log(status: Status, stopping: Stopping | None) -> str:
    rest = progress_in_words(status, stopping)
    return f"{status.done} of {status.n_parts} parts{', ' if rest else ''}{rest}"


def progress_in_words(status: Status, stopping: Stopping | None) -> str:
    """Time left and precision in a few words."""
    parts = []
    if status.seconds_left is not None:
        minutes, seconds = divmod(round(status.seconds_left), 60)
        parts.append(f"about {minutes}:{seconds:02d} left")
    if status.last_look is not None and stopping is not None:
        parts.append(f"speedup ±{status.last_look.widened:.1%}, wanted ±{stopping.precision:.1%}")
    return ", ".join(parts)


def conclude(profile: Profile, output: Path, *, allow_noise: bool) -> None:
    """Print what was measured, and warnings; complain if the machine was not steady.

    Raises
    ------
    UnstableMeasurementError : the sentinels say so, and that was not allowed; the profile is written.
    """
    from calibrate.measuring.noise import check_steadiness
    from calibrate.replay.summary import summarise

    noise = None
    try:
        check_steadiness({name: record.sentinels for name, record in profile.engines.items()})
    except UnstableMeasurementError as error:
        noise = error
    if noise is None or allow_noise:
        for note in profile.provenance.notes:
            if "warning" in note:
                click.echo(f"specplan: {note}", err=True)
    deliver("\n".join(summarise(profile)), None)
    if noise is not None and not allow_noise:
        raise UnstableMeasurementError(
            f"{noise}, or accept it with --allow-noise; {output} is written, with a warning", spread=noise.spread
        )
