"""``specplan acceptance``: token acceptance read in one format, shown in every convention, written in another.

Or measured on vLLM there and then, and read in four ways (`specplan.commands.calibration.acceptance_live`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specplan.commands.calibration.acceptance_live import LIVE, live_options, live_readings
from specplan.output import InputName, check_output, deliver, json_option, output_options, table, to_json
from specplan.ranges import PARALLEL
from theory.errors import ParameterError

if TYPE_CHECKING:
    from calibrate.token_acceptance.curves import AcceptanceCurve
    from calibrate.token_acceptance.schedule import DynamicStats

__all__ = ["command"]

READABLE = ("profile", "vllm-dynamic", "vllm-requests", "lengths", LIVE)
WRITABLE = ("vllm-dynamic", "vllm-schedule", "lengths")


@click.command(name="acceptance")
@click.argument("source", type=InputName())
@click.option("--from", "source_format", default="profile", show_default=True, help=f"One of {', '.join(READABLE)}.")
@click.option("--to", "target_format", help=f"Write one of {', '.join(WRITABLE)} instead of a table.")
@click.option("--model", help="Of a file of lengths: which model; of one to be written: its name.")
@click.option("--mode", help="Of a file of lengths: which mode; of one to be written: its name.")
@click.option("--max-batch", type=PARALLEL, help="Where vllm-schedule ends. Default the largest measured batch size.")
@live_options
@json_option
@output_options
def command(
    source: str,
    source_format: str,
    target_format: str | None,
    model: str | None,
    mode: str | None,
    max_batch: int | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    **live: Any,
) -> None:
    """Read token acceptance from SOURCE, show it in every convention, or write it in another format.

    profile: a profile with counts per position. vllm-dynamic: JSON with acceptance_rate_per_pos (unconditional) and
    batch_stats. vllm-requests: responses of a server started with --per-request-spec-decode-metrics, one or one to a
    line. lengths: YAML of mean acceptance lengths with the bonus token, {model: {mode: {K: length}}}.
    vllm-schedule: num_speculative_tokens_per_batch_size. vllm-live: SOURCE is the folder of a model (or 'bundled') that
    vLLM runs with --speculative-config; the acceptance of the same requests is then read from the engine's counters,
    the records of the requests, llm.get_metrics() of an offline engine, and the tokens of streamed chunks.
    """
    check_output(output, force=force)
    from sim.catalogue import choice

    known = choice("from", source_format, READABLE)
    if max_batch is not None and target_format != "vllm-schedule":
        raise ParameterError("max-batch", max_batch, "needs --to vllm-schedule")
    readings = live_readings(source, **live) if known == LIVE else None
    curve, stats = _read(source, known, model, mode) if readings is None else (readings.curve(), None)
    if target_format is None:
        told = {**_plain(curve, stats), **({} if readings is None else {"readings": readings.plain()})}
        text = "" if readings is None else f"{readings.as_text()}\n\n"
        deliver(to_json(told) if as_json else text + _as_text(curve, stats), output)
        if readings is not None:
            readings.check()
        return
    wanted = choice("to", target_format, WRITABLE)
    deliver(_written(wanted, curve, stats, model or source, mode or "default", max_batch), output)


def _read(source: str, known: str, model: str | None, mode: str | None) -> tuple[AcceptanceCurve, DynamicStats | None]:
    from calibrate.record.files import read_text

    if known == "profile":
        from calibrate.record.library import load
        from calibrate.token_acceptance.measured import curve_of, dynamic_stats_of

        profile = load(source)
        return curve_of(profile), dynamic_stats_of(profile)
    text = read_text(Path(source), f"a file of the format {known}")
    if known == "vllm-dynamic":
        from calibrate.token_acceptance.schedule import DynamicStats

        stats = DynamicStats.parse(text, source)
        return stats.curve, stats
    if known == "vllm-requests":
        from calibrate.token_acceptance.requests import read_responses

        return read_responses(text, source).curve(), None
    from calibrate.token_acceptance.lengths import LengthTable

    return LengthTable.parse(text, source).curve(model, mode), None


def _written(
    wanted: str, curve: AcceptanceCurve, stats: DynamicStats | None, model: str, mode: str, max_batch: int | None
) -> str:
    if wanted == "lengths":
        from calibrate.token_acceptance.lengths import LengthTable

        lengths = {k: curve.figure("length-with-bonus", k) for k in range(1, curve.k + 1)}
        return LengthTable({(model, mode): lengths}).to_yaml()
    if stats is None:
        raise ParameterError("to", wanted, "needs the time of passes over several tokens, which the source lacks")
    if wanted == "vllm-schedule":
        return to_json({"num_speculative_tokens_per_batch_size": stats.schedule(max_batch).plain()})
    return to_json(stats.plain())


def _plain(curve: AcceptanceCurve, stats: DynamicStats | None) -> dict[str, Any]:
    from calibrate.token_acceptance.curves import FIGURES

    figures: dict[str, list[float]] = {name: [curve.figure(name, k) for k in range(1, curve.k + 1)] for name in FIGURES}
    return {
        "schema": "specplan.acceptance",
        "schema_version": 1,
        "unconditional": list(curve.unconditional),
        "conditional": list(curve.conditional()),
        **figures,
        "hit_rate": curve.hit_rate,
        "tokens_per_pass": (
            None if curve.hit_rate is None else [curve.tokens_per_pass(k) for k in range(1, curve.k + 1)]
        ),
        "schedule": None if stats is None else stats.schedule().plain(),
    }


def _as_text(curve: AcceptanceCurve, stats: DynamicStats | None) -> str:
    from calibrate.token_acceptance.curves import FIGURES

    headings = ["position, K", "unconditional", "conditional", "length with bonus", "without", "accepted / drafted"]
    rows = []
    for k, (rate, conditional) in enumerate(zip(curve.unconditional, curve.conditional(), strict=True), 1):
        figures = [f"{curve.figure(name, k):.4f}" for name in FIGURES]
        rows.append([str(k), f"{rate:.4f}", "–" if conditional is None else f"{conditional:.4f}", *figures])
    lines = [table(headings, rows), ""]
    lines.append(
        "per position: unconditional, the draft is accepted up to it; conditional, given that it was up to the one "
        "before. For drafts of K tokens, per draft: mean acceptance length with and without the bonus token, accepted "
        "over drafted tokens."
    )
    if curve.hit_rate is None:
        lines.append("passes without a draft: not known, so tokens per pass are at most the length with bonus")
    else:
        tokens = ", ".join(f"{curve.tokens_per_pass(k):.3f}" for k in range(1, curve.k + 1))
        lines.append(f"{100 * curve.hit_rate:.1f} % of the passes have a draft; tokens per pass at each K: {tokens}")
    if stats is not None:
        ranges = ", ".join(f"{first}-{last}: {k}" for first, last, k in stats.schedule().ranges)
        lines.append(f"best K by batch size: {ranges}")
    return "\n".join(lines)
