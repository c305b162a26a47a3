"""``specplan calibrate vllm``: measure a set of models on vLLM engines that the command starts and ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from specplan.calibrating import Effort, calibrate, effort_options
from specplan.commands.calibration.options import (
    json_object,
    load_options,
    loads,
    local_models,
    on_gpus,
    output_file,
    sampling,
    timing_options,
    timings,
)
from specplan.output import check_output
from specplan.ranges import CORES, Number

__all__ = ["vllm_command"]


@click.command(name="vllm")
@local_models
@click.option(
    "--speculative-config",
    "speculative",
    multiple=True,
    metavar="JSON",
    help="As for vLLM (prompt_lookup_min is 1 unless given); repeatable, with one model for each method. Default: "
    "n-grams, the draft as draft model, and the EAGLE head if there is one, 3 tokens each.",
)
@click.option("--prompts", type=click.Path(path_type=Path), help='JSONL file with one {"prompt": ...} a line.')
@loads
@timings
@effort_options
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda, as vLLM was built.")
@on_gpus("engines, with --device cuda")
@click.option("--dtype", default="float32", show_default=True, help="float32, bfloat16 or float16.")
@click.option("--eager/--compile", default=True, show_default=True, help="Run models as they are, or compile them.")
@click.option(
    "--gpu-memory-utilization",
    type=Number(0.0, 1.0, ends="(]"),
    default=0.28,
    show_default=True,
    help="Share of a GPU's memory for each engine.",
)
@click.option("--target-core", type=CORES, help="CPU core for the target's model. Default: the first.")
@click.option("--draft-core", type=CORES, help="CPU core for the draft's model. Default: the second.")
@sampling
@output_file
def vllm_command(
    speculative: tuple[str, ...],
    concurrency: str | None,
    contexts: str | None,
    prompts: Path | None,
    effort: Effort,
    allow_noise: bool,
    name: str,
    output: Path,
    force: bool,
    **options: Any,
) -> None:
    """Measure local models in vLLM, in process, plain and with token-level speculation.

    Starts an engine for each model, and one for each speculative configuration of the target. Stops as soon as the
    speedup that would be planned is known precisely enough. What is finished is kept in OUTPUT.part: the same command
    goes on where an interrupted one stopped.
    """
    check_output(output, force=force)
    from calibrate.models.vllm import VllmModels

    models = VllmModels(speculative=_configurations(speculative), **options)
    calibrate(
        models,
        effort,
        prompts,
        name=name,
        output=output,
        allow_noise=allow_noise,
        loads=load_options(concurrency),
        **timing_options(contexts),
    )


def _configurations(texts: tuple[str, ...]) -> str:
    """The configurations as a JSON list; an error names the configuration that is wrong."""
    configurations = [json_object("speculative-config", text) for text in texts]
    return json.dumps(configurations, sort_keys=True) if configurations else ""
