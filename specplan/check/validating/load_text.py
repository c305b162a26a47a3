"""A validation under load as text, on a first screen of 80 columns and in full, and as plain data."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from statistics import median
from typing import Any

from calibrate.running.interleaved import BASELINE
from sim.estimate import Estimate
from specplan.check.validating.load_prediction import METRICS
from specplan.check.validating.load_rows import LoadRow, Verdict
from specplan.check.validating.run_record import as_lines
from specplan.check.validating.under_load import LoadValidation
from specplan.output import SCREEN, table

__all__ = ["as_text", "first_screen", "plain"]


def plain(result: LoadValidation) -> dict[str, Any]:
    """Return the validation as plain data."""
    return {
        "schema": "specplan.load-validation",
        "schema_version": 1,
        "profile": result.profile,
        "questions": result.n_questions,
        "rounds": result.n_rounds,
        "pace": {load: dict(engines) for load, engines in result.slowdown.items()},
        "swept_batches": dict(result.swept),
        "max_batch": dict(result.most),
        "off_from": dict(zip(("predicted", "measured"), result.off_from, strict=True)),
        "verdicts": [asdict(verdict) for verdict in result.verdicts],
        "rows": [{**asdict(row), "error": row.error, "inside": row.inside} for row in result.rows],
        "effective": result.effective,
    }


def first_screen(result: LoadValidation) -> str:
    """Return 80 columns: how good the predicted gains are, and the choice at each load."""
    rows = [row for row in result.rows if row.name != BASELINE]
    good = sum(row.good for row in rows)
    largest = max((row.error for row in rows), key=abs)
    lead = [
        f"{good} of {len(rows)} gains predicted from {result.profile} are good, measured on {result.n_questions} fresh "
        f"questions in {result.n_rounds} rounds. The median error is "
        f"{100 * median(abs(row.error) for row in rows):.1f} %, the largest {100 * largest:+.1f} %.",
        *(_choice(one) for one in result.verdicts),
        *_off(result),
    ]
    cells = [
        [
            str(row.clients),
            row.name,
            _interval(row.predicted["gain"]),
            _interval(row.measured["gain"]),
            f"{100 * row.error:+.1f} %" + ("" if row.good else " off"),
        ]
        for row in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in (2, 3, 4)]
    left = SCREEN - len("clients") - 2 - sum(2 + max(width, len("predicted")) for width in widths)
    cells = [[clients, textwrap.shorten(name, left, placeholder=" …"), *rest] for clients, name, *rest in cells]
    below = (
        "gain: seconds of plain decoding / seconds of the method until the last answer, with the same number of "
        "clients, [95 % interval]. A prediction is good if the measured gain is inside its interval, or within 10 %. "
        "Rates, seconds of an answer, right answers, settings, versions: -v, or -o FILE."
    )
    return "\n\n".join(
        [
            textwrap.fill(" ".join(lead), SCREEN),
            table(["clients", "method", "predicted", "measured", "error"], cells),
            textwrap.fill(below, SCREEN, subsequent_indent="  "),
        ]
    )


def _choice(one: Verdict) -> str:
    chosen = "plain decoding" if one.chosen == BASELINE else one.chosen
    if one.regret.value <= 0.0:
        return f"With {_clients(one.clients)} the plan chooses {chosen}, which measured fastest."
    best = "plain decoding" if one.best == BASELINE else one.best
    return (
        f"With {_clients(one.clients)} it chooses {chosen}; {best} measured {100 * one.regret.value:.1f} % faster "
        f"[{100 * one.regret.low:.1f}, {100 * one.regret.high:.1f}]."
    )


def _clients(n: int) -> str:
    return f"{n} client{'s' * (n > 1)}"


def _off(result: LoadValidation) -> list[str]:
    """A sentence about the load from which speculation should be off, if there is such a load."""
    if result.off_from == (None, None):
        return []
    predicted, measured = ("never" if load is None else f"from {_clients(load)} on" for load in result.off_from)
    return [f"Speculation should be switched off: {predicted} (predicted), {measured} (measured)."]


def as_text(result: LoadValidation) -> str:
    """Return predictions and measurements at each load, the choice there, and all parameters of the run."""
    gains = ["clients", "method", "gain predicted", "measured", "error", "at this speed", "in flight", "accuracy"]
    speeds = ["clients", "method", "answers/s", "tokens/s", "ms/token", "first ms", "p50 s", "p90 s"]
    lines = [
        f"Predicted from {result.profile}, then measured on {result.n_questions} fresh questions in {result.n_rounds} "
        "rounds, with concurrent clients",
        "",
        table(gains, [_cells(row) for row in result.rows]),
        "",
        table(speeds, [_speeds(row) for row in result.rows]),
        "",
        "gain: seconds of plain decoding / seconds of the method until the last answer of a round, both with the same "
        "number of clients, ratio of totals over the same rounds. Predicted > measured: answers and tokens per "
        "second over rounds, ms per token after an answer's first, ms to the first token that a user sees (of methods "
        "that write steps, to the first step), percentiles of the seconds of an answer, mean answers in flight. "
        "Intervals of 95 %: "
        f"predicted, of the next {result.n_rounds} rounds (other questions, timings resampled); measured, Student's "
        "over rounds.",
        *_inside(result),
        *_slowdown(result),
        "",
        *_choices(result),
        *_beyond(result),
    ]
    if result.effective:
        lines += ["", "Run with:", *as_lines(result.effective)]
    return "\n".join(lines)


def _cells(row: LoadRow) -> list[str]:
    gain, real = row.predicted["gain"], row.measured["gain"]
    is_plain = row.name == BASELINE
    predicted, measured = row.answers_at_once
    return [
        str(row.clients),
        row.name,
        "1" if is_plain else _interval(gain),
        "1" if is_plain else _interval(real),
        "–" if is_plain else f"{100 * row.error:+.1f} %",
        "–" if is_plain or row.at_pace is None else f"{row.at_pace:.2f}",
        f"{predicted:.1f} > {measured:.1f}",
        "–" if row.accuracy is None else f"{row.accuracy.value:.2f}",
    ]


def _speeds(row: LoadRow) -> list[str]:
    """Predicted and measured rates and times."""
    return [
        str(row.clients),
        row.name,
        *(_pair(row, name, digits) for name, digits in (("answers_per_s", 2), ("tokens_per_s", 0))),
        *(_pair(row, name, 1, 1e3) for name in ("token_s", "first_s")),
        *(_pair(row, name, 2) for name in ("p50_s", "p90_s")),
    ]


def _pair(row: LoadRow, name: str, digits: int, unit: float = 1.0) -> str:
    return f"{unit * row.predicted[name].value:.{digits}f} > {unit * row.measured[name].value:.{digits}f}"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _inside(result: LoadValidation) -> list[str]:
    """How many measurements are inside their predicted intervals."""
    counts = []
    for name in METRICS:
        rows = [row for row in result.rows if name != "gain" or row.name != BASELINE]
        if rows:
            n = sum(row.predicted[name].contains(row.measured[name].value) for row in rows)
            counts.append(f"{name} {n} of {len(rows)}")
    return [f"Measured figures inside their predicted intervals: {', '.join(counts)}."]


def _slowdown(result: LoadValidation) -> list[str]:
    """The speed of the engines at each load."""
    ratios = [
        f"{load} clients " + ", ".join(f"{engine} {value:.2f}" for engine, value in engines.items())
        for load, engines in result.slowdown.items()
        if engines
    ]
    if not ratios:
        return []
    return [
        "at this speed: the gain predicted with the engine times of this load. Time of the engines over the time that "
        f"the profile gives for the same work: {'; '.join(ratios)}."
    ]


def _choices(result: LoadValidation) -> list[str]:
    """The choice at each load, its regret, and the load from which nothing gains."""
    rows = [
        [
            str(one.clients),
            one.chosen,
            one.best,
            f"{100 * one.regret.value:.1f} % [{100 * one.regret.low:.1f}, {100 * one.regret.high:.1f}]",
        ]
        for one in result.verdicts
    ]
    predicted, measured = (
        "at none of these loads" if load is None else f"from {_clients(load)} on" for load in result.off_from
    )
    return [
        table(["clients", "predicted best", "measured best", "regret"], rows),
        "",
        "regret: measured gain of the measured best / of the predicted best - 1. Speculation should be switched off: "
        f"{predicted} (predicted), {measured} (measured).",
    ]


def _beyond(result: LoadValidation) -> list[str]:
    """Predictions that extrapolate beyond the batches that the profile has timed."""
    lines = []
    for role, swept in result.swept.items():
        rows = [row for row in result.rows if max(row.beyond[role]) > 0.0]
        if not rows:
            continue
        worst = max(rows, key=lambda row: max(row.beyond[role]))
        most = f" (of which it decodes {result.most[role]} in a batch)" if role in result.most else ""
        lines += [
            f"The {role}'s batches were timed up to {swept}. More steps than that were in flight{most} in "
            f"{len(rows)} rows, at most {100 * worst.beyond[role][0]:.0f} % of the time in the prediction and "
            f"{100 * worst.beyond[role][1]:.0f} % in the measurement ({worst.clients} clients, {worst.name}): there "
            "the costs are extrapolated with the slope of the largest batches."
        ]
    return ["", *lines] if lines else []
