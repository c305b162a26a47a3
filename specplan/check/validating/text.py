"""A validation, as a reader sees it: a first screen of 80 columns, and all of it."""

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


def first_screen(found: Validation) -> str:
    """Return what fits a terminal of 80 columns: how good the predictions were, row by row, and beside stand-ins."""
    from specplan.check.validating.comparison import compare

    errors = sorted(abs(row.error) for row in found.rows)
    largest = max((row.error for row in found.rows), key=abs)
    good = sum(row.good for row in found.rows)
    sentence = (
        f"{good} of {len(found.rows)} predictions from {found.profile} are good, measured on {found.baseline.n} fresh "
        f"questions beside plain decoding; the median error is {100 * median(errors):.1f} %, the largest "
        f"{100 * largest:+.1f} %."
    )
    compared = compare(found)
    sentences = [sentence, *(() if compared is None else compared.sentences())]
    below = [
        *_slow_machine(found),
        "speedup: over plain decoding, ratio of totals, [95 % interval]. A prediction is good if the measurement fell "
        "where the next one was to be, or within 10 %. Right answers, stand-ins, settings, versions: -v, or -o FILE.",
    ]
    cells = [["plain decoding", "1", f"{1e3 * found.baseline.seconds_per_answer:.0f} ms/answer", "–"]]
    cells += [
        [row.name, _short(row.prediction.speedup), _short(row.measured.speedup), _verdict(row)] for row in found.rows
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


def _slow_machine(found: Validation) -> Iterator[str]:
    """Engines whose pace has moved by more than a twentieth since they were calibrated."""
    moved = {name: value for name, value in found.pace.items() if abs(value - 1.0) > 0.05}
    if moved:
        told = ", ".join(f"{name} {value:.2f}" for name, value in moved.items())
        yield f"Engines took other times than in the calibration, as a multiple: {told}."


def as_text(found: Validation) -> str:
    """Return all of a validation: predicted beside measured, stand-ins, and all that it was run with."""
    from specplan.check.validating.comparison import compare
    from specplan.check.validating.run_record import as_lines

    compared = compare(found)
    n = found.baseline.n
    often = "" if found.runs.n_plain == 1 else f", which answered each {found.runs.n_plain} times"
    lines = [
        f"Predicted from {found.profile}, then measured on {n} fresh questions, interleaved with plain decoding{often}",
        "",
        table(
            [
                *("method", "predicted", "next measurement", "measured", "error", "at this pace", "replayed"),
                *("acceptance", "false accepts", "accuracy", "verdict"),
            ],
            [_plain_row(found), *(_cells(row) for row in found.rows)],
        ),
        "",
        "speedup: seconds of plain decoding / seconds of the method, ratio of totals over the same questions, with "
        "95 % intervals. Predicted > measured: share of judged drafts that were accepted, wrong drafts let stand per "
        "answer, and right answers. next measurement: where a speedup measured on so many fresh questions was to be. A "
        "prediction is good if it was there, or within 10 %.",
        *_pace(found),
        *_replays(found),
        *(compared.lines() if compared is not None else ()),
    ]
    if found.effective:
        lines += ["", "Run with:", *as_lines(found.effective)]
    return "\n".join(lines)


def _pace(found: Validation) -> list[str]:
    """What became of the machine since it was calibrated."""
    if not found.pace:
        return []
    told = ", ".join(f"{name} {value:.2f}" for name, value in found.pace.items())
    return [
        "at this pace: the speedup predicted for engines as fast as they were in these runs. For their work they took, "
        f"as a multiple of what the profile says: {told}.",
    ]


def _replays(found: Validation) -> list[str]:
    """How much of the errors is left where the texts are those of the runs."""
    left = [row.replayed / row.measured.speedup.value - 1.0 for row in found.rows if row.replayed is not None]
    if not left:
        return []
    return [
        "replayed: simulated at this pace from the lengths and verdicts that these runs met, where they tell all of "
        "them (rounds of token-level methods are the profile's). "
        f"Errors left, which are no chance of the questions: mean {100 * fmean(map(abs, left)):.1f} %, from "
        f"{100 * min(left):+.1f} to {100 * max(left):+.1f} %, n = {len(left)}.",
    ]


def _plain_row(found: Validation) -> list[str]:
    base = found.baseline
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


def plain(found: Validation) -> dict[str, Any]:
    """Return the validation as plain data."""
    from specplan.check.validating.comparison import compare

    compared = compare(found)
    return {
        "schema": "specplan.validation",
        "schema_version": 1,
        "profile": found.profile,
        "effective": found.effective,
        "pace": dict(found.pace),
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
                "seconds": [run.seconds for run in found.runs.by_name[row.name]],
            }
            for row in found.rows
        ],
        "telling_apart": None if compared is None else compared.plain(),
        "baseline": {
            **dataclasses.asdict(found.baseline),
            "seconds": found.runs.plain_seconds,
            "answers_per_question": found.runs.n_plain,
        },
    }
