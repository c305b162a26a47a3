"""``specplan acceptance``: token acceptance read in one format, shown in every convention, written in another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from specplan.ranges import PARALLEL, InputName, WholeNumber
from specplan.show.saving import result_options
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.api.acceptance import Acceptance

__all__ = ["command"]

_READABLE = "auto, profile, curve, metrics, benchmark, vllm-dynamic, vllm-requests, lengths"


@click.command(name="acceptance")
@click.argument("sources", type=InputName(), nargs=-1, required=True, metavar="SOURCE...")
@click.option("--from", "source_format", default="auto", help=f"One of {_READABLE}.")
@click.option(
    "--to", "target_format", help="Write one of csv, vllm-dynamic, vllm-schedule, lengths instead of a table."
)
@click.option("--method", help="Method that drafted: mtp, eagle3, ngram, draft_model. Written to --json.")
@click.option("--k", type=WholeNumber(1, 64), help="Tokens drafted per round, if the metrics do not have it (SGLang).")
@click.option("--model", help="Model to read from a file of lengths, or its name in the file to write.")
@click.option("--mode", help="Mode to read from a file of lengths, or its name in the file to write.")
@click.option(
    "--max-batch", type=PARALLEL, help="Largest batch size of vllm-schedule. Default the largest measured one."
)
@result_options()
def command(
    sources: tuple[str, ...], source_format: str, target_format: str | None, max_batch: int | None, **options: Any
) -> Acceptance | str:
    """Read token acceptance from SOURCE, show it in every convention, or write it in another format.

    auto: a profile with counts per position, what --json or --to csv wrote, or what GET /metrics of vLLM, llama.cpp,
    TensorRT-LLM or SGLang says, from a file or the server's URL; two of these, the earlier one first: acceptance in
    the time between.
    Results of vllm bench, guidellm and AIPerf; records of requests; YAML of lengths. The result of --json goes to
    'specplan plan --acceptance'. vllm-dynamic: JSON with acceptance_rate_per_pos (unconditional) and
    batch_stats. vllm-requests: responses of a server started with --per-request-spec-decode-metrics, one or one to a
    line. lengths: YAML of mean acceptance lengths with the bonus token, {model: {mode: {K: length}}}.
    vllm-schedule: num_speculative_tokens_per_batch_size.
    """
    from sim.catalogue import choice
    from specplan.api.acceptance import FORMS, acceptance

    known = choice("from", source_format, FORMS)
    if max_batch is not None and target_format != "vllm-schedule":
        raise ParameterError("max-batch", max_batch, "needs --to vllm-schedule")
    result = acceptance(sources, form=known, **options)
    if target_format is None:
        return result
    model, mode = options["model"] or sources[0], options["mode"] or "default"
    return result.written(target_format, model=model, mode=mode, max_batch=max_batch)
