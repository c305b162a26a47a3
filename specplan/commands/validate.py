"""``specplan validate``: predict configurations, run them on real engines, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specplan.output import is_typed, journal_of, refuse_unused
from specplan.ranges import ANSWERS, SEED, WINDOW, InputName, ListOf, OutputFile, WholeNumber, pairs
from specplan.show.saving import result_options
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.api.validating import Validated, ValidatedUnderLoad

__all__ = ["command"]

_INSTEAD: Final = ("method", "settings", "k1_list", "token", "token_settings", "k2_list", "rules")
"""Parameters that --run replaces."""
_MOVED: Final = "must be OLD=NEW, two addresses, e.g. http://a:8000/v1=http://b:8000/v1"


@click.command(name="validate")
@click.option(
    "-p",
    "--profile",
    "profile_path",
    type=InputName(),
    required=True,
    help="The profile of the models, from 'calibrate'.",
)
@click.option("--method", default="lr-async", help="Comma-separated names, see 'specplan methods'.")
@click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="CONFIGURATION",
    help="A configuration as named in the table, e.g. 'lr-async k1=2 + prompt-lookup k2=4'; repeatable. Replaces "
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
@click.option("--rules", default="paper", help="Schedule: paper, released-code or eager.")
@click.option(
    "-n",
    "--answers",
    "n_answers",
    type=ANSWERS,
    default=40,
    help="Fresh questions, each answered by every configuration.",
)
@click.option(
    "--plain-answers",
    type=WholeNumber(1, 1000),
    help="Answers of plain decoding to each question; their noise enters every speedup. Default: the root of the "
    "number of configurations, rounded.",
)
@click.option(
    "--prompts", type=click.Path(path_type=Path), help="JSONL file of fresh questions (not the bundled task)."
)
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="URL=URL",
    help="New address of a server that moved: the profile's URL = new URL; repeatable.",
)
@click.option("--seed", type=SEED, default=1, help="Of the questions and the order of runs.")
@click.option(
    "--timeline",
    type=OutputFile(".png", ".svg", ".pdf"),
    help="PNG, SVG or PDF: a simulated answer above a measured one.",
)
@click.option(
    "--concurrency",
    type=ListOf(WholeNumber(1, 4096)),
    metavar="N,N,...",
    help="Run with these numbers of concurrent clients, e.g. 1,2,4,8, and compare loads.",
)
@click.option("--rounds", type=WholeNumber(2, 1000), default=4, help="Rounds of questions, with --concurrency.")
@result_options(report=True, journal=True)
def command(
    profile_path: str,
    method: str,
    runs: tuple[str, ...],
    settings: tuple[str, ...],
    k1_list: str | None,
    token: str | None,
    token_settings: tuple[str, ...],
    k2_list: str | None,
    rules: str,
    plain_answers: int | None,
    servers: tuple[str, ...],
    timeline: Path | None,
    concurrency: str | None,
    rounds: int,
    **options: Any,
) -> Validated | ValidatedUnderLoad:
    """Predict configurations, run them on real engines, and compare.

    Opens the models that the profile was measured on, predicts each configuration from the profile, then answers fresh
    questions with plain decoding and with each configuration, interleaved. With -o OUTPUT, finished runs are kept in
    OUTPUT.part: the same command continues an interrupted one.

    With --concurrency, each client sends its next question when it has an answer, in rounds of ANSWERS / ROUNDS
    questions; the same rounds are simulated first.
    """
    if concurrency is not None:
        refuse_unused(("plain_answers", "timeline"), "with --concurrency")
    if runs and any(map(is_typed, _INSTEAD)):
        raise ParameterError("run", runs[0], "contains method and knobs: leave out --method and its knobs")
    from specplan.api.validating import validate, validate_under_load
    from specplan.calibrating import resumable
    from specplan.check.validating.questions import configurations_of

    windows = k1_list if k1_list is not None else "1,2,4" if method in ("lr-async", "lr-sync") else ""
    below: dict[str, Any] = {"rules": rules, "token": token, "token_settings": token_settings}
    configurations = runs or configurations_of(method, settings, _counts(windows), _counts(k2_list), **below)
    output = click.get_current_context().params["output"]
    journal = None if output is None else journal_of(output)
    options |= {"servers": pairs("server", servers, _MOVED), "journal": journal}
    with resumable(journal):
        if concurrency is not None:
            return validate_under_load(profile_path, configurations, _counts(concurrency), n_rounds=rounds, **options)
        validated = validate(profile_path, configurations, n_plain=plain_answers, **options)
    if timeline is not None and not validated.draw(timeline):
        click.echo(f"specplan: {timeline} is not drawn: all runs were done before the interruption", err=True)
    return validated


def _counts(text: str | None) -> list[int]:
    return [int(part) for part in text.split(",")] if text else []
