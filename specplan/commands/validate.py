"""``specplan validate``: run a configuration for real beside its prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from specplan.output import (
    InputName,
    OutputFile,
    check_output,
    deliver,
    journal_of,
    json_option,
    output_options,
    progress,
    to_json,
    verbose_option,
)
from specplan.ranges import ANSWERS, SEED, WINDOW, ListOf, WholeNumber
from specplan.reports.saving import report_option, save
from theory.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrate.measuring.plan import MeasurableModels
    from calibrate.record.profile import Profile
    from sim.configuration import Configuration
    from specplan.planning.advice import Advice
    from specplan.validating.asked import Questions
    from specplan.validating.validation import Validation

__all__ = ["command", "run_under_load", "run_validation"]

_INSTEAD: Final = ("method", "settings", "k1_list", "token", "token_settings", "k2_list", "rules")
"""Parameters for which --run stands."""


@click.command(name="validate")
@click.option(
    "-p",
    "--profile",
    "profile_path",
    type=InputName(),
    required=True,
    help="The profile of the models, from 'calibrate'.",
)
@click.option("--method", default="lr-async", show_default=True, help="Comma-separated names, see 'specplan methods'.")
@click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="CONFIGURATION",
    help="A configuration as the table names it, e.g. 'lr-async k1=2 + prompt-lookup k2=4'; repeatable, and instead of "
    "--method and all its knobs.",
)
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="A knob of a single method; repeatable.")
@click.option(
    "--k1",
    "k1_list",
    type=ListOf(WINDOW),
    help="Comma-separated windows to run. Default 1,2,4 for LR, else the method's.",
)
@click.option("--token", help="Token-level method below a step-level one, see 'specplan methods'.")
@click.option("--token-set", "token_settings", multiple=True, metavar="KNOB=VALUE", help="A knob of --token.")
@click.option(
    "--k2",
    "k2_list",
    type=ListOf(WINDOW),
    help="Comma-separated numbers of tokens per target pass. Default the method's. Below step-level methods without "
    "--token they are prompt lookup's.",
)
@click.option("--rules", default="paper", show_default=True, help="Schedule: paper, released-code or eager.")
@click.option(
    "-n", "--answers", type=ANSWERS, default=40, show_default=True, help="Fresh questions, each run every way."
)
@click.option(
    "--prompts", type=click.Path(path_type=Path), help="JSONL file of fresh questions (not the bundled task)."
)
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of the questions and the order of runs.")
@click.option(
    "--timeline", type=OutputFile(".png", ".svg", ".pdf"), help="PNG or SVG: a simulated above a measured answer."
)
@click.option(
    "--concurrency",
    type=ListOf(WholeNumber(1, 4096)),
    metavar="N,N,...",
    help="Ask so many questions at once instead, e.g. 1,2,4,8, and compare loads.",
)
@click.option(
    "--rounds", type=WholeNumber(2, 1000), default=4, show_default=True, help="Rounds of questions, with --concurrency."
)
@verbose_option
@report_option
@json_option
@output_options
@click.pass_context
def command(
    context: click.Context,
    profile_path: str,
    method: str,
    runs: tuple[str, ...],
    settings: tuple[str, ...],
    k1_list: str | None,
    token: str | None,
    token_settings: tuple[str, ...],
    k2_list: str | None,
    rules: str,
    answers: int,
    prompts: Path | None,
    seed: int,
    timeline: Path | None,
    concurrency: str | None,
    rounds: int,
    verbose: bool,
    report: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Predict, then run for real, and compare.

    Opens the models that the profile was measured on, predicts each configuration from the profile, then answers fresh
    questions with plain decoding and with each configuration, interleaved. With -o OUTPUT, what is finished is kept in
    OUTPUT.part: the same command goes on where an interrupted one stopped.

    With --concurrency so many clients each take the next question when their last answer is there, in rounds of ANSWERS
    / ROUNDS questions; the same rounds are simulated before.
    """
    check_output(output, force=force)
    if runs and any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in _INSTEAD):
        raise ParameterError("run", runs[0], "names method and knobs itself: leave --method and its knobs out")
    from calibrate.record.library import load
    from specplan.calibrating import warn_of_clear_key
    from specplan.validating.asked import Below, configurations_of, named, to_ask

    profile = load(profile_path)
    windows = k1_list if k1_list is not None else "1,2,4" if method in ("lr-async", "lr-sync") else ""
    below = Below(token, token_settings, _counts("k2", k2_list or ""))
    configurations = named(runs) or configurations_of(method, settings, _counts("k1", windows), rules, below)
    models, questions = to_ask(profile, answers, prompts, seed)
    warn_of_clear_key(models)
    journal = None if output is None else journal_of(output)
    if concurrency is not None:
        if timeline is not None:
            raise ParameterError(
                "timeline", str(timeline), "is of one answer at a time: leave it out, or --concurrency"
            )
        loads = sorted(set(_counts("concurrency", concurrency)))
        told = run_under_load(
            *(profile, configurations, models, questions, loads, rounds, seed, journal), as_json=as_json, report=report
        )
    else:
        found = run_validation(profile, configurations, models, questions, seed, timeline, journal)
        from specplan.validating.text import as_text, first_screen, plain

        advice = _advice(profile, found)
        if as_json:
            told = to_json({**plain(found), "advice": advice.plain()})
        elif verbose or output is not None:
            told = "\n\n".join([first_screen(found), advice.text(), as_text(found)])
        else:
            told = first_screen(found)
    deliver(told, output)
    if report is not None and concurrency is None:
        from specplan.reports.validations import validation_report

        save(report, validation_report(found, advice))
    if journal is not None:
        journal.unlink(missing_ok=True)


