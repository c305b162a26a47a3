"""``specplan calibrate``: measure a set of models on an engine and write a profile."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import check_output, deliver, progress
from theory.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from calibrate.measure import Problem
    from calibrate.profile import Profile
    from calibrate.session import Plan

__all__ = ["command", "measure", "read_prompts", "summary"]

_ANSWERS = {"quick": 16, "normal": 60, "precise": 240}


@click.group(name="calibrate")
def command() -> None:
    """Measure a set of models and write a profile."""


@command.command(name="torch")
@click.option("--target", default="bundled", show_default=True, help="Folder of the target model, or 'bundled'.")
@click.option("--draft", default="bundled", show_default=True, help="Folder of the draft model, or 'bundled'.")
@click.option("--judge", default="target", show_default=True, help="Folder of the judge, or 'target' or 'draft'.")
@click.option("--prompts", type=click.Path(path_type=Path), help='JSONL file with one {"prompt": ...} a line.')
@click.option("-n", "--answers", type=int, help="Questions to answer. Default by effort: 16, 60 or 240.")
@click.option("--quick", "effort", flag_value="quick", help="Fewer answers: a first look.")
@click.option("--precise", "effort", flag_value="precise", help="More answers: narrow intervals.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:N.")
@click.option("--dtype", default="float32", show_default=True, help="float32, bfloat16 or float16.")
@click.option("--target-core", type=int, help="CPU core for the target's process. Default: the first.")
@click.option("--draft-core", type=int, help="CPU core for the draft's process. Default: the second.")
@click.option("--temperature", type=float, default=0.6, show_default=True, help="Sampling temperature; 0 is greedy.")
@click.option("--top-p", type=float, default=0.95, show_default=True, help="Nucleus sampling, in (0, 1].")
@click.option("--max-step-tokens", type=int, default=100, show_default=True, help="A step is cut there.")
@click.option("--judge-threshold", type=float, default=0.5, show_default=True, help="Least P(yes) to accept a draft.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of questions and sampling.")
@click.option("--name", default="", help="Name of the profile. Default: the file's.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The profile to write.")
@click.option("--force", is_flag=True, help="Overwrite the profile if there is one.")
def torch_command(
    prompts: Path | None,
    answers: int | None,
    effort: str | None,
    name: str,
    output: Path,
    force: bool,
    **options: Any,
) -> None:
    """Measure local models with torch, each in a process of its own.

    What is finished is kept in OUTPUT.part: the same command goes on where an interrupted one stopped.
    """
    check_output(output, force=force)
    from calibrate.models import ModelSet, bundled_problems, bundled_truth
    from calibrate.session import Plan

    n = _ANSWERS[effort or "normal"] if answers is None else answers
    if n < 2:
        raise ParameterError("answers", n, "must be an integer >= 2")
    models = ModelSet(**options)
    if prompts is None and not models.is_bundled:
        raise ParameterError(
            "prompts", None, "must name a JSONL file of questions, unless the bundled pair is measured"
        )
    problems = bundled_problems(n, models.seed, "calibration") if prompts is None else read_prompts(prompts, n)
    plan = Plan(
        models=models,
        problems=tuple(problems),
        truth=bundled_truth() if prompts is None else None,
        name=name or output.stem,
        command=" ".join(["specplan", *sys.argv[1:]]),
    )
    deliver(summary(measure(plan, output)), None)


@command.command(name="openai")
@click.option("--target", required=True, metavar="URL[#MODEL]", help="Server of the target model.")
@click.option("--draft", required=True, metavar="URL[#MODEL]", help="Server of the draft model.")
@click.option("--judge", default="", metavar="URL[#MODEL]", help="Server of the judge. Default: the target judges.")
@click.option("--api-key-env", default="", metavar="NAME", help="Environment variable that holds the API key.")
@click.option("--timeout", "timeout_s", type=float, default=120.0, show_default=True, help="Longest silence, s.")
@click.option("--concurrency", default="1,2,3,4,6,8", show_default=True, help="Requests side by side, to be timed.")
@click.option("--prompts", required=True, help="JSONL file with one {\"prompt\": ...} a line, or 'bundled'.")
@click.option("-n", "--answers", type=int, help="Questions to answer. Default by effort: 16, 60 or 240.")
@click.option("--quick", "effort", flag_value="quick", help="Fewer answers: a first look.")
@click.option("--precise", "effort", flag_value="precise", help="More answers: narrow intervals.")
@click.option("--gate/--no-gate", default=True, show_default=True, help="Ask the draft for its confidence too.")
@click.option("--temperature", type=float, default=0.6, show_default=True, help="Sampling temperature; 0 is greedy.")
@click.option("--top-p", type=float, default=0.95, show_default=True, help="Nucleus sampling, in (0, 1].")
@click.option("--max-step-tokens", type=int, default=100, show_default=True, help="A step is cut there.")
@click.option("--max-steps", type=int, default=64, show_default=True, help="An answer is ended there.")
@click.option("--judge-threshold", type=float, default=0.5, show_default=True, help="Least P(yes) to accept a draft.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of questions and sampling.")
@click.option("--name", default="", help="Name of the profile. Default: the file's.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The profile to write.")
@click.option("--force", is_flag=True, help="Overwrite the profile if there is one.")
def openai_command(
    concurrency: str,
    prompts: str,
    answers: int | None,
    effort: str | None,
    name: str,
    output: Path,
    force: bool,
    **options: Any,
) -> None:
    """Measure models on running OpenAI-compatible servers (vLLM, SGLang, TGI, ...).

    The servers should have nothing else to do. What is finished is kept in OUTPUT.part: the same command goes on where
    an interrupted one stopped. The API key is read from the environment and written nowhere.
    """
    check_output(output, force=force)
    from calibrate.measure import MeasureOptions
    from calibrate.models import BUNDLED, bundled_problems, bundled_truth
    from calibrate.remote import RemoteModels
    from calibrate.session import Plan

    n = _ANSWERS[effort or "normal"] if answers is None else answers
    if n < 2:
        raise ParameterError("answers", n, "must be an integer >= 2")
    bundled = prompts == BUNDLED
    models = RemoteModels(task=BUNDLED if bundled else "general", **options)
    problems = bundled_problems(n, models.seed, "calibration") if bundled else read_prompts(Path(prompts), n)
    plan = Plan(
        models=models,
        problems=tuple(problems),
        truth=bundled_truth() if bundled else None,
        engine=MeasureOptions(batches=_integers("concurrency", concurrency)),
        name=name or output.stem,
        command=" ".join(["specplan", *sys.argv[1:]]),
    )
    profile = measure(plan, output)
    for note in profile.provenance.notes:
        if "warning" in note:
            click.echo(f"specplan: {note}", err=True)
    deliver(summary(profile), None)


def _integers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise ParameterError(name, text, "must be comma-separated integers >= 1, e.g. 1,2,4") from None


def measure(plan: Plan, output: Path) -> Profile:
    """Carry out a calibration, write the profile to ``output``, and remove the journal beside it.

    Raises
    ------
    SpecplanError : as `calibrate.session.calibrate_models`; what was finished stays in the journal.
    """
    import asyncio

    from calibrate.remote import timeouts_as_such
    from calibrate.session import calibrate_models

    journal = output.with_name(output.name + ".part")
    with progress(f"calibrating {plan.name}", plan.n_parts) as step_done, timeouts_as_such():
        profile = asyncio.run(calibrate_models(plan, journal, progress=lambda part: step_done()))
    profile.write(output)
    journal.unlink()
    return profile


def read_prompts(path: Path, n: int) -> list[Problem]:
    """Read the first ``n`` questions of a JSONL file.

    Raises
    ------
    SchemaError : the file cannot be read, holds fewer than two questions, or a line is not ``{"prompt": text}``.
    """
    from calibrate.measure import Problem

    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SchemaError(f"{path}: cannot be read as prompts: {reason}") from None
    problems: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or len(problems) == n:
            continue
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            raise SchemaError(f"{path}: line {number} is not JSON: {error.msg}") from None
        text = entry.get("prompt") if isinstance(entry, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise SchemaError(f'{path}: line {number} must be an object with a non-empty text "prompt"')
        problems.append(Problem(name=str(entry.get("id", f"line {number}")), prompt=text))
    if len(problems) < 2:
        raise SchemaError(f"{path}: holds {len(problems)} questions, at least 2 are needed")
    return problems


def summary(profile: Profile) -> str:
    """What was measured, in a few lines."""
    from calibrate.summary import summarise

    return "\n".join(summarise(profile))
