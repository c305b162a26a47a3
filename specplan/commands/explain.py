"""``specplan explain``: why a server that speculates is slow, and what to set, from its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from specplan.output import refuse_unused
from specplan.ranges import GPUS, SEED, SHARE, TOKENS, InputName, Number, WholeNumber
from specplan.show.saving import result_options

if TYPE_CHECKING:
    from specplan.api.explaining import Explained

__all__ = ["command"]


@click.command(name="explain")
@click.argument("sources", nargs=-1, required=True, type=InputName())
@click.option(
    "--baseline",
    type=InputName(lists=True),
    multiple=True,
    metavar="FILE[,FILE]",
    help="Metrics of the same server without speculation or with another k, at the same load: since its start, or "
    "between two readings. Or the result of `vllm bench serve --save-detailed`. Repeatable.",
)
@click.option(
    "--for",
    "seconds",
    type=Number(1.0, 86_400.0),
    default=60.0,
    help="Time for which a live server is watched, s.",
)
@click.option(
    "--k", type=WholeNumber(1, 64), help="Tokens drafted per round, where the server does not report it (SGLang)."
)
@click.option("--chunk", type=TOKENS, default=8192, help="The server's --max-num-batched-tokens.")
@click.option(
    "--drafter",
    type=click.Choice(("chain", "dflash", "dspark")),
    default="chain",
    help="Block drafters, whose acceptance depends on the size of the block, or a chain of tokens.",
)
@click.option(
    "--adaptive",
    is_flag=True,
    help="The server runs with enable_adaptive_verification: it counts what its policy verified.",
)
@click.option("--target", help="Name of the target model: with --gpu, the times of a round are modelled.")
@click.option("--draft", help="Name of the model that drafts.")
@click.option("--eagle", help="Name of the EAGLE head that drafts; 'trained': a head of the usual size; or 'mtp'.")
@click.option("--gpu", help="GPU of the target, e.g. H100.")
@click.option("--tp", type=GPUS, default=1, help="GPUs that share the target.")
@click.option("-p", "--profile", type=InputName(), help="Also report what deviates from this profile's predictions.")
@click.option("--method", help="Token-level method of the server, where the profile has several with its k.")
@click.option(
    "--false-alarm",
    type=SHARE,
    default=0.05,
    help="Probability of reporting a deviation while everything is as predicted.",
)
@click.option("--seed", type=SEED, default=0, help="Seed of the intervals' random draws.")
@result_options(report=True)
def command(sources: tuple[str, ...], **options: Any) -> Explained:
    """Explain why a speculating server is slow, which k is best, and what deviates from a profile's predictions.

    SOURCES: files with the result of GET /metrics of a vLLM (V1), SGLang, TensorRT-LLM or llama.cpp server in order of
    time (a single file counts from the server's start), or the server's URL, which is then read for --for seconds.
    """
    if not any("://" in source for source in sources):
        refuse_unused(("seconds",), "with files: it is for a live server")
    if options["profile"] is None:
        refuse_unused(("false_alarm",), "without --profile")
    if options["gpu"] is None and options["target"] is None:
        refuse_unused(("tp",), "without --target and --gpu")
    from specplan.api.explaining import explain

    return explain(sources, **options)
