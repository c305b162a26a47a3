"""Options of ``specplan plan`` that say what is to be deployed: models by name, GPUs, sizes, load."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specplan.output import all_of
from specplan.ranges import (
    GPUS,
    MILLISECONDS,
    PROBABILITY,
    RATE,
    SECONDS,
    SPREAD,
    TOKENS,
    InputName,
    ListOf,
    Number,
    WholeNumber,
)
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.worlds.request import Limits, Load

__all__ = ["DEPLOYMENT", "LOADS", "bounds_of", "checked", "deployment_options", "loads_of"]

_WHAT = "name on the hub, config.json, or its folder"

LOADS: Final = {
    "concurrency": click.option(
        "--concurrency",
        type=ListOf(WholeNumber(1, 4096)),
        metavar="N,N,...",
        help="Answers in flight, one load each. Default 1 if no load is given.",
    ),
    "rate": click.option(
        "--rate", type=ListOf(RATE), metavar="R,R,...", help="Answers that arrive per second, one load each."
    ),
    "trace": click.option(
        "--trace",
        type=click.Path(path_type=Path),
        help="File of arrivals: Mooncake (JSONL), Azure (CSV), or specplan's own.",
    ),
}

DEPLOYMENT: Final = {
    "target": click.option("--target", type=InputName(), metavar="MODEL", help=f"The target, by {_WHAT}."),
    "draft": click.option(
        "--draft", type=InputName(), metavar="MODEL", help="The draft model. Default one of the target's family."
    ),
    "judge": click.option(
        "--judge",
        type=InputName(),
        metavar="MODEL",
        help="Model that compares drafted steps with the target's. Default the target.",
    ),
    "eagle": click.option(
        "--eagle",
        type=InputName(),
        metavar="MODEL",
        help="EAGLE head; 'mtp': the target's own layers; 'trained': one to be trained. Default a published one.",
    ),
    "block": click.option(
        "--block",
        type=InputName(),
        metavar="MODEL",
        help="Block drafter; 'dflash', 'dspark': one that you would train. Default a published one.",
    ),
    "gpus": click.option("--gpus", type=GPUS, help="GPUs in all. Default the fewest that hold the models."),
    "tp": click.option("--tp", type=GPUS, help="GPUs over which the target is split. Default the fastest split."),
    "placement": click.option(
        "--placement", help="Draft and judge: 'own' GPUs, 'shared' with the target, or 'any'. Default any."
    ),
    "precision": click.option("--precision", help="Weights: bf16, fp8, int4, mxfp4, ... Default as published."),
    "cache": click.option("--cache", help="Keys and values: bf16 or fp8. Default bf16."),
    "engine": click.option("--engine", help="Serving engine, e.g. vllm or vllm:0.11.1. Default vllm."),
    "operators": click.option(
        "--operators",
        help="Costs of operators: 'fitted' constants, 'measured' tables (extra silicon), or 'auto'. Default auto.",
    ),
    "context": click.option("--context", type=TOKENS, help="Tokens of prompt and answer together. Default 8192."),
    "answer_tokens": click.option("--answer-tokens", type=TOKENS, help="Mean tokens of an answer. Default 4096."),
    "answer_spread": click.option(
        "--answer-spread",
        type=SPREAD,
        help="Standard deviation / mean of answers' tokens. Default 0.8; 0: all equally long.",
    ),
    "task": click.option("--task", help="Task of the prompts, e.g. gsm8k: narrows the assumed acceptance."),
    "alpha1": click.option("--alpha1", type=PROBABILITY, help="Acceptance rate of steps, if you know it."),
    "acceptance": click.option(
        "--acceptance",
        multiple=True,
        callback=lambda _context, _option, given: given or None,
        metavar="METHOD=VALUE",
        help="Token acceptance of one method, if you know it: mtp=0.85 (per token), eagle3=2.6/round@3 (tokens per "
        "round, k = 3), ngram=FILE (of 'specplan acceptance', or /metrics). Repeatable.",
    ),
    "slo_ttft": click.option(
        "--slo-ttft", type=MILLISECONDS, metavar="MS", help="Bound on the time to first token (p90)."
    ),
    "slo_tpot": click.option(
        "--slo-tpot", type=MILLISECONDS, metavar="MS", help="Bound on the time per output token (p90)."
    ),
    "gpu_price": click.option(
        "--gpu-price",
        metavar="[GPU=]DOLLARS,...",
        help="Price of a GPU per hour: 2.5, or H100=2.5,H200=3.5 for several types (--gpu H100,H200).",
    ),
    "k": click.option(
        "--k",
        type=WholeNumber(1, 32, tables=True),
        metavar="K|TABLE",
        help="Tokens drafted per round, at every load or by batch size: [[1,8,4],[9,64,1]]. Default the best at each.",
    ),
    "max_num_seqs": click.option(
        "--max-num-seqs",
        type=WholeNumber(1, 4096),
        help="Most sequences in an engine's batch. Default what the load needs.",
    ),
    "gpu_memory_utilization": click.option(
        "--gpu-memory-utilization",
        type=Number(0.0, 1.0, ends="(]"),
        help="Share of a GPU's memory that engines take. Default 0.9.",
    ),
    "burstiness": click.option(
        "--burstiness",
        type=Number(0.0, 100.0, ends="(]"),
        help="Standard deviation / mean of the time between arrivals, with --rate. Default 1: Poisson.",
    ),
    "no_curve": click.option(
        "--no-curve",
        is_flag=True,
        flag_value=True,
        default=None,
        help="Plan the given loads only, without the gains at 1, 2, 4, ... answers at once, which take longer.",
    ),
    "budget": click.option(
        "--budget",
        type=SECONDS,
        metavar="SECONDS",
        help="Print a plan by mean values first, then simulate the loads for this long. Implies --no-curve.",
    ),
}


@cache
def _parameters() -> dict[str, click.Parameter]:
    command = click.command()(deployment_options(lambda **_options: None))
    return {parameter.name or "": parameter for parameter in command.params}


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that came from Python as the command line would hand them on.

    Raises
    ------
    ParameterError : a value outside the range of its option, or of another kind; the text names the option.
    """
    converted = dict(options)
    for name, parameter in _parameters().items():
        value = converted.get(name)
        if value is not None and not parameter.multiple:
            converted[name] = parameter.type.convert(value, parameter, None)
    return converted


