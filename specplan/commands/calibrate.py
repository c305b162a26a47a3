"""``specplan calibrate``: measure a set of models on an engine and write a profile."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.calibrating import conclude, effort_options, measure, most_answers, stopping_rule
from specplan.commands.calibrate_options import json_object, local_models, output_file, sampling
from specplan.commands.calibrate_vllm import vllm_command
from specplan.output import check_output
from theory.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from calibrate.measuring.measure import Problem
    from calibrate.models.local import ModelSet

__all__ = ["command", "measure_local", "read_prompts"]


@click.group(name="calibrate")
def command() -> None:
    """Measure a set of models and write a profile."""


command.add_command(vllm_command)


@command.command(name="torch")
@local_models
@click.option(
    "--token-draft",
    metavar="PATH|none",
    help="Model that drafts tokens in the target's engine. Default: the draft, if it has the target's tokenizer.",
)
@click.option("--prompts", type=click.Path(path_type=Path), help='JSONL file with one {"prompt": ...} a line.')
@effort_options
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:N.")
@click.option("--dtype", default="float32", show_default=True, help="float32, bfloat16 or float16.")
@click.option("--target-core", type=int, help="CPU core for the target's process. Default: the first.")
@click.option("--draft-core", type=int, help="CPU core for the draft's process. Default: the second.")
@sampling
@output_file
def torch_command(
    prompts: Path | None,
    answers: int | None,
    effort: str | None,
    precision: float | None,
    allow_noise: bool,
    name: str,
    output: Path,
    force: bool,
    **options: Any,
) -> None:
    """Measure local models with torch, each in a process of its own.

    Stops as soon as the speedup that would be planned is known precisely enough. What is finished is kept in
    OUTPUT.part: the same command goes on where an interrupted one stopped.
    """
    check_output(output, force=force)
    from calibrate.models.local import ModelSet

    asked = (answers, effort, precision)
    measure_local(ModelSet(**options), prompts, asked, name=name, output=output, allow_noise=allow_noise)


def measure_local(
    models: ModelSet,
    prompts: Path | None,
    asked: tuple[int | None, str | None, float | None],
    *,
    name: str,
    output: Path,
    allow_noise: bool,
) -> None:
    """Carry out the calibration of models that run here, in whichever engine; ``asked``: answers, effort, precision."""
    from calibrate.measuring.session import Plan
    from calibrate.models.local import bundled_problems, bundled_truth

    answers, effort, precision = asked
    n = most_answers(effort, answers, precision)
    if prompts is None and not models.is_bundled:
        raise ParameterError(
            "prompts", None, "must name a JSONL file of questions, unless the bundled pair is measured"
        )
    problems = bundled_problems(n, models.seed, "calibration") if prompts is None else read_prompts(prompts, n)
    plan = Plan(
        models=models,
        problems=tuple(problems),
        truth=bundled_truth() if prompts is None else None,
        token=models.token_settings(),
        stopping=stopping_rule(effort, answers, precision, problems),
        name=name or output.stem,
        command=" ".join(["specplan", *sys.argv[1:]]),
    )
    conclude(measure(plan, output), output, allow_noise=allow_noise)


@command.command(name="openai")
@click.option("--target", required=True, metavar="URL[#MODEL]", help="Server of the target model.")
@click.option("--draft", required=True, metavar="URL[#MODEL]", help="Server of the draft model.")
@click.option("--judge", default="", metavar="URL[#MODEL]", help="Server of the judge. Default: the target judges.")
@click.option("--api-key-env", default="", metavar="NAME", help="Environment variable that holds the API key.")
@click.option("--timeout", "timeout_s", type=float, default=120.0, show_default=True, help="Longest silence, s.")
@click.option("--patience", type=float, default=60.0, show_default=True, help="Go on trying a server that fails, s.")
@click.option(
    "--speculative",
    "speculative",
    nargs=2,
    multiple=True,
    metavar="URL[#MODEL] JSON",
    help="A server of the target that speculates, and its speculative configuration as vLLM writes it; repeatable.",
)
@click.option("--concurrency", default="1,2,3,4,6,8", show_default=True, help="Requests side by side, to be timed.")
@click.option("--prompts", required=True, help="JSONL file with one {\"prompt\": ...} a line, or 'bundled'.")
@effort_options
@click.option("--gate/--no-gate", default=True, show_default=True, help="Ask the draft for its confidence too.")
@click.option("--max-steps", type=int, default=64, show_default=True, help="An answer is ended there.")
@sampling
@output_file
def openai_command(
    speculative: tuple[tuple[str, str], ...],
    concurrency: str,
    patience: float,
    prompts: str,
    answers: int | None,
    effort: str | None,
    precision: float | None,
    allow_noise: bool,
    name: str,
    output: Path,
    force: bool,
    **options: Any,
) -> None:
    """Measure models on running OpenAI-compatible servers (vLLM, SGLang, TGI, ...).

    The servers should have nothing else to do. Stops as soon as the speedup that would be planned is known precisely
    enough. What is finished is kept in OUTPUT.part: the same command goes on where
    an interrupted one stopped. The API key is read from the environment and written nowhere.
    """
    check_output(output, force=force)
    from calibrate.measuring.measure import MeasureOptions
    from calibrate.measuring.session import Plan
    from calibrate.models.local import BUNDLED, bundled_problems, bundled_truth
    from calibrate.models.servers import RemoteModels

    n = most_answers(effort, answers, precision)
    bundled = prompts == BUNDLED
    models = RemoteModels(
        task=BUNDLED if bundled else "general", speculative=_speculating_servers(speculative), **options
    )
    problems = bundled_problems(n, models.seed, "calibration") if bundled else read_prompts(Path(prompts), n)
    plan = Plan(
        models=models,
        problems=tuple(problems),
        truth=bundled_truth() if bundled else None,
        engine=MeasureOptions(batches=_integers("concurrency", concurrency)),
        token=models.token_settings(),
        stopping=stopping_rule(effort, answers, precision, problems),
        patience_s=patience,
        name=name or output.stem,
        command=" ".join(["specplan", *sys.argv[1:]]),
    )
    conclude(measure(plan, output), output, allow_noise=allow_noise)


def _speculating_servers(given: tuple[tuple[str, str], ...]) -> str:
    """Servers and their configurations as one JSON list, as `RemoteModels.speculative` has it; empty without any."""
    found = [{"server": server, **json_object("speculative", text)} for server, text in given]
    return json.dumps(found) if found else ""


def _integers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise ParameterError(name, text, "must be comma-separated integers >= 1, e.g. 1,2,4") from None


def read_prompts(path: Path, n: int) -> list[Problem]:
    """Read the first ``n`` questions of a JSONL file.

    Raises
    ------
    SchemaError : the file cannot be read, holds fewer than two questions, or a line is not ``{"prompt": text}``.
    """
    from calibrate.measuring.measure import Problem

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
