"""``specplan explain``: why a server that speculates is slow, and what to set, from its metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import InputName, check_output, deliver, json_option, output_options, progress, to_json
from specplan.ranges import GPUS, SEED, TOKENS, Number, WholeNumber
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.explaining.costs import Named, Point
    from specplan.explaining.reading import Reading

__all__ = ["command"]

_PARTS = 12
"""Readings of a live server, less one."""


@click.command(name="explain")
@click.argument("sources", nargs=-1, required=True, type=InputName())
@click.option(
    "--baseline",
    "baselines",
    type=InputName(),
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
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the draws behind intervals.")
@json_option
@output_options
def command(
    sources: tuple[str, ...],
    baselines: tuple[str, ...],
    seconds: float,
    k: int | None,
    chunk: int,
    seed: int,
    as_json: bool,
    output: Path | None,
    force: bool,
    **names: Any,
) -> None:
    """Say why a server that speculates is slow, and which k would be best.

    SOURCES: files with what GET /metrics of a vLLM (V1) or SGLang server said, at least two in order of time, or the
    server's URL, which is then read for --for seconds.
    """
    check_output(output, force=force)
    from specplan.explaining.explanation import explained, point_of
    from specplan.explaining.text import explanation_as_json, explanation_as_text

    live = [source for source in sources if "://" in source]
    if live and len(sources) > 1:
        raise click.UsageError("give one URL, or files: not both")
    if not live and len(sources) < 2:
        raise click.UsageError("give two files at least, in order of time, or the server's URL")
    found = _watched(live[0], seconds) if live else [_read(path) for path in sources]
    points: list[Point] = []
    plain_cache = math.nan
    for text in baselines:
        if (point := _benchmark(text)) is not None:
            points.append(point)
            continue
        whole = _baseline(text)
        points.append(point_of(whole, chunk))
        if whole.k == 0:
            plain_cache = whole.cache_tokens
    told = explained(
        found,
        baselines=points,
        named=_named(names, found),
        plain_cache=plain_cache,
        k=k,
        chunk=chunk,
        seed=seed,
    )
    deliver(to_json(explanation_as_json(told)) if as_json else explanation_as_text(told), output)


def _read(path: str) -> Reading:
    from calibrate.record.files import read_text
    from specplan.explaining.reading import read_metrics

    return read_metrics(read_text(path, "Prometheus metrics"), path)


def _watched(url: str, seconds: float) -> list[Reading]:
    """Readings of a live server."""
    from calibrate.engines.http.metrics_page import metrics_url, pages
    from specplan.explaining.reading import read_metrics

    where = metrics_url(url)
    n = min(_PARTS, max(int(seconds), 1)) + 1
    with progress(f"watching {where} for {seconds:g} s", n) as told:
        return [read_metrics(text, where, moment) for text, moment in pages(url, n, seconds, told=told)]


def _benchmark(text: str) -> Point | None:
    """The round of a benchmark's file; None where it is none."""
    from specplan.readers.formats import is_benchmark, read_benchmarks

    if not is_benchmark(Path(text)):
        return None
    from specplan.explaining.costs import Point

    run = read_benchmarks(text)[0]
    return Point(k=run.k, seconds=run.round_s, batch=max(run.concurrency, 1.0), source=run.source)


def _baseline(text: str) -> Any:
    """The window of a baseline: of one file since the server's start, of two between them."""
    from specplan.explaining.window import since_start, window

    paths = text.split(",")
    if len(paths) > 2 or not all(paths):
        raise ParameterError("--baseline", text, "must be a file, or two with a comma between them")
    readings = [_read(path) for path in paths]
    return since_start(readings[0]) if len(readings) == 1 else window(readings[0], readings[1])


def _named(names: dict[str, Any], found: Sequence[Reading]) -> Named | None:
    """What names tell; None where none is given."""
    if names["target"] is None and names["gpu"] is None:
        others = [name for name in ("draft", "eagle") if names[name] is not None]
        if others:
            raise click.UsageError(f"--{others[0]} needs --target and --gpu")
        return None
    if names["target"] is None or names["gpu"] is None:
        raise click.UsageError("--target and --gpu belong together: a round's costs are modelled from both")
    from specplan.explaining.names import named_round
    from specplan.explaining.window import window

    return named_round(
        names["target"],
        draft=names["draft"],
        eagle=names["eagle"],
        gpu=names["gpu"],
        tp=names["tp"],
        found=window(found[0], found[-1]),
        engine=found[-1].engine,
    )
