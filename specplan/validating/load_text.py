"""A validation under load for a reader, and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sim.estimate import Estimate
from specplan.output import table
from specplan.validating.run_record import as_lines
from specplan.validating.under_load import LoadRow, LoadValidation

__all__ = ["as_text", "plain"]


def plain(found: LoadValidation) -> dict[str, Any]:
    """The validation as plain data."""
    return {
        "schema": "specplan.load_validation",
        "schema_version": 1,
        "profile": found.profile,
        "questions": found.n_questions,
        "rounds": found.n_rounds,
        "swept_batches": dict(found.swept),
        "max_batch": dict(found.most),
        "off_from": dict(zip(("predicted", "measured"), found.off_from, strict=True)),
        "verdicts": [asdict(verdict) for verdict in found.verdicts],
        "rows": [{**asdict(row), "error": row.error, "inside": row.inside} for row in found.rows],
        "effective": found.effective,
    }


def as_text(found: LoadValidation) -> str:
    """Return predicted beside measured at each load, what to choose there, and all that it was run with."""
    headings = ["clients", "method", "gain predicted", "measured", "error"]
    headings += ["answers/s", "tokens/s", "p50 s", "p90 s", "in flight", "accuracy"]
    lines = [
        f"Predicted from {found.profile}, then measured on {found.n_questions} fresh questions in {found.n_rounds} "
        "rounds, with so many clients at once",
        "",
        table(headings, [_cells(row) for row in found.rows]),
        "",
        "gain: seconds of plain decoding / seconds of the method until the last answer of a round, both with as many "
        "clients, ratio of totals over the same rounds. Predicted > measured: answers and tokens per second over "
        "rounds, percentiles of the seconds of an answer, mean answers in flight. Intervals of 95 %: predicted, of the "
        f"next {found.n_rounds} rounds (other questions, timings resampled); measured, Student's over rounds.",
        "",
        *_choices(found),
        *_beyond(found),
    ]
    if found.effective:
        lines += ["", "Run with:", *as_lines(found.effective)]
    return "\n".join(lines)


def _cells(row: LoadRow) -> list[str]:
    gain, real = row.predicted["gain"], row.measured["gain"]
    is_plain = row.name == "autoregressive"
    predicted, measured = row.answers_at_once
    return [
        str(row.clients),
        row.name,
        "1" if is_plain else _interval(gain),
        "1" if is_plain else _interval(real),
        "–" if is_plain else f"{100 * row.error:+.1f} %",
        *(_pair(row, name, digits) for name, digits in (("answers_per_s", 2), ("tokens_per_s", 0))),
        *(_pair(row, name, 2) for name in ("p50_s", "p90_s")),
        f"{predicted:.1f} > {measured:.1f}",
        "–" if row.accuracy is None else f"{row.accuracy.value:.2f}",
    ]


def _pair(row: LoadRow, name: str, digits: int) -> str:
    return f"{row.predicted[name].value:.{digits}f} > {row.measured[name].value:.{digits}f}"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _choices(found: LoadValidation) -> list[str]:
    """What to choose at each load, what that costs, and where nothing gains."""
    rows = [
        [
            str(one.clients),
            one.chosen,
            one.best,
            f"{100 * one.regret.value:.1f} % [{100 * one.regret.low:.1f}, {100 * one.regret.high:.1f}]",
        ]
        for one in found.verdicts
    ]
    predicted, measured = (
        "at none of these loads" if load is None else f"from {load} clients on" for load in found.off_from
    )
    return [
        table(["clients", "chosen as predicted", "fastest as measured", "regret"], rows),
        "",
        "regret: measured gain of the fastest / that of the chosen one - 1. Speculation is to be switched off: "
        f"{predicted} as predicted, {measured} as measured.",
    ]


def _beyond(found: LoadValidation) -> list[str]:
    """Predictions that rest on batches that the profile has not timed."""
    lines = []
    for role, swept in found.swept.items():
        rows = [row for row in found.rows if max(row.beyond[role]) > 0.0]
        if not rows:
            continue
        worst = max(rows, key=lambda row: max(row.beyond[role]))
        most = f", of which it decodes {found.most[role]} at once" if role in found.most else ""
        lines += [
            f"The {role}'s batches were timed up to {swept}. More steps than that were asked for at once{most} in "
            f"{len(rows)} rows, at most {100 * worst.beyond[role][0]:.0f} % of the time as predicted and "
            f"{100 * worst.beyond[role][1]:.0f} % as measured ({worst.clients} clients, {worst.name}): there the costs "
            "are extended with the slope of the largest batches."
        ]
    return ["", *lines] if lines else []
