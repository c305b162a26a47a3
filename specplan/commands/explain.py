"""``specplan explain``: why a server that speculates is slow, and what to set, from its metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from specplan.output import (
    InputName,
    check_output,
    deliver,
    json_option,
    output_options,
    refuse_unused,
    to_json,
    verbose_option,
)
from specplan.ranges import GPUS, SEED, SHARE, TOKENS, Number, WholeNumber
from specplan.show.saving import report_option, save
from theory.errors import ParameterError

__all__ = ["command"]

_OF_SERVERS: Final = ("baseline", "k", "chunk", "target", "draft", "eagle", "gpu", "tp", "method", "seed")
"""Options that say something of a server that speculates on tokens."""


@click.command(name="explain")
@click.argument("sources", nargs=-1, required=True, type=InputName())
@click.option(
    "--baseline",
    type=InputName(lists=True),
    multiple=True,
    metavar="FILE[,FILE]",
    help="Metrics of the same server without speculation or with another k, at the same load: since its start, or "
    "between two readings. Or what `vllm bench serve --save-detailed` wrote of it. Repeatable.",
)
@click.option(
    "--for",
    "seconds",
    type=Number(1.0, 86_400.0),
    default=60.0,
    show_default=True,
    help="Watch a live server so long, s.",
)
@click.option("--k", type=WholeNumber(1, 64), help="Tokens drafted per round, where the server does not tell (SGLang).")
@click.option("--chunk", type=TOKENS, default=8192, show_default=True, help="Its --max-num-batched-tokens.")
@click.option("--target", help="Name of the target model: with --gpu, the costs of a round are modelled.")
@click.option("--draft", help="Name of the model that drafts.")
@click.option("--eagle", help="Name of the EAGLE head that drafts; 'trained': one of the usual size; 'mtp'.")
@click.option("--gpu", help="GPU of the target, e.g. H100.")
@click.option("--tp", type=GPUS, default=1, show_default=True, help="GPUs that share the target.")
@click.option("-p", "--profile", type=InputName(), help="Say what moved from what this profile predicts, too.")
@click.option("--method", help="Token-level method of the server, where the profile has several with its k.")
@click.option("--plan", type=InputName(), help="What a gateway runs: the plan it was started with.")
@click.option(
    "--false-alarm",
    type=SHARE,
    default=0.05,
    show_default=True,
    help="Probability of saying that something moved while everything is as predicted.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the draws behind intervals.")
@verbose_option
@report_option
@json_option
@output_options
def command(
    sources: tuple[str, ...],
    verbose: bool,
    report: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    **asked: Any,
) -> None:
    """Say why a server that speculates is slow, which k would be best, and what moved from a profile's predictions.

    SOURCES: files with what GET /metrics of a vLLM (V1) or SGLang server said, at least two in order of time, or the
    server's URL, which is then read for --for seconds. Of a gateway (specplan serve) it says, with --profile, what
    moved.
    """
    check_output(output, force=force)
    if not any("://" in source for source in sources):
        refuse_unused(("seconds",), "with files: it is for a live server")
    if asked["profile"] is None:
        refuse_unused(("false_alarm",), "without --profile")
    if asked["gpu"] is None and asked["target"] is None:
        refuse_unused(("tp",), "without --target and --gpu")
    from specplan.api.explaining import explain

    found = explain(sources, **asked)
    if found.explanation is None:
        refuse_unused(_OF_SERVERS, "with the metrics of a gateway")
    if report is not None:
        if found.explanation is None:
            raise ParameterError("--report", str(report), "has no use with the metrics of a gateway: leave it out")
        from specplan.show.explanations import explanation_report

        save(report, explanation_report(found.explanation))
    deliver(to_json(found.plain()) if as_json else found.text(verbose=verbose), output)
