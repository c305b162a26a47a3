"""A validation as a first screen of 80 columns, and as plain data."""

from __future__ import annotations

import dataclasses
from statistics import median
from typing import TYPE_CHECKING, Any

from specplan.output import between, narrow, screen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specplan.check.validating.validation import Row, Validation

__all__ = ["first_screen", "plain"]


def first_screen(result: Validation) -> str:
    """Return 80 columns: how good the predictions are in all, compared with simpler ones, and by row."""
    from specplan.check.validating.comparison import compare

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
    below = [
        *_slow_machine(result),
        "speedup: over plain decoding, ratio of totals, [95 % interval]. A prediction is good if its interval for the "
        "next measurement contains the measured speedup, or its error is within 10 %. Right answers, simpler "
        "predictions, settings, versions: -v, or -o FILE.",
    ]
    rows, plain_s = result.rows, f"{1e3 * result.baseline.seconds_per_answer:.0f} ms/answer"
    columns = [
        ("method", ["plain decoding", *(row.name for row in rows)]),
        ("predicted", ["1", *(between(row.prediction.speedup) for row in rows)]),
        ("measured", [plain_s, *(between(row.measured.speedup) for row in rows)]),
        ("error", ["–", *map(_verdict, rows)]),
    ]
    return screen(" ".join(sentences), narrow(columns), below)


def _verdict(row: Row) -> str:
    return f"{100 * row.error:+.1f} %" + ("" if row.good else " off")


def _slow_machine(result: Validation) -> Iterator[str]:
    """Engines whose speed has changed by more than 5 % since the calibration."""
    moved = {name: value for name, value in result.slowdown.items() if abs(value - 1.0) > 0.05}
    if moved:
        ratios = ", ".join(f"{name} {value:.2f}" for name, value in moved.items())
        yield f"Time of the engines over their time in the calibration: {ratios}."


def plain(result: Validation) -> dict[str, Any]:
    """Return the validation as plain data."""
    from specplan.check.validating.comparison import compare

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
