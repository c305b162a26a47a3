"""``specplan explain``: why a server that speculates is slow, and what to set, from its metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.output import InputName, check_output, deliver, json_option, output_options, progress, to_json
from specplan.ranges import GPUS, SEED, SHARE, TOKENS, Number, WholeNumber
from specplan.reports.saving import report_option, save
from theory.errors import ParameterError

if TYPE_CHECKING:
    from specplan.drift.offline import Drift
    from specplan.explaining.costs import Named, Point
    from specplan.explaining.reading import Reading

__all__ = ["command"]

_PARTS = 12
"""Readings of a live server, less one."""

_Page = tuple[str, str, float]
"""What a server's metrics said: the text, where it is from, and when it was read (s; NaN for files)."""


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
@click.option("-p", "--profile", type=InputName(), help="Say what moved from what this profile predicts, too.")
@click.option("--method", help="Token-level method of the server, where the profile has several with its k.")
@click.option("--plan", "plan_path", type=InputName(), help="What a gateway runs: the plan it was started with.")
@click.option(
    "--false-alarm",
    type=SHARE,
    default=0.05,
    show_default=True,
    help="Probability of saying that something moved while everything is as predicted.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of the draws behind intervals.")
@report_option
@json_option
@output_options
def command(
    sources: tuple[str, ...],
    baselines: tuple[str, ...],
    seconds: float,
    k: int | None,
    chunk: int,
    profile: str | None,
    method: str | None,
    plan_path: str | None,
    false_alarm: float,
    seed: int,
    report: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    **names: Any,
) -> None:
    """Say why a server that speculates is slow, which k would be best, and what moved from a profile's predictions.

    SOURCES: files with what GET /metrics of a vLLM (V1) or SGLang server said, at least two in order of time, or the
    server's URL, which is then read for --for seconds. Of a gateway (specplan serve) it says, with --profile, what
    moved.
    """
    check_output(output, force=force)
    from specplan.drift.offline_text import drift_as_json, drift_as_text
    from specplan.explaining.explanation import explained, point_of
    from specplan.explaining.text import explanation_as_json, explanation_as_text

    live = [source for source in sources if "://" in source]
    if live and len(sources) > 1:
        raise click.UsageError("give one URL, or files: not both")
    if not live and len(sources) < 2:
        raise click.UsageError("give two files at least, in order of time, or the server's URL")
    pages = _watched(live[0], seconds) if live else [_page(path) for path in sources]
    if (moved := _of_gateway(pages, profile, plan_path, false_alarm)) is not None:
        if report is not None:
            raise ParameterError("--report", str(report), "has no use with the metrics of a gateway: leave it out")
        data = {"schema": "specplan.drift", "schema_version": 1, **drift_as_json(moved)}
        deliver(to_json(data) if as_json else drift_as_text(moved), output)
        return
    found = [_reading(page) for page in pages]
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
    moved = _of_server(found, profile, method, false_alarm)
    if report is not None:
        from specplan.reports.explanations import explanation_report

        save(report, explanation_report(told))
    if as_json:
        drifted = None if moved is None else drift_as_json(moved)
        deliver(to_json({**explanation_as_json(told), "drift": drifted}), output)
        return
    blocks = [explanation_as_text(told)] + ([] if moved is None else [drift_as_text(moved)])
    deliver("\n\n".join(blocks), output)


def _page(path: str) -> _Page:
    from calibrate.record.files import read_text

    return read_text(path, "Prometheus metrics"), path, math.nan


def _reading(page: _Page) -> Reading:
    from specplan.explaining.reading import read_metrics

    return read_metrics(*page)


def _watched(url: str, seconds: float) -> list[_Page]:
    """Metrics of a live server, several times."""
    from calibrate.engines.http.metrics_page import metrics_url, pages

    where = metrics_url(url)
    n = min(_PARTS, max(int(seconds), 1)) + 1
    with progress(f"watching {where} for {seconds:g} s", n) as told:
        return [(text, where, moment) for text, moment in pages(url, n, seconds, told=told)]


def _of_gateway(pages: Sequence[_Page], profile: str | None, plan_path: str | None, false_alarm: float) -> Drift | None:
    """What moved behind a gateway; None where the metrics are of no gateway."""
    from specplan.drift.gateway_reading import read_gateway

    readings = [read_gateway(text, source) for text, source, _ in pages]
    known = [one for one in readings if one is not None]
    if not known:
        if plan_path is not None:
            raise ParameterError("--plan", plan_path, "belongs to the metrics of a gateway: these are of a server")
        return None
    if len(known) < len(readings):
        raise ParameterError("sources", len(readings), "must be of one server: some are of a gateway, some are not")
    if profile is None:
        rule = "is missing: a gateway's metrics are compared with the profile that its plan was made from"
        raise ParameterError("--profile", "", rule)
    from calibrate.record.library import load
    from sim.configuration import Configuration
    from specplan.drift.offline import gateway_drift
    from specplan.gateway.plans import read_plan

    runs = Configuration.parse("lr-async")
    if plan_path is not None:
        planned = read_plan(plan_path).configurations
        runs = next((one for one in planned if one.spec.drafts_steps), runs)
    return gateway_drift(known, load(profile), runs, false_alarm=false_alarm)


def _of_server(found: Sequence[Reading], profile: str | None, method: str | None, false_alarm: float) -> Drift | None:
    """What moved on a server that speculates on tokens; None where no profile was given."""
    if profile is None:
        if method is not None:
            raise ParameterError("--method", method, "needs --profile: it says which of its records is meant")
        return None
    from calibrate.record.library import load
    from specplan.drift.offline import token_drift
    from specplan.explaining.window import window, windows

    parts = windows(found) or [window(found[0], found[-1])]
    return token_drift(parts, load(profile), method=method, false_alarm=false_alarm)


def _read(path: str) -> Reading:
    return _reading(_page(path))


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
