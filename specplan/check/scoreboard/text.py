"""The scoreboard as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from specplan.check.scoreboard.board import Board
from specplan.check.scoreboard.operators import OperatorErrors
from specplan.check.scoreboard.score import Outcome, Score, by_label, regrets, score
from specplan.output import SCREEN, table

__all__ = ["as_csv", "as_json", "operators_text", "rows_text", "summary_text"]

_LEGEND: Final = (
    "error: mean of |predicted / measured - 1|, with its median and 90th percentile; bias: mean of predicted / "
    "measured - 1; inside: rows in their 95 % interval. Row by row: --rows."
)


def summary_text(board: Board) -> str:
    """Errors of each quantity in all and by label, regret, doubted rows and refused ones."""
    parts = []
    for quantity, outcomes in board.quantities().items():
        counted = [one for one in outcomes if one.counts]
        if counted:
            parts.append(_scores_text(quantity, counted))
            parts += _regret_text(counted)
        wide = [one for one in outcomes if one.doubt is None and one.wide is not None]
        parts += _apart(quantity, "have a wide interval", wide, [str(one.wide) for one in wide])
        doubted = [one for one in outcomes if one.doubt is not None]
        parts += _apart(quantity, "are not trusted", doubted, [str(one.doubt) for one in doubted])
    if board.refused:
        reasons = _counted([one.reason for one in board.refused])
        parts.append("\n".join([f"{len(board.refused)} rows are not predicted", *reasons]))
    parts.append(_filled(_LEGEND))
    if board.notes:
        parts.append("\n".join(_filled(f"note: {note}") for note in board.notes))
    return "\n\n".join(parts)


def rows_text(board: Board) -> str:
    """Every row with its measured and its predicted value."""
    lines = [
        [
            one.where, one.quantity, one.model, " ".join(f"{key}={value}" for key, value in one.labels.items()),
            f"{one.measured:.3f}", f"{one.predicted:.3f}", "[{:.3f}, {:.3f}]".format(*one.interval), one.unit,
            f"{one.error:+.1%}", one.doubt or "",
        ]
        for one in board.outcomes
    ]  # fmt: skip
    heads = ["row", "quantity", "model", "of", "measured", "predicted", "95 % interval", "unit", "error", "doubt"]
    return table(heads, lines)


def operators_text(errors: Sequence[OperatorErrors]) -> str:
    """Errors of operators that were timed one by one."""
    lines = [
        [one.operator, one.gpu, one.weights, str(one.n), *(f"{x:.1%}" for x in (one.mean, one.median, one.p90)),
         f"{one.signed:+.1%}"]
        for one in errors
    ]  # fmt: skip
    return table(["operator", "GPU", "of", "n", "error", "median", "p90", "bias"], lines)


def as_json(board: Board) -> dict[str, Any]:
    """Summary and rows as plain data."""
    quantities = {}
    for quantity, outcomes in board.quantities().items():
        counted = [one for one in outcomes if one.counts]
        quantities[quantity] = {
            "counted": asdict(score(counted)) if counted else None,
            "all": asdict(score(outcomes)),
            "by": {
                label: {value: asdict(group) for value, group in by_label(counted, label).items()}
                for label in _labels(counted)
            },
            "regret": {goal: [asdict(one) for one in choices] for goal, choices in regrets(counted).items()},
        }
    return {
        "schema": "specplan.check.scoreboard",
        "schema_version": 1,
        "files": list(board.files),
        "notes": list(board.notes),
        "quantities": quantities,
        "refused": [asdict(one) for one in board.refused],
        "rows": [_plain(one) for one in board.outcomes],
    }


def as_csv(board: Board) -> str:
    """One line per row, refused ones with their reason."""
    labels = dict.fromkeys(key for one in board.outcomes for key in one.labels)
    heads = [*("row", "quantity", "unit", "model"), *labels, *("measured", "predicted", "low", "high", "error")]
    heads += ["doubt", "refused"]
    out = io.StringIO()
    writer = csv.DictWriter(out, heads, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for one in board.outcomes:
        plain = _plain(one)
        writer.writerow({**one.labels, **plain})
    for left in board.refused:
        writer.writerow({"row": left.where, "model": left.model, "refused": left.reason})
    return out.getvalue().rstrip("\n")


def _plain(one: Outcome) -> dict[str, Any]:
    low, high = one.interval
    return {
        "row": one.where, "quantity": one.quantity, "unit": one.unit, "model": one.model, "labels": dict(one.labels),
        "measured": one.measured, "predicted": one.predicted, "low": low, "high": high, "error": one.error,
        "doubt": one.doubt, "wide": one.wide,
    }  # fmt: skip


def _labels(outcomes: Sequence[Outcome]) -> list[str]:
    return ["model", *dict.fromkeys(key for one in outcomes for key in one.labels)]


def _scores_text(quantity: str, counted: Sequence[Outcome]) -> str:
    lines = [_line("all rows", score(counted))]
    for label in _labels(counted):
        groups = by_label(counted, label)
        if len(groups) > 1 or label == "model":
            lines += [
                _line(value.rpartition("/")[2] if label == "model" else f"{label} {value}", one)
                for value, one in groups.items()
            ]
    whole = score(counted)
    said = (
        f"The {whole.n} rows of {quantity} are predicted {100 * whole.mean:.1f} % off in the mean, "
        f"{100 * whole.median:.1f} % in the median; {100 * whole.coverage:.0f} % are inside their 95 % interval, whose "
        f"half-width is ±{100 * np.expm1(whole.half_width):.0f} % in the median."
    )
    return f"{_filled(said)}\n\n{table(['rows', 'n', 'error', 'median', 'p90', 'bias', 'inside'], lines)}"


def _line(name: str, one: Score) -> list[str]:
    errors = [f"{one.mean:.1%}", f"{one.median:.1%}", f"{one.p90:.1%}", f"{one.signed:+.1%}"]
    return [name, str(one.n), *errors, f"{one.coverage:.0%}"]


def _regret_text(outcomes: Sequence[Outcome]) -> list[str]:
    lines = []
    for goal, choices in regrets(outcomes).items():
        losses = np.array([one.loss for one in choices])
        best = int(np.sum(losses == 0.0))
        lines.append(
            _filled(
                f"Choosing {goal} by prediction: the best measured one in {best} of {len(choices)} choices; the chosen "
                f"one loses {losses.mean():.1%} against it on average, {np.quantile(losses, 0.9):.1%} at the 90th "
                f"percentile, {losses.max():.1%} at most."
            )
        )
    return lines


def _apart(quantity: str, what: str, outcomes: Sequence[Outcome], reasons: Sequence[str]) -> list[str]:
    """Rows that are not scored with the others, by reason."""
    if not outcomes:
        return []
    off = score(outcomes)
    heading = f"{quantity}: {off.n} rows {what}, not counted above: error {off.mean:.1%}, {off.coverage:.0%} inside"
    return ["\n".join([_filled(heading), *_counted(reasons)])]


def _counted(reasons: Sequence[str]) -> list[str]:
    return [
        textwrap.fill(f"  {count:>5}  {reason}", SCREEN, subsequent_indent=" " * 9)
        for reason, count in Counter(reasons).most_common()
    ]


def _filled(text: str) -> str:
    return textwrap.fill(text, SCREEN, break_on_hyphens=False)
