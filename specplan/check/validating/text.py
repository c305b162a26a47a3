"""Validations, one answer at a time and under load, as a first screen of 80 columns and as plain data."""

from __future__ import annotations

import dataclasses
from statistics import median
from typing import Any

from calibrate.running.interleaved import BASELINE
from specplan.check.validating.comparison import compare
from specplan.check.validating.under_load import LoadRow, LoadValidation, Verdict
from specplan.check.validating.validation import Row, Validation
from specplan.output import between, narrow, screen

__all__ = ["first_screen", "load_first_screen", "load_plain", "plain"]


def first_screen(result: Validation) -> str:
    """Return 80 columns: how good the predictions are in all, compared with simpler ones, and by row."""
    errors = sorted(abs(row.error) for row in result.rows)
    largest = max((row.error for row in result.rows), key=abs)
    good = sum(row.good for row in result.rows)
    sentence = (
        f"{good} of {len(result.rows)} predictions from {result.profile} are good, measured on {result.baseline.n} "
        f"fresh questions. The median error is {100 * median(errors):.1f} %, the largest "
        f"{100 * largest:+.1f} %."
    )
    compared = compare(result)
    sentences = [sentence, *(() if compared is None else compared.sentences())]
    below = []
    if moved := {name: value for name, value in result.slowdown.items() if abs(value - 1.0) > 0.05}:
        ratios = ", ".join(f"{name} {value:.2f}" for name, value in moved.items())
        below.append(f"Time of the engines over their time in the calibration: {ratios}.")
    below.append(
        "speedup: over plain decoding, ratio of totals, [95 % interval]. A prediction is good if its interval for the "
        "next measurement contains the measured speedup, or its error is within 10 %. Right answers, simpler "
        "predictions, settings, versions: -v, or -o FILE."
    )
    rows, plain_s = result.rows, f"{1e3 * result.baseline.seconds_per_answer:.0f} ms/answer"
    columns = [
        ("method", ["plain decoding", *(row.name for row in rows)]),
        ("predicted", ["1", *(between(row.prediction.speedup) for row in rows)]),
        ("measured", [plain_s, *(between(row.measured.speedup) for row in rows)]),
        ("error", ["–", *map(_verdict, rows)]),
    ]
    return screen(" ".join(sentences), narrow(columns), below)


def _verdict(row: Row | LoadRow) -> str:
    return f"{100 * row.error:+.1f} %" + ("" if row.good else " off")


def plain(result: Validation) -> dict[str, Any]:
    """Return the validation as plain data."""
    compared = compare(result)
    return {
        "schema": "specplan.validation",
        "schema_version": 1,
        "profile": result.profile,
        "effective": result.effective,
        "pace": dict(result.slowdown),
        "rows": [
            {
                "name": row.name,
                "prediction": row.prediction.plain(),
                "measured": dataclasses.asdict(row.measured),
                "error": row.error,
                "at_pace": row.at_pace,
                "replayed": row.replayed,
                "good": row.good,
                "next_measurement": dataclasses.asdict(row.expected),
                "closed_form": row.closed_form,
                "seconds": [run.seconds for run in result.runs.by_name[row.name]],
            }
            for row in result.rows
        ],
        "telling_apart": None if compared is None else compared.plain(),
        "baseline": {
            **dataclasses.asdict(result.baseline),
            "seconds": result.runs.plain_seconds,
            "answers_per_question": result.runs.n_plain,
        },
    }


def load_plain(result: LoadValidation) -> dict[str, Any]:
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
        "verdicts": [dataclasses.asdict(verdict) for verdict in result.verdicts],
        "rows": [{**dataclasses.asdict(row), "error": row.error, "inside": row.inside} for row in result.rows],
        "effective": result.effective,
    }


def load_first_screen(result: LoadValidation) -> str:
    """Return 80 columns: how good the predicted gains are, and the choice at each load."""
    rows = [row for row in result.rows if row.name != BASELINE]
    good = sum(row.good for row in rows)
    largest = max((row.error for row in rows), key=abs)
    lead = [
        f"{good} of {len(rows)} gains predicted from {result.profile} are good, measured on {result.n_questions} fresh "
        f"questions in {result.n_rounds} rounds. The median error is "
        f"{100 * median(abs(row.error) for row in rows):.1f} %, the largest {100 * largest:+.1f} %.",
        *(_choice(one) for one in result.verdicts),
    ]
    if result.off_from != (None, None):
        predicted, measured = ("never" if load is None else f"from {_clients(load)} on" for load in result.off_from)
        lead.append(f"Speculation should be switched off: {predicted} (predicted), {measured} (measured).")
    columns = [
        ("clients", [str(row.clients) for row in rows]),
        ("method", [row.name for row in rows]),
        ("predicted", [between(row.predicted["gain"]) for row in rows]),
        ("measured", [between(row.measured["gain"]) for row in rows]),
        ("error", [*map(_verdict, rows)]),
    ]
    below = (
        "gain: over plain decoding with the same number of clients, in answers per second for methods that write steps "
        "and in tokens per second for the others, [95 % interval]. A prediction is good if the measured gain is inside "
        "its interval, or within 10 %. "
        "Rates, seconds of an answer, right answers, settings, versions: -v, or -o FILE."
    )
    return screen(" ".join(lead), narrow(columns, long=1), [below])


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
