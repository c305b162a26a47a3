"""A validation as text: a first screen of 80 columns, and in full; and as plain data."""

from __future__ import annotations

import dataclasses
import textwrap
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from specplan.output import SCREEN, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from calibrate.running.interleaved import Measured
    from sim.estimate import Estimate
    from specplan.check.validating.validation import Row, Validation
    from specplan.planning.predict import Prediction

__all__ = ["as_text", "first_screen", "plain"]


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
    cells = [["plain decoding", "1", f"{1e3 * result.baseline.seconds_per_answer:.0f} ms/answer", "–"]]
    cells += [
        [row.name, _short(row.prediction.speedup), _short(row.measured.speedup), _verdict(row)] for row in result.rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(1, 4)]
    left = SCREEN - sum(2 + max(width, 9) for width in widths)
    body = [[textwrap.shorten(name, left, placeholder=" …"), *rest] for name, *rest in cells]
    return "\n\n".join(
        [
            textwrap.fill(" ".join(sentences), SCREEN),
            table(["method", "predicted", "measured", "error"], body),
            "\n".join(textwrap.fill(line, SCREEN, subsequent_indent="  ") for line in below),
        ]
    )


def _verdict(row: Row) -> str:
    return f"{100 * row.error:+.1f} %" + ("" if row.good else " off")


def _short(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _slow_machine(result: Validation) -> Iterator[str]:
    """Engines whose speed has changed by more than 5 % since the calibration."""
    moved = {name: value for name, value in result.slowdown.items() if abs(value - 1.0) > 0.05}
    if moved:
        ratios = ", ".join(f"{name} {value:.2f}" for name, value in moved.items())
        yield f"Time of the engines over their time in the calibration: {ratios}."


def as_text(result: Validation) -> str:
    """Return all of a validation: predictions and measurements, simpler predictions, and the parameters of the run."""
    from specplan.check.validating.comparison import compare
    from specplan.check.validating.run_record import as_lines

    compared = compare(result)
    n = result.baseline.n
    often = "" if result.runs.n_plain == 1 else f", which answered each {result.runs.n_plain} times"
    lines = [
        f"Predicted from {result.profile}, then measured on {n} fresh questions, interleaved with plain "
        f"decoding{often}",
        "",
        table(
            [
                *("method", "predicted", "next measurement", "measured", "error", "at this speed", "replayed"),
                *("acceptance", "false accepts", "accuracy", "verdict"),
            ],
            [_plain_row(result), *(_cells(row) for row in result.rows)],
        ),
        "",
        "speedup: seconds of plain decoding / seconds of the method, ratio of totals over the same questions, with "
        "95 % intervals. Predicted > measured: acceptance of judged drafts, wrong drafts that were accepted per "
        "answer, and right answers. next measurement: predicted interval of a speedup measured on as many fresh "
        "questions. A prediction is good if the measurement is inside it, or the error within 10 %.",
        *_slowdown(result),
        *_replays(result),
        *(compared.lines() if compared is not None else ()),
    ]
    if result.effective:
        lines += ["", "Run with:", *as_lines(result.effective)]
    return "\n".join(lines)


def _slowdown(result: Validation) -> list[str]:
    """The change of the engines' speed since the calibration."""
    if not result.slowdown:
        return []
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in result.slowdown.items())
    return [
        "at this speed: the speedup predicted with the engine times of these runs. Time of the engines over the time "
        f"that the profile gives for the same work: {ratios}.",
    ]


def _replays(result: Validation) -> list[str]:
    """The errors that remain if the texts are those of the runs."""
    left = [row.replayed / row.measured.speedup.value - 1.0 for row in result.rows if row.replayed is not None]
    if not left:
        return []
    return [
        "replayed: simulated at this speed from the lengths and verdicts of these runs, where they contain all of "
        "them (rounds of token-level methods are the profile's). "
        f"Remaining errors, which the choice of questions does not explain: mean {100 * fmean(map(abs, left)):.1f} %, "
        f"from {100 * min(left):+.1f} to {100 * max(left):+.1f} %, n = {len(left)}.",
    ]


def _plain_row(result: Validation) -> list[str]:
    base = result.baseline
    time = f"{1e3 * base.seconds_per_answer:.0f} ms/answer"
    return ["autoregressive", "1", "–", f"1 ({time})", "–", "–", "–", "–", "–", _accuracy(base.accuracy), "baseline"]


def _cells(row: Row) -> list[str]:
    prediction, real = row.prediction, row.measured
    return [
        row.name,
        _interval(prediction.speedup),
        f"[{row.expected.low:.3f}, {row.expected.high:.3f}]",
        _interval(real.speedup),
        f"{100 * row.error:+.1f} %",
        "–" if row.at_pace is None else f"{row.at_pace:.3f}",
        "–" if row.replayed is None else f"{row.replayed:.3f}",
        f"{prediction.acceptance:.2f} > {real.acceptance:.2f}",
        _false_accepts(prediction, real),
        f"{_accuracy(prediction.accuracy)} > {_accuracy(real.accuracy)}",
        "good" if row.good else "off",
    ]


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _false_accepts(prediction: Prediction, real: Measured) -> str:
    if prediction.false_accepts is None or real.false_accepts is None:
        return "–"
    return f"{prediction.false_accepts.value:.2f} > {real.false_accepts.value:.2f} ± {real.false_accepts.stderr:.2f}"


def _accuracy(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


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
                "good_by_measured_interval": row.good_by_measured_interval,
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
