"""A validation under load for a reader, on a first screen of 80 columns and in full, and as plain data."""

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


def plain(found: LoadValidation) -> dict[str, Any]:
    """The validation as plain data."""
    return {
        "schema": "specplan.load-validation",
        "schema_version": 1,
        "profile": found.profile,
        "questions": found.n_questions,
        "rounds": found.n_rounds,
        "pace": {load: dict(engines) for load, engines in found.pace.items()},
        "swept_batches": dict(found.swept),
        "max_batch": dict(found.most),
        "off_from": dict(zip(("predicted", "measured"), found.off_from, strict=True)),
        "verdicts": [asdict(verdict) for verdict in found.verdicts],
        "rows": [{**asdict(row), "error": row.error, "inside": row.inside} for row in found.rows],
        "effective": found.effective,
    }


def first_screen(found: LoadValidation) -> str:
    """Return what fits a terminal of 80 columns: how good the gains were predicted, and what to choose at each load."""
    rows = [row for row in found.rows if row.name != BASELINE]
    good = sum(row.good for row in rows)
    largest = max((row.error for row in rows), key=abs)
    lead = [
        f"{good} of {len(rows)} gains predicted from {found.profile} are good, measured on {found.n_questions} fresh "
        f"questions in {found.n_rounds} rounds; the median error is {100 * median(abs(row.error) for row in rows):.1f} "
        f"%, the largest {100 * largest:+.1f} %.",
        *(_choice(one) for one in found.verdicts),
        *_off(found),
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
        "gain: seconds of plain decoding / seconds of the method until the last answer, with as many clients, [95 % "
        "interval]. A prediction is good if the measured gain is inside its interval, or within 10 %. Rates, seconds "
        "of an answer, right answers, settings, versions: -v, or -o FILE."
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


def _off(found: LoadValidation) -> list[str]:
    """From which load on to switch speculation off, where it is so at any."""
    if found.off_from == (None, None):
        return []
    predicted, measured = ("never" if load is None else f"from {_clients(load)} on" for load in found.off_from)
    return [f"Speculation is to be switched off: {predicted} as predicted, {measured} as measured."]


def as_text(found: LoadValidation) -> str:
    """Return predicted beside measured at each load, what to choose there, and all that it was run with."""
    headings = ["clients", "method", "gain predicted", "measured", "error", "at this pace"]
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
        *_inside(found),
        *_pace(found),
        "",
        *_choices(found),
        *_beyond(found),
    ]
    if found.effective:
        lines += ["", "Run with:", *as_lines(found.effective)]
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
        *(_pair(row, name, digits) for name, digits in (("answers_per_s", 2), ("tokens_per_s", 0))),
        *(_pair(row, name, 2) for name in ("p50_s", "p90_s")),
        f"{predicted:.1f} > {measured:.1f}",
        "–" if row.accuracy is None else f"{row.accuracy.value:.2f}",
    ]


def _pair(row: LoadRow, name: str, digits: int) -> str:
    return f"{row.predicted[name].value:.{digits}f} > {row.measured[name].value:.{digits}f}"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _inside(found: LoadValidation) -> list[str]:
    """How often predicted intervals kept what they promise."""
    told = []
    for name in METRICS:
        rows = [row for row in found.rows if name != "gain" or row.name != BASELINE]
        if rows:
            n = sum(row.predicted[name].contains(row.measured[name].value) for row in rows)
            told.append(f"{name} {n} of {len(rows)}")
    return [f"Measured figures inside their predicted intervals: {', '.join(told)}."]


def _pace(found: LoadValidation) -> list[str]:
    """How fast the engines were at each load."""
    told = [
        f"{load} clients " + ", ".join(f"{engine} {value:.2f}" for engine, value in engines.items())
        for load, engines in found.pace.items()
        if engines
    ]
    if not told:
        return []
    return [
        "at this pace: the gain predicted for engines as fast as they were at this load. For their work they took, as "
        f"a multiple of what the profile says: {'; '.join(told)}."
    ]


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
        "at none of these loads" if load is None else f"from {_clients(load)} on" for load in found.off_from
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