deployment_options = all_of(*DEPLOYMENT.values(), *LOADS.values())
"""Options of a deployment and its loads, which reach a command as keyword arguments of these names."""


def bounds_of(options: Mapping[str, Any]) -> Limits:
    """Return the bounds that the options set."""
    from specplan.worlds.request import Limits

    return Limits(ttft_s=_seconds("slo-ttft", options["slo_ttft"]), tpot_s=_seconds("slo-tpot", options["slo_tpot"]))


def loads_of(options: Mapping[str, Any]) -> list[Load]:
    """Return the loads that the options set; concurrency 1 if none is."""
    from specplan.worlds.request import Load

    said = [name for name in LOADS if options[name] is not None]
    if len(said) > 1:
        raise ParameterError(said[1], str(options[said[1]]), f"must not be given with {said[0]}: say one kind of load")
    if options["trace"] is not None:
        from specplan.worlds.trace_files import read_trace

        return [Load(trace=read_trace(options["trace"]))]
    if options["rate"] is not None:
        burstiness = 1.0 if options["burstiness"] is None else options["burstiness"]
        return [Load(rate=value, burstiness=burstiness) for value in _numbers("rate", options["rate"], float)]
    if options["burstiness"] is not None:
        raise ParameterError("burstiness", options["burstiness"], "needs --rate: it is about arrivals")
    return [
        Load(concurrency=value)
        for value in _numbers("concurrency", "1" if options["concurrency"] is None else options["concurrency"], int)
    ]


def _numbers(name: str, text: str, kind: type[int] | type[float]) -> list[Any]:
    """Comma-separated numbers, each once, in order."""
    numbers = []
    for part in text.split(","):
        try:
            numbers.append(kind(part.strip()))
        except ValueError:
            what = "integers" if kind is int else "numbers"
            raise ParameterError(name, text, f"must be {what} with commas between them, such as 1,8,32") from None
    return sorted(set(numbers))


def _seconds(name: str, milliseconds: float | None) -> float | None:
    if milliseconds is not None and not milliseconds > 0.0:
        raise ParameterError(name, milliseconds, "must be > 0 milliseconds")
    return None if milliseconds is None else milliseconds / 1e3
