"""``specplan calibrate``: measure a set of models on an engine and write a profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from specplan.calibrating import calibrate, effort_options
from specplan.commands.calibration.options import (
    ROLES,
    load_options,
    loads,
    local_models,
    on_gpus,
    output_file,
    sampling,
    timing_options,
    timings,
)
from specplan.commands.calibration.servers import placements, servers_script
from specplan.output import check_output, refuse_unused
from specplan.ranges import ANSWERS, CORES, SECONDS, InputName, Number, WholeNumber

__all__ = ["command"]

_BATCHES: Final = (1, 2, 3, 4, 6, 8)
"""Batch sizes at which servers are timed with random prompts, as far as the named loads reach."""


@click.group(name="calibrate")
def command() -> None:
    """Measure a set of models and write a profile."""


@command.command(name="torch")
@local_models
@click.option(
    "--token-draft",
    type=InputName(),
    metavar="PATH|none",
    help="Model that drafts tokens in the target's engine. Default: the draft, if it has the target's tokenizer.",
)
@click.option("--prompts", type=click.Path(path_type=Path), help='JSONL file with one {"prompt": ...} a line.')
@timings
@effort_options
@click.option(
    "--device",
    default="cpu",
    help="cpu, cuda or cuda:N; cuda:0,cuda:1: the target on the first, draft and judge on the second.",
)
@click.option("--dtype", default="float32", help="float32, bfloat16 or float16.")
@click.option(
    "--max-context",
    type=WholeNumber(256, 1_000_000),
    help="Most tokens of a sequence. Default: the models' limit, up to 4096.",
)
@click.option(
    "--candidates",
    type=WholeNumber(0, 8),
    default=8,
    help="Steps drawn at every position for methods that choose among candidates; this takes most of the time. 0: "
    "without these methods.",
)
@click.option(
    "--token-answers",
    "n_token_answers",
    type=ANSWERS,
    help="Questions to answer with every token-level method too. Default: as many as make 480 runs, 40 at least.",
)
@click.option(
    "--timings-share",
    type=Number(0.0, 10.0, ends="(]"),
    help="With -n: stop timing engines once that adds less to the speedup's uncertainty than this share of what the "
    "answers add, e.g. 0.33. Default: all rounds.",
)
@click.option("--target-core", type=CORES, help="CPU core for the target's process. Default: the first.")
@click.option("--draft-core", type=CORES, help="CPU core for the draft's process. Default: the second.")
@sampling
@output_file
def torch_command(contexts: str | None, force: bool, **options: Any) -> None:
    """Measure local models with torch, each in a process of its own.

    Stops as soon as the planned speedup is known to the wanted precision. Finished parts are kept in OUTPUT.part: the
    same command continues an interrupted one.
    """
    check_output(options["output"], force=force)
    from calibrate.models.local import TorchModels

    calibrate(TorchModels, **options, **timing_options(contexts))


@command.command(name="vllm")
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
@click.option("--device", default="cpu", help="cpu or cuda, as vLLM was built.")
@on_gpus("engines, with --device cuda")
@click.option("--dtype", default="float32", help="float32, bfloat16 or float16.")
@click.option("--eager/--compile", default=True, help="Run models as they are, or compile them.")
@click.option(
    "--gpu-memory-utilization",
    type=Number(0.0, 1.0, ends="(]"),
    default=0.28,
    help="Share of a GPU's memory for each engine.",
)
@click.option("--target-core", type=CORES, help="CPU core for the target's model. Default: the first.")
@click.option("--draft-core", type=CORES, help="CPU core for the draft's model. Default: the second.")
@sampling
@output_file
def vllm_command(
    speculative: tuple[str, ...], concurrency: str | None, contexts: str | None, force: bool, **options: Any
) -> None:
    """Measure local models in vLLM, in process, plain and with token-level speculation.

    Starts an engine for each model, and one for each speculative configuration of the target. Stops as soon as the
    speedup that would be planned is known precisely enough. What is finished is kept in OUTPUT.part: the same command
    goes on where an interrupted one stopped.
    """
    check_output(options["output"], force=force)
    from calibrate.models.vllm import VllmModels
    from calibrate.record.json_text import json_object

    configurations = [json_object("speculative-config", text) for text in speculative]
    options["speculative"] = json.dumps(configurations, sort_keys=True) if configurations else ""
    calibrate(VllmModels, loads=load_options(concurrency), **options, **timing_options(contexts))


@command.command(name="openai")
@click.option("--target", required=True, metavar="URL[#MODEL]", help="Server of the target model.")
@click.option(
    "--draft",
    default="",
    show_default=False,
    metavar="URL[#MODEL]",
    help="Server of the draft model. Without it only the target is measured, for token-level methods (--speculative).",
)
@click.option(
    "--judge",
    default="",
    show_default=False,
    metavar="URL[#MODEL]",
    help="Server of the judge. Default: the target judges.",
)
@click.option(
    "--api-key-env", default="", show_default=False, metavar="NAME", help="Environment variable that holds the API key."
)
@click.option("--timeout", "timeout_s", type=SECONDS, default=120.0, help="Longest silence of a server, s.")
@click.option(
    "--patience",
    "patience_s",
    type=Number(0.0, 1e6),
    default=60.0,
    help="Time for which a failing server is tried again, s.",
)
@click.option(
    "--speculative",
    "speculative",
    nargs=2,
    multiple=True,
    metavar="URL[#MODEL] JSON",
    help="A server of the target that speculates, and its speculative configuration as vLLM writes it; repeatable.",
)
@placements
@loads
@timings
@click.option(
    "--prompts", type=InputName(), required=True, help="JSONL file with one {\"prompt\": ...} a line, or 'bundled'."
)
@click.option(
    "--chat", is_flag=True, help="Send prompts as a user's message, by the chat template of the target's server (vLLM)."
)
@click.option(
    "--template-kwargs",
    default="",
    show_default=False,
    metavar="JSON",
    help='Settings of that template, e.g. {"enable_thinking": false}.',
)
@effort_options
@click.option("--gate/--no-gate", default=True, help="Ask the draft for its confidence too.")
@click.option("--max-steps", type=WholeNumber(1, 100_000), default=64, help="Most steps of an answer; it ends there.")
@sampling
@output_file
def openai_command(
    speculative: tuple[tuple[str, str], ...],
    concurrency: str | None,
    contexts: str | None,
    prompts: str,
    force: bool,
    print_servers: bool,
    cache_gb: float | None,
    synthetic: str | None,
    **options: Any,
) -> None:
    """Measure models on running OpenAI-compatible servers (vLLM, SGLang, TGI, ...).

    The servers should have no other load. Stops as soon as the planned speedup is known to the wanted precision.
    Finished parts are kept in OUTPUT.part: the same command continues an interrupted one. The API key is read from the
    environment and written nowhere.
    """
    gpus = {role: options.pop(f"{role}_gpus") for role in ROLES}
    if print_servers:
        models = {role: options[role] for role in ROLES}
        script = servers_script(models, gpus, speculative, cache_gb=cache_gb, synthetic=synthetic)
        click.echo(script, nl=False)
        return
    refuse_unused([*(f"{role}_gpus" for role in ROLES), "cache_gb", "synthetic"], "without --print-servers")
    check_output(options["output"], force=force)
    from calibrate.models.asking import BUNDLED
    from calibrate.models.servers import RemoteModels
    from calibrate.record.json_text import json_object

    bundled, loads = prompts == BUNDLED, load_options(concurrency)
    batches = [batch for batch in _BATCHES if batch <= max(loads.levels, default=_BATCHES[-1])]
    drafting = [{"server": server, **json_object("speculative", text)} for server, text in speculative]
    options |= {"task": BUNDLED if bundled else "general", "speculative": json.dumps(drafting) if drafting else ""}
    options |= {"prompts": None if bundled else Path(prompts), "loads": loads}
    calibrate(RemoteModels, **options, **timing_options(contexts, batches=tuple(batches)))