def _advice(profile: Profile, found: Validation) -> Advice:
    """How to run the configuration that was measured to be the fastest."""
    from specplan.planning.advice import advise

    best = max(found.rows, key=lambda row: row.measured.speedup.value)
    return advise(profile, best.prediction.configuration)


def _counts(name: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")] if text else []
    except ValueError:
        raise ParameterError(name, text, "must be comma-separated integers >= 1, e.g. 1,2,4") from None


def run_validation(
    profile: Profile,
    configurations: Sequence[Configuration],
    models: MeasurableModels,
    questions: Questions,
    seed: int = 1,
    timeline: Path | None = None,
    journal: Path | None = None,
) -> Validation:
    """Predict and run; see `command` for the parameters."""
    import asyncio

    from calibrate.models.servers import timeouts_as_such
    from specplan.calibrating import resumable
    from specplan.validating.validation import predict_all, validate

    predictions = predict_all(profile, configurations)
    with (
        progress(f"validating {profile.name}", len(questions.problems) * (len(predictions) + 1)) as step_done,
        timeouts_as_such(),
        resumable(journal),
    ):
        found = asyncio.run(
            validate(
                profile,
                predictions,
                models,
                questions.problems,
                truth=questions.truth,
                source=questions.source,
                seed=seed,
                journal=journal,
                progress=lambda part: step_done(),
            )
        )
    if timeline is not None:
        _draw(profile, found, timeline)
    return found


def run_under_load(
    profile: Profile,
    configurations: Sequence[Configuration],
    models: MeasurableModels,
    questions: Questions,
    loads: Sequence[int],
    n_rounds: int,
    seed: int = 1,
    journal: Path | None = None,
    *,
    as_json: bool = False,
    report: Path | None = None,
) -> str:
    """Predict and run with many questions at once, and say it; see `command` for the parameters."""
    import asyncio

    from calibrate.models.servers import timeouts_as_such
    from specplan.calibrating import resumable
    from specplan.validating import load_text
    from specplan.validating.under_load import check_rounds, validate_under_load

    check_rounds(len(questions.problems), n_rounds, loads)
    parts = (len(configurations) + 1) * len(loads) * (n_rounds + 1)
    with progress(f"validating {profile.name}", parts) as step_done, timeouts_as_such(), resumable(journal):
        found = asyncio.run(
            validate_under_load(
                profile,
                configurations,
                models,
                questions.problems,
                loads,
                n_rounds=n_rounds,
                truth=questions.truth,
                source=questions.source,
                seed=seed,
                journal=journal,
                progress=lambda part: step_done(),
            )
        )
    if report is not None:
        from specplan.reports.validations import load_validation_report

        save(report, load_validation_report(found))
    return to_json(load_text.plain(found)) if as_json else load_text.as_text(found)


def _draw(profile: Profile, found: Validation, path: Path) -> None:
    """Draw the fastest configuration of which a run was done in this sitting."""
    from calibrate.record.files import replacing
    from specplan.validating.validation import draw_timelines

    rows = [row for row in found.rows if row.name in found.runs.sessions]
    if rows:
        with replacing(path) as temporary:
            draw_timelines(profile, found, max(rows, key=lambda row: row.measured.speedup.value), temporary)
    else:
        click.echo(f"specplan: {path} is not drawn: all runs were done before the interruption", err=True)
