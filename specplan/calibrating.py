"""What ``specplan calibrate`` does whatever the engine: how much effort, how precise, live progress, and the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from specplan.output import deliver, journal_of
from theory.errors import CalibrationError, ParameterError, UnstableMeasurementError

if TYPE_CHECKING:
    from calibrate.measuring.measure import Problem
    from calibrate.measuring.session import Plan, Status
    from calibrate.measuring.stopping import Precision, Stopping
    from calibrate.record.profile import Profile
    from sim.configuration import Configuration
    from specplan.planning.predict import Predictor

__all__ = [
    "PlannedSpeedup",
    "conclude",
    "effort_options",
    "measure",
    "most_answers",
    "planned",
    "resumable",
    "stopping_rule",
]

F = TypeVar("F", bound=Callable[..., Any])

_EFFORTS: Final = {"quick": (0.10, 8, 16), "normal": (0.05, 24, 60), "precise": (0.02, 60, 240)}
"""Precision asked for, answers at least and at most."""

_MOST_ANSWERS: Final = 600
"""Answers at most where a precision was named, but no number."""

_SHORTLIST: Final = 5


def effort_options(command: F) -> F:
    """Give a command the options that say how much to measure, and when to complain."""
    options = (
        click.option("-n", "--answers", type=int, help="Answer so many questions; at most, if a precision is given."),
        click.option("--precision", type=float, help="Stop at this half-width of the planned speedup, e.g. 0.05."),
        click.option("--quick", "effort", flag_value="quick", help="±10 % or 16 answers: a first look."),
        click.option("--precise", "effort", flag_value="precise", help="±2 % or 240 answers. Default: ±5 % or 60."),
        click.option("--allow-noise", is_flag=True, help="Exit 0 even if the machine was not steady."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def most_answers(effort: str | None, answers: int | None, precision: float | None) -> int:
    """Return how many questions are needed at most.

    Raises
    ------
    ParameterError : fewer than 2, or a precision outside (0, 1).
    """
    if answers is not None and answers < 2:
        raise ParameterError("answers", answers, "must be an integer >= 2")
    if precision is not None and not 0.0 < precision < 1.0:
        raise ParameterError("precision", precision, "must be a share in (0, 1), e.g. 0.05")
    if answers is not None:
        return answers
    return _EFFORTS[effort or "normal"][2] if precision is None else _MOST_ANSWERS


def stopping_rule(
    effort: str | None, answers: int | None, precision: float | None, problems: Sequence[Problem]
) -> Stopping | None:
    """Return when to stop; None: when all problems are answered, because their number was given."""
    from calibrate.measuring.stopping import Stopping

    if answers is not None and precision is None:
        return None
    asked, least, _ = _EFFORTS[effort or "normal"]
    return Stopping(
        precision=precision or asked, min_answers=min(least, len(problems)), max_answers=len(problems), growth=1.4
    )


class PlannedSpeedup:
    """How well a growing profile knows the speedup of what would be planned with it.

    At the first look the planner ranks everything; from then on the best of its first five are compared again. What is
    best is chosen on the same data, so the speedup itself is a little optimistic; its half-width is not affected.
    """

    def __init__(self) -> None:
        self._shortlist: list[Configuration] = []

    def __call__(self, profile: Profile) -> Precision:
        """Return the precision of the best speculating configuration's speedup, by its sources.

        The Predictor's error has a part from few answers and one from few timings. Timings made in use grow with the
        answers: what remains of the second part with those taken as exact is what more timing rounds would narrow.
        """
        from calibrate.measuring.stopping import Precision
        from calibrate.replay.corruption import corruption
        from specplan.planning.predict import Predictor

        if not self._shortlist:
            self._shortlist = _ranked(profile)
        known = corruption(profile.answers)
        best = _best(Predictor(profile, uncertainty=False), self._shortlist)
        found = Predictor(profile).predict(best)
        sweep = Predictor(_in_use_as_exact(profile), corruption=known.value if known else None).predict(best)
        timings = min(sweep.errors["profile"], found.errors["profile"])
        answers = found.errors["sampling"] ** 2 + found.errors["profile"] ** 2 - timings**2
        return Precision(planned=best.name, speedup=found.speedup.value, answers=answers**0.5, timings=timings)


def planned(profile: Profile) -> Configuration:
    """Return the speculating configuration that would be planned with a profile."""
    from specplan.planning.predict import Predictor

    return _best(Predictor(profile, uncertainty=False), _ranked(profile))


def _ranked(profile: Profile) -> list[Configuration]:
    """The planner's first choices among what speculates."""
    from specplan.planning.planner import Request, plan

    rows = plan(profile, Request(n_answers=len(profile.answers))).rows
    found = [row.prediction.configuration for row in rows if row.prediction.configuration.speculates]
    return found[:_SHORTLIST]


def _best(predictor: Predictor, shortlist: Sequence[Configuration]) -> Configuration:
    """The fastest that costs no more accuracy than the planner allows by default."""
    from sim.configuration import Configuration
    from specplan.planning.planner import Request, accuracy_loss

    plain = predictor.predict(Configuration(method="autoregressive"))
    found = [predictor.predict(configuration) for configuration in shortlist]
    allowed = [p for p in found if accuracy_loss(p, plain) <= Request().max_accuracy_loss] or found
    return max(allowed, key=lambda p: p.speedup.value).configuration


def _in_use_as_exact(profile: Profile) -> Profile:
    """The profile with what engines did during the answers summed up to one entry, which resampling leaves alone."""
    from calibrate.measuring.engine_work import summed

    uses = ("in_use", "plain_in_use", "beam_in_use")
    engines = {
        name: record.model_copy(update={use: summed(getattr(record, use)) for use in uses})
        for name, record in profile.engines.items()
    }
    return profile.model_copy(update={"engines": engines})


def measure(plan: Plan, output: Path) -> Profile:
    """Carry out a calibration, write the profile to ``output``, and remove the journal beside it.

    Raises
    ------
    SpecplanError : as `calibrate.measuring.session.calibrate_models`; what was finished stays in the journal.
    click.exceptions.Exit : with code 130, after Ctrl-C and a line that says how to go on.
    """
    import asyncio

    from calibrate.measuring.session import calibrate_models
    from calibrate.models.servers import timeouts_as_such

    journal = journal_of(output)
    precision = None if plan.stopping is None else PlannedSpeedup()
    with resumable(journal), _live(plan) as watch, timeouts_as_such():
        profile = asyncio.run(calibrate_models(plan, journal, precision=precision, watch=watch))
    try:
        profile.write(output)
    except OSError as error:
        raise CalibrationError(
            f"{output}: cannot be written: {error.strerror}; all measurements are kept in {journal}, "
            "the same command writes the profile"
        ) from None
    journal.unlink()
    return profile


@contextmanager
def resumable(journal: Path | None) -> Iterator[None]:
    """End with code 130 on Ctrl-C, and a line that says how to go on, where something is kept in a journal."""
    try:
        yield
    except KeyboardInterrupt:
        if journal is None:
            raise
        click.echo(_how_to_go_on(journal), err=True)
        raise click.exceptions.Exit(130) from None


def _how_to_go_on(journal: Path) -> str:
    if not journal.exists():
        return "specplan: interrupted before anything was measured"
    return f"specplan: interrupted; what is finished is kept in {journal}: the same command goes on from there"


@contextmanager
def _live(plan: Plan) -> Iterator[Callable[[Status], None]]:
    """Show parts done, time left and precision on stderr; nothing when stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda status: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"calibrating {plan.name}", total=plan.n_parts, left="")
        yield lambda status: bar.update(
            task, completed=status.done, total=status.n_parts, left=told(status, plan.stopping)
        )


def told(status: Status, stopping: Stopping | None) -> str:
    """Time left and precision in a few words."""
    parts = []
    if status.seconds_left is not None:
        minutes, seconds = divmod(round(status.seconds_left), 60)
        parts.append(f"about {minutes}:{seconds:02d} left")
    if status.looked is not None and stopping is not None:
        parts.append(f"speedup ±{status.looked.widened:.1%}, asked for ±{stopping.precision:.1%}")
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
